"""Figures without a screen, closed after each test."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from sameloss.studies.drawing import panels, use_style

mpl.use("agg")


@pytest.fixture(autouse=True)
def closed():
    """Draw in the book's style, whatever ran before; leave neither figures nor their look behind."""
    with mpl.rc_context():
        use_style()
        yield
    plt.close("all")


@pytest.fixture
def ax():
    (only,) = panels(1)
    return only
