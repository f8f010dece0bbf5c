"""Claims: each is positive where what it says is planted, and undefined where there is nothing to say."""

from dataclasses import replace

import numpy as np
import pytest

from sameloss.statistics.bootstrap import Interval
from sameloss.studies.stability import claims
from sameloss.studies.stability.claims import AGREE, BETA, GAP, TOPICS, Stability, agree, judged
from sameloss.studies.stability.experiment import PRESETS, THEIRS_2A, THEIRS_2B, THEIRS_LR
from sameloss.studies.verdict import verdict_table

LAPTOP, PAPER = PRESETS["laptop"], PRESETS["paper"]

ALL = [claim for topic in TOPICS for claim in topic.claims]
HERE = [claim.id for claim in ALL if not claim.id.startswith("stab-own")]


class Planted(Stability):
    """Exponents of the thesis, the same for every seed but for a little."""

    law: dict

    def exponents(self, kind, measure, over="max", stop=1):
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
    "others clipped": -0.1,
    "gap clipped": -1.0,
    "others Brier": -0.1,
    "distance": 0.2,
    "norm": 0.1,
    "normalised": 0.1,
    ("logistic regression", BETA): -1.1,
    ("logistic regression", "distance"): -1.1,
}


def planted(law, found):
    made = Planted(LAPTOP.kinds, LAPTOP.sizes, found.table, found.falls)
    object.__setattr__(made, "law", law)
    return made


@pytest.fixture
def fits(monkeypatch):
    monkeypatch.setattr(claims, "FITTED", 1.0)


def test_every_claim_is_confirmed_where_the_thesis_is_right(found, fits):
    table = verdict_table(judged(planted(THESIS, replace(found, kinds=LAPTOP.kinds))))
    assert table.id.tolist() == [claim.id for claim in ALL]
    assert set(table[table.id.isin(HERE)].verdict) == {"direction confirmed"}
    assert set(table[~table.id.isin(HERE)].verdict) == {"not testable here"}


def test_the_thesis_own_trainings_are_judged_by_its_own_numbers(found):
    """Planted as published, they are reproduced; planted alike, most are not."""
    law = THESIS | {
        (THEIRS_LR, GAP): -1.13,
        (THEIRS_LR, "gap 0-1"): -0.82,
        (THEIRS_2A, GAP): -0.45,
        (THEIRS_2B, BETA): -0.17,
    }
    made = planted(law, found)
    object.__setattr__(made, "kinds", PAPER.kinds)
    table = verdict_table(judged(made)).set_index("id").verdict
    published = [claim.id for claim in ALL if claim.value is not None]
    assert len(published) == 4
    assert (table[published] == "reproduced").all()
    assert (table[["stab-own-1a", "stab-own-2a", "stab-own-2b-path"]] == "direction confirmed").all()
    assert table["stab-own-1a-path"] == "contradicted"  # 5 points are planted
    made.law[THEIRS_2B, BETA] = -0.4
    assert verdict_table(judged(made)).set_index("id").verdict["stab-own-2b"] == "larger than published"


def test_every_claim_is_contradicted_where_all_falls_alike(found, fits):
    """But those that say that it does."""
    law = dict.fromkeys(THESIS, -1.2) | {GAP: -1.0, "gap Brier": -1.0, "gap clipped": -1.0}
    table = (
        verdict_table(judged(planted(law, replace(found, kinds=LAPTOP.kinds)))).set_index("id").verdict[HERE]
    )
    alike = ["stab-lr-beta", "stab-lr-distance", "stab-gaps"]
    alike += [f"stab-path-{id}" for id in ("plain", "momentum", "cnn", "cnn-momentum")]
    assert (table[alike] == "direction confirmed").all()
    assert (table.drop(alike) == "contradicted").all()


def test_ids_are_the_books_own():
    assert len({claim.id for claim in ALL}) == len(ALL)
    assert all(claim.id.startswith("stab-") and claim.page == "ii2_stability" for claim in ALL)


def test_what_has_not_fitted_its_sample_says_nothing_about_a_wide_basin(found):
    table = verdict_table(judged(found)).set_index("id").verdict
    assert (table[["stab-convex", "stab-convex-distance"]] == "not testable here").all()


def test_a_model_that_was_left_out_is_not_judged(found):
    alone = replace(found, kinds=found.kinds[:1])
    table = verdict_table(judged(alone)).set_index("id").verdict
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
