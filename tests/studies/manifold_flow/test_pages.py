"""Configuration, stored runs, and checks of the page, on runs as short as possible."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from cells import definitions
from quick_workers import quick_workers
from scipy.interpolate import CubicSpline

from sameloss.book.cells import NOWHERE, opened
from sameloss.errors import ParameterError
from sameloss.store.pool import compute_all
from sameloss.store.store import Store
from sameloss.studies.manifold_flow.experiment import (
    FLOW_LANGUAGE,
    TIMES,
    ZEROS_LANGUAGE,
    AdamDrift,
    FlowSettings,
    Landscape,
    SGDDrift,
    _steps,
    coefficient,
)
from sameloss.studies.manifold_flow.statements import (
    STATEMENTS,
    adam_beside_trace_flow,
    adam_limit,
    checks,
    coefficient_limits,
    extrapolated,
    finite_limit,
)
from sameloss.studies.manifold_flow.theory import masked_population, onto_manifold
from sameloss.studies.parameters import PRESETS as NAMES
from sameloss.studies.statement import statement_table

CHAPTER = definitions("03_implicit_bias")
LEAST = FlowSettings(**CHAPTER.SMOKE | {
    "halvings": 1, "replicas": 40, "horizon": 1.0, "adam_replicas": 8, "adam_horizon": 0.05,
    "end_horizon": 0.1, "flat_horizon": 0.5, "landscape_steps": 400,
})  # fmt: skip
RUN = SGDDrift(*CHAPTER.INSTANCE, LEAST, 0)
LANDSCAPE = Landscape(0.7, CHAPTER.STARTS, ("large", "small"), 0.04, 4, LEAST.landscape_steps, 0)


@pytest.fixture(scope="module")
def tables(shared):
    """Of Section 3, from short runs of few replicas."""
    store, runs = Store(shared / "manifold_flow"), [RUN, AdamDrift(*CHAPTER.INSTANCE, LEAST, 0), LANDSCAPE]
    with quick_workers():
        compute_all(store, runs, 1)
    return dict(zip(("sgd", "adam", "path"), map(store.get, runs), strict=True))


# Parameters


def open_page(**given):
    return opened("03_implicit_bias", {"preset": "smoke", **given}, NOWHERE)


def test_parameters():
    flow = open_page(lr=0.4, replicas=20).runs()[0].settings
    assert (flow.rates(1)[0], flow.rates(4)[0], flow.replicas_of(4)) == (0.4, 0.8, 10)
    assert open_page().runs()[0].settings == FlowSettings(**CHAPTER.SMOKE)


def test_a_parameter_of_another_page_is_refused():
    with pytest.raises(ParameterError) as refused:
        open_page(sentence_length=8)
    valid = "preset, lr, replicas, max_hours, workers, device, artifacts"
    assert str(refused.value) == f"Unknown parameter 'sentence_length'; valid here are {valid}."


def test_runs_follow_the_parameters():
    sgd, adam, landscape = open_page(replicas=20).runs()
    assert sgd.settings == adam.settings
    assert sgd.language == adam.language == FLOW_LANGUAGE
    assert landscape.steps == sgd.settings.landscape_steps
    assert open_page().runs()[0].key != sgd.key
    assert open_page().runs()[2].key == landscape.key


# Configuration and languages


def test_rates_are_halved_from_the_largest():
    settings = FlowSettings(learning_rate=0.4, halvings=2)
    assert settings.rates(1) == [0.4, 0.2, 0.1]
    assert settings.rates(4) == [0.8, 0.4, 0.2]  # the relative rate of batch 4 is 2
    with pytest.raises(ValueError, match="not in"):
        settings.rates(3)


def test_larger_batches_scatter_less_and_have_fewer_replicas():
    settings = FlowSettings(replicas=300)
    assert [settings.replicas_of(batch) for batch in (1, 4, 64)] == [300, 150, 37]
    assert FlowSettings(replicas=10).replicas_of(4) == 8


def test_every_preset_is_there_and_the_longer_ones_alike():
    assert list(open_page().presets) == list(NAMES)
    assert {open_page(preset=name).runs()[0].settings for name in NAMES[2:]} == {FlowSettings()}
    laptop = open_page(preset="laptop").runs()[0].settings
    assert laptop.rates(1) == FlowSettings().rates(1)[:-1]


def test_one_language_has_zeros_in_half_of_its_conditionals():
    for spec, fraction in ((FLOW_LANGUAGE, 0), (ZEROS_LANGUAGE, 0.5)):
        _, conditionals = masked_population(spec.build())
        assert float((conditionals == 0).double().mean()) == fraction
    _, rows = masked_population(FLOW_LANGUAGE.build())
    assert rows.shape == torch.Size([6, 3])  # six masked sentences of three words


# Stored runs


def test_a_coefficient_is_found_again():
    """Replicas follow the flow on another time scale, with noise; 1/4 would be 20 standard errors off."""
    times = np.linspace(0, 6, 13)
    curve = CubicSpline(np.linspace(0, 18, 200), 1 + 3 * np.exp(-np.linspace(0, 18, 200) / 4))
    noise = torch.randn(13, 400, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values = torch.as_tensor(curve(1.2 * times))[:, None] + 0.1 * noise
    fit = coefficient(curve, times, values)
    assert fit["coefficient"] == pytest.approx(0.3, abs=4 * fit["standard_error"])
    assert fit["standard_error"] < 0.05 / 20
    parts = [coefficient(curve, times, part)["coefficient"] for part in values.split(20, dim=1)]
    assert np.std(parts, ddof=1) / 20**0.5 == pytest.approx(fit["standard_error"], rel=0.5)


def test_the_small_model_stays(tables):
    """Its second parameter has no gradient at zero; the large model's path ends on the same manifold."""
    path = tables["path"]
    small, large = (path[path.model == name] for name in ("small", "large"))
    assert (small.y == 0).all()
    assert small.trace.iloc[-1] == pytest.approx(9 * 0.21 * np.log(7 / 3) ** (4 / 3))
    assert large.near_y.iloc[-1] ** 3 + large.near_x.iloc[-1] ** 3 == pytest.approx(np.log(7 / 3), abs=1e-5)


def test_a_rate_without_steps_is_one_sentence(tmp_path):
    run = replace(RUN, settings=replace(LEAST, learning_rate=3.0))
    with pytest.raises(ParameterError, match="fewer than 4 steps in the time 1 of the flow"):
        Store(tmp_path).get(run)


def test_steps_are_at_equal_times_each_once():
    assert _steps(1.0, 0.01) == [round(100 * at / 12) for at in range(TIMES)]
    assert _steps(1.0, 0.2) == [0, 1, 2, 3, 4, 5]


def test_runs_start_on_the_manifold_from_one_point():
    """SGD and Adam alike, so that their ends can be compared."""
    population, _ = RUN.population()
    assert population.kl(RUN.start()) < 1e-28
    torch.testing.assert_close(RUN.start(), AdamDrift(*CHAPTER.INSTANCE, LEAST, 0).start())


def test_replicas_are_averaged_where_they_are_and_close_by(tables):
    """At the start all are one point; after that the minimisers close by are flatter than the iterates."""
    trajectories = tables["sgd"]["trajectories"]
    start = trajectories[trajectories.time == 0]
    np.testing.assert_allclose(start.iterate, start.minimiser)
    np.testing.assert_allclose(start.iterate_sd, 0, atol=1e-12)
    population, model = RUN.population()
    trace = model.trace(onto_manifold(population, RUN.start()), population.weights)
    np.testing.assert_allclose(start.minimiser, float(trace))
    assert set(trajectories.query("batch == 4").replicas) == {20}


# Statements


@pytest.fixture(scope="module")
def found(tables):
    return checks(RUN, tables["sgd"], tables["adam"])


def test_every_statement_is_judged(found):
    """Those that need no statistics have their verdicts at any size of the runs."""
    verdicts = statement_table(STATEMENTS, found).set_index("id").verdict
    assert list(verdicts.index) == list(STATEMENTS)
    assert verdicts["lem32"] == "holds"
    assert (verdicts[["lem32-covariance", "assumption31"]] == "holds as corrected").all()
    assert found.value.notna().all()


def test_a_statement_without_a_correction_has_no_check_of_one(found):
    """And one with a correction is checked in both forms."""
    forms = found.groupby("of").printed.agg(set)
    for name, statement in STATEMENTS.items():
        assert forms[name] == ({True, False} if statement.correction else {True}), name


def test_a_wrong_coefficient_would_be_seen(tables, found):
    """With half of the theorem's 1/4 in every fit, the check of batch 1 fails."""
    fitted = tables["sgd"]["coefficients"]
    halved = {"coefficients": fitted.assign(coefficient=fitted.coefficient / 2)}
    wrong = checks(RUN, tables["sgd"] | halved, tables["adam"])
    first, halved_first = (table.query("of == 'thm33'").iloc[0] for table in (found, wrong))
    assert first.passed
    assert not halved_first.passed


def test_extrapolation_is_exact_for_polynomials():
    x = np.array([0.1, 0.2, 0.4, 0.8])
    points = pd.DataFrame({"x": x, "y": 0.25 + x - 3 * x**2 + x**3, "se": 0.01})
    weights = np.linalg.inv(np.vander(x, 4))[-1]
    assert extrapolated(points, "x", "y", "se") == pytest.approx((0.25, 0.01 * np.linalg.norm(weights)))


def test_coefficients_at_a_vanishing_rate():
    """Of each batch by itself, and of what was measured at one place."""
    rate = np.array([0.2, 0.1])
    known = {(1, "minimiser"): 0.25 + rate, (4, "minimiser"): 0.5 - rate, (1, "iterate"): 9 + rate}
    rows = [
        pd.DataFrame({"batch": batch, "measured": measured, "rate": rate, "coefficient": values})
        for (batch, measured), values in known.items()
    ]
    fitted = pd.concat(rows).assign(standard_error=0.01)
    limits = coefficient_limits(fitted).set_index("batch")
    np.testing.assert_allclose(limits.coefficient, [0.25, 0.5])
    np.testing.assert_allclose(limits.standard_error, 0.01 * 5**0.5)
    assert coefficient_limits(fitted, "iterate").coefficient.tolist() == pytest.approx([9])


def test_sgd_is_beside_its_flow_and_not_without_noise(tables):
    assert coefficient_limits(tables["sgd"]["coefficients"]).coefficient.between(0.15, 0.35).all()
    assert np.ptp(tables["sgd"]["control"].trace) < 1e-9


def test_one_large_rate_between_two_flows():
    """SGD lies below one flow by 1 + 4/B and below the other by 4/B: at an infinite batch it is on it."""
    time = np.array([0.0, 1.0, 2.0])
    parts = [
        pd.DataFrame({"time": time, "batch": batch, "iterate": 0.0, "iterate_sd": 1.0, "replicas": 25,
                      "vanishing": 1 + 4 / batch, "finite": 4 / batch})
        for batch in (1, 2, 4, 8)
    ]  # fmt: skip
    finite = pd.concat(parts)
    known = 0.2 * np.linalg.norm([1, -6, 8]) / 3  # weights of 1/8, 1/4 and 1/2 at zero
    assert finite_limit(finite, "vanishing") == pytest.approx((1, known), abs=1e-12)
    assert finite_limit(finite, "finite") == pytest.approx((0, known), abs=1e-12)


def made_up_adam():
    flows = [
        pd.DataFrame({"flow": "Adam", "time": [0.0, 1.0], "trace": [9.0, 8.0], "sharpness": [3.0, 2.0]}),
        pd.DataFrame({"flow": "trace", "time": [0.0, 9.0], "trace": [9.0, 5.0], "sharpness": [3.0, 1.0]}),
    ]
    seen = pd.DataFrame({"algorithm": "Adam, to its end", "trace": [9.0, 7.0], "sharpness": [3.0, 1.5]})
    coefficients = pd.DataFrame({"rate": [2.0, 1.0], "coefficient": [0.7, 0.6], "standard_error": 0.1})
    return {"flows": pd.concat(flows), "trajectories": seen, "coefficients": coefficients}


def test_adams_end_beside_the_flow_of_the_trace():
    """At a trace of 7 that flow has a sharpness of 2; Adam has three quarters of it."""
    assert adam_beside_trace_flow(made_up_adam()) == pytest.approx(-0.25)
    assert adam_limit(made_up_adam()) == pytest.approx((0.5, 0.1 * 5**0.5))


def test_the_manifold_of_two_parameters():
    curve = LANDSCAPE.minimisers()
    np.testing.assert_allclose(curve.x**3 + curve.y**3, np.log(7 / 3))
    np.testing.assert_allclose(curve.trace, 9 * 0.7 * 0.3 * (curve.x**4 + curve.y**4))
