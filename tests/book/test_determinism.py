"""The same runs, one after the other or side by side, on one thread or more: the same bits in every file.

That a whole book has them, interrupted or not, is what `make campaign` tries.
"""

import pytest
from campaign.commands import results

from sameloss.book.pages import open_page
from sameloss.store.pool import compute_all

PAGES = {"e_mask_rate": {"size": "d8", "seeds": 1}, "ii5_growing": {}}


@pytest.mark.book
def test_results_depend_neither_on_the_number_of_workers_nor_on_that_of_threads(tmp_path, monkeypatch):
    found = []
    for workers, threads in ((1, "1"), (2, "2")):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        store = tmp_path / f"by {workers}"
        pages = [
            open_page(page, preset="smoke", artifacts=str(store), **given) for page, given in PAGES.items()
        ]
        compute_all(pages[0].store, [run for page in pages for run in page.runs()], workers)
        found.append(results(store))
    assert found[0]
    assert found[0] == found[1]
