"""The runs of Section 3 on the least that shows their tables and figures."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline

from sameloss.errors import ParameterError
from sameloss.studies import drawing
from sameloss.studies.manifold_flow import figures
from sameloss.studies.manifold_flow.runs import _coefficient
from sameloss.studies.manifold_flow.settings import SMOKE_FLOW
from sameloss.studies.manifold_flow.statements import STATEMENTS, checks
from sameloss.studies.manifold_flow.tables import (
    Tables,
    coefficient_limits,
    extrapolated,
    gap_table,
    order_of,
    ray_table,
)
from sameloss.studies.same_loss.parameters import resolve
from sameloss.studies.statement import statement_table

LEAST = replace(
    SMOKE_FLOW,
    halvings=1,
    replicas=40,
    horizon=1.0,
    adam_replicas=8,
    adam_horizon=0.05,
    end_horizon=0.1,
    flat_horizon=0.5,
    landscape_steps=400,
)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    smoke = resolve({"preset": "smoke", "artifacts": str(tmp_path_factory.mktemp("artifacts"))})
    return replace(smoke, preset=replace(smoke.preset, flow=LEAST))


@pytest.fixture(scope="module")
def tables(setting) -> Tables:
    runs = setting.implicit_bias()
    return Tables(runs[0], *map(setting.store.get, runs[:3]))


def test_every_statement_is_judged(tables):
    """Those that need no statistics have their verdicts at any size of the runs."""
    found = checks(tables)
    verdicts = statement_table(STATEMENTS, found).set_index("id").verdict
    assert list(verdicts.index) == list(STATEMENTS)
    assert verdicts["lem32"] == "holds"
    assert (verdicts[["lem32-covariance", "assumption31"]] == "holds as corrected").all()
    assert found.value.notna().all()


def test_sgd_is_beside_its_flow_and_not_without_noise(tables):
    gaps = gap_table(tables.sgd)
    assert (gaps.sort_values("rate").groupby("batch").gap.diff().dropna() > 0).all()
    assert order_of(gaps[gaps.batch == 1])[0] == pytest.approx(1, abs=0.5)
    assert coefficient_limits(tables.sgd["coefficients"]).coefficient.between(0.15, 0.35).all()
    assert np.ptp(tables.sgd["control"].trace) < 1e-9


def test_a_coefficient_is_found_again():
    """Replicas that follow the flow in another time, with noise; one in which 1/4 would be 20 errors off."""
    times = np.linspace(0, 6, 13)
    curve = CubicSpline(np.linspace(0, 18, 200), 1 + 3 * np.exp(-np.linspace(0, 18, 200) / 4))
    noise = torch.randn(13, 400, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = _coefficient(curve, times, torch.as_tensor(curve(1.2 * times))[:, None] + 0.1 * noise)
    assert found["coefficient"] == pytest.approx(0.3, abs=4 * found["standard_error"])
    assert found["standard_error"] < 0.05 / 20
    apart = [
        _coefficient(curve, times, torch.as_tensor(curve(1.2 * times))[:, None] + 0.1 * part)["coefficient"]
        for part in noise.split(20, dim=1)
    ]
    assert np.std(apart, ddof=1) / 20**0.5 == pytest.approx(found["standard_error"], rel=0.5)


def test_extrapolation_is_exact_for_polynomials():
    x = np.array([0.1, 0.2, 0.4, 0.8])
    value, error = extrapolated(x, 0.25 + x - 3 * x**2 + x**3, np.full(4, 0.01))
    weights = np.linalg.inv(np.vander(x, 4))[-1]
    assert (value, error) == pytest.approx((0.25, 0.01 * np.linalg.norm(weights)))


def test_covariance_and_hessian_part_as_the_root_of_kl(tables):
    """Near the manifold both grow from zero, the KL quadratically."""
    rays = ray_table(tables.run, directions=2).query("1e-11 < kl < 1e-5")
    slope = np.polyfit(np.log(rays.kl), np.log(rays.distance), 1)[0]
    assert slope == pytest.approx(0.5, abs=0.02)


def test_the_small_model_stays(setting):
    """Its second parameter has no gradient at zero; the large model's path ends on the same manifold."""
    path = setting.store.get(setting.implicit_bias()[3])
    small, large = (path[path.model == name] for name in ("small", "large"))
    assert (small.y == 0).all()
    assert small.trace.iloc[-1] == pytest.approx(9 * 0.21 * np.log(7 / 3) ** (4 / 3))
    assert large.near_y.iloc[-1] ** 3 + large.near_x.iloc[-1] ** 3 == pytest.approx(np.log(7 / 3), abs=1e-5)


def test_figures(tables, setting):
    """Each draws what its frame holds."""
    plots = figures
    axes = drawing.panels(8)
    limits = coefficient_limits(tables.sgd["coefficients"])
    run = setting.implicit_bias()[3]
    plots.drift(tables.sgd["trajectories"], tables.sgd["flow"], 1, axes[0])
    plots.coefficients(tables.sgd["coefficients"], limits, axes[1])
    plots.gaps(gap_table(tables.sgd), axes[2])
    plots.finite_rate(tables.sgd["finite"], 0.5, axes[3])
    plots.adam_along_flow(tables.adam, "trace", "trace", axes[4])
    plots.two_measures(tables.adam, axes[5])
    plots.landscape(setting.store.get(run), run.population(), axes[6])
    plots.logits_against_kl(tables.zeros, axes[7])
    assert [len(ax.lines) > 1 for ax in axes] == [True] * 8
    curve = plots.manifold_of(run.population())
    assert np.allclose(curve.x**3 + curve.y**3, np.log(7 / 3))


def test_a_rate_without_steps_is_one_sentence(setting):
    flow = replace(LEAST, learning_rate=3.0)
    run = replace(setting, preset=replace(setting.preset, flow=flow)).implicit_bias()[0]
    with pytest.raises(ParameterError, match="fewer than 4 steps in the time 1 of the flow"):
        setting.store.get(run)


def test_parameters():
    chosen = resolve({"preset": "smoke", "learning_rate": 0.4, "replicas": 20}).preset.flow
    assert (chosen.rates(1)[0], chosen.rates(4)[0], chosen.replicas_of(4)) == (0.4, 0.8, 10)
