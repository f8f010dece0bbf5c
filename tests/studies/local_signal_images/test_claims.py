"""Results, published numbers, claims and statements."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from planted import words

from sameloss.statistics.intervals import seed_interval
from sameloss.studies.local_signal_images.claims import (
    STATEMENTS,
    TABLE_B_1,
    TOPICS,
    ImageResults,
    checks,
)
from sameloss.studies.statement import statement_table
from sameloss.studies.verdict import verdict_table

# Results: what is kept, on planted numbers.


def rows(of, accuracies, measure="accuracy", placement="random place", size="8-on-16"):
    """One row per seed and noise."""
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
)
FIXED = ("fixed corner", "8-on-16")


def test_kept_is_the_accuracy_at_most_noise_over_that_at_none():
    assert PLANTED.kept("network").tolist() == pytest.approx([90, 100])
    assert PLANTED.kept("network", *FIXED).tolist() == pytest.approx([50, 50])


def test_chance_is_taken_off_both():
    assert PLANTED.kept("network", above_chance=True).tolist() == pytest.approx([70, 100])


def test_a_predictor_at_chance_has_no_ratio():
    for above_chance in (False, True):
        assert np.isnan(PLANTED.kept("pixels", above_chance=above_chance)).all()


def test_the_thesis_own_numbers():
    """CIFAR-2 on Gaussian noise: 96.83 and 85.54 %; above chance 91.4 and 56.5 %."""
    table = (
        rows("WRN", [(0.947, 0.94, 0.917)])
        + rows("NTK", [(0.899, 0.873, 0.769)])
        + rows("chance", [(0.6,) * 3])
    )
    results = ImageResults(pd.DataFrame(table), pd.DataFrame())
    kept = [results.kept(of)[0] for of in ("WRN", "NTK")]
    assert kept == pytest.approx([96.83, 85.54], abs=0.005)
    above = [results.kept(of, above_chance=True)[0] for of in ("WRN", "NTK")]
    assert above == pytest.approx([91.4, 56.5], abs=0.05)


def test_activity_falls_in_points():
    assert PLANTED.fall(2.0).to_numpy() == pytest.approx(np.array([[10.0], [-10.0]]))


def test_lazy_accuracies_are_by_seed_and_scale():
    assert PLANTED.of_lazy().to_numpy() == pytest.approx(np.array([[90, 80], [70, 60]]))


def test_a_predictor_that_was_not_measured_is_undefined():
    none = PLANTED.kept("NTK, GCV")
    assert not len(none)
    assert np.isnan(seed_interval(none - PLANTED.kept("network")).value)
    assert np.isnan(seed_interval(none).value)
    assert PLANTED.places == [("random place", "8-on-16"), FIXED]
    assert PLANTED.kernel == "linearised"
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
    assert values["NTK: points less lost, mean of placements"] == pytest.approx((4.0 + 0.6 + 1.8) / 3)


# Claims: each is positive where it is planted, and undefined where it was not measured.

ALL = [claim for topic in TOPICS for claim in topic.claims]

THESIS = {
    "network": (0.947, 0.917),
    "NTK, GCV": (0.899, 0.769),
    "NTK, best λ": (0.899, 0.77),
    "trained kernel": (0.94, 0.9),
    "chance": (0.6, 0.6),
}


def planted(ends, lazy=(0.94, 0.72), limit=0.71, active=(0.5, 0.4), theirs=False):
    """Results of three seeds that hardly differ; `limit` is the linearised network after lazy training."""
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
            {"seed": seed, "scale": scale, "accuracy": own + more, "noise": 1.0, "limit": limit}
            for seed, more in enumerate((-1e-4, 0.0, 1e-4))
            for scale, own in zip((1.0, 100.0), lazy, strict=True)
        ]
    )
    return ImageResults(pd.DataFrame(rows), scales, theirs)


def verdicts(results):
    return words(verdict_table(TOPICS, results))


def test_every_claim_is_supported_where_the_thesis_is_right():
    table = verdicts(planted(THESIS))
    assert table.index.tolist() == [claim.id for claim in ALL]
    here = [name for name in table.index if not name.startswith("img-own")]
    assert set(table[here]) == {"supported"}
    assert set(table.drop(here)) == {"not testable"}


def test_published_numbers_are_judged_on_the_data_of_the_thesis():
    table = verdicts(planted(THESIS, theirs=True))
    assert (table[["img-own-wrn", "img-own-ntk"]] == "supported: as published").all()
    worse = planted(THESIS | {"NTK, GCV": (0.899, 0.6)}, theirs=True)
    assert verdicts(worse)["img-own-ntk"] == "supported: smaller than published"


def test_tolerances_are_three_and_six_points():
    own = {claim.id: claim.tolerance * claim.value for claim in ALL if claim.value is not None}
    assert own == pytest.approx({"img-own-wrn": 3.0, "img-own-ntk": 6.0})


def test_the_verdict_is_against_every_claim_where_the_kernel_is_better():
    swapped = THESIS | {"network": (0.9, 0.7), "NTK, GCV": (0.9, 0.88), "NTK, best λ": (0.9, 0.89)}
    swapped["trained kernel"] = (0.9, 0.6)
    table = verdicts(planted(swapped, lazy=(0.72, 0.8), active=(0.4, 0.5)))
    assert set(table[[name for name in table.index if "own" not in name]]) == {"against"}


def test_a_linearised_network_stands_for_the_kernel():
    ends = {("linearised" if of == "NTK, GCV" else of): own for of, own in THESIS.items()}
    del ends["NTK, best λ"]
    results = planted(ends, theirs=True)
    table = verdicts(replace(results, lazy=results.lazy[:0]))
    assert table["img-kept"] == "supported"
    assert table["img-own-ntk"] == "supported: as published"
    assert table["img-kept-chance-best"] == "not testable"


def test_claims_without_measurements_are_not_testable():
    results = planted(THESIS)
    one = replace(results, table=results.table[results.table["size"] == "8-on-16"], lazy=results.lazy[:0])
    assert (verdicts(one)[["img-lazy", "img-lazy-near", "img-kept-size"]] == "not testable").all()


def test_ids_are_the_books_own():
    assert len({claim.id for claim in ALL}) == len(ALL)
    assert all(claim.id.startswith("img-") and claim.page == "ii3_images" for claim in ALL)


def test_lazy_training_is_judged_by_its_own_linearisation_not_by_a_solved_kernel():
    """Seeds that scatter by two points around their linearisation, six below the kernel, are near it."""
    results = planted(THESIS)
    off = results.lazy.seed.map({0: -0.02, 1: 0.0, 2: 0.02})
    lazy = results.lazy.assign(
        limit=results.lazy.accuracy.where(results.lazy.scale == 100.0, 0.72) + off / 20
    )
    of_kernel = results.accuracies("NTK, GCV")[1.0]
    assert of_kernel.mean() > 100 * lazy.limit.mean() + 3
    assert verdicts(replace(results, lazy=lazy))["img-lazy-near"] == "supported"
    far = replace(results, lazy=results.lazy.assign(limit=of_kernel.iloc[0] / 100))
    assert verdicts(far)["img-lazy-near"] == "against"


def test_every_layer_is_judged_by_its_own_interval():
    """Noise makes the smallest of a seed's layers negative, though all of them fall on average."""
    rng = np.random.default_rng(0)
    rows = [
        {"size": "8-on-16", "placement": "random place", "noise": noise, "seed": seed, "measure": measure,
         "of": f"layer {layer}", "value": 0.5 if measure == "active before" else 0.48 - 0.05 * rng.normal()}
        for noise in (0.0, 1.0) for seed in range(200) for layer in range(1, 12)
        for measure in ("active before", "active after")
    ]  # fmt: skip
    results = ImageResults(pd.DataFrame(rows), pd.DataFrame())
    assert seed_interval(results.fall(1.0).iloc[:, 1:].min(axis=1)).high < 0
    every = next(claim for claim in ALL if claim.id == "img-active-every")
    assert every.effect(results).low > 0


# Statements on the printed tables, and on tables with a misprint.


def judged(table):
    return statement_table(STATEMENTS, checks(table)).set_index("id").verdict.to_dict()


def test_statements_hold_for_the_printed_tables_and_fail_with_a_misprint():
    said = {"img-order": "holds as corrected", "img-loss": "holds as corrected"}
    assert judged(TABLE_B_1) == {"img-larger": "holds", **said}
    table = TABLE_B_1.copy()
    assert table.iloc[3, 0] == 89.9
    table.iloc[3, 0] = 91.9
    assert judged(table)["img-larger"] == "fails: counter-example"
