"""Results, published numbers, claims and statements."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.local_signal_images import show
from sameloss.studies.local_signal_images.claims import (
    STATEMENTS,
    TABLE_B_1,
    TOPICS,
    ImageResults,
    checks,
    over_seeds,
)
from sameloss.studies.local_signal_images.experiment import AMONG_ANIMALS, GAUSSIAN
from sameloss.studies.statement import statement_table
from sameloss.studies.verdict import verdict_table

# Results: what is kept, on planted numbers.


def rows(of, accuracies, measure="accuracy", placement="random place", size="8-on-16"):
    """Return a row a seed and noise."""
    return [
        {
            "size": size,
            "placement": placement,
            "noise": noise,
            "seed": seed,
            "measure": measure,
            "of": of,
            "value": own,
        }
        for seed, values in enumerate(accuracies)
        for noise, own in zip((0.0, 0.5, 2.0), values, strict=False)
    ]


PLANTED = ImageResults(
    pd.DataFrame(
        rows("network", [(0.9, 0.9, 0.81), (0.8, 0.8, 0.8)])
        + rows("chance", [(0.6, 0.6, 0.6)] * 2)
        + rows("chance", [(0.6, 0.6, 0.6)] * 2, placement="fixed corner")
        + rows("pixels", [(0.61, 0.6, 0.6), (0.68, 0.6, 0.7)])
        + rows("network", [(1.0, 0.5, 0.5)] * 2, placement="fixed corner")
        + rows("layer 1", [(0.5, 0.5, 0.4), (0.6, 0.5, 0.6)], "active before")
        + rows("layer 1", [(0.5, 0.6, 0.3), (0.6, 0.5, 0.7)], "active after")
    ),
    pd.DataFrame({"seed": [0, 0, 1, 1], "scale": [1.0, 9.0] * 2, "accuracy": [0.9, 0.8, 0.7, 0.6]}),
    pd.DataFrame(),
)


def test_kept_is_the_accuracy_at_most_noise_over_that_at_none():
    assert PLANTED.kept("network", "random place").tolist() == pytest.approx([90, 100])
    assert PLANTED.kept("network", "fixed corner").tolist() == pytest.approx([50, 50])


def test_chance_is_taken_off_both():
    assert PLANTED.kept("network", "random place", above_chance=True).tolist() == pytest.approx([70, 100])


def test_what_has_learnt_nothing_keeps_nothing():
    for above_chance in (False, True):
        assert np.isnan(PLANTED.kept("pixels", "random place", above_chance=above_chance)).all()


def test_the_thesis_own_numbers():
    """CIFAR-2 on Gaussian noise: 96.83 and 85.54 %; above chance 91.4 and 56.5 %."""
    table = (
        rows("WRN", [(0.947, 0.94, 0.917)])
        + rows("NTK", [(0.899, 0.873, 0.769)])
        + rows("chance", [(0.6,) * 3])
    )
    results = ImageResults(pd.DataFrame(table), pd.DataFrame(), pd.DataFrame())
    kept = [results.kept(of, "random place")[0] for of in ("WRN", "NTK")]
    assert kept == pytest.approx([96.83, 85.54], abs=0.005)
    above = [results.kept(of, "random place", above_chance=True)[0] for of in ("WRN", "NTK")]
    assert above == pytest.approx([91.4, 56.5], abs=0.05)


def test_activity_falls_in_points():
    assert PLANTED.fall(2.0).to_numpy() == pytest.approx(np.array([[10.0], [-10.0]]))


def test_lazy_accuracies_are_by_seed_and_scale():
    assert PLANTED.of_lazy().to_numpy() == pytest.approx(np.array([[90, 80], [70, 60]]))


def test_what_is_not_there_is_nothing():
    none = PLANTED.kept("NTK, GCV", "random place")
    assert not len(none)
    assert np.isnan(over_seeds(none - PLANTED.kept("network", "random place")).value)
    assert np.isnan(over_seeds(none).value)
    assert (PLANTED.placement, PLANTED.size, PLANTED.kernel) == ("random place", "8-on-16", "linearised")
    assert PLANTED.noises == [0.0, 0.5, 2.0]


# The printed tables: what follows from them.


def test_columns_and_rows_are_counted_one_by_one():
    """In the order of the table: where each placement is strictly better than the next."""
    counted = dict.fromkeys(("columns of 16 in this order", "in which the fixed corner is the best"), 0)
    for _, table in TABLE_B_1.groupby(["size", "model"]):
        for place, corner, fixed in table.to_numpy().T:
            counted["columns of 16 in this order"] += fixed > corner > place
            counted["in which the fixed corner is the best"] += fixed > max(corner, place)
    values = checks().set_index("text").value
    assert values[list(counted)].tolist() == list(counted.values()) == [10, 13]
    assert values["in which it is better than a random place"] == 15
    assert values["pairs of 24 in which they are"] == 24
    assert values["NTK: kept at most noise (%)"] == pytest.approx(100 * 76.9 / 89.9)
    assert values["NTK: points less lost, mean of placements"] == pytest.approx((4.0 + 0.6 + 1.8) / 3)


# Claims: each is positive where what it says is planted, and undefined where there is nothing to say.

ALL = [claim for topic in TOPICS for claim in topic.claims]

THESIS = {
    "network": (0.947, 0.917),
    "NTK, GCV": (0.899, 0.769),
    "NTK, best λ": (0.899, 0.77),
    "trained kernel": (0.94, 0.9),
    "chance": (0.6, 0.6),
}


def planted(ends, lazy=(0.94, 0.77), active=(0.5, 0.4), theirs=None, above=(0.2, 0.1)):
    """Return results of three seeds, alike but for a little."""
    places = [(place, "8-on-16") for place in ("random place", "random corner", "fixed corner")]
    rows = []
    for placement, size in [*places, ("random place", "4-on-8")]:
        for noise, at in ((0.0, 0), (1.0, 1)):
            about = {"size": size, "placement": placement, "noise": noise}
            for seed, more in enumerate((-1e-4, 0.0, 1e-4)):
                for of, accuracies in ends.items():
                    own = accuracies[at] + more * (of == "network")
                    rows.append(about | {"seed": seed, "measure": "accuracy", "of": of, "value": own})
                for measure, share in zip(("active before", "active after"), active, strict=True):
                    for layer in ("layer 1", "layer 2", "layer 3"):
                        rows.append(
                            about | {"seed": seed, "measure": measure, "of": layer, "value": share + more}
                        )
    scales = pd.DataFrame(
        [
            {"seed": seed, "scale": scale, "accuracy": own + more, "noise": 1.0}
            for seed, more in enumerate((-1e-4, 0.0, 1e-4))
            for scale, own in zip((1.0, 100.0), lazy, strict=True)
        ]
    )
    widths = pd.DataFrame(
        {"measure": "accuracy", "of": of, "value": value, "width": width, "noise": 1.0, "seed": seed}
        for seed, more in enumerate((-1e-4, 0.0, 1e-4))
        for width, own in zip((8, 32), above, strict=True)
        for of, value in (("network", 0.7 + own + more * (width == 8)), ("NTK, GCV", 0.7))
    )
    return ImageResults(pd.DataFrame(rows), scales, widths, theirs)


def verdicts(results):
    return verdict_table(TOPICS, (results)).set_index("id").verdict


def test_every_claim_is_confirmed_where_the_thesis_is_right():
    table = verdicts(planted(THESIS))
    assert table.index.tolist() == [claim.id for claim in ALL]
    here = [name for name in table.index if not name.startswith("img-own")]
    assert set(table[here]) == {"direction confirmed"}
    assert set(table.drop(here)) == {"not testable here"}


def test_its_own_numbers_are_reproduced_of_its_own_data():
    table = verdicts(planted(THESIS, theirs=GAUSSIAN))
    assert (table[["img-own-wrn", "img-own-ntk"]] == "reproduced").all()
    other = verdicts(planted(THESIS, theirs=AMONG_ANIMALS))
    assert other["img-own-wrn"] == "not testable here" != other["img-own-vehicles-ntk"]
    worse = planted(THESIS | {"NTK, GCV": (0.899, 0.6)}, theirs=GAUSSIAN)
    assert verdicts(worse)["img-own-ntk"] == "smaller than published"


def test_tolerances_are_three_and_six_points():
    own = {claim.id: claim.tolerance * claim.value for claim in ALL if claim.value is not None}
    assert set(own) == {f"img-own-{of}{model}" for of in ("", "vehicles-") for model in ("wrn", "ntk")}
    assert {name[-3:]: points for name, points in own.items()} == pytest.approx({"wrn": 3.0, "ntk": 6.0})


def test_every_claim_is_contradicted_where_the_kernel_is_the_better_one():
    swapped = THESIS | {"network": (0.9, 0.7), "NTK, GCV": (0.9, 0.88), "NTK, best λ": (0.9, 0.89)}
    swapped["trained kernel"] = (0.9, 0.6)
    table = verdicts(planted(swapped, lazy=(0.87, 0.95), active=(0.4, 0.5), above=(0.1, 0.2)))
    assert set(table[[name for name in table.index if "own" not in name]]) == {"contradicted"}


def test_a_linearised_network_stands_for_the_kernel():
    ends = {("linearised" if of == "NTK, GCV" else of): own for of, own in THESIS.items()}
    del ends["NTK, best λ"]
    results = planted(ends, theirs=GAUSSIAN)
    table = verdicts(replace(results, lazy=results.lazy[:0]))
    assert table["img-kept"] == "direction confirmed"
    assert table["img-own-ntk"] == "reproduced"
    assert table["img-kept-best"] == "not testable here"


def test_without_lazy_training_and_other_sizes_nothing_is_said_of_them():
    results = planted(THESIS)
    one = replace(
        results,
        table=results.table[results.table["size"] == "8-on-16"],
        lazy=results.lazy[:0],
        widths=results.widths[:0],
    )
    table = verdicts(one)
    assert (
        table[["img-lazy", "img-lazy-falls", "img-lazy-near", "img-kept-size", "img-width"]]
        == "not testable here"
    ).all()


def test_ids_are_the_books_own():
    assert len({claim.id for claim in ALL}) == len(ALL)
    assert all(claim.id.startswith("img-") and claim.page == "ii3_images" for claim in ALL)


# Sentences.


def test_findings_are_those_of_the_planted_numbers():
    results = planted(THESIS)
    assert "from 95 to 92 % for the network, from 90 to 77 % for its kernel" in show.accuracy_finding(results)
    assert show.kept_finding(results).endswith("in 4 of 4 settings, clearly in 4.")
    assert show.kept_in_words(results).startswith("At a random place the network keeps 11.3 (")
    assert "in layer 1, layer 2, layer 3 at σ = 1" in show.activity_finding(results)
    assert "is +20.0 points with 8 channels, +10.0 with 32" in show.width_finding(results)
    limit = replace(results, lazy=results.lazy.assign(limit=0.8))
    assert show.lazy_finding(limit) == (
        "Accuracy is 94 % at α = 1 and 77 % at α = 100; the linearised network has 80 %, the solved kernel "
        "77 %."
    )
    assert show.published_finding().endswith(
        "at least 96.8 % of its accuracy, its linearisation at most 90.1 %."
    )


def test_findings_turn_round_with_the_numbers():
    worse = planted(THESIS | {"network": (0.9, 0.7), "NTK, GCV": (0.9, 0.88)}, active=(0.4, 0.5))
    assert show.kept_finding(worse).endswith("in 0 of 4 settings, clearly in none.")
    assert "in no layer at σ = 1" in show.activity_finding(worse)


def test_a_linear_model_that_keeps_more_than_the_kernel_is_mentioned():
    linear = show.kept_in_words(planted(THESIS | {"pixels": (0.9, 0.9)}))
    assert "At 8-on-16 in a fixed corner, a model linear in pixels keeps 100 %" in linear
    near = show.kept_in_words(planted(THESIS | {"network": (0.9, 0.62), "NTK, GCV": (0.9, 0.61)}))
    assert "network and kernel both end near chance" in near
    untrained = show.kept_in_words(planted(THESIS | {"network": (0.6, 0.6)}))
    assert "hardly above chance without noise, so no share is defined" in untrained


def test_the_page_says_what_it_found_and_what_not():
    results = planted(THESIS)
    said = show.in_words(results, results)
    assert said.count("\n\n") == 2
    assert "contradicts 0 of the predictions" in said
    assert "learnt features alone" not in said
    learnt = planted(THESIS | {"trained kernel": (0.94, 0.94)}, active=(0.4, 0.5))
    said = show.in_words(results, learnt)
    assert "the learnt features alone account for the difference" in said
    assert "contradicts 3 of the predictions" in said


# Statements on the printed tables, and on tables with a misprint.


def judged(table):
    return statement_table(STATEMENTS, checks(table)).set_index("id").verdict.to_dict()


def test_what_the_tables_say_and_a_misprint_would_be_seen():
    said = {"img-order": "holds as corrected", "img-loss": "holds as corrected"}
    assert judged(TABLE_B_1) == {"img-ratios": "holds", "img-larger": "holds", **said}
    table = TABLE_B_1.copy()
    assert table.iloc[3, 0] == 89.9
    table.iloc[3, 0] = 91.9
    wrong = judged(table)
    assert wrong["img-ratios"] == wrong["img-larger"] == "fails: counter-example"
