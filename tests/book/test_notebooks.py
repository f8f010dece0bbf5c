"""Chapters as a user runs them: papermill one-liners, good and bad parameters."""

import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import nbformat
import psutil
import pytest
from IPython.core.interactiveshell import InteractiveShell

from sameloss.book.pages import open_page
from sameloss.errors import NonFiniteLoss
from sameloss.store.pool import compute_all
from sameloss.studies.same_loss.parameters import chosen

ROOT = Path(__file__).parents[2]
CHAPTER = "chapters/04_flatness.ipynb"
LANGUAGES = "chapters/a1_datasets.ipynb"
PAPERMILL = Path(sys.executable).with_name("papermill")
pytestmark = pytest.mark.book


def papermill(folder, artifacts, *parameters, chapter=CHAPTER):
    given = [word for name, value in parameters for word in ("-p", name, str(value))]
    command = [PAPERMILL, "--no-progress-bar", chapter, folder / "out.ipynb", "-p", "artifacts", artifacts]
    return subprocess.run([*command, *given], cwd=ROOT, capture_output=True, text=True, check=False)


def outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    return [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]


def printed(path):
    return "".join(output.get("text", "") for output in outputs(path))


def assert_done(done, notebook):
    """Assert that a notebook came to its end, and that nothing but progress bars stands among its errors."""
    assert done.returncode == 0, done.stderr[-2000:]
    errors = "".join(output.text for output in outputs(notebook) if output.get("name") == "stderr")
    assert not [line for line in re.split(r"[\r\n]+", errors) if line and not re.search(r"\d+% ?\|", line)]


def computed(artifacts):
    """Return every finished run, with what changes if it is computed again."""
    return {path: (path.stat().st_mtime_ns, path.read_text()) for path in artifacts.glob("*/*/manifest.json")}


def test_one_size_end_to_end_then_warm(tmp_path):
    artifacts = tmp_path / "artifacts"
    done = papermill(tmp_path, artifacts, ("size", "d8"), ("seeds", 1))
    assert_done(done, tmp_path / "out.ipynb")
    assert "; pre-trainings: " in printed(tmp_path / "out.ipynb")
    before = computed(artifacts)
    trained = [json.loads(text) for path, (_, text) in before.items() if "Pretraining" in path.parts]
    assert {run["parameters"]["shape"]["d_model"] for run in trained} == {8}
    done = papermill(tmp_path, artifacts, ("size", "d8"), ("seeds", 1))
    assert_done(done, tmp_path / "out.ipynb")
    assert "nothing is computed" in printed(tmp_path / "out.ipynb")
    assert computed(artifacts) == before


def assert_one_sentence(sentence, notebook):
    """Assert that a notebook ended in a fault that shows as one sentence, without a traceback."""
    (error,) = [output for output in outputs(notebook) if output.output_type == "error"]
    assert len(error.traceback) == 1
    assert re.search(sentence, error.traceback[0])
    assert "File" not in error.traceback[0]


def test_a_copy_elsewhere_shows_the_same_records(tmp_path, smoke_store):
    shutil.copy(ROOT / "chapters" / "e_mask_rate.ipynb", tmp_path)
    given = ["-p", "preset", "smoke", "-p", "artifacts", str(smoke_store)]
    command = [PAPERMILL, "--no-progress-bar", "e_mask_rate.ipynb", "out.ipynb", *given]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "No book was found" not in printed(tmp_path / "out.ipynb")
    assert not (tmp_path / "artifacts").exists()


def test_a_fault_ends_papermill_in_one_sentence(tmp_path):
    sentence = r"ParameterError: Unknown parameter 'szie'; valid here are preset, language, size, "
    done = papermill(tmp_path, tmp_path / "artifacts", ("szie", "10K"))
    assert done.returncode == 1
    assert re.search(sentence, done.stderr)
    assert_one_sentence(sentence, tmp_path / "out.ipynb")


@pytest.fixture
def said(capsys, monkeypatch):
    """What a chapter says of its fault: its cells run here, without a kernel, until one fails."""
    monkeypatch.chdir(ROOT)
    shell = InteractiveShell.instance()

    def run(chapter, given):
        cells = nbformat.read(chapter, as_version=4).cells
        sources = [cell.source for cell in cells if cell.cell_type == "code"]
        injected = "\n".join(f"{name} = {value!r}" for name, value in given.items())
        for source in (sources[0], injected, *sources[1:]):
            if not shell.run_cell(source).success:
                return capsys.readouterr().out.strip().splitlines()[-1]
        raise AssertionError(f"{chapter} did not end in a fault.")

    yield run
    InteractiveShell.clear_instance()


REFUSED = [
    ({"size": "9K"}, r"ParameterError: Unknown size '9K'; choose one of all, d8, d16, .*d24"),
    ({"steps": -3}, r"ParameterError: steps must be positive; got -3\."),
    ({"preset": "laptop", "size": "235M"}, r"ParameterError: Size 235M is not on grammar at preset laptop; "),
    ({"artifacts": "{folder}/mine.txt/artifacts"}, r"StoreError: The artifacts folder"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_bad_parameters_end_in_one_sentence(tmp_path, said, given, sentence):
    assert re.match(sentence, said(CHAPTER, in_folder(tmp_path, given)))


def in_folder(folder, given):
    """Return parameters with `{folder}` in them filled in; there is a grammar in it, and a store."""
    (folder / "mine.txt").write_text(MINE)
    named = {"artifacts": "{folder}/artifacts", **given}
    return {k: v.format(folder=folder) if isinstance(v, str) else v for k, v in named.items()}


def test_the_papers_size_is_refused_on_a_cpu_with_its_cost(tmp_path, said):
    import torch

    if torch.cuda.is_available():
        pytest.skip("on an accelerator this would train for hours")
    refusal = (
        r"ParameterError: preset paper, grammar: 235M: \d+ missing runs take about [\d,.]+ hours of one core "
        r"\(Pretraining [\d,.]+ hours; .*; pre-trainings: 1, [\d.e+]+ FLOPs; [\d.]+ GB of memory per process"
        r"\), above max_hours = 5000; raise max_hours"
    )
    assert re.match(refusal, said(CHAPTER, in_folder(tmp_path, {"size": "235M"})))


def test_lifting_the_limit_starts_the_papers_protocol(tmp_path):
    """The chapter goes on to sample the paper's corpus; then its processes are ended.

    The probes of 235M would need 40 GB of memory, those of 2M fit anywhere.
    """
    artifacts = tmp_path / "artifacts"
    command = [PAPERMILL, "--no-progress-bar", CHAPTER, tmp_path / "out.ipynb", "-p", "size", "2M"]
    command += ["-p", "max_hours", "1e9", "-p", "artifacts", artifacts]
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL) as started:
        try:
            until = time.monotonic() + 600
            while not list(artifacts.glob("CorpusSampling/*.partial/tokens-*.npy")):
                assert started.poll() is None
                assert time.monotonic() < until
                time.sleep(0.5)
        finally:
            for process in psutil.Process(started.pid).children(recursive=True):
                process.kill()
            started.kill()


def test_a_paper_shape_learns_on_the_papers_language(tmp_path):
    page = open_page("04_flatness", size="2M", artifacts=str(tmp_path))
    run = next(chosen(page.values).replicates()).longest_descent("2M")
    brief = replace(run.optimisation, steps=2, batch=8)
    run = replace(run, corpus=replace(run.corpus, sentences=300), optimisation=brief, checkpoints=(2,))
    run = replace(run, execution=replace(run.execution, compiled=False))  # which takes half a minute
    first, _ = page.store.get(run).history.loss
    assert 4.9 < first < 5.7  # ln 200 = 5.30 before anything is learned


MINE = "S A B 0.5\nS B A 0.5\nA A B 0.3\nA x 0.7\nB y 0.6\nB z 0.4\n"


def test_a_grammar_of_ones_own(tmp_path, smoke_store):
    (tmp_path / "mine.txt").write_text(MINE)
    own = [("preset", "smoke"), ("grammar", tmp_path / "mine.txt"), ("length_limit", 5)]
    done = papermill(tmp_path, smoke_store, *own, chapter=LANGUAGES)
    assert_done(done, tmp_path / "out.ipynb")
    text = printed(tmp_path / "out.ipynb")
    assert "pre-trainings" not in text
    assert "False" not in text
    done = papermill(tmp_path, smoke_store, *own, ("size", "d8"), ("seeds", 1))
    assert_done(done, tmp_path / "out.ipynb")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sentences": 1}, r"ParameterError: sentences is at least 2; got 1\."),
        (
            {"grammar": "{folder}/mine.txt"},
            r"LanguageError: In .*mine\.txt: The grammar is recursive, .* give length_limit",
        ),
        ({"grammar": "{folder}/none.txt"}, "ParameterError: The grammar file .*none.txt does not exist"),
        (
            {"opt": "{folder}/no-model"},
            "LanguageError: Cannot load the model .*give a local folder in the parameter `opt`",
        ),
    ],
)
def test_bad_languages_end_in_one_sentence(tmp_path, smoke_store, said, given, sentence):
    given = {"preset": "smoke", "artifacts": str(smoke_store), **given}
    assert re.match(sentence, said(LANGUAGES, in_folder(tmp_path, given)))


def test_help_explains_every_parameter():
    done = subprocess.run(
        [PAPERMILL, "--help-notebook", CHAPTER], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in (
        "preset",
        "language",
        "size",
        "steps",
        "seeds",
        "probe_seeds",
        "trace_sentences",
        "max_hours",
    ):
        assert re.search(rf"{name}: (str|int|float) \(default .*\)\s+\S+", done.stdout), name


def test_a_diverging_run_ends_in_one_sentence(smoke_store):
    page = open_page("04_flatness", size="d8", artifacts=str(smoke_store))
    run = next(chosen(page.values).replicates()).longest_descent("d8")
    run = replace(run, optimisation=replace(run.optimisation, lr=1e30))
    with pytest.raises(NonFiniteLoss, match="choose a smaller lr"):
        compute_all(page.store, [run], workers=1)
