"""What is measured before growing pays."""

import numpy as np
import pytest


def test_the_landscape_of_operators_that_preserve_the_function(page):
    found = page.store.get(page.landscape(0)[0]).set_index("operator")
    assert (found > 0).to_numpy().all()
    assert len(found) == len(page.growing.operators)


def test_information_beyond_the_neighbours_falls_with_the_window(page):
    found = page.store.get(page.locality)
    assert found["mean"].is_monotonic_decreasing
    assert found["mean"].iloc[-1] == pytest.approx(0, abs=1e-9)  # sentences of four words
    assert np.isfinite(found.standard_error).all()
