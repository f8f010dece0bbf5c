"""The configuration, the stored runs, and the page."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline

from sameloss.errors import ParameterError
from sameloss.studies.manifold_flow.experiment import (
    FLOW_LANGUAGE,
    PRESETS,
    SMOOTH_LANGUAGE,
    TIMES,
    ZEROS_LANGUAGE,
    FlowConfig,
    _steps,
    coefficient,
)
from sameloss.studies.manifold_flow.pages import STUDY
from sameloss.studies.manifold_flow.theory import masked_population, onto_manifold
from sameloss.studies.parameters import PRESETS as NAMES

# How much is run along the minimisers, and on which languages.


def test_rates_are_halved_from_the_largest():
    settings = FlowConfig(learning_rate=0.4, halvings=2)
    assert settings.rates(1) == [0.4, 0.2, 0.1]
    assert settings.rates(4) == [0.8, 0.4, 0.2]  # the relative rate of batch 4 is 2
    with pytest.raises(ValueError, match="not in"):
        settings.rates(3)


def test_larger_batches_scatter_less_and_have_fewer_replicas():
    settings = FlowConfig(replicas=300)
    assert [settings.replicas_of(batch) for batch in (1, 4, 64)] == [300, 150, 37]
    assert FlowConfig(replicas=10).replicas_of(4) == 8


def test_every_preset_is_there_and_the_longer_ones_alike():
    assert list(PRESETS) == list(NAMES)
    assert {PRESETS[name] for name in NAMES[2:]} == {FlowConfig()}
    assert PRESETS["laptop"].rates(1) == FlowConfig().rates(1)[:-1]


def test_half_of_a_languages_conditionals_are_zero_and_of_its_twins_none():
    for spec, share in ((FLOW_LANGUAGE, 0), (SMOOTH_LANGUAGE, 0), (ZEROS_LANGUAGE, 0.5)):
        _, conditionals = masked_population(spec.build())
        assert float((conditionals == 0).double().mean()) == share
    _, rows = masked_population(FLOW_LANGUAGE.build())
    assert rows.shape == torch.Size([6, 3])  # six masked sentences of three words


# The runs of Section 3 on the least that shows their tables and figures.


def test_a_coefficient_is_found_again():
    """Replicas that follow the flow in another time, with noise; one in which 1/4 would be 20 errors off."""
    times = np.linspace(0, 6, 13)
    curve = CubicSpline(np.linspace(0, 18, 200), 1 + 3 * np.exp(-np.linspace(0, 18, 200) / 4))
    noise = torch.randn(13, 400, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = coefficient(curve, times, torch.as_tensor(curve(1.2 * times))[:, None] + 0.1 * noise)
    assert found["coefficient"] == pytest.approx(0.3, abs=4 * found["standard_error"])
    assert found["standard_error"] < 0.05 / 20
    apart = [
        coefficient(curve, times, torch.as_tensor(curve(1.2 * times))[:, None] + 0.1 * part)["coefficient"]
        for part in noise.split(20, dim=1)
    ]
    assert np.std(apart, ddof=1) / 20**0.5 == pytest.approx(found["standard_error"], rel=0.5)


def test_the_small_model_stays(tables):
    """Its second parameter has no gradient at zero; the large model's path ends on the same manifold."""
    path = tables["path"]
    small, large = (path[path.model == name] for name in ("small", "large"))
    assert (small.y == 0).all()
    assert small.trace.iloc[-1] == pytest.approx(9 * 0.21 * np.log(7 / 3) ** (4 / 3))
    assert large.near_y.iloc[-1] ** 3 + large.near_x.iloc[-1] ** 3 == pytest.approx(np.log(7 / 3), abs=1e-5)


def test_a_rate_without_steps_is_one_sentence(page):
    run = replace(page.sgd, settings=replace(page.sgd.settings, learning_rate=3.0))
    with pytest.raises(ParameterError, match="fewer than 4 steps in the time 1 of the flow"):
        page.store.get(run)


def test_steps_are_at_equal_times_each_once():
    assert _steps(1.0, 0.01) == [round(100 * share / 12) for share in range(TIMES)]
    assert _steps(1.0, 0.2) == [0, 1, 2, 3, 4, 5]


def test_runs_start_on_the_manifold_from_one_point(page):
    """SGD and Adam alike, so that their ends can be compared."""
    population, _ = page.sgd.population()
    assert population.kl(page.sgd.start()) < 1e-28
    torch.testing.assert_close(page.sgd.start(), page.runs()[1].start())


def test_replicas_are_averaged_where_they_are_and_close_by(page, tables):
    """At the start all are one point; after that the minimisers close by are flatter than the iterates."""
    trajectories = tables["sgd"]["trajectories"]
    start = trajectories[trajectories.time == 0]
    np.testing.assert_allclose(start.iterate, start.minimiser)
    np.testing.assert_allclose(start.iterate_sd, 0, atol=1e-12)
    population, model = page.sgd.population()
    trace = model.trace(onto_manifold(population, page.sgd.start()), population.weights)
    np.testing.assert_allclose(start.minimiser, float(trace))
    assert set(trajectories.query("batch == 4").replicas) == {20}


def test_a_language_with_zeros_has_no_minimum(tables):
    """Without end the loss falls and the parameters grow; without zeros both come to rest."""
    late = tables["zeros"].groupby("zeros").tail(2)
    with_zeros, without = (late[late.zeros.astype(bool) == any_] for any_ in (True, False))
    assert with_zeros.spread.diff().iloc[-1] > 0.5
    assert abs(without.spread.diff().iloc[-1]) < 1e-3
    assert with_zeros.kl.iloc[-1] > 1e3 * without.kl.iloc[-1]


# The page of Section 3: what may be set, what it reads, and what it judges.

pytestmark = pytest.mark.usefixtures("home")


def open_page(**given):
    return STUDY.open("03_implicit_bias", {"preset": "smoke", **given})


def test_parameters():
    flow = open_page(learning_rate=0.4, replicas=20).config
    assert (flow.rates(1)[0], flow.rates(4)[0], flow.replicas_of(4)) == (0.4, 0.8, 10)
    assert open_page().config == PRESETS["smoke"]
    assert STUDY.open("03_implicit_bias", {}).config == PRESETS["laptop"]


def test_a_parameter_of_another_page_is_refused_with_this_pages_own():
    with pytest.raises(ParameterError) as refused:
        open_page(sentence_length=8)
    valid = ", ".join(STUDY.table("03_implicit_bias"))
    assert str(refused.value) == f"Unknown parameter 'sentence_length'; valid here are {valid}."


def test_the_runs_are_of_what_was_set():
    page = open_page(replicas=20)
    sgd, adam, zeros, landscape = page.runs()
    assert (sgd, landscape) == (page.sgd, page.landscape)
    assert {sgd.settings, adam.settings} == {page.config}
    assert sgd.language == adam.language == FLOW_LANGUAGE
    assert landscape.steps == page.config.landscape_steps
    assert open_page().sgd.key != sgd.key
    assert open_page().runs()[2].key == zeros.key
