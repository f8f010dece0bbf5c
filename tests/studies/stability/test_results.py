"""Results and statements."""

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.stability.claims import (
    BETA,
    GAP,
    STATEMENTS,
    Stability,
    checks,
    falls_of,
    least,
    over_seeds,
)
from sameloss.studies.stability.experiment import PRESETS
from sameloss.studies.stability.tables import gap_bounds
from sameloss.studies.stability.training import GRID
from sameloss.studies.statement import statement_table

# Twins side by side: seeds, sizes, stops and kinds stay what they are.

SIZES = (80, 160, 320)
EXPONENTS = {GAP: -1.0, BETA: -0.25, "distance": 0.5}


@pytest.fixture(scope="module")
def planted():
    """Power laws with a factor of each seed; the second pair has twice the first, later stops have less."""
    rows, paths = [], []
    for number, kind in enumerate(PRESETS["laptop"].kinds):
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
    return Stability(PRESETS["laptop"].kinds, SIZES, pd.DataFrame(rows), falls_of(pd.concat(paths)))


def test_values_are_by_seed_and_size(planted):
    kind = planted.kinds[2]
    found = planted.values(kind, GAP)
    assert found.shape == (3, 3)
    assert found[1, 2] == pytest.approx(101 * 2 / 320 / 2)
    assert planted.values(kind, GAP, "mean")[1, 2] == pytest.approx(101 * 1.5 / 320 / 2)
    assert planted.values(kind, GAP, "high")[1, 2] == pytest.approx(101 * 1.8 / 320 / 2)
    assert planted.values(kind, GAP, stop=0)[1, 2] == pytest.approx(101 * 2 / 320)


@pytest.mark.parametrize("over", ["max", "high", "mean"])
def test_exponents_are_by_seed(planted, over):
    for measure, b in EXPONENTS.items():
        assert planted.exponents(planted.kinds[0], measure, over) == pytest.approx([b] * 3)
    assert planted.slower(planted.kinds[0], BETA, GAP) == pytest.approx([0.75] * 3)


def test_barriers_are_in_points_of_each_path(planted):
    falls = planted.barriers(planted.kinds[3])
    assert falls.groupby("pair").barrier.mean().tolist() == pytest.approx([0.0, 3.0])
    assert planted.worst_barrier(planted.kinds[3]) == pytest.approx([3.0] * 3)


def test_kinds_are_found_by_name(planted):
    assert planted.kind("perceptron") is planted.kinds[2]
    assert planted.kind("forest") is None
    assert [kind.name for kind in planted.deep] == [
        "perceptron",
        "perceptron, momentum",
        "CNN",
        "CNN, momentum",
    ]


def test_the_least_of_kinds_is_taken_seed_by_seed(planted):
    effects = dict(
        zip(
            (kind.name for kind in planted.deep),
            ([1.0, 5.0], [4.0, 2.0], [3.0, 3.0], [3.0, 4.0]),
            strict=True,
        )
    )
    found = least(planted.deep, lambda kind: np.array(effects[kind.name]))
    assert found.tolist() == [1, 2]


def test_a_seed_without_a_value_leaves_nothing():
    assert np.isnan(over_seeds(np.array([1.0, np.nan])).value)
    assert np.isnan(over_seeds(np.array([])).value)
    assert over_seeds(np.array([1.0, 3.0])).value == 2


# Exact statements: each is refuted by numbers that refute it.


@pytest.fixture
def given(page):
    return {"swaps": page.swaps, "ridge": page.ridge, "bounds": gap_bounds(page.found)}


def verdicts(given):
    return statement_table(STATEMENTS, checks(**given)).set_index("id").verdict


def test_all_hold(given):
    assert set(verdicts(given)) == {"holds"}


@pytest.mark.parametrize(
    ("of", "table", "column", "factor"),
    [
        ("swaps", "swaps", "median", 0.3),
        ("hrs", "swaps", "bound", 0.01),
        ("be", "ridge", "bound", 1e-4),
        ("bound", "bounds", "bound", 1e-3),
    ],
)
def test_what_refutes_a_statement_is_seen(given, of, table, column, factor):
    changed = given[table].assign(**{column: given[table][column] * factor})
    found = verdicts(given | {table: changed})
    assert found[of] == "fails: counter-example"
    assert set(found.drop(of)) == {"holds"}


def test_the_unbounded_loss_is_not_held_against_the_bound(given):
    extra = pd.DataFrame([{"loss": "cross-entropy", "gap": 100.0, "bound": 1.0}])
    assert set(verdicts(given | {"bounds": pd.concat([given["bounds"], extra])})) == {"holds"}
