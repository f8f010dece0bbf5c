"""One frame for every measurement: its columns, and what is refused."""

import pandas as pd
import pytest

from sameloss.runs.flatness import TraceMeasurement
from sameloss.runs.frames import COLUMNS, Measurement, check_frame, frame
from sameloss.statistics.bootstrap import Estimate
from sameloss.store.store import Store

FOUND = frame({"entropy": Estimate(1.25, 0.1, 20), "kl": Estimate(0.5, float("nan"), 1)}, 8)


def test_a_row_is_an_estimate_of_a_part():
    assert list(FOUND.columns) == COLUMNS == ["step", "part", "mean", "standard_error", "count"]
    assert FOUND.iloc[0].tolist() == [8, "entropy", 1.25, 0.1, 20]
    check_frame(FOUND)
    ways = pd.concat([frame({"total": Estimate(2.0, 0.0, 3)}, 8, form=form) for form in ("a", "b")])
    assert list(ways.columns) == ["form", *COLUMNS]
    check_frame(ways)


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (FOUND.drop(columns="count"), "has the columns step, part"),
        (FOUND[COLUMNS[::-1]], "has the columns"),
        (FOUND.assign(form="a"), "has the columns"),  # a way to look stands first
        (FOUND.iloc[:0], "needs rows"),
        (pd.concat([FOUND, FOUND]), "one row for each part"),
        (FOUND.assign(count=0), "positive count"),
        (FOUND.assign(standard_error=-0.1), "not negative"),
    ],
)
def test_another_frame_is_refused(wrong, fault, tmp_path):
    with pytest.raises(ValueError, match=fault):
        check_frame(wrong)
    with pytest.raises(ValueError, match=fault):
        Measurement().save([wrong], tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_measurement_obeys(tiny_run, tmp_path):
    found = Store(tmp_path).get(TraceMeasurement(tiny_run, 16, 1, "sampled", 0))
    check_frame(found)
    assert list(found.columns) == ["split", *COLUMNS]
    assert sorted(set(found.step)) == [20, 60]
    assert found["mean"].notna().all()
