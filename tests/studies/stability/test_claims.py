"""Results by seed and size; claims and statements, confirmed and refuted as planted; tables and figures."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss.statistics.intervals import Interval
from sameloss.studies.stability import claims, show
from sameloss.studies.stability.claims import (
    AGREE,
    BETA,
    EVERY,
    GAP,
    STATEMENTS,
    TOPICS,
    Stability,
    agree,
    checks,
    effect_of,
    falls_of,
    seed_interval,
)
from sameloss.studies.stability.experiment import PRESETS, THEIRS_2A, THEIRS_2B, THEIRS_LR
from sameloss.studies.stability.theory import gap_bound
from sameloss.studies.stability.training import GRID
from sameloss.studies.statement import statement_table
from sameloss.studies.verdict import verdict_table

LAPTOP, PAPER = PRESETS["laptop"], PRESETS["paper"]

ALL = [claim for topic in TOPICS for claim in topic.claims]
HERE = [claim.id for claim in ALL if not claim.id.startswith("stab-own")]


# Results by seed, size, stop and kind.

SIZES = (80, 160, 320)
EXPONENTS = {GAP: -1.0, BETA: -0.25, "distance": 0.5}


@pytest.fixture(scope="module")
def laws():
    """Power laws with a factor of each seed; the second pair has twice the first, later stops have less."""
    rows, paths = [], []
    for number, kind in enumerate(LAPTOP.kinds):
        for size in SIZES:
            for seed in (100, 101, 102):
                for pair in (0, 1):
                    for stop, step in enumerate(kind.stops):
                        law = {
                            name: size**b * seed * (1 + pair) / (1 + stop) for name, b in EXPONENTS.items()
                        }
                        about = {"kind": kind.name, "size": size, "seed": seed, "pair": pair, "step": step}
                        rows.append({**about, "norm": 1.0, **law})
                    fall = np.where(np.isclose(GRID, 0.48), number * pair / 100, 0.0)
                    alphas = pd.DataFrame({"alpha": GRID, "test": 0.9 - fall, "trained": 1 - fall})
                    paths.append(alphas.assign(kind=kind.name, size=size, seed=seed, pair=pair))
    return Stability(LAPTOP.kinds, SIZES, pd.DataFrame(rows), falls_of(pd.concat(paths)))


def test_values_are_by_seed_and_size(laws):
    kind = laws.kinds[2]
    values = laws.values(kind, GAP)
    assert values.shape == (3, 3)
    assert values[1, 2] == pytest.approx(101 * 2 / 320 / 2)
    assert laws.values(kind, GAP, stop=0)[1, 2] == pytest.approx(101 * 2 / 320)


def test_exponents_are_by_seed(laws):
    for measure, b in EXPONENTS.items():
        assert laws.exponents(laws.kinds[0], measure) == pytest.approx([b] * 3)
    assert laws.slower(laws.kinds[0], BETA, GAP) == pytest.approx([0.75] * 3)


def test_barriers_are_in_points_of_each_path(laws):
    falls = laws.falls.query("kind == 'perceptron, momentum' and seen == 'test'")
    assert falls.groupby("pair").barrier.mean().tolist() == pytest.approx([0.0, 3.0])
    assert laws.worst_barrier(laws.kinds[3]) == pytest.approx([3.0] * 3)


def test_the_least_of_kinds_is_taken_seed_by_seed(laws):
    deep = ["perceptron", "perceptron, momentum", "CNN", "CNN, momentum"]
    effects = dict(zip(deep, ([1.0, 5.0], [4.0, 2.0], [3.0, 3.0], [3.0, 4.0]), strict=True))
    assert effect_of(EVERY, lambda _, kind: np.array(effects[kind.name]))(laws).value == 1.5
    assert effect_of("CNN", lambda _, kind: np.array(effects[kind.name]))(laws).value == 3
    assert np.isnan(effect_of("forest", lambda _, kind: np.zeros(2))(laws).value)


def test_a_seed_without_a_value_leaves_nothing():
    assert np.isnan(seed_interval(np.array([1.0, np.nan])).value)
    assert seed_interval(np.array([1.0, 3.0])).value == 2


# Claims.


class Planted(Stability):
    """Exponents of the thesis, the same for every seed but for a little."""

    law: dict

    def exponents(self, kind, measure, stop=1):
        spread = np.array([-0.01, 0.0, 0.01])
        return self.law.get((kind.name, measure), self.law.get(measure, 0.0)) + spread * (measure == GAP)

    def worst_barrier(self, kind):
        return np.full(3, 0.5 if kind.name in ("perceptron", "CNN") else 5.0)


THESIS = {
    GAP: -1.0,
    "gap 0-1": -0.7,
    "gap Brier": -1.0,
    BETA: -0.1,
    "others total variation": -0.1,
    "others cross-entropy": -0.1,
    "distance": 0.2,
    "norm": 0.1,
    "normalised": 0.1,
    ("logistic regression", BETA): -1.1,
    ("logistic regression", "distance"): -1.1,
}


def planted(law, results):
    made = Planted(LAPTOP.kinds, LAPTOP.sizes, results.twins, results.falls)
    object.__setattr__(made, "law", law)
    return made


@pytest.fixture
def fits(monkeypatch):
    monkeypatch.setattr(claims, "FITTED", 1.0)


def test_every_claim_is_confirmed_where_the_thesis_is_right(results, fits):
    table = verdict_table(TOPICS, planted(THESIS, results))
    assert table.id.tolist() == [claim.id for claim in ALL]
    assert set(table[table.id.isin(HERE)].verdict) == {"direction confirmed"}
    assert set(table[~table.id.isin(HERE)].verdict) == {"not testable here"}


def test_the_thesis_own_trainings_are_judged_by_its_own_numbers(results):
    """Planted as published, they are reproduced; planted alike, most are not."""
    law = THESIS | {
        (THEIRS_LR, GAP): -1.13,
        (THEIRS_LR, "gap 0-1"): -0.82,
        (THEIRS_2A, GAP): -0.45,
        (THEIRS_2B, BETA): -0.17,
    }
    made = planted(law, results)
    object.__setattr__(made, "kinds", PAPER.kinds)
    table = verdict_table(TOPICS, made).set_index("id").verdict
    published = [claim.id for claim in ALL if claim.value is not None]
    assert len(published) == 4
    assert (table[published] == "reproduced").all()
    assert (table[["stab-own-1a", "stab-own-2a", "stab-own-2b-path"]] == "direction confirmed").all()
    assert table["stab-own-1a-path"] == "contradicted"  # 5 points are planted
    made.law[THEIRS_2B, BETA] = -0.4
    assert verdict_table(TOPICS, made).set_index("id").verdict["stab-own-2b"] == "larger than published"


def test_every_claim_is_contradicted_where_all_falls_alike(results, fits):
    """But those that say that it does."""
    law = dict.fromkeys(THESIS, -1.2) | {GAP: -1.0, "gap Brier": -1.0}
    table = verdict_table(TOPICS, planted(law, results)).set_index("id").verdict[HERE]
    alike = ["stab-lr-beta", "stab-lr-distance", "stab-gaps"]
    alike += [f"stab-path-{id}" for id in ("plain", "momentum", "cnn", "cnn-momentum")]
    assert (table[alike] == "direction confirmed").all()
    assert (table.drop(alike) == "contradicted").all()


def test_ids_are_the_books_own():
    assert len({claim.id for claim in ALL}) == len(ALL)
    assert all(claim.id.startswith("stab-") and claim.page == "ii2_stability" for claim in ALL)


def test_what_has_not_fitted_its_sample_says_nothing_about_a_wide_basin(results):
    table = verdict_table(TOPICS, results).set_index("id").verdict
    assert table["stab-convex"] == "not testable here"


def test_a_model_that_was_left_out_is_not_judged(results):
    alone = replace(results, kinds=results.kinds[:1])
    table = verdict_table(TOPICS, alone).set_index("id").verdict
    of_others = [name for name in table.index if not name.startswith("stab-lr")]
    assert (table[of_others] == "not testable here").all()


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        (Interval(0.0, -0.1, 0.1), (AGREE, AGREE - 0.1, AGREE)),
        (Interval(-0.3, -0.4, -0.2), (AGREE - 0.3, AGREE - 0.4, AGREE - 0.2)),
        (Interval(0.5, 0.4, 0.6), (AGREE - 0.5, AGREE - 0.6, AGREE - 0.4)),
    ],
)
def test_agreement_counts_both_directions(difference, expected):
    assert agree(difference) == pytest.approx(expected)
    assert np.isnan(agree(Interval(np.nan, np.nan, np.nan)).value)


# The exact statement.


def test_the_bound_is_that_of_the_largest_gap_and_beta(results):
    kind, size = results.kinds[2], results.sizes[1]
    pairs = results.at(kind).query("size == @size")
    alone = replace(results, kinds=(kind,), sizes=(size,), twins=pairs)
    gap, beta = (pairs[[f"{of} Brier"]].max().to_numpy(float) for of in ("gap", "beta"))
    value = (
        checks(alone).set_index("text").value["Brier: the largest gap over the bound, all sizes and models"]
    )
    assert value == pytest.approx((gap / gap_bound(beta, np.array([size]))).item())
    assert set(statement_table(STATEMENTS, checks(results)).verdict) == {"holds"}


def test_a_gap_above_its_bound_refutes_the_statement(results):
    wide = replace(results, twins=results.twins.assign(**{"gap Brier": 1e3}))
    assert set(statement_table(STATEMENTS, checks(wide)).verdict) == {"fails: counter-example"}


# Tables and figures.


def lines(ax):
    return {line.get_label(): line.get_xydata() for line in ax.lines if not line.get_label().startswith("_")}


def test_decay_is_over_the_mean_at_the_least_size(results, ax):
    kind = results.kinds[3]
    drawn = lines(show.decay(results, "β", ax))
    values = results.values(kind, BETA)
    assert list(drawn) == [*(kind.name for kind in results.kinds), "1/m"]
    assert drawn[kind.name][:, 0].tolist() == list(results.sizes)
    assert drawn[kind.name][:, 1] == pytest.approx(values.mean(0) / values[:, 0].mean())
    assert drawn["1/m"][:, 1] == pytest.approx(results.sizes[0] / np.array(results.sizes))
    assert ax.get_title() == "β"


def test_the_summary_writes_every_exponent(results, ax):
    texts = [text.get_text() for text in show.summary(results, ax).texts]
    assert len(texts) == len(results.kinds) * (len(show.SUMMARY) + 1)
    value, low, high = seed_interval(results.exponents(results.kinds[0], GAP))
    assert texts[0] == f"{value:.2f}" + "?" * (low <= 0 <= high)
    assert texts[len(show.SUMMARY)] == f"{results.worst_barrier(results.kinds[0]).max():.1f}"


def test_differences_are_those_of_the_exponents(results, ax):
    drawn = lines(show.differences(results, show.LOSSES, ax))
    assert set(drawn) == set(show.LOSSES)
    assert drawn["cross-entropy"][0, 0] == pytest.approx(results.slower(results.kinds[0], BETA, GAP).mean())


def test_stops_are_drawn_by_kind(results, ax):
    drawn = lines(show.differences(results, show.STOPS, ax))
    expected = results.slower(results.kinds[2], BETA, GAP, stop=2).mean()
    assert drawn["half as many again"][2, 0] == pytest.approx(expected)


def test_paths_are_of_the_largest_samples(page, results, ax):
    kind = results.kinds[2]
    drawn = lines(show.paths(page.paths, [kind], "test", ax))[kind.name]
    longest = page.paths[(page.paths.kind == kind.name) & (page.paths["size"] == results.sizes[-1])]
    at = longest[longest.alpha == 0.4].test.mean()
    assert drawn[np.isclose(drawn[:, 0], 0.4), 1] == pytest.approx(100 * at)


def test_every_table_has_a_row_for_what_it_is_about(results):
    kinds = [kind.name for kind in results.kinds]
    table = show.exponent_table(results)
    assert table.columns.tolist() == ["exponent of", *kinds]
    value = results.exponents(results.kinds[3], BETA).mean()
    assert table.set_index("exponent of")[kinds[3]]["β"].startswith(f"{value:.2f} (")


def test_levels_are_means_of_pairs_and_seeds(results):
    table = show.level_table(results)
    assert table.m.tolist() == [40, 160] * len(results.kinds)
    row = table.query("model == 'perceptron' and m == 160").iloc[0]
    pairs = results.at(results.kinds[2]).query("size == 160")
    assert (row.gap, row["test error"]) == pytest.approx((pairs[GAP].mean(), pairs.error.mean()))


def test_a_seed_has_the_largest_of_its_pairs(results):
    table = show.by_seed(results)
    assert len(table) == len(results.kinds) * len(results.sizes) * 2
    rows = table.query("kind == 'perceptron' and size == 80").sort_values("seed")
    assert rows[BETA].to_numpy() == pytest.approx(results.values(results.kinds[2], BETA)[:, 1])


# Sentences.


def test_findings_are_computed_from_planted_laws(laws):
    assert show.summary_finding(laws).endswith(
        "falls in 6 of 6 kinds of training, β in 6, and the distance between twins in 0."
    )
    assert "25 to 25 % of their gap at m = 80, and 71 to 71 % of their β" in show.decay_finding(laws)
    assert show.differences_finding(laws, show.STOPS).endswith(
        "in 12 of 12 comparisons, and in every one for "
        "perceptron and perceptron with momentum and CNN and CNN with momentum."
    )
    assert "at most 5.0 points" in show.paths_finding(laws)
    assert show.slower_in_words(laws).startswith("logistic regression +0.75 (+0.75 to +0.75); random")


def test_findings_turn_round_with_the_data(laws):
    growing = replace(laws, twins=laws.twins.assign(**{GAP: laws.twins[BETA], BETA: laws.twins[GAP]}))
    assert "71 to 71 % of their gap at m = 80, and 25 to 25 % of their β" in show.decay_finding(growing)
    finding = show.differences_finding(growing, show.STOPS)
    assert finding.endswith("in 0 of 12 comparisons.")


def test_a_page_of_one_convex_model_has_findings(laws):
    alone = replace(laws, kinds=laws.kinds[:1])
    assert [kind.name for kind in show.networks(alone)] == ["logistic regression"]
    assert "in 1 of 1" in show.summary_finding(alone)
    assert "convex models have" in show.decay_finding(alone)
    assert "at most 0.0 points" in show.paths_finding(alone)


def test_every_finding_is_one_sentence(results):
    findings = [
        show.summary_finding(results),
        show.decay_finding(results),
        show.differences_finding(results, show.LOSSES),
        show.differences_finding(results, show.STOPS),
        show.paths_finding(results),
    ]
    assert all(text.endswith(".") and "*" not in text and "nan" not in text for text in findings)
