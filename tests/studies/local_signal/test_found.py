"""What is read off flows and descents."""

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.local_signal.found import steps_to

FLOW = pd.DataFrame({"step": [0.0, 1.0, 10.0, 100.0], "accuracy": [0.9, 0.5, 0.6, 0.8]})


def test_steps_are_interpolated_over_their_logarithm():
    assert steps_to(FLOW, 0.7) == pytest.approx(10**1.5)
    assert steps_to(FLOW, 0.8) == pytest.approx(100)
    assert steps_to(FLOW, 0.5) == 1.0
    assert np.isnan(steps_to(FLOW, 0.81))


def test_the_flow_is_read_between_its_looks(found):
    steps = found.flow.step.to_numpy()[5:8]
    np.testing.assert_allclose(found.flow_at(steps, "c"), found.flow.c[5:8])
    middle = found.flow_at(np.array([np.sqrt(steps[0] * steps[1])]), "b")[0]
    assert middle == pytest.approx(found.flow.b[5:7].mean())


def test_seeds_are_columns(found):
    assert found.by_seed("c").columns.tolist() == [100, 101]
    assert found.by_seed("accuracy").index[-1] == found.settings.steps
