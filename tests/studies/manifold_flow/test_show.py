"""Figures of Section 3 draw what their frames hold."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from sameloss.studies import drawing
from sameloss.studies.manifold_flow import show
from sameloss.studies.manifold_flow.statements import coefficient_limits, gap_table


def names(ax):
    return ax.get_legend_handles_labels()[1]


def test_each_rate_has_a_line_beside_the_flow(tables, ax):
    show.drift(tables["sgd"]["trajectories"], tables["sgd"]["flow"], 1, ax)
    assert names(ax) == ["flow, ¼ Tr", "η = 0.2", "η = 0.1"]
    flow = ax.lines[-1]
    assert flow.get_xdata().max() <= tables["sgd"]["trajectories"].query("batch == 1").time.max()
    own = tables["sgd"]["trajectories"].query("batch == 1 and rate == 0.2")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), own.minimiser)


def test_coefficients_and_their_limits(tables, ax):
    limits = coefficient_limits(tables["sgd"]["coefficients"])
    show.coefficients(tables["sgd"]["coefficients"], limits, ax)
    assert len(ax.containers) == 2 * 2  # each batch, and its limit left of zero
    assert float(ax.containers[2].lines[0].get_xdata()[0]) < 0
    assert "B = 4" in names(ax)


def test_distances_from_the_flow_and_a_line_of_slope_one(tables, ax):
    gaps = gap_table(tables["sgd"])
    show.gaps(gaps, ax)
    line = next(line for line in ax.lines if line.get_label() == "slope 1")
    np.testing.assert_allclose(line.get_ydata() / line.get_xdata(), line.get_ydata()[0] / line.get_xdata()[0])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0.1", "0.2", "0.4"]


def test_one_large_rate_between_two_flows(tables, ax):
    show.finite_rate(tables["sgd"]["finite"], 0.5, ax)
    assert names(ax)[:2] == ["flow, ¼ Tr", "flow for η = 0.5"]
    assert len(ax.containers) == tables["sgd"]["finite"].batch.nunique()


def test_adam_beside_its_flow_and_where_it_ends(tables):
    along, plane = drawing.panels(2)
    show.adam_along_flow(tables["adam"], "trace", "trace", along)
    assert set(names(along)) == {"Adam, η = 0.02", "Adam, η = 0.01", "Adam's flow"}
    show.two_measures(tables["adam"], plane)
    assert names(plane) == ["flow, ¼ Tr", "SGD", "Adam", "least Tr H", "least Tr Diag(H)^½"]


def test_logits_with_and_without_zeros(tables, ax):
    show.logits_against_kl(tables["zeros"], ax)
    assert set(names(ax)) == {"16 conditionals are zero", "none is zero"}
    assert ax.get_xlim()[0] > ax.get_xlim()[1]


def test_covariance_and_hessian_part_as_the_root_of_kl(page, ax):
    """Near the manifold both grow from zero, the KL quadratically; and so says the line."""
    rays = show.ray_table(page.sgd, directions=2)
    near = rays.query("1e-11 < kl < 1e-5")
    assert np.polyfit(np.log(near.kl), np.log(near.distance), 1)[0] == pytest.approx(0.5, abs=0.02)
    show.distance_from_saturation(rays, ax)
    assert len(ax.lines) == 3
    x, y = (np.asarray(axis, dtype=float) for axis in ax.lines[-1].get_data())
    assert np.polyfit(np.log(x), np.log(y), 1)[0] == pytest.approx(0.5)


def test_matrices_share_one_scale():
    show.matrices({"one": torch.eye(2), "four": 4 * torch.eye(2)})
    axes = plt.gcf().axes[:2]
    shares = [float(ax.images[0].norm(ax.images[0].get_array().max())) for ax in axes]
    assert shares == pytest.approx([0.75, 1.0])  # of the colours: the root of a quarter, from the middle on
    assert [ax.get_title() for ax in axes] == ["one", "four"]


def test_the_landscape_and_the_trace_along_it(page, tables):
    path, population = tables["path"], page.landscape.population()
    plane, along = drawing.panels(2)
    show.landscape(path, population, plane)
    assert names(plane) == ["SGD, large model", "SGD, small model"]
    show.trace_along_manifold(path, population, along)
    assert "end of SGD, small model" in names(along)


def test_the_manifold_of_two_parameters(page):
    curve = show.manifold_of(page.landscape.population())
    np.testing.assert_allclose(curve.x**3 + curve.y**3, np.log(7 / 3))
    assert (curve.trace > 0).all()
