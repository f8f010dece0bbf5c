"""Traces of different sizes made comparable, and what the enlargement does by itself."""

import pandas as pd
import pytest

from sameloss.book.studies import open_page
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.enlarge import KINDS, kind_law, widen
from sameloss.studies.same_loss import results as module
from sameloss.studies.same_loss.results import (
    WAYS,
    accuracy_and_enlarged,
    enlarged_totals,
    final,
    frame,
    law_alone,
)


def made_up_traces(group, parts):
    """Return the measurement of a group whose native parts are given; forms are 1, 2, 3, 4 times as much."""
    factors = {"native": 1.0, "paper": 2.0, "balanced": 3.0, "relative": 4.0}
    totals = {"total": sum(parts.values()), "without embeddings": sum(parts.values()) - parts["embedding"]}
    rows = [
        {"size": size, "seed": seed, "step": group.steps[-1], "form": form, "part": part,
         "mean": factor * value, "standard_error": 0.1 * factor, "count": 9}
        for size in group.sizes
        for seed in range(group.seeds)
        for form, factor in factors.items()
        for part, value in {**totals, **parts}.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


PARTS = dict(zip(KINDS, (5.0, 3.0, 2.0, 1.0, 0.5), strict=True))


def test_every_way_takes_its_part_of_its_form(results):
    table = enlarged_totals(made_up_traces(results.group, PARTS))
    assert len(table) == len(WAYS) * 6
    assert list(dict.fromkeys(table.way)) == list(WAYS)
    total = sum(PARTS.values())
    rest = total - PARTS["embedding"]
    assert table.groupby("way").trace.unique().map(list).to_dict() == {
        "native": [total],
        "native-rest": [rest],
        "enlarged": [2 * total],
        "enlarged-balanced": [3 * total],
        "enlarged-rest": [2 * rest],
        "relative": [4 * total],
    }
    assert set(table[table.way == "relative"].trace_se) == {0.4}


def test_accuracies_stand_beside_every_way(results, monkeypatch):
    monkeypatch.setattr(module, "frame", lambda store, group, kind: made_up_traces(group, PARTS))
    table = accuracy_and_enlarged(results)
    assert len(table) == len(WAYS) * len(final(results))
    for way, part in table.groupby("way"):
        assert part.root.tolist() == final(results).root.tolist(), way


def test_the_law_alone_by_hand(results):
    """Twice the width: each kind's part is multiplied by its factor, the sum compared with what it was."""
    alone = law_alone(made_up_traces(results.group, PARTS), results.group)
    assert list(alone.index) == list(WAYS)
    assert alone["native"] == alone["native-rest"] == alone["relative"] == 0
    for way, tied in {"enlarged": "paper", "enlarged-balanced": "balanced"}.items():
        large = sum(value * kind_law(kind, 2, tied) for kind, value in PARTS.items())
        assert alone[way] == pytest.approx(large / sum(PARTS.values()) - 1)
    assert alone["enlarged"] > 0 > alone["enlarged-rest"]


@pytest.fixture(scope="module")
def brief(tmp_path_factory):
    artifacts = str(tmp_path_factory.mktemp("artifacts"))
    return open_page("b2_enlargement", preset="smoke", steps=20, seeds=1, artifacts=artifacts)


def test_enlarged_traces_are_those_of_enlarged_models(brief):
    traces = frame(brief.store, brief.group, "enlargement")
    run = brief.group.measured("enlargement")["1K", 0]
    model, masked = run.last_model(brief.store), run.masked("enlargement")
    for form in ("paper", "balanced"):
        large = widen(model, 2, tied=form)
        found = fisher_trace(large, masked, generator=run.generator("enlargement labels")).total.mean
        (row,) = traces.query("size == '1K' and form == @form and part == 'total'").itertuples()
        assert found == pytest.approx(row.mean, rel=1e-4)
    native = traces.query("size == '3K' and part == 'total'").set_index("form")["mean"]
    assert native["paper"] == native["balanced"] == native["native"]
