"""Tables say the same whether they come from runs or were written and read again."""

import pandas as pd
import pytest

from sameloss.errors import StoreError
from sameloss.studies.growing import claims as found
from sameloss.studies.growing.claims import found_by_record, found_in, stacks_in


def written(tables, folder):
    """Return tables as they are read from files."""
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
    return {name: pd.read_csv(folder / f"{name}.csv") for name in tables}


def test_what_is_read_again_says_the_same(page, tmp_path):
    again = found_in(page.config, written(page.record_tables(), tmp_path))
    assert again.kl == pytest.approx(page.grown.kl, rel=1e-5)
    assert again.scratch == pytest.approx(page.grown.scratch, rel=1e-5)
    assert again.accuracy == pytest.approx(page.grown.accuracy, rel=1e-5)
    assert set(again.aged) == {8, 20}
    assert again.aged[8].kl.shape[0] == 1
    assert again.aged[20].kl[0] == pytest.approx(page.grown.kl[0], rel=1e-5)
    assert again.diverged == ()


def test_so_do_stacks(stacking, tmp_path):
    again = stacks_in(stacking.settings, written(stacking.record_tables(), tmp_path))
    assert again.final("middle") == pytest.approx(stacking.stacks.final("middle"), rel=1e-5)
    assert again.tasks == stacking.stacks.tasks


def test_a_record_is_read_as_its_preset_was(page, tmp_path, monkeypatch):
    tables = page.record_tables()
    monkeypatch.setattr(found, "recorded", lambda name, preset, of: tables[name])
    monkeypatch.setattr(found, "PRESETS", {"laptop-long": page.config})
    assert found_by_record("ii5_growing", "laptop-long").kl == pytest.approx(page.grown.kl)


def test_a_record_of_other_seeds_is_refused_with_what_to_do(page, monkeypatch):
    tables = page.record_tables()
    others = {**tables, "candidates": tables["candidates"].assign(seed=7)}
    monkeypatch.setattr(found, "recorded", lambda name, preset, of: others[name])
    monkeypatch.setattr(found, "PRESETS", {"laptop-long": page.config})
    with pytest.raises(
        StoreError, match=r"holds the seeds \[7\], and the preset has .*; record it again: make record"
    ):
        found_by_record("ii5_growing", "laptop-long")
