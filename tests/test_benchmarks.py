"""Benchmarks run, and stop where answers do not agree; what they measure is not tested."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch
from cells import definitions

FOLDER = Path(__file__).parent.parent / "benchmarks"
RESULTS = FOLDER.parent / "results"
TRACE_PEERS = {
    "opacus.grad_sample": "Opacus",
    "backpack.extensions": "BackPACK",
    "pyhessian": "PyHessian",
    "curvlinops": "curvlinops",
}


@pytest.fixture
def racing(monkeypatch, tmp_path):
    """What benchmarks share, its results in an empty folder."""
    monkeypatch.syspath_prepend(FOLDER)
    module = importlib.import_module("racing")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


@pytest.fixture
def load(racing, monkeypatch):
    """Load a script as a module from its file."""

    def load(name):
        specification = importlib.util.spec_from_file_location(f"{name}_benchmark", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(specification)
        monkeypatch.setitem(sys.modules, specification.name, module)
        specification.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def languages(load, monkeypatch):
    """The benchmark of the languages, in a world without torch-struct."""
    monkeypatch.setitem(sys.modules, "torch_struct", None)
    return load("languages")


@pytest.fixture
def trace(load):
    """The benchmark of the trace."""
    return load("trace")


@pytest.fixture
def pretrain(load, monkeypatch):
    """The benchmark of pre-training, without the half minute that compiling takes."""
    module = load("pretrain")
    monkeypatch.setattr(module, "EXECUTIONS", {"eager": module.EAGER})
    return module


def sound(frame, nobody):
    """Whether all that was raced was timed, and all goals were judged."""
    compared = frame[frame["peer"] != nobody]
    timed = compared[["ours_value", "peer_value", "ratio"]].gt(0).all(axis=None)
    return timed and frame.loc[frame["goal"].notna(), "met"].isin([True, False]).all()


@pytest.mark.book
def test_languages_quick(languages, tmp_path, capsys):
    """Without torch-struct its row alone is left out; a quick run writes nothing."""
    frame = languages.main(["--quick"])
    peers = {peer.split(",")[0] for peer in frame["peer"]}
    assert {"dense CKY in torch", "hmmlearn", "nltk productions", languages.NOBODY} <= peers
    assert "torch-struct is not installed" in capsys.readouterr().out
    assert not any("torch-struct" in peer for peer in peers)
    assert sound(frame, languages.NOBODY)
    assert not list(tmp_path.iterdir())


def test_teacher_quick(load, monkeypatch, tmp_path):
    """Exact conditionals equal those of the loop; a quick run writes nothing."""
    teacher = load("teacher")
    monkeypatch.setattr(teacher, "QUICK", teacher.Scale(1, 20, (4,), 5))
    frame = teacher.main(["--quick"])
    assert frame.ours.tolist() == ["exact", "bounded"]
    assert sound(frame, None)
    assert not list(tmp_path.iterdir())


@pytest.mark.book
def test_trace_quick_without_peers(trace, monkeypatch, tmp_path, capsys):
    """What needs no other package is left: the loop, vmap and the plain Hutchinson."""
    for module in TRACE_PEERS:
        monkeypatch.setitem(sys.modules, module, None)
    frame = trace.main(["--quick"])
    assert set(frame["peer"].str.split(",").str[0]) == {trace.NAIVE, trace.VMAP, trace.HUTCHINSON}
    printed = capsys.readouterr().out
    assert all(f"{title} is not installed" in printed for title in TRACE_PEERS.values())
    assert sound(frame, trace.NOBODY)
    assert not list(tmp_path.iterdir())


@pytest.mark.book
@pytest.mark.parametrize("module", TRACE_PEERS)
def test_trace_quick_peer(trace, monkeypatch, module):
    """Every peer that is installed agrees with us; contests of the others' are not run again."""
    pytest.importorskip(module)
    for other in TRACE_PEERS.keys() - {module}:
        monkeypatch.setitem(sys.modules, other, None)
    if module.startswith(("opacus", "backpack")):
        monkeypatch.setattr(trace, "error_report", lambda scale: trace.Report([], {}))
    else:
        monkeypatch.setattr(trace, "encoder_reports", lambda scale: [])
    monkeypatch.setattr(trace, "memory_report", lambda scale: trace.Report([], {}))
    frame = trace.main(["--quick"])
    assert frame["peer"].str.contains(TRACE_PEERS[module]).any()
    assert sound(frame, trace.NOBODY)


@pytest.mark.book
def test_pretrain_quick(pretrain, tmp_path):
    """Speed, utilisation and memory of one size; a quick run writes nothing."""
    frame = pretrain.main(["--quick"])
    assert frame.unit.tolist() == ["tokens/s", "%", "MB"]
    assert frame.ours_value.gt(0).all()
    assert not list(tmp_path.iterdir())


def test_a_peer_of_other_losses_stops_the_script(pretrain, monkeypatch):
    """A peer that reads one position too many as masked, for example."""
    right = pretrain.padded

    def wrong(batch):
        given = right(batch)
        given["labels"][0, 0] = 1
        return given

    monkeypatch.setattr(pretrain, "padded", wrong)
    with pytest.raises(SystemExit, match="losses of four steps, d16: answers differ by"):
        pretrain.compare(*pretrain.CONTESTS[0], 1)


def test_the_papers_estimate(trace, monkeypatch):
    """In slices, whole or not at all; and on a GPU only."""
    for name, value in {"SIZE": "d8", "SENTENCES": 6, "LABELS": 2}.items():
        monkeypatch.setattr(trace, f"PAPER_{name}", value)
    monkeypatch.setattr(trace, "SLICE", 3)
    assert trace.paper_estimate(minutes=1).count == 6
    with pytest.raises(SystemExit, match="0 of 6 sentences"):
        trace.paper_estimate(minutes=0)
    monkeypatch.setattr(trace, "DEVICE", "cpu")
    with pytest.raises(SystemExit):
        trace.main(["--paper-scale", "1"])


def test_a_wrong_norm_stops_the_script(trace, monkeypatch):
    monkeypatch.setattr(trace, "naive", lambda *arguments: 1.001 * trace.ours(*arguments))
    with pytest.raises(SystemExit, match=r"naive loop \(relative\): answers differ by 0.001"):
        next(iter(trace.encoder_reports(trace.QUICK)))


def test_a_trace_too_far_off_stops_the_script(trace):
    """Errors of both are counted: 3 of 0.1 apart is too much, 0.3 is not."""
    ours, near, far = (trace.Estimator(name, "", None, [], 1) for name in ("ours", "near", "far"))
    for entrant, mean in ((ours, 10.0), (near, 10.3), (far, 13.0)):
        entrant.values += [mean - 0.1, mean + 0.1]
    assert list(trace.trace_agreement([ours, near]).values()) == pytest.approx([0.3 / (0.1 * 2**0.5)])
    with pytest.raises(SystemExit, match="far"):
        trace.trace_agreement([ours, far])


def test_seconds_to_an_error(trace):
    """Draws of relative variance 0.01 reach 2 % after 25."""
    estimate = trace.Estimate(mean=4.0, standard_error=0.4 / 10**0.5, count=10)
    timing = trace.to_error(trace.Timing("", "", 1.0, 2.0), estimate, trace=4.0)
    assert timing[2:] == pytest.approx((25.0, 50.0))


def test_peers_do_sentences_of_all_lengths(trace):
    lengths = torch.tensor([5, 9, 1, 7, 3])
    masked = trace.Batch(torch.zeros(5, 9), torch.zeros(5), torch.zeros(5), lengths)
    assert lengths[trace.spread(masked, 3).cpu()].tolist() == [1, 5, 9]


def test_save(racing, tmp_path):
    ours = racing.Timing("ours", "", 1.0, 2.0)
    peer = racing.Timing("peer", "batches of 4", 8.0, 15.0)
    rows = [racing.row("work", "ms", ours, peer, goal=7), racing.row("work", "sentences/s", ours)]
    racing.conclude("some", [racing.Report(rows, {"work": 0.0})], ["torch", "nothing-such"], write=True)
    assert (tmp_path / "benchmark_some.csv").read_text().splitlines() == [
        "what,ours,peer,unit,ours_value,peer_value,ratio,goal,met",
        'work,ours,"peer, batches of 4",ms,1000,8000,8,7,True',
        "work,ours,–,sentences/s,1,,,,",
    ]
    record = racing.json.loads((tmp_path / "benchmark_some.json").read_text())
    assert record["versions"] == {"torch": torch.__version__, "nothing-such": None}
    assert record["largest_differences"] == {"work": 0.0}
    assert record["medians"][0]["peer_median"] == 15000


def test_the_best_setting_counts(racing):
    timings = [racing.Timing(*values) for values in (("a", "1", 3, 3), ("b", "1", 2, 2), ("a", "2", 1, 9))]
    assert [timing.title for timing in racing.fastest(timings)] == ["a, 2", "b, 1"]


@pytest.mark.parametrize("name", ["languages", "pretrain", "trace"])
def test_what_was_recorded_can_be_shown(name):
    """Once recorded, that is."""
    if not (RESULTS / f"benchmark_{name}.csv").exists():
        pytest.skip("not recorded yet")
    table, line = definitions("costs").recorded_benchmark(name)
    record = json.loads((RESULTS / f"benchmark_{name}.json").read_text())
    assert len(table)
    assert f"torch {record['versions']['torch']}" in line


@pytest.mark.parametrize("wrong", [1e-9, float("nan")])
def test_answers_that_differ_stop_the_script(racing, wrong):
    right = torch.ones(2, dtype=torch.float64)
    assert racing.difference("equal", right, right, 1e-12) == {"equal": 0.0}
    with pytest.raises(SystemExit, match="wrong: answers differ by"):
        racing.difference("wrong", right, right + torch.tensor([0.0, wrong]), 1e-12)


def test_samples_of_other_frequencies_are_told_apart(languages):
    generator = torch.Generator().manual_seed(0)
    ours, same, other = (
        torch.poisson(torch.full((10_000, 5), rate, dtype=torch.float64), generator)
        for rate in (1.0, 1.0, 1.2)
    )
    assert languages.apart(ours, same).abs().max() < languages.MOST_ERRORS
    assert languages.apart(ours, other).abs().min() > languages.MOST_ERRORS


def test_word_counts(languages):
    sentences = languages.Sentences(torch.tensor([[2, 2, 1], [3, 0, 0]]), torch.tensor([3, 1]))
    assert languages.word_counts(sentences, 3).tolist() == [[3, 1, 2, 0], [1, 0, 0, 1]]
