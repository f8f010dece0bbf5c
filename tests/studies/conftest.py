"""Figures are drawn without a screen and closed after each test."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from sameloss.studies.drawing import panels, use_style

mpl.use("agg")


@pytest.fixture(autouse=True)
def closed():
    """Use the book's style; restore the style and close all figures afterwards."""
    with mpl.rc_context():
        use_style()
        yield
    plt.close("all")


@pytest.fixture
def ax():
    (only,) = panels(1)
    return only
