"""Claims: each is positive where what it says is planted, and undefined where there is nothing to say."""

from dataclasses import replace

import pandas as pd
import pytest

from sameloss.studies.local_signal_images.claims import TOPICS, ImageResults, judged
from sameloss.studies.local_signal_images.published import AMONG_ANIMALS, GAUSSIAN
from sameloss.studies.verdict import verdict_table

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
    return ImageResults(pd.DataFrame(rows), scales, theirs, widths)


def verdicts(found):
    return verdict_table(judged(found)).set_index("id").verdict


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
    table = verdicts(planted(ends, theirs=GAUSSIAN))
    assert table["img-kept"] == "direction confirmed"
    assert table["img-own-ntk"] == "reproduced"
    assert table["img-kept-best"] == "not testable here"


def test_without_lazy_training_and_other_sizes_nothing_is_said_of_them():
    found = planted(THESIS)
    one = replace(
        found,
        table=found.table[found.table["size"] == "8-on-16"],
        lazy=found.lazy[:0],
        widths=found.widths[:0],
    )
    table = verdicts(one)
    assert (
        table[["img-lazy", "img-lazy-falls", "img-lazy-near", "img-kept-size", "img-width"]]
        == "not testable here"
    ).all()


def test_ids_are_the_books_own():
    assert len({claim.id for claim in ALL}) == len(ALL)
    assert all(claim.id.startswith("img-") and claim.page == "ii3_images" for claim in ALL)
