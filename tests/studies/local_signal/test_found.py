"""What is read off flows and descents."""

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.local_signal.found import steps_to
from sameloss.studies.local_signal.theory import Filter, flow

STEP = np.append(0, np.geomspace(1, 1000, 37))
FLOW = pd.DataFrame({"step": STEP, "accuracy": 1 - 0.5 * (1 + STEP) ** -0.1})


@pytest.mark.parametrize("steps", [1.0, 6.3, 200.0, 1000.0])
def test_steps_to_an_accuracy_are_found_between_looks(steps):
    assert steps_to(FLOW, 1 - 0.5 * (1 + steps) ** -0.1) == pytest.approx(steps, rel=3e-6)
    assert np.isnan(steps_to(FLOW, 0.8))


def test_between_its_looks_the_flow_is_what_it_would_be_if_asked_there(found):
    steps, s = np.array([5.0, 500.0, 2000.0, 5000.0]), found.settings
    start = Filter(s.descent.length, s.descent.length, 0.0)
    asked = flow(s.patches, start, s.descent.rates(s.patches), np.append(0, steps))
    for column in ("c", "b", "accuracy"):
        np.testing.assert_allclose(found.flow_at(steps, column), asked[column][1:], rtol=1e-5)


def test_seeds_are_columns(found):
    assert found.by_seed("c").columns.tolist() == [100, 101]
    assert found.by_seed("accuracy").index[-1] == found.settings.steps
