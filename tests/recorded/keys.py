"""The keys of all runs of the smoke preset."""

import tempfile

from sameloss.book.studies import all_studies
from sameloss.store.store import Run, Store, with_ancestors

FILE = "keys.json"


def page_runs() -> dict[str, list[Run]]:
    """Return what each page reads at the smoke preset."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            name: plan.page(name, study.resolve({"preset": "smoke"}), Store(folder)).runs()
            for study in all_studies().values()
            for name, plan in study.plans.items()
        }


def found() -> list[str]:
    """Return `Kind/key` of each run that a page reads, and of those that these read."""
    runs = with_ancestors(run for runs in page_runs().values() for run in runs)
    return sorted(f"{run.kind}/{run.key}" for run in runs)
