"""Figures of the proofs show what was found."""

from matplotlib import pyplot as plt

from sameloss.studies.local_signal.proofs import figures


def test_figures_show_what_was_found(proofs):
    figure, axes = plt.subplots(2, 2)
    figures.truncated_means(axes[0, 0])
    figures.noise_parts(proofs, axes[0, 1])
    figures.thresholds(proofs, axes[1, 0])
    figures.bias_gradients(proofs, axes[1, 1])
    assert list(axes[1, 0].lines[0].get_ydata()) == list(proofs.rows.alpha)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in axes.flat)
    plt.close(figure)
