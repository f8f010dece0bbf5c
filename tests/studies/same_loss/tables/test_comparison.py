"""Tables that compare groups of models, on made-up results whose answer is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up import changed, made_up

from sameloss.runs.flatness import MEASURES
from sameloss.statistics.bootstrap import Estimate
from sameloss.studies.same_loss import effects
from sameloss.studies.same_loss.effects import Compared
from sameloss.studies.same_loss.groups import ADAMW, ADVERSARIAL, SAM, SOFT
from sameloss.studies.same_loss.results import WAYS, final
from sameloss.studies.same_loss.tables import comparison


@pytest.fixture
def algorithms(filled):
    """A page on algorithms; the first adversary is 10 points worse and twice as sharp."""
    page = filled("d_practice")
    group = ADVERSARIAL[0].group(page.config)
    worse = made_up(group, page.store)
    rng = np.random.default_rng(2)
    table = worse.checkpoints.assign(trace=2 * worse.checkpoints.trace, root=worse.checkpoints.root - 10)
    probes = {key: rng.random((6, 3, 400, 2)) < 0.7 for key in worse.probes}
    page._found[ADVERSARIAL[0].of(page.config.shown)] = changed(worse, table, probes=probes)
    return page


def test_associations_say_how_many_checkpoints_and_runs_are_behind_them(results):
    table = comparison.correlation_table(results, ["root"]).set_index("statistic")
    assert table.saturated.tolist() == [0, 24, 24, 24, 24]  # two sizes have no correlation of sizes
    assert table.runs.tolist() == [0, 6, 6, 6, 6]
    fig3 = table.loc["signed r² (Fig. 3, 10)"]
    assert (fig3.value, fig3.low, fig3.high) == effects.step_correlation(results, "root")
    assert table.value["slope (points)"] > 0


@pytest.mark.parametrize("sizes", [2, 3])
def test_the_association_of_sizes_is_that_which_is_judged(results, three_sizes, sizes):
    """Two sizes have none, neither where it is judged nor in the table."""
    found = {2: results, 3: three_sizes}[sizes]
    table = comparison.correlation_table(found, ["root"]).set_index("statistic")
    shown = table.loc["signed r² (Fig. 5)", ["value", "low", "high"]].astype(float)
    judged = effects.size_correlation(found, "root")
    np.testing.assert_equal(shown.to_numpy(), np.array(judged))
    assert np.isfinite(judged.value) == (sizes == 3)


def test_associations_are_of_saturated_checkpoints_alone(results):
    far = changed(results, results.checkpoints.assign(saturated=False))
    table = comparison.correlation_table(far, ["root", "span2"])
    assert (table.saturated == 0).all()
    assert table.value.isna().all()


def test_every_size_has_its_distance_from_the_best_loss(results):
    last = final(results).assign(loss_mean=1.0, entropy_mean=0.9)
    table = comparison.model_table(last).set_index("size")
    assert table.index.tolist() == ["1K", "3K"]
    assert table.seeds.tolist() == [3, 3]
    own = last[last["size"] == "1K"].kl_mean
    assert (table.KL["1K"], table.worst_KL["1K"]) == (pytest.approx(own.mean()), own.max())
    assert table.loss.tolist() == [1.0, 1.0]


def test_equal_kl_stands_beside_equal_steps(results):
    table = comparison.matched_table(results, ["root", "span2"])
    assert table.task.tolist() == 4 * ["root"] + 4 * ["span2"]
    expected = [
        effect(results, "root")
        for effect in (
            effects.size_gain,
            effects.size_gain_matched,
            effects.step_gain,
            effects.step_gain_matched,
        )
    ]
    np.testing.assert_equal(table[["value", "low", "high"]].to_numpy()[:4], np.array(expected))


def probed_as(results, untrained, lookup=0.5):
    """Return last models that are right in 60 % and 80 %, and untrained ones as right as is given by size."""
    rng = np.random.default_rng(1)
    shares = untrained, {"1K": 0.6, "3K": 0.8}

    def right(accuracy):
        return rng.random((3, 400, 2)) < accuracy

    both = {key: [right(share[key[0]])[None] for share in shares] for key in results.probes}
    probes = [{key: pair[at] for key, pair in both.items()} for at in (0, 1)]
    baselines = {**results.baselines, "lookup table": right(lookup)[None]}
    drawn, last = (replace(results, probes=own, baselines=baselines) for own in probes)
    return replace(last, drawn=drawn)


@pytest.fixture
def probed(results):
    """Two protocols: for one the wider of the untrained models is as much better as trained ones are."""
    biased = probed_as(results, {"1K": 0.5, "3K": 0.7}, lookup=0.7)
    return {"AdamW": biased, "solved": probed_as(results, {"1K": 0.5, "3K": 0.5})}


def test_gains_over_the_lookup_table_under_every_protocol(probed):
    """Each protocol's models are compared with its own lookup table."""
    table = comparison.protocol_gains(probed, "root").set_index(["protocol", "size"])
    assert table.value["solved", "3K"] == pytest.approx(30, abs=4)
    assert table.value["AdamW", "3K"] == pytest.approx(10, abs=4)
    assert table["lookup table"]["AdamW", "1K"] == pytest.approx(70, abs=4)
    assert len(table) == 2 * 2


def test_a_size_effect_that_untrained_models_have_is_none(results, probed):
    control = comparison.control_table(results, probed, ["root", "span2"])
    table = control.set_index(["task", "protocol"])
    assert table.trained.tolist() == pytest.approx(4 * [20], abs=4)
    assert table.untrained["root", "AdamW"] == pytest.approx(20, abs=4)
    assert table.untrained["root", "solved"] == pytest.approx(0, abs=4)
    net = table.trained - table.untrained
    np.testing.assert_allclose(table.value, net)
    assert table.low["root", "AdamW"] < 0 < table.high["root", "AdamW"]
    assert table.low["root", "solved"] > 10
    assert comparison.control_in_words(control, "AdamW", "root").endswith("not told from the control")
    assert comparison.control_in_words(control, "solved", "root").endswith(", beyond the control")


def test_without_two_saturated_sizes_no_control_is_tested(results, probed):
    far = changed(results, results.checkpoints.assign(saturated=False))
    control = comparison.control_table(far, probed, ["root"])
    assert control.empty
    assert comparison.control_in_words(control, "AdamW", "root").startswith("not testable here")


def test_trained_and_untrained_models_stand_in_one_table(probed):
    table = comparison.trained_and_untrained(probed, ["root"])
    keyed = table.set_index(["protocol", "models", "size"]).value
    assert keyed["AdamW", "untrained", "3K"] == pytest.approx(70, abs=3)
    assert keyed["solved", "trained", "1K"] == pytest.approx(60, abs=3)
    assert ((table.low < table.value) & (table.value < table.high)).all()


def test_fine_tuning_stands_beside_probes(results, monkeypatch):
    tuned = {key: np.ones((1, 3, 400, 2), dtype=bool) for key in results.probes}
    monkeypatch.setattr(comparison, "finetuned", lambda _: replace(results, probes=tuned))
    table = comparison.finetuned_table(results, ["root"]).set_index(["size", "evaluation"])
    assert table.value["1K", "fine-tuning"] == 100
    assert table.value["3K", "linear probe"] == pytest.approx(80, abs=3)
    assert (table.low <= table.value).all()


def test_algorithms_in_one_table(algorithms):
    table = comparison.arm_table(algorithms, [ADAMW, ADVERSARIAL[0]], ["root"]).set_index("algorithm")
    adamw = final(algorithms.of(ADAMW))
    assert list(table.index) == ["adamw", "adversarial, λ = 0.003"]
    assert table.seeds["adamw"] == 3
    assert table.root["adamw"] == adamw.root.mean()
    assert table.root["adamw"] - table.root["adversarial, λ = 0.003"] == pytest.approx(10)
    assert table["worst KL"]["adamw"] == adamw.kl_mean.max()
    assert set(table.saturated) == {"yes"}


def test_checkpoints_of_several_algorithms_keep_their_names(algorithms):
    table = comparison.arm_checkpoints(algorithms, [ADAMW, SAM])
    assert table.groupby("algorithm").size().to_dict() == {"adamw": 18, "sam, radius = 0.05": 18}


def test_differences_are_the_algorithm_minus_the_reference(algorithms):
    table = comparison.arm_differences(algorithms, [ADVERSARIAL[0], SOFT], ["root"])
    rows = table.set_index(["algorithm", "compared", "quantity"])
    worse = rows.loc["adversarial, λ = 0.003"]
    assert worse.value["after all steps", "trace"] == pytest.approx(1)
    assert worse.value["after all steps", "root"] == pytest.approx(-10, abs=4)
    same = rows.loc["soft"]
    assert same.value["after all steps", "root"] == same.value["at equal KL", "root"] == 0
    own = comparison.arm_differences(algorithms, [ADAMW], ["root"], ADVERSARIAL[0], [Compared.ENDS])
    assert own.value.tolist() == pytest.approx([-0.5, -worse.value["after all steps", "root"]])


def test_differences_in_a_readers_form(algorithms):
    table = comparison.wide(comparison.arm_differences(algorithms, [ADVERSARIAL[0]], ["root"]))
    assert table.columns.tolist() == ["algorithm", "compared", "trace", "root"]
    assert table.compared.tolist() == ["after all steps", "at equal KL"]
    assert table.trace[0].startswith("+1.00 (")
    lone = pd.DataFrame(
        {
            "algorithm": ["a"],
            "compared": ["b"],
            "quantity": ["trace"],
            "value": 1.0,
            "low": np.nan,
            "high": 2.0,
        }
    )
    assert comparison.wide(lone).trace.tolist() == ["–"]


def test_sizes_in_every_way_to_compare_them(results, monkeypatch):
    rows = [
        {"size": size, "seed": seed, "step": 160, "form": form, "part": part,
         "mean": (3.0 if size == "1K" else 1.0) * (1 + 0.01 * seed), "standard_error": 0.01, "count": 1}
        for size in results.sizes
        for seed in range(3)
        for form in ("native", "paper", "balanced", "relative")
        for part in ("total", "without embeddings")
    ]  # fmt: skip
    monkeypatch.setattr(comparison, "law_alone", lambda traces, group: pd.Series(dict.fromkeys(WAYS, 0.5)))
    table = comparison.comparison_table(results, pd.DataFrame(rows))
    assert table.comparison.tolist() == [way.label for way in WAYS.values()]
    np.testing.assert_allclose(table.excess, 2)
    assert (table["law alone"] == 0.5).all()


def test_what_predicts_accuracy_is_of_saturated_algorithms(algorithms, monkeypatch):
    """Accuracy was made of the trace: it predicts it, and the KL, the same of all, does not."""
    arms = [ADAMW, ADVERSARIAL[0], SAM]
    far = algorithms.of(SAM)
    algorithms._found[SAM.of(algorithms.config.shown)] = changed(far, far.checkpoints.assign(saturated=False))

    def frame(found, kind):
        assert kind == "measures"
        rows = [
            {**last, "part": part, **Estimate(own, 0.0, 5)._asdict()}
            for last in final(found)[["size", "seed", "step"]].to_dict("records")
            for trace in [final(found).set_index("seed").trace[last["seed"]]]
            for part, own in {**dict.fromkeys(comparison.CHAINLESS, 1.0), "trace": trace}.items()
        ]
        return pd.DataFrame(rows)

    monkeypatch.setattr(type(far), "frame", frame)
    table = comparison.predictor_table(algorithms, arms, ["root"]).set_index("measure")
    assert list(table.index) == ["KL", "Fisher trace", *(MEASURES[m] for m in comparison.CHAINLESS[1:])]
    assert set(table.models) == {6}  # two algorithms that saturate, three seeds each
    assert table.value["Fisher trace"] > 0.5
    assert np.isnan(table.value["KL"])
    assert "learning coefficient" not in table.index


def test_no_saturated_algorithm_predicts_nothing(algorithms):
    own = algorithms.of(ADAMW)
    algorithms._found[ADAMW.of(algorithms.config.shown)] = changed(
        own, own.checkpoints.assign(saturated=False)
    )
    assert comparison.predictor_table(algorithms, [ADAMW], ["root"]).empty
    sentence = comparison.unsaturated(algorithms, [ADAMW, SOFT])
    assert sentence.startswith("Not saturated in all seeds, and so not compared after all steps: AdamW. Give")
    assert comparison.unsaturated(algorithms, [SOFT]) == "All end saturated in every seed."
