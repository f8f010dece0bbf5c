"""Benchmarks run, and stop where answers do not agree; what they measure is not tested."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

FILE = Path(__file__).parent.parent / "benchmarks" / "languages.py"


@pytest.fixture
def benchmark(monkeypatch, tmp_path):
    """The script as a module, in a world without torch-struct, its results in an empty folder."""
    monkeypatch.setitem(sys.modules, "torch_struct", None)
    specification = importlib.util.spec_from_file_location("languages_benchmark", FILE)
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, specification.name, module)
    specification.loader.exec_module(module)
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


def test_languages_quick(benchmark, tmp_path, capsys):
    """Without torch-struct its row alone is left out; a quick run writes nothing."""
    frame = benchmark.main(["--quick"])
    peers = {peer.split(",")[0] for peer in frame["peer"]}
    assert {"dense CKY in torch", "hmmlearn", "nltk productions", benchmark.NOBODY} <= peers
    assert "torch-struct is not installed" in capsys.readouterr().out
    assert not any("torch-struct" in peer for peer in peers)
    compared = frame[frame["peer"] != benchmark.NOBODY]
    assert compared[["ours_value", "peer_value", "ratio"]].gt(0).all(axis=None)
    assert frame.loc[frame["goal"].notna(), "met"].isin([True, False]).all()
    assert not list(tmp_path.iterdir())


def test_save(benchmark, tmp_path):
    ours = benchmark.Timing("ours", "", 1.0, 2.0)
    peer = benchmark.Timing("peer", "batches of 4", 8.0, 15.0)
    rows = [benchmark.row("work", "ms", ours, peer, goal=7), benchmark.row("work", "sentences/s", ours)]
    frame = benchmark.pd.DataFrame(rows, columns=[*benchmark.COLUMNS, "ours_median", "peer_median"])
    benchmark.save(frame, {"work": 0.0})
    assert (tmp_path / "benchmark_languages.csv").read_text().splitlines() == [
        "what,ours,peer,unit,ours_value,peer_value,ratio,goal,met",
        'work,ours,"peer, batches of 4",ms,1000,8000,8,7,True',
        "work,ours,–,sentences/s,1,,,,",
    ]
    record = benchmark.json.loads((tmp_path / "benchmark_languages.json").read_text())
    assert record["torch"] == torch.__version__
    assert record["medians"][0]["peer_median"] == 15000


@pytest.mark.parametrize("wrong", [1e-9, float("nan")])
def test_answers_that_differ_stop_the_script(benchmark, wrong):
    right = torch.ones(2, dtype=torch.float64)
    assert benchmark.difference("equal", right, right) == {"equal": 0.0}
    with pytest.raises(SystemExit, match="wrong: answers differ by"):
        benchmark.difference("wrong", right, right + torch.tensor([0.0, wrong]))


def test_samples_of_other_frequencies_are_told_apart(benchmark):
    generator = torch.Generator().manual_seed(0)
    ours, same, other = (
        torch.poisson(torch.full((10_000, 5), rate, dtype=torch.float64), generator)
        for rate in (1.0, 1.0, 1.2)
    )
    assert benchmark.apart(ours, same).abs().max() < benchmark.MOST_ERRORS
    assert benchmark.apart(ours, other).abs().min() > benchmark.MOST_ERRORS


def test_word_counts(benchmark):
    sentences = benchmark.Sentences(torch.tensor([[2, 2, 1], [3, 0, 0]]), torch.tensor([3, 1]))
    assert benchmark.word_counts(sentences, 3).tolist() == [[3, 1, 2, 0], [1, 0, 0, 1]]
