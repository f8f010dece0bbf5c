"""Estimates: counted by hand, refused above the limit."""

import pytest

from sameloss.costs import announce, block_parameters, size_table, training_flops
from sameloss.errors import ParameterError
from sameloss.models.encoder import Encoder
from sameloss.parameters import resolve
from sameloss.presets import PRESETS


def test_block_parameters_are_those_of_the_model():
    shape = PRESETS["laptop"].sizes["27K"]
    model = Encoder(shape, words=16, max_length=8)
    matrices = sum(p.numel() for n, p in model.named_parameters() if "blocks" in n and p.ndim == 2)
    assert block_parameters(shape) == matrices
    assert PRESETS["laptop"].parameter_count("27K") == model.parameter_count


def test_training_flops_by_hand(tmp_path):
    run = resolve({"size": "7K", "steps": 10, "artifacts": str(tmp_path)}).pretraining("7K", 0)
    first = 8 * (6 * (4 * 16 * 16 + 2 * 16 * 64) + 12 * 16 * 8)
    last = 8 * 6 * 2 * 16 * 16 + 6 * (2 * 16 * 16 + 2 * 16 * 64) + 12 * 16 * 8
    head = 6 * 16 * (16 + 16)
    assert training_flops(run) == 10 * 128 * (first + last + head)


def test_the_paper_on_this_machine_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("sameloss.costs.flops_per_second", lambda width: 1e11)
    setting = resolve({"size": "235M", "artifacts": str(tmp_path)})
    with pytest.raises(ParameterError) as caught:
        announce(setting)
    message = str(caught.value)
    for part in ("235M", "FLOPs", "hours", "GB", "max_hours = 24"):
        assert part in message
    assert "\n" not in message
    lifted = resolve({"size": "235M", "max_hours": 1e9, "artifacts": str(tmp_path)})
    assert "will take" in announce(lifted)


def test_sizes_are_the_papers_with_true_counts():
    table = size_table().set_index("size")
    assert 195e6 < table.parameters["235M"] < 205e6
    assert list(table.index) == [*PRESETS["smoke"].sizes, *PRESETS["laptop"].sizes, *PRESETS["paper"].sizes]
