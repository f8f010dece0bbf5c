"""Estimates: told for every preset, refused above the limit."""

import pytest

from sameloss.book.cost_tables import preset_costs, size_table
from sameloss.book.costs import announce
from sameloss.errors import ParameterError
from sameloss.runs.cost import H200
from sameloss.studies.same_loss.parameters import resolve
from sameloss.studies.same_loss.settings import PRESETS


def test_the_paper_on_this_machine_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("sameloss.runs.cost.flops_per_second", lambda *_: 1e11)
    setting = resolve({"size": "235M", "artifacts": str(tmp_path)})
    with pytest.raises(ParameterError) as caught:
        announce(setting)
    message = str(caught.value)
    for part in ("235M", "FLOPs", "hours", "GB", "max_hours = 24"):
        assert part in message
    assert "\n" not in message
    lifted = resolve({"size": "235M", "max_hours": 1e9, "artifacts": str(tmp_path)})
    assert "will take" in announce(lifted)


def test_every_preset_says_what_was_estimated_and_what_was_measured(tmp_path):
    table = preset_costs(resolve({"preset": "smoke", "artifacts": str(tmp_path)})).set_index("preset")
    assert list(table.index) == list(PRESETS)
    assert (table[["FLOPs", "GB", "estimated_h"]].astype(float) > 0).all(axis=None)
    assert table["for"].eq("H200").tolist() == [False, False, False, True, True]
    assert table.measured_h.notna().tolist() == [False, False, True, False, False]  # in results/


def test_the_main_figures_of_the_gpu_preset_take_an_hour(tmp_path):
    setting = resolve({"preset": "gpu", "artifacts": str(tmp_path)})
    for language in ("PCFG", "HMM"):
        on = setting.on(language)
        assert list(on.sizes) == ["2M", "5M", "9M", "13M", "41M"]
    both = [run for name in ("PCFG", "HMM") for run in setting.on(name).pretrainings().values()]
    assert sum(map(H200.seconds, both)) < 3600


def test_sizes_are_the_papers_with_true_counts():
    table = size_table().set_index("size")
    assert 195e6 < table.parameters["235M"] < 205e6
    assert list(table.index) == [*PRESETS["smoke"].sizes, *PRESETS["laptop"].sizes, *PRESETS["paper"].sizes]
