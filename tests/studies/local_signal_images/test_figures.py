"""Figures: what is drawn is what was found."""

import matplotlib as mpl
import numpy as np
import pytest
import torch

from sameloss.studies import drawing
from sameloss.studies.local_signal_images import claims as results
from sameloss.studies.local_signal_images import figures

mpl.use("agg")


@pytest.fixture
def ax():
    (found,) = drawing.panels(1)
    return found


def lines(ax):
    return {line.get_label(): line.get_xydata() for line in ax.lines if not line.get_label().startswith("_")}


def test_a_mosaic_has_gaps_between_its_images():
    found = figures.mosaic([[torch.zeros(2, 2), torch.ones(2, 2)], [torch.ones(2, 2), torch.zeros(2, 2)]])
    assert found.shape == (5, 5)
    assert np.isnan(found[2]).all()
    assert found[0, 0] == found[4, 4] == 0
    assert found[0, 4] == found[4, 0] == 1


def test_examples_have_a_row_a_placement_and_a_column_a_noise(page, ax):
    drawn = figures.examples(page.config.source, page.config.scenes, ax)
    assert [text.get_text() for text in drawn.get_xticklabels()] == ["σ = 0", "σ = 0.5"]
    assert len(drawn.get_yticklabels()) == 3
    assert drawn.images[0].get_array().shape == (3 * 17 - 1, 2 * 17 - 1)


def test_accuracies_are_means_over_seeds(found, ax):
    drawn = lines(figures.accuracy(found, "random place", ax))
    own = 100 * found.accuracies("network", "random place").mean()
    assert drawn["network"][:, 1] == pytest.approx(own.to_numpy())
    assert set(drawn) == {"network", "NTK", "NTK, best λ", "NTK, trained", "linear in pixels"}
    (other,) = drawing.panels(1)
    assert len(lines(figures.accuracy(found, "fixed corner", other))["NTK"]) == 2


def test_kept_is_by_placement_and_size(found, ax, monkeypatch):
    monkeypatch.setattr(results, "ABOVE", -1.0)  # hardly trained
    drawn = lines(figures.kept(found, ax, above_chance=True))
    own = found.kept("network", "fixed corner", above_chance=True).mean()
    assert drawn["network"][2, 0] == pytest.approx(own)
    assert ax.get_xlabel() == "kept of the accuracy above chance (%)"


def test_activity_is_before_and_after(found, ax):
    drawn = lines(figures.activity(found, 0.5, ax))
    fall = drawn["before training"][:, 1] - drawn["after training"][:, 1]
    assert fall == pytest.approx(found.fall(0.5).mean(0))


def test_lazy_training_is_beside_the_kernel(found, ax):
    drawn = lines(figures.lazy(found, ax))
    assert drawn["network"][:, 1] == pytest.approx(100 * found.lazy_accuracies().mean().to_numpy())
    assert drawn["NTK"][0, 1] == pytest.approx(100 * found.accuracies("NTK, GCV", "random place")[0.5].mean())


def test_widths_have_a_line_for_networks_and_one_for_kernels(found, ax):
    drawn = lines(figures.width(found, ax))
    for name, of in (("network", "network"), ("NTK", "NTK, GCV")):
        own = 100 * found.by_width(of).mean()
        assert drawn[name].tolist() == pytest.approx(np.stack([own.index, own], 1))


def test_the_published_table_is_drawn_whole(ax):
    drawn = lines(figures.published("32-on-64", ax))
    assert len(drawn) == 6
    assert drawn["NTK, fixed corner"][-1].tolist() == [2.0, 82.9]
