"""A decorated function is a run: its parameters make the key, its table is the result."""

import pickle

import pandas as pd
import pytest

from sameloss.errors import StoreError
from sameloss.runs.stage import stacked, stage
from sameloss.store.store import Store

CALLS = []


@stage("Squares", work=lambda run: 2.0 * run.count)
def squares(count: int, power: int = 2) -> pd.DataFrame:
    """Tabulate powers."""
    CALLS.append(count)
    return pd.DataFrame({"n": range(count), "value": [n**power for n in range(count)]})


@stage("SumOfSquares")
def sum_of_squares(of: squares, store: Store) -> pd.DataFrame:
    """Add them up."""
    return pd.DataFrame({"sum": [store.get(of).value.sum()]})


def test_it_is_computed_once(tmp_path):
    store, before = Store(tmp_path), len(CALLS)
    for _ in range(2):
        assert store.get(squares(4)).value.tolist() == [0, 1, 4, 9]
    assert len(CALLS) == before + 1
    assert store.folder(squares(4)).parent.name == "Squares"


def test_parameters_make_the_key_except_for_those_at_their_defaults():
    assert squares(4).key == squares(4, power=2).key != squares(4, power=3).key != squares(5).key
    assert squares(4).parameters() == {"run": "Squares", "schema": 1, "count": 4, "power": 2}


def test_a_run_among_the_parameters_is_a_parent(tmp_path):
    run = sum_of_squares(squares(4))
    assert run.parents() == [squares(4)]
    assert Store(tmp_path).get(run)["sum"].item() == 14


def test_tables_of_many_runs_are_one(tmp_path):
    store, runs = Store(tmp_path), [squares(2), squares(0), squares(3, 3)]
    parts = [store.get(run).assign(run=number) for number, run in enumerate(runs)]
    expected = pd.concat([part for part in parts if len(part)], ignore_index=True)
    pd.testing.assert_frame_equal(stacked(store, runs), expected[["run", "n", "value"]])
    with pytest.raises(StoreError, match="have other columns"):
        stacked(store, [squares(2), sum_of_squares(squares(2))])


def test_it_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(squares(4))) == squares(4)


def test_it_has_an_amount_of_work_and_a_docstring():
    assert (squares(4).work, sum_of_squares(squares(4)).work) == (8.0, 0.0)
    assert squares.__doc__ == "Tabulate powers."


def test_it_cannot_be_changed():
    with pytest.raises(AttributeError):
        squares(4).count = 5
