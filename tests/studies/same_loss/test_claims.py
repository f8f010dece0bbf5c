"""Answers from planted tables, in which effect, ceiling and confounds are known, and from the record."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from sameloss.book import part_one
from sameloss.languages.language import labels
from sameloss.studies.same_loss import claims
from sameloss.studies.same_loss.experiment import GRAMMAR
from sameloss.studies.same_loss.tables import answer_table
from sameloss.studies.verdict import Direction, Size, chance_in_words

WIDTHS = (24, 32, 48, 64, 96)
STEPS = (312, 625, 1250, 2500)
LRS = (0.005, 0.00125)
REPLICATES = 8


def planted(*, size=0.0, level=70.0, width=0.0, slope=0.0, plateau_kl=1.0, tokens=60.0, noise=0.3):
    """A table in which a doubling of the width adds `size` points to all readings of a model.

    It adds `width` more to readings of a model's own features. Accuracies start at `level`, and the log trace
    depends on the log rate alone, with slope `slope`.
    """
    rng = np.random.default_rng(0)
    rows = []

    def add(replicate, model, stage, lr, steps, d, kl, accuracy, trace):
        about = {"language": "grammar", "replicate": replicate, "model": model, "stage": stage, "lr": lr}
        about |= {"steps": steps, "parameters": 36.0 * d * d, "algorithm": "adamw", "variant": ""}
        readings = {
            "expanded": accuracy,
            "features": accuracy - 5 + width * np.log2(d / 24),
            **dict.fromkeys(("projected to 96", "expanded to 384", "128 labels", "500 labels"), accuracy),
            **dict.fromkeys(("8000 labels", "expanded, unseen", "fine-tuned"), accuracy),
        }
        for quantity, value in {"kl": kl, "steps taken": steps}.items():
            rows.append(about | {"quantity": quantity, "task": "", "reading": "", "value": value})
        for quantity in ("trace", "relative trace", "enlarged trace"):
            rows.append(about | {"quantity": quantity, "task": "", "reading": "", "value": trace})
        for task, (reading, value) in product(("root", "span2"), readings.items()):
            value = min(99.9, value + noise * rng.standard_normal())
            rows.append(about | {"quantity": "accuracy", "task": task, "reading": reading, "value": value})

    for replicate in range(REPLICATES):
        draw = rng.standard_normal()
        for d in WIDTHS:
            model, accuracy = f"d{d}", level + draw + size * np.log2(d / 24)
            add(replicate, model, "untrained", LRS[0], 0, d, 1.0, 55 + draw, 1.0)
            for lr, steps in product(LRS, STEPS):
                trace = 100 * (lr / LRS[0]) ** slope * np.exp(0.05 * rng.standard_normal())
                add(replicate, model, "descent", lr, steps, d, 40 / (steps * d), accuracy, trace)
            for stage, steps in product(("plateau", "cooled"), (1250, 7500)):
                kl = 0.03 * (plateau_kl if (stage, steps) == ("plateau", 7500) else 1.0)
                add(replicate, model, stage, 0.001, steps, d, kl, accuracy, 1e5 / steps)
        about = {"language": "grammar", "replicate": replicate, "model": "none", "stage": "baseline"}
        about |= {"lr": 0.0, "steps": 0, "parameters": 0, "algorithm": "adamw", "variant": ""}
        for name, value in {"tokens": tokens, "lookup": 65.0}.items():
            for task in ("root", "span2"):
                row = about | {"quantity": "accuracy", "task": task, "reading": f"{name}, expanded"}
                rows.append(row | {"value": value + draw})
        rows.append(about | {"quantity": "bag-of-words kl", "task": "", "reading": "", "value": 0.01})
    return pd.DataFrame(rows)


ANSWERED = {}


def answers(table, questions=None, planned=0):
    """Answer from a table; once, however many tests ask the same of an equal one."""
    content = pd.util.hash_pandas_object(table).sum(), tuple(table), str(questions), planned
    if content not in ANSWERED:
        ANSWERED[content] = claims.answers(table, questions, planned)
    return ANSWERED[content].copy()


def ask(table, question, row="main", model=None):
    rows = answers(table)
    rows = rows[(rows.question == question) & (rows.row == row)]
    rows = rows if model is None else rows[rows.model == model]
    assert len(rows) == 1
    return rows.iloc[0]


def test_a_true_effect_of_size_is_supported_with_its_number():
    answer = ask(planted(size=3.0), "size")
    assert answer.direction == "supported"
    assert answer["mean"] == pytest.approx(3.0 * 2, abs=0.3)
    assert answer.low < answer["mean"] < answer.high


def test_without_an_effect_none_is_claimed():
    assert ask(planted(), "size").direction == "open"
    assert ask(planted(), "size")["size"] == "smaller than published"  # a precise null


@pytest.mark.parametrize(
    ("column", "value", "row"),
    [("lr", LRS[1], "at the other learning rate"), ("steps", STEPS[0], "at the largest common KL")],
)
def test_a_conclusion_that_turns_round_elsewhere_is_noted(column, value, row):
    """The larger model is better at one rate and KL, and worse at another."""
    table = planted(size=3.0)
    there = (table.model == "d96") & (table.stage == "descent") & (table[column] == value)
    table.loc[there & (table.quantity == "accuracy"), "value"] -= 15
    answer = ask(table, "size")
    assert answer.direction == "supported"
    assert row in answer.note
    assert not ask(planted(size=3.0), "size").note
    assert row in answer_table(answers(table)).verdict.iloc[0]


def test_what_is_shown_of_a_table_does_not_change_its_intervals():
    """Holm's correction is over all that was asked of the runs."""
    table = planted(size=3.0)
    everything, alone = answers(table), answers(table, ["steps"])
    shown = everything[everything.question == "steps"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, shown)


def test_tasks_larger_kls_and_other_rates_have_their_rows():
    table = planted(size=3.0)
    rows = answers(table, ["size"]).set_index("row")
    assert {"task A", "halfway to the largest common KL"} <= set(rows.index)
    assert rows.loc["at the largest common KL", "kl"] > rows.loc["main", "kl"]
    assert rows.loc["main", "steps"].count(" / ") == 1
    third = table[(table.stage == "descent") & (table.lr == LRS[1])].assign(lr=0.0025)
    rows = answers(pd.concat([table, third], ignore_index=True), ["size"]).row
    assert (rows == "at the other learning rate").sum() == 2


def test_the_correlation_across_sizes_is_shown_and_not_judged():
    """Here the traces of all sizes are alike but for noise: nothing is explained."""
    answer = ask(planted(size=3.0), "flatness as a cause", "between sizes, r²")
    assert (answer.judged, answer.direction) == (False, "")
    assert 0 <= answer["mean"] <= 1


def test_a_worse_large_model_speaks_against():
    assert ask(planted(size=-1.0), "size").direction == "against"


def test_models_that_were_not_trained_are_no_evidence():
    assert not ask(planted(size=3.0), "size", "untrained").judged


def test_without_models_there_is_no_chance_of_an_answer():
    table = planted()
    assert chance_in_words(answers(table, [])).startswith("No comparison is testable")
    one_size = answers(
        table[table.model.isin(["d24", "none"])]
    )  # whose plateau is the mean over sizes as well
    assert chance_in_words(one_size).startswith("Of 8 intervals (95 %) ")


def test_at_a_ceiling_nothing_is_judged():
    rows = answers(planted(size=3.0, level=98.0))
    rows = rows[(rows.question == "size") & rows.judged]
    rows = rows[(rows.row != "with features as they are") & rows.over.isna()]  # which have room
    assert {"main", "task A", "fine-tuned", "128 labels", "expanded to 384"} < set(rows.row)
    assert rows.reason.str.endswith("points to gain").all()


def test_a_ceiling_hides_what_more_steps_do():
    assert ask(planted(level=97.0), "steps").direction == "open"
    assert (
        ask(planted(level=99.0), "steps").reason == "the model compared with leaves only 1.0 points to gain"
    )


def test_all_verdicts_have_the_words_of_the_one_judge():
    rows = answers(planted(size=3.0))
    assert set(rows.direction[rows.judged]) <= {*Direction}
    assert set(rows["size"]) <= {*Size, ""}
    assert (rows.direction.eq("") == ~rows.judged).all()
    assert (rows.reason.ne("") == rows.direction.eq(Direction.NOT_TESTABLE)).all()


def test_a_wide_interval_around_zero_is_not_judged():
    answer = ask(planted(noise=8.0), "size")
    assert answer.reason == "the interval contains zero effect and is wider than the published effect"


def test_where_no_model_beats_its_tokens_nothing_is_judged():
    answer = ask(planted(size=1.0, tokens=75.0), "size")
    assert answer.direction == "not testable"
    assert "tokens" in answer.reason


def test_features_of_a_width_are_no_effect_of_size():
    """The capacity of the probe grows with the width: read with as many features, no effect is left."""
    table = planted(width=3.0)
    assert ask(table, "size", "with features as they are").direction == "supported"
    assert ask(table, "size").direction == "open"


def test_a_rate_that_falls_with_the_width_is_told_from_the_width():
    """As in the first record: a lower rate alone makes the wide model sharper."""
    table = planted(slope=-1.0)
    assert ask(table, "flatness by size", "with a learning rate that falls as 1/d").direction == "against"
    assert ask(table, "flatness by size").direction == "open"
    assert ask(table, "flatness by rate")["mean"] == pytest.approx(-1.0, abs=0.1)


def test_steps_are_compared_at_one_kl_alone():
    same, moved = planted(), planted(plateau_kl=0.7)
    assert ask(same, "flatness by steps", "plateau", "d24").direction == "supported"
    assert ask(same, "flatness by steps", "plateau", "d24")["mean"] == pytest.approx(6.0)
    answer = ask(moved, "flatness by steps", "plateau", "d24")
    assert answer.direction == "not testable"
    assert "KLs differ by a factor of 1.4" in answer.reason
    assert ask(moved, "flatness by steps", "cooled", "d24").direction == "supported"


def test_the_comparison_is_at_the_smallest_kl_that_both_reach():
    """Here accuracy follows KL alone, so the larger model is better at its end and no better at one KL."""
    table = planted(noise=0.0)
    descents = table[table.stage == "descent"]
    kl = descents[descents.quantity == "kl"].set_index(["replicate", "model", "lr", "steps"]).value
    right = (table.stage == "descent") & (table.quantity == "accuracy")
    keys = pd.MultiIndex.from_frame(table[right][["replicate", "model", "lr", "steps"]])
    table.loc[right, "value"] = 60 - 5 * np.log(kl.loc[keys].to_numpy())
    assert ask(table, "size")["mean"] == pytest.approx(0.0, abs=1e-6)
    assert ask(table, "size").kl == "0.0007"  # 40 / (2500 * 24)


def test_one_replicate_is_no_evidence():
    table = planted(size=3.0)
    answer = ask(table[table.replicate == 0], "size")
    assert answer.direction == "not testable"


# What is trained in another way


def with_stages(stages, kl=None):
    """The planted table with more stages of d48, each with a gain in points and a ratio of traces."""
    table = planted(noise=0.05)
    descents = table[(table.model == "d48") & (table.stage == "descent") & (table.lr == LRS[0])]
    parts = [table]
    for stage, (gain, ratio) in stages.items():
        kind, _, variant = stage.partition(": ")
        algorithm = variant.partition(",")[0]
        steps = STEPS if kind == "other descent" else STEPS[-1:]
        more = descents[descents.steps.isin(steps)].assign(stage=kind, algorithm=algorithm, variant=variant)
        accuracy, trace = more.quantity == "accuracy", more.quantity.str.endswith("trace")
        more.loc[accuracy, "value"] += gain
        more.loc[trace, "value"] *= ratio
        more.loc[more.quantity == "kl", "value"] *= (kl or {}).get(stage, 1.0)
        parts.append(more)
    return pd.concat(parts, ignore_index=True)


def test_the_adversary_that_is_judged_is_the_strongest_that_ends_near_the_loss():
    stages = {
        "other descent: adversarial, λ = 0.003": (-1.0, 1.1),
        "other descent: adversarial, λ = 0.05": (-9.0, 3.0),
    }
    table = with_stages(stages, kl={"other descent: adversarial, λ = 0.05": 4.0})
    answer = ask(table, "adversary")
    assert (answer.model, answer.direction) == ("adversarial, λ = 0.003", "supported")
    assert answer["mean"] == pytest.approx(1.0, abs=0.2)
    assert ask(table, "adversary", "each model", "adversarial, λ = 0.05")["mean"] > 5
    assert ask(table, "flatness by adversary")["mean"] == pytest.approx(1.1, abs=0.1)
    far = with_stages(stages, kl=dict.fromkeys(stages, 4.0))
    assert ask(far, "adversary").reason == "no adversary's models come near AdamW's loss"


def test_a_regulariser_that_flattens_is_told_from_one_that_helps():
    table = with_stages(
        {"other descent: sam, radius = 0.05": (0.0, 0.5), "other descent: dropout, rate = 0.1": (2.0, 1.0)}
    )
    assert ask(table, "flatness by regularisers").direction == "supported"
    assert ask(table, "flatness by regularisers")["mean"] == pytest.approx(2.0, rel=0.1)
    assert ask(table, "accuracy by regularisers").direction != "supported"
    assert ask(table, "accuracy by regularisers", "each model").direction == "supported"


@pytest.mark.parametrize(("gain", "direction"), [(0.1, "supported"), (2.0, "open"), (-5.0, "against")])
def test_a_little_change_is_one_within_its_margin(gain, direction):
    answer = ask(with_stages({"other descent: mask-rate, rate = 0.15": (gain, 1.0)}), "mask rate")
    assert answer.direction == direction
    assert (answer.p < 0.001) == (direction != "open")  # Holm's order is that of evidence for either side


TREATED = {
    "treated, cooled: sgd-noise, s = 0": (0.0, 1.0),
    "treated, cooled: sgd-noise, s = 1": (3.0, 0.3),
    "treated, cooled: sharpen-after, μ = 0.03": (-3.0, 3.0),
}


def cause(stages, spread=1.0):
    """The main answer on flatness as a cause; `spread` is the ratio of the traces of two sizes."""
    table = with_stages(stages)
    wide = (table.model == "d96") & table.quantity.str.endswith("trace") & (table.stage == "descent")
    table.loc[wide, "value"] /= spread
    return ask(table, "flatness as a cause")


def test_flatness_that_causes_is_told_from_flatness_that_does_not():
    answer = cause(TREATED)
    assert answer.direction == "supported"
    assert answer["mean"] == pytest.approx(3 / np.log(3.15), rel=0.1)
    flat = {name: (0.0, ratio) for name, (_, ratio) in TREATED.items()}
    assert cause(flat).direction == "open"


def test_treatments_that_disagree_say_nothing_of_flatness():
    answer = cause(TREATED | {"treated, cooled: sharpen-after, μ = 0.03": (3.0, 3.0)})
    assert answer.direction == "not testable"
    assert "disagree" in answer.reason


def test_treatments_that_move_the_trace_less_than_sizes_do_say_nothing_of_flatness():
    answer = cause(TREATED, spread=1000.0)
    assert answer.direction == "not testable"
    assert "less than half" in answer.reason


def test_sizes_that_were_cooled_to_unequal_kls_are_not_compared():
    table = planted(size=3.0)
    assert ask(table, "size", "with label noise, cooled").direction == "supported"
    apart = (table.stage == "cooled") & (table.model == "d96") & (table.quantity == "kl")
    table.loc[apart, "value"] /= 3
    answer = ask(table, "size", "with label noise, cooled")
    assert (answer.direction, answer.reason) == ("not testable", "their KLs differ by a factor of 3.00")


def test_where_tokens_say_all_no_question_of_accuracy_is_judged():
    table = planted(tokens=75.0)
    of_trained = answers(table).query("unit == 'points' and row != 'untrained'")
    assert set(of_trained.direction) == {"not testable"}
    assert ask(table, "flatness by size").direction != "not testable"


def test_the_records_are_families_of_their_own(monkeypatch):
    """A second record does not widen the intervals of the first."""
    tables = {"workstation": planted(), "pretrained": planted().assign(language="pretrained")}
    records = {name: SimpleNamespace(table=table) for name, table in tables.items()}
    monkeypatch.setattr(part_one, "_records", lambda folder: records)
    rows = part_one._answers.__wrapped__(Path())
    assert rows.language.unique().tolist() == ["grammar", "pretrained"]
    alone = answers(tables["workstation"], planned=22)
    pd.testing.assert_frame_equal(rows[: len(alone)], alone, check_dtype=False)
    assert len(part_one.recorded_measurements()) == sum(map(len, tables.values()))


def test_holms_correction_is_for_all_planned_questions():
    """Also while most are missing; other rows keep their level."""
    widths = [rows.high - rows.low for rows in (answers(planted(), planned=n) for n in (0, 22))]
    main = answers(planted()).primary.eq(True) & (widths[0] > 0)  # planted ratios of traces may be exact
    assert main.sum() >= 3
    assert (widths[1] > widths[0])[main].all()
    assert (widths[1] == widths[0])[~main].all()


def test_neighbouring_sizes_are_compared_at_smaller_kls():
    """The planted trace does not depend on the width, and accuracy rises by the same for each doubling."""
    rows = answers(planted(size=3.0))
    for question, expected in {"size": 3.0 * np.log2(96 / 64), "flatness by size": 1.0}.items():
        part = rows[(rows.question == question) & rows.over.notna()]
        assert part.model.tolist() == ["d32", "d48", "d64", "d96"]
        assert part.over.tolist() == ["d24", "d32", "d48", "d64"]
        assert part.unlearnt.is_monotonic_decreasing
        assert part["mean"].iloc[-1] == pytest.approx(expected, abs=0.3)


def test_means_over_sizes_of_cooled_models_are_of_their_rows():
    table = planted()
    there = (table.stage == "cooled") & (table.steps == 7500)
    table.loc[there & (table.quantity == "relative trace"), "value"] *= 3
    table.loc[there & (table.quantity == "accuracy") & (table.model == "d48"), "value"] += 5
    rows = answers(table)
    cooled = rows[(rows.question == "steps") & (rows.row == "cooled")]["mean"]
    assert ask(table, "steps", "cooled, mean of sizes")["mean"] == pytest.approx(cooled.mean())
    ratio = ask(table, "flatness by steps", "cooled, relative to squared weights")["mean"]
    assert ratio == pytest.approx(7500 / 1250 / 3)


def test_the_lookup_table_is_beside_the_worst_size_and_its_published_lead_beside_the_largest():
    rows = answers(planted(size=3.0)).query("question == 'lookup'").set_index("row")
    assert (rows.model["main"], np.isnan(rows.published["main"])) == ("d24", True)
    assert rows[rows.published.notna()].model.tolist() == ["d96"]
    table = planted(size=3.0)
    short = (table.model == "d24") & (table.stage == "descent") & (table.steps == STEPS[0])
    table.loc[short & (table.quantity == "accuracy"), "value"] -= 7
    first = ask(table, "lookup", "after the shortest training")
    assert first["mean"] == pytest.approx(ask(table, "lookup").loc["mean"] - 7, abs=0.5)


# The record, by independent calculations


def test_the_record_of_part_i_is_whole():
    """A lost line would take its draw from all answers."""
    words = part_one.records_in_words()
    assert re.findall(r"preset (\w+), (\d+) seeds", words) == [("workstation", "11"), ("pretrained", "3")]


@pytest.fixture(scope="module")
def records():
    table = part_one.recorded_measurements()
    known = table.stage.where(table.variant == "", table.stage + ": " + table.variant)
    return dict(list(table.assign(stage=known).groupby("language")))


@pytest.fixture(scope="module")
def record(records):
    return records["grammar"]


@pytest.fixture(scope="module")
def main_rows():
    rows = part_one.recorded_answers()
    return rows[rows.row == "main"].set_index(["language", "question"])


RATE = {"grammar": 0.005, "hmm": 0.00125, "pretrained": 0.005}
"""The peak of the main rows (protocol)."""

ENCODERS = "not model.str.startswith('lstm')"
"""The main rows on the HMM are of these alone."""

every_language = pytest.mark.parametrize("language", RATE)


@pytest.fixture(params=["grammar", "hmm"])
def exact(request, records, main_rows):
    """The measurements of a language with exact labels, and the means of its main answers."""
    return records[request.param], main_rows["mean"][request.param]


def lead(record, pair, quantity, change):
    """Interpolate two models' complete trainings in log KL to the smallest one that both reach."""
    rate = RATE[record.language.iloc[0]]
    leads, rows = [], record[(record.lr == rate) & record.reading.isin(["expanded", ""])]
    for _, part in rows.groupby("replicate"):
        runs = [part[(part.model == model) & (part.stage == stage)] for model, stage in pair]
        kls = [np.log(run[run.quantity == "kl"].groupby("steps").value.mean())[::-1] for run in runs]
        values = [change(run[run.quantity == quantity].groupby("steps").value.mean())[::-1] for run in runs]
        if all(map(len, kls)):
            target = max(kl.min() for kl in kls)
            ends = [np.interp(target, kl.cummax(), value) for kl, value in zip(kls, values, strict=True)]
            leads.append(ends[1] - ends[0])
    return np.mean(leads)


SIZES = (("d24", "descent"), ("d96", "descent"))
ADVERSARY = (("d48", "other descent: adversarial, λ = 0.003"), ("d48", "descent"))


@every_language
def test_the_gain_of_size(records, main_rows, language):
    gain = lead(records[language], SIZES, "accuracy", np.array)
    assert main_rows["mean"][language, "size"] == pytest.approx(gain, abs=1e-6)


@every_language
def test_the_ratio_of_traces(records, main_rows, language):
    ratio = np.exp(-lead(records[language], SIZES, "trace", np.log))
    assert main_rows["mean"][language, "flatness by size"] == pytest.approx(ratio, rel=1e-6)


def test_what_masks_of_15_percent_change(exact):
    record, effect = exact
    masks = (("d48", "descent"), ("d48", "other descent: mask-rate, rate = 0.15"))
    assert effect["mask rate"] == pytest.approx(lead(record, masks, "accuracy", np.array), abs=1e-6)


def test_what_an_adversary_takes(exact):
    record, effect = exact
    assert effect["adversary"] == pytest.approx(lead(record, ADVERSARY, "accuracy", np.array), abs=1e-6)
    sharper = np.exp(-lead(record, ADVERSARY, "trace", np.log))
    assert effect["flatness by adversary"] == pytest.approx(sharper, rel=1e-6)


def test_the_smallest_size_beside_an_adversarys(record):
    ends = record[(record.steps == 2500) & (record.lr == 0.005) & (record.reading == "expanded")]
    mean = ends.groupby(["replicate", "model", "stage"]).value.mean().unstack(["model", "stage"])
    rows = part_one.recorded_answers().query("row == 'AdamW at the smallest size'")
    assert rows["mean"].iloc[0] == pytest.approx((mean[SIZES[0]] - mean[ADVERSARY[0]]).mean(), abs=1e-6)


def test_what_sam_finds(exact):
    record, effect = exact
    sam = (("d48", "descent"), ("d48", "other descent: sam, radius = 0.05"))
    assert effect["accuracy by regularisers"] == pytest.approx(
        lead(record, sam, "accuracy", np.array), abs=1e-6
    )
    flatter = np.exp(-lead(record, sam, "trace", np.log))
    assert effect["flatness by regularisers"] == pytest.approx(flatter, rel=1e-6)


def test_what_treatments_of_one_model_do(exact):
    record, effect = exact
    rows = record[record.stage.str.startswith("treated, cooled: ") & record.reading.isin(["expanded", ""])]
    mean = rows.groupby(["replicate", "model", "stage", "quantity"]).value.mean().unstack()
    change = mean.assign(trace=-np.log(mean.trace))[["trace", "accuracy"]]
    change -= (
        change.xs("treated, cooled: sgd-noise, s = 0", level="stage")
        .reindex(change.index.droplevel("stage"))
        .to_numpy()
    )
    by_model = change.groupby(["replicate", "model"])
    slope = by_model.apply(lambda x: (x.trace * x.accuracy).sum() / (x.trace**2).sum())
    assert effect["flatness as a cause"] == pytest.approx(slope.groupby("replicate").mean().mean(), abs=1e-6)


@every_language
def test_the_change_along_the_plateau(records, main_rows, language):
    rows = records[language].query(f"stage == 'plateau' and reading == 'expanded' and {ENCODERS}")
    mean = rows.groupby("steps").value.mean()
    assert main_rows["mean"][language, "steps"] == pytest.approx(mean.iloc[-1] - mean.iloc[0], abs=1e-6)


@every_language
def test_traces_along_the_plateau_and_holms_interval(records, main_rows, language):
    """Of all comparisons on the grammar this has the smallest p-value, so its level is 1 - 0.05 / 22."""
    rows = records[language].query(f"stage == 'plateau' and quantity == 'trace' and {ENCODERS}")
    logs = np.log(rows.set_index(["replicate", "model", "steps"]).value).unstack("steps")
    falls = (logs.iloc[:, 0] - logs.iloc[:, -1]).groupby("replicate").mean()
    row = main_rows.loc[language, "flatness by steps"]
    assert row["mean"] == pytest.approx(np.exp(falls.mean()), rel=1e-6)
    if language == "grammar":
        half = stats.t.ppf(1 - 0.05 / 44, len(falls) - 1) * falls.sem()
        assert (row.low, row.high) == pytest.approx(tuple(np.exp(falls.mean() + np.array([-half, half]))))


def test_the_gain_over_the_lookup_table(exact):
    record, effect = exact
    rate = RATE[record.language.iloc[0]]
    lookup = record[record.reading == "lookup, expanded"].value.mean()
    ends = record[(record.stage == "descent") & (record.lr == rate) & (record.steps == 2500)]
    worst = ends[ends.reading == "expanded"].groupby("model").value.mean().min()
    assert effect["lookup"] == pytest.approx(worst - lookup, abs=1e-6)


def test_draws_of_the_grammar_were_accepted_by_the_protocols_rule(record):
    """No class has more than half of the sentences, and bare tokens leave 15 points."""
    rows = record.set_index("reading").value
    assert rows["majority"].max() <= 50
    assert rows[["tokens, features", "tokens, expanded"]].max() <= 85


@pytest.mark.parametrize(("seed", "share"), [(2, 78), (7, 54), (10, 55)])
def test_draws_that_the_protocol_refuses_have_a_class_of_more_than_half(seed, share):
    language = replace(GRAMMAR, seed=seed).build()
    sentences = language.sample(5000, torch.Generator().manual_seed(seed))
    found = [labels(language, sentences, task, "posterior") for task in ("root", "span2")]
    largest = max(float(own[own >= 0].bincount().max() / (own >= 0).sum()) for own in found)
    assert 100 * largest == pytest.approx(share, abs=2)
