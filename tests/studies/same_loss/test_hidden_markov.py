"""The second language of the protocol's second edition: its draws, and a small run."""

import numpy as np
import pytest
from cells import computed, listed

from sameloss.book.pages import open_page
from sameloss.store.store import Store
from sameloss.studies.same_loss.saturated import CAPACITY, OWN

MOST_BY_TOKENS = 85.0  # %


def test_no_two_trainings_share_weights_or_batches():
    names = listed("02_hidden_markov", "workstation")
    runs = [run for run in names.page.runs() if run.kind == "ModelMeasurement"]
    assert len(runs) == len(names.points) == len({run.training.seed for run in runs})


def test_draws_are_the_first_in_which_tokens_leave_room():
    _, no_model, _ = open_page("02_hidden_markov").recorded("workstation")
    accuracy = no_model[no_model.quantity == "accuracy"].groupby(["draw", "reading"]).value.mean().unstack()
    best = accuracy[["tokens, features", "tokens, expanded"]].max(axis=1)
    assert best.max() <= MOST_BY_TOKENS
    assert len(best) == 8


@pytest.mark.book
def test_a_small_run_has_both_sizes_at_every_length(tmp_path):
    names = computed("02_hidden_markov", Store(tmp_path), {"seeds": 1})
    cells, no_model, published = names.page.results
    assert len(cells) == 2 * 3
    assert cells[[OWN, CAPACITY]].notna().all(axis=None)
    assert (cells[CAPACITY] >= cells[OWN]).all()
    assert np.isfinite(cells["log trace"]).all()
    assert set(no_model.quantity) == {"context", "bag-of-words kl", "accuracy"}
    assert 0 < published < 4.5
