"""Estimates: counted by hand, refused above the limit."""

import pytest
import torch

from sameloss.book.cost_tables import preset_costs, size_table
from sameloss.book.costs import announce
from sameloss.errors import ParameterError
from sameloss.runs.cost import H200, micro_steps, training_flops
from sameloss.studies.same_loss.parameters import resolve
from sameloss.studies.same_loss.settings import PRESETS


def test_training_flops_by_hand(tmp_path):
    run = resolve({"size": "7K", "steps": 10, "artifacts": str(tmp_path)}).pretraining("7K", 0)
    first = 8 * (6 * (4 * 16 * 16 + 2 * 16 * 64) + 12 * 16 * 8)
    last = 8 * 6 * 2 * 16 * 16 + 6 * (2 * 16 * 16 + 2 * 16 * 64) + 12 * 16 * 8
    head = 6 * 16 * (16 + 16)
    assert training_flops(run) == 10 * 128 * (first + last + head)


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


def test_an_h200_is_bound_by_memory_where_models_are_narrow():
    """40 % of 989 TFLOP/s from a width of 412 on; half of the width, half of the speed."""
    wide, half, narrow = (H200.products(width, torch.bfloat16) for width in (1024, 206, 103))
    assert wide == pytest.approx(0.4 * 989e12)
    assert H200.products(1024, torch.float32) == pytest.approx(0.4 * 67e12)
    assert half == pytest.approx(2 * narrow) == pytest.approx(wide / 2, rel=0.01)


def test_processes_share_a_training(tmp_path):
    given = {"size": "110M", "artifacts": str(tmp_path)}
    one, four = (resolve(given | more).pretraining("110M", 0) for more in ({}, {"processes": 4}))
    assert four.execution.processes == 4
    assert H200.seconds(one) == pytest.approx(4 * H200.seconds(four))
    assert (micro_steps(one), micro_steps(four)) == (30_000 * 8, 30_000 * 2)


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
