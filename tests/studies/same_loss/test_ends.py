"""Five sizes down to their ends, and what was seen before: planted data, the protocol's runs, a small one."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from cells import computed, definitions, listed

from sameloss.book.cells import opened
from sameloss.runs.pretraining import CoolDown
from sameloss.store.record import kept_runs
from sameloss.store.store import Store
from sameloss.studies.same_loss.saturated import CAPACITY, OWN, TUNED
from sameloss.training.objectives import EXACT, ORDINARY

page = definitions("02_ends")

PARAMETERS = pd.Series({"d24": 20_000, "d48": 80_000, "d96": 320_000})
DOUBLINGS = np.log2(PARAMETERS / 20_000)
LR, DRAWS, CELL = 0.005, 5, ["replicate", "stage", "model", "lr", "steps"]
KLS = {
    "d24": {1250: 12.0, 2500: 7.0, 5000: 4.5, 10_000: 2.5},
    "d48": {1250: 11.0, 2500: 3.0, 5000: 1.5},
    "d96": {312: 20.0, 625: 5.0, 1250: 2.8, 2500: 0.7},
}
"""Of the bag of words', in percent, by steps of complete trainings."""

ADVERSARIES = ("other descent: adversarial, λ = 0.003", "other descent: adversarial, λ = 0.012")
CONTINUED = {
    "d24": [("plateau", 7500, 8.0), *(("after label noise", n, kl) for n, kl in ((50, 4.0), (800, 3.0)))],
    "d48": [("cooled", 1250, 2.2), ("cooled", 7500, 2.25), ("plateau", 1250, 6.0), ("plateau", 7500, 6.3)],
    "d96": [("plateau", 7500, 4.0), *(("after label noise", n, kl) for n, kl in ((50, 3.3), (800, 1.5)))],
}
TREATED = ("sgd-noise, s = 0", "sgd-noise, s = 1", "penalty-after, μ = 0.01", "sharpen-after, μ = 0.03")


def planted(accuracy, trace=lambda stage, model, kl, steps: 200.0, kls=KLS, spread=0.1):
    """Compare cells whose accuracy and trace are functions of stage, model, KL and steps, with some noise."""
    rng, rows = np.random.default_rng(0), []
    places = [("descent", model, steps, kl) for model, own in kls.items() for steps, kl in own.items()]
    places += [(stage, model, steps, kl) for model, own in CONTINUED.items() for stage, steps, kl in own]
    places += [(f"treated, cooled: {name}", "d48", 2000, 1.6) for name in TREATED]
    places += [
        (stage, "d48", steps, times * kl)
        for (steps, kl), (stage, times) in product(
            kls["d48"].items(), zip(ADVERSARIES, (1.2, 5.0), strict=True)
        )
    ]
    for draw in range(DRAWS):
        level = rng.normal(0, 5)
        for stage, model, steps, kl in places:
            own = level + accuracy(stage, model, kl, steps) + rng.normal(0, spread)
            logs = np.log(trace(stage, model, kl, steps)) + rng.normal(0, spread / 10, 2)
            rows.append((draw, stage, model, LR, steps, kl, *logs, own, own))
    columns = [*CELL, "kl", "log trace", "log relative trace", OWN, page.AS_MANY]
    cells = pd.DataFrame(rows, columns=columns).set_index(CELL)
    levels = cells.xs(("descent", "d24", 1250), level=("stage", "model", "steps"))[OWN].droplevel("lr")
    read = {
        f"{name}, {of}": levels - 10
        for name in ("tokens", "lookup", "lookup and tokens")
        for of in ("features", "expanded")
    }
    no_model = pd.DataFrame({"majority": levels - 25} | read)
    return page.compared(cells, no_model, PARAMETERS)


def of_size(points):
    """Accuracies that rise by so many points a doubling of parameters, whatever the KL."""
    return lambda stage, model, kl, steps: 60 + points * DOUBLINGS[model]


def of_kl(stage, model, kl, steps):
    """Accuracies that are a function of the KL."""
    return 70 - 3 * np.log2(kl)


def effect_of(found, *pair):
    parts = found.pairs[*pair, OWN]
    return {name: parts[name].mean() for name in ("total", "remaining", "size")}


class TestFromEndToEnd:
    def test_what_is_all_remaining_kl(self):
        found = planted(of_kl)
        whole = 3 * np.log2(2.5 / 0.7)
        expected = pytest.approx({"total": whole, "remaining": whole, "size": 0.0}, abs=0.3)
        assert effect_of(found, "d24", "d96") == expected
        answer = found.answers["d24", "d96", OWN]
        assert answer.verdict[:2] == ("open", "negligible")
        assert found.pairs["d24", "d96", OWN].kl.tolist() == pytest.approx([2.5] * DRAWS)

    def test_what_is_all_size(self):
        found = planted(of_size(2.0))
        expected = pytest.approx({"total": 8.0, "remaining": 0.0, "size": 8.0}, abs=0.3)
        assert effect_of(found, "d24", "d96") == expected
        assert found.answers["d24", "d96", OWN].verdict[:2] == ("supported", "larger than published")
        assert found.answers["d24", "d48", OWN].effect.value == pytest.approx(4.0, abs=0.3)

    @pytest.mark.parametrize(("points", "words"), [(0.0, "negligible"), (6.9 / 8, "as published")])
    def test_its_size_is_in_proportion_to_doublings(self, points, words):
        found = planted(of_size(points))
        pairs = [("d24", "d96"), ("d24", "d48"), ("d48", "d96")]
        assert {found.answers[*pair, OWN].verdict.size for pair in pairs} == {words}

    def test_a_larger_model_that_is_worse(self):
        answer = planted(of_size(-2.0)).answers["d24", "d96", OWN]
        assert answer.verdict.direction == "against"

    def test_the_split_is_symmetric(self):
        """If the small model comes further down, what is left is its own."""
        kls = KLS | {"d96": {312: 20.0, 625: 8.0, 1250: 5.0}}
        both = planted(
            lambda stage, model, kl, steps: of_kl(stage, model, kl, steps) + DOUBLINGS[model], kls=kls
        )
        expected = {"total": 4 - 3, "remaining": -3.0, "size": 4.0}
        assert effect_of(both, "d24", "d96") == pytest.approx(expected, abs=0.3)
        assert both.pairs["d24", "d96", OWN].kl.tolist() == pytest.approx([5.0] * DRAWS)

    def test_without_a_common_kl_it_is_not_testable(self):
        kls = KLS | {"d96": {1250: 2.0, 2500: 0.7}}
        verdict = planted(of_kl, kls=kls).answers["d24", "d96", OWN].verdict
        assert verdict == ("not testable", None, "no KL in common")

    def test_little_room_is_told(self):
        verdict = planted(lambda *_: 99.5).answers["d24", "d96", OWN].verdict
        assert "points to gain" in verdict.reason


class TestRegression:
    def test_slopes_are_found(self):
        def accuracy(stage, model, kl, steps):
            return (
                50 + 0.7 * DOUBLINGS[model] - 2 * np.log2(kl) if kl < 6 else 0.0
            )  # as if it went on otherwise

        slopes = planted(accuracy, spread=0.0).slopes
        assert slopes.doubling.tolist() == pytest.approx([0.7] * DRAWS)
        assert slopes.halving.tolist() == pytest.approx([2.0] * DRAWS)

    def test_a_single_size_has_no_slope(self):
        found = planted(of_kl)
        slopes = page.slopes_of(found.cells.xs("d24", level="model", drop_level=False), PARAMETERS, LR)
        assert slopes.empty
        assert page.answered("doubling", slopes.doubling).verdict.direction == "not testable"


def changed(gain, flatter, stages):
    """Models of some stages that have more accuracy, and a smaller trace by so many e-folds."""

    def accuracy(stage, model, kl, steps):
        return 60 + gain * stages(stage, steps)

    def trace(stage, model, kl, steps):
        return 200 * np.exp(-flatter * stages(stage, steps))

    return planted(accuracy, trace)


class TestSeenBefore:
    def test_a_plateau_that_helps_and_flattens(self):
        found = changed(1.6, 0.5, lambda stage, steps: stage == "cooled" and steps == 7500)
        assert found.answers["plateau"].effect.value == pytest.approx(1.6, abs=0.2)
        assert found.answers["plateau"].verdict[:2] == ("supported", "as published")
        assert found.answers["plateau", "flatter"].effect.value == pytest.approx(0.5, abs=0.05)
        assert found.answers["plateau, as it is"].verdict.direction == "open"

    def test_a_treatment_that_flattens_and_does_nothing_else(self):
        found = changed(0.0, 1.0, lambda stage, steps: "penalty" in stage)
        name = "penalty-after, μ = 0.01"
        assert found.answers[name, "flatter"].effect.value == pytest.approx(1.0, abs=0.05)
        assert abs(found.answers[name].effect.value) < 0.2
        assert found.answers["sgd-noise, s = 1", "flatter"].verdict.direction == "open"
        assert not any("s = 0" in str(of) for of in found.answers)

    def test_models_whose_kls_differ_are_not_compared(self):
        found = planted(of_kl)
        cells = found.cells.copy()
        cells.loc[(slice(None), "cooled", "d48", LR, 7500), "kl"] *= 1.3
        answers = page.compared(cells, found.no_model, PARAMETERS).answers
        assert answers["plateau"].verdict.reason == "their KLs differ by a factor of 1.33"
        assert answers["plateau", "flatter"].verdict.direction == "not testable"

    def test_a_treatment_whose_kl_differs_is_left_out_of_the_words(self):
        found = changed(-2.0, 1.0, lambda stage, steps: "penalty" in stage)
        assert "(3 of 3 are testable)" in page.treatments_in_words(found)
        assert "flattened, μ = 0.01" in page.treatments_in_words(found)
        cells = found.cells.copy()
        cells.loc[(slice(None), "treated, cooled: penalty-after, μ = 0.01"), "kl"] *= 1.5
        fewer = page.compared(cells, found.no_model, PARAMETERS)
        assert "(2 of 3 are testable)" in page.treatments_in_words(fewer)
        cells.loc[(slice(None), "treated, cooled: sgd-noise, s = 0"), "kl"] /= 1.5
        assert "not testable" in page.treatments_in_words(page.compared(cells, found.no_model, PARAMETERS))

    def test_the_lead_after_label_noise_is_taken_at_one_kl(self):
        """d = 96 beside d = 24, at 3 %."""

        def accuracy(stage, model, kl, steps):
            return of_kl(stage, model, kl, steps) + (4.0 if model == "d96" else 0.0)

        found = planted(accuracy)
        assert found.beside["after label noise"].kl.tolist() == pytest.approx([3.0] * DRAWS)
        assert found.beside["after label noise"].factor.tolist() == pytest.approx([1.0] * DRAWS)
        assert found.answers["after label noise"].effect.value == pytest.approx(4.0, abs=0.3)
        assert found.answers["before cooling"].effect.value == pytest.approx(4 + 3, abs=0.3)
        assert "factor of 2.00" in found.answers["before cooling"].verdict.reason

    @pytest.mark.parametrize(("times", "reason"), [(1.05, ""), (1.2, "their KLs differ by a factor of 1.20")])
    def test_kls_after_label_noise_may_be_a_tenth_apart(self, times, reason):
        found = planted(of_size(1.0))
        cells = found.cells.copy()
        for steps, kl in ((50, 3.0 / times), (800, 1.0)):
            cells.loc[(slice(None), "after label noise", "d96", LR, steps), "kl"] = kl
        compared = page.compared(cells, found.no_model, PARAMETERS)
        assert compared.answers["after label noise"].verdict.reason == reason
        assert compared.beside["after label noise"].factor.tolist() == pytest.approx([times] * DRAWS)


class TestAdversaries:
    def test_the_weakest_within_a_factor_of_two_is_described(self):
        assert planted(of_kl).described == 0.003
        far = {strength: pd.DataFrame({"factor": [2.5, 3.0]}) for strength in (0.003, 0.012)}
        assert page.described(far) is None
        assert page.described({}) is None
        near = {strength: pd.DataFrame({"factor": [1.0, 1.9]}) for strength in (0.012, 0.003, 0.05)}
        assert page.described(near | {0.0003: far[0.003]}) == 0.003
        lower = {0.003: pd.DataFrame({"factor": [0.4, 0.4]}), 0.05: pd.DataFrame({"factor": [0.6, 0.6]})}
        assert page.described(lower) == 0.05

    def test_one_at_the_floor(self):
        """25 points below a model without it, and sharper."""

        def accuracy(stage, model, kl, steps):
            return 60 - 25 * ("adversarial" in stage) + 25 * (stage == "descent" and model == "d48")

        def trace(stage, model, kl, steps):
            return 200 * (1 + ("adversarial" in stage))

        found = planted(accuracy, trace)
        worse, sharper = found.answers[0.003], found.answers[0.003, "flatter"]
        assert worse.effect.value == pytest.approx(50, abs=0.3)
        assert worse.verdict[:2] == ("supported", "larger than published")
        assert np.exp(sharper.effect.value) == pytest.approx(2.0, rel=0.05)
        assert found.adversaries[0.003].above.mean() == pytest.approx(0.0, abs=0.3)
        assert found.adversaries[0.003].factor.tolist() == pytest.approx([1.2] * DRAWS)
        assert "at the floor" in page.adversary_in_words(found)

    def test_one_that_does_nothing(self):
        found = planted(of_kl)
        assert found.answers[0.003].verdict.direction == "open"
        assert abs(found.answers[0.003].effect.value) < 0.3  # at equal KL, though its own KL is larger
        assert "This is not the drop" in page.adversary_in_words(found)

    def test_one_far_away_has_no_kl_in_common(self):
        """From 15 % on, where AdamW's first length is at 11."""
        kls = KLS | {"d48": {1250: 11.0, 2500: 10.0, 5000: 9.5}}
        found = planted(of_kl, kls=kls)
        assert found.answers[0.012].verdict.reason == "no KL in common"
        assert list(page.adversary_rows(found))[1][2] == "–"


def test_the_lookup_table_is_beside_each_size_at_its_end():
    found = planted(of_size(1.0))
    leads = {model: found.answers["lookup", model].effect.value for model in PARAMETERS.index}
    assert leads == pytest.approx({"d24": 10, "d48": 12, "d96": 14}, abs=0.3)
    *_, (model, own, many, *_) = page.lookup_rows(found)
    assert model == "d = 96"
    assert own == many == pytest.approx(found.no_model["lookup and tokens, features"].mean() + leads["d96"])


WAYS = {"nothing": of_size(0.0), "size": of_size(2.0), "worse": of_size(-2.0), "KL": of_kl}


@pytest.mark.parametrize("way", WAYS)
def test_every_sentence_can_be_said(way):
    """Whoever leads: no riddles, and no number without a value."""
    found = planted(WAYS[way])
    said = [page.ends_in_words(found), page.seen_in_words(found), page.adversary_in_words(found)]
    assert not any(word in text for text in said for word in ("nan", "None", "s by -", "-0.0 "))
    if way in ("size", "worse"):
        assert ("trails by" in said[0]) == (way == "worse")
    for rows in (
        page.ladder_rows,
        page.reading_rows,
        page.beside_rows,
        page.adversary_rows,
        page.lookup_rows,
    ):
        assert list(rows(found))


# Its runs.


def runs_by_kind(runs):
    """Measurements by width, step and how the model was trained, of one draw."""
    found = set()
    for run in runs:
        if run.kind == "ModelMeasurement":
            t = run.training
            kind = "cooled" if isinstance(t, CoolDown) else "continued" if t.origin else "descent"
            weight = t.objective.adversary and t.objective.adversary.weight
            found.add((t.shape.d_model, t.optimisation.steps, run.step, kind, weight))
    return found


def test_what_the_first_edition_has_is_read_from_its_record():
    """And only the protocol's lengths, and what continues from them, are new."""
    kept = kept_runs()
    page = opened("02_ends", {"preset": "workstation", "seeds": 1}, kept)
    told = {"preset": "workstation", "language": "grammar", "seeds": 1}
    first = [run for name in ("04_flatness", "a4_algorithms") for run in opened(name, told, kept).runs()]
    keys = {run.key for run in first}
    own = {run.key: run for run in page.runs()}
    assert all(map(kept.has, first))
    assert runs_by_kind(run for key, run in own.items() if key not in keys) == {
        *((24, n, n, "descent", None) for n in (5000, 10_000)),
        *((32, n, n, "descent", None) for n in (5000, 10_000)),
        (48, 5000, 5000, "descent", None),
        (96, 1750, 1750, "descent", None),
        *((48, n, n, "descent", s) for n in (312, 625, 1250, 2500) for s in (0.0003, 0.001)),
        *((48, 7500, n, "continued", None) for n in (1250, 2500, 5000, 7500)),
        (48, 2000, 2000, "continued", None),
        (48, 2000, 2000, "cooled", None),
        (24, 7500, 7500, "continued", None),
        *((d, n, n, "continued", None) for d in (24, 96) for n in (50, 200, 800)),
    }
    untrained = [run for run in own.values() if run.kind == "ModelMeasurement" and not run.step]
    assert len(untrained) == 5


def test_what_continues_does_so_from_the_longest_training():
    """Of 5,000 steps for d = 48, 10,000 for d = 24; with batches that no other part has."""
    runs = opened("02_ends", {"preset": "workstation", "seeds": 1}, kept_runs()).runs()
    trainings = {run.training for run in runs if run.kind == "ModelMeasurement" and run.training.origin}
    begun = {(t.shape.d_model, t.origin.optimisation.steps) for t in trainings if t.origin.origin is None}
    assert begun == {(24, 10_000), (48, 5000), (96, 2500)}
    fixed = [t for t in trainings if t.seed == 4 + 4000]
    assert {(t.optimisation.steps, t.origin_step, t.optimisation.lr) for t in fixed} == {
        (n, 7500, 0.0005) for n in (50, 200, 800)
    }
    assert all(t.optimisation.schedule == "linear" and t.optimisation.lr_at(0) == 0.0005 for t in fixed)
    assert all(t.objective == EXACT and t.origin.objective == ORDINARY for t in fixed)
    assert {t.corpus.seed for t in fixed}.isdisjoint(t.corpus.seed for t in trainings - {*fixed})


def test_the_default_is_recorded_but_for_the_lookup_table(tmp_path):
    runs = opened("02_ends", {}, Store(tmp_path, kept_runs())).runs()
    assert {run.kind for run in runs if not kept_runs().has(run)} <= {"LookupWithTokens"}


@pytest.mark.parametrize(
    ("given", "of_a_run"),
    [
        ({"lr": 0.0025}, lambda run: run.training.optimisation.lr == 0.0025),
        ({"batch": 64}, lambda run: run.training.optimisation.batch == 64),
        ({"sizes": "d48, d64"}, lambda run: run.training.shape.d_model in (48, 64)),
        ({"steps": "70, 30"}, lambda run: run.step in (0, 30, 70)),
        ({"trace_sentences": 100}, lambda run: run.measures.trace_sentences == 100),
    ],
)
def test_every_argument_of_the_experiment_can_be_set(tmp_path, given, of_a_run):
    runs = opened("02_ends", given, Store(tmp_path)).runs()
    assert all(of_a_run(run) for run in runs if run.kind == "ModelMeasurement")


@pytest.mark.parametrize(("given", "longest"), [({}, 60), ({"steps": "20"}, 20)])
def test_a_readers_longest_training_is_where_the_others_begin(given, longest):
    names = listed("02_ends", **given)
    measured = [run for run in names.page.runs() if run.kind == "ModelMeasurement"]
    ends = {run.training.origin.optimisation.steps for run in measured if run.training.origin}
    assert longest in ends


@pytest.mark.book
def test_the_smoke_preset_from_languages_to_answers(shared):
    names = computed("02_ends", Store(shared / "ends"), {"seeds": 1})
    found = names.page.results
    stages = found.cells.index.unique("stage")
    assert {"untrained", "descent", "cooled", "plateau", "after label noise"} < set(stages)
    assert sum("adversarial" in stage for stage in stages) == len(found.adversaries) == 2
    assert sum(stage.startswith("treated") for stage in stages) == 8
    assert [*found.beside][:2] == ["plateau", "plateau, as it is"]
    assert len(found.beside) == 2 + 3 + 2
    assert TUNED in found.cells
    assert CAPACITY not in found.cells  # its widths are those of the ladder
    both = found.no_model["lookup and tokens, features"]
    assert both.between(100 / 8, 100).all()
    assert set(found.lookup[OWN]) == {"d8", "d16"}
    parts = found.pairs["d8", "d16", OWN]
    assert (parts.total - parts.remaining - parts["size"]).abs().max() < 1e-9
