"""Figures of tangent kernels show what was found."""

from matplotlib import pyplot as plt

from sameloss.studies.local_signal.tangent import figures
from sameloss.studies.local_signal.tangent.runs import KINDS


def test_figures_show_what_was_found(proofs):
    figure, (left, right) = plt.subplots(1, 2)
    figures.errors_by_filters(proofs.tangent, proofs.patches, left)
    figures.shares_by_rows(right)
    assert len(left.containers) == len(KINDS)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in (left, right))
    plt.close(figure)
