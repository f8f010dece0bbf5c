"""Chapters as a user runs them: papermill one-liners, good and bad parameters."""

import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import nbformat
import psutil
import pytest

from sameloss.book.build import presentable, twin_differences
from sameloss.book.chapter import begin
from sameloss.errors import NonFiniteLoss
from sameloss.store.pool import get_all
from sameloss.studies.same_loss.parameters import resolve

ROOT = Path(__file__).parents[2]
CHAPTER = "chapters/04_flatness.ipynb"
PAPERMILL = Path(sys.executable).with_name("papermill")
pytestmark = pytest.mark.book


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    """One store for all runs of this file."""
    return tmp_path_factory.mktemp("artifacts")


def papermill(tmp_path, artifacts, *parameters, chapter=CHAPTER):
    given = [word for name, value in parameters for word in ("-p", name, str(value))]
    command = [PAPERMILL, "--no-progress-bar", chapter, tmp_path / "out.ipynb", "-p", "artifacts", artifacts]
    return subprocess.run([*command, *given], cwd=ROOT, capture_output=True, text=True, check=False)


def printed(path):
    cells = nbformat.read(path, as_version=4).cells
    return "".join(o.get("text", "") for c in cells if c.cell_type == "code" for o in c.outputs)


def test_one_size_end_to_end_then_warm(tmp_path, artifacts):
    done = papermill(tmp_path, artifacts, ("size", "1K"), ("seeds", 1))
    assert done.returncode == 0, done.stderr[-2000:]
    assert "preset smoke, size 1K: 1 pre-training(s) will take about" in printed(tmp_path / "out.ipynb")
    made = sorted(artifacts.glob("Pretraining/*/manifest.json"))
    assert len(made) == 1
    before = made[0].stat().st_mtime_ns
    started = time.monotonic()
    done = papermill(tmp_path, artifacts, ("size", "1K"), ("seeds", 1), ("task", "root"))
    assert done.returncode == 0, done.stderr[-2000:]
    assert "nothing is trained" in printed(tmp_path / "out.ipynb")
    assert made[0].stat().st_mtime_ns == before
    assert time.monotonic() - started < 60
    assert json.loads(made[0].read_text())["parameters"]["shape"]["d_model"] == 8


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ([("szie", "7K")], r"ParameterError: Unknown parameter 'szie'; valid are preset, size, "),
        ([("size", "9K")], r"ParameterError: Unknown size '9K'; choose one of all, 1K, 3K, .*7K"),
        ([("steps", "-3")], r"ParameterError: steps must be positive; got -3\."),
        (
            [("preset", "laptop"), ("size", "235M")],
            r"ParameterError: Size 235M does not belong to preset laptop",
        ),
    ],
)
def test_bad_parameters_end_in_one_sentence(tmp_path, artifacts, parameters, sentence):
    done = papermill(tmp_path, artifacts, *parameters)
    assert done.returncode == 1
    assert re.search(sentence, done.stderr)
    (error,) = [
        output
        for cell in nbformat.read(tmp_path / "out.ipynb", as_version=4).cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "error"
    ]
    assert len(error.traceback) == 1
    assert "File" not in error.traceback[0]


def test_the_papers_size_is_refused_on_a_cpu_with_its_cost(tmp_path, artifacts):
    import torch

    if torch.cuda.is_available():
        pytest.skip("on an accelerator this would train for hours")
    done = papermill(tmp_path, artifacts, ("size", "235M"))
    assert done.returncode == 1
    assert re.search(
        r"ParameterError: preset paper, size 235M: 1 pre-training\(s\) would take about [\d.e+]+ FLOPs, "
        r"[\d,.]+ hours and [\d.]+ GB .* above max_hours = 24; lift the limit with the parameter max_hours",
        done.stderr,
    )


def test_lifting_the_limit_starts_the_papers_protocol(tmp_path):
    """The chapter goes on to sample the paper's corpus; then its processes are ended."""
    artifacts = tmp_path / "artifacts"
    command = [PAPERMILL, "--no-progress-bar", CHAPTER, tmp_path / "out.ipynb", "-p", "size", "235M"]
    command += ["-p", "max_hours", "1e9", "-p", "artifacts", artifacts]
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL) as started:
        try:
            until = time.monotonic() + 120
            while not list(artifacts.glob("CorpusSampling/*.partial/tokens-*.npy")):
                assert started.poll() is None
                assert time.monotonic() < until
                time.sleep(0.5)
        finally:
            for process in psutil.Process(started.pid).children(recursive=True):
                process.kill()
            started.kill()


def test_a_paper_shape_learns_on_the_papers_language(tmp_path):
    setting = resolve({"size": "2M", "artifacts": str(tmp_path)})
    run = setting.pretraining("2M", 0)
    brief = replace(run.optimisation, steps=2, batch=8)
    run = replace(run, corpus=replace(run.corpus, sentences=300), optimisation=brief, checkpoints=(2,))
    run = replace(run, execution=replace(run.execution, compiled=False))  # which takes half a minute
    first, _ = setting.store.get(run).history.loss
    assert 4.9 < first < 5.7  # ln 200 = 5.30 before anything is learned


MINE = "S A B 0.5\nS B A 0.5\nA A B 0.3\nA x 0.7\nB y 0.6\nB z 0.4\n"


def test_a_grammar_of_ones_own(tmp_path, artifacts):
    (tmp_path / "mine.txt").write_text(MINE)
    own = [("preset", "smoke"), ("grammar", tmp_path / "mine.txt"), ("length_limit", 5)]
    for chapter in ("chapters/a1_datasets.ipynb", "chapters/a2_conditionals.ipynb"):
        done = papermill(tmp_path, artifacts, *own, chapter=chapter)
        assert done.returncode == 0, done.stderr[-2000:]
        text = printed(tmp_path / "out.ipynb")
        assert "this page pre-trains no language model" in text
        assert "False" not in text
    done = papermill(tmp_path, artifacts, *own, ("size", "1K"), ("seeds", 1))
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ([("grammar", "{folder}/mine.txt")], "LanguageError: The grammar is recursive, .* give length_limit"),
        ([("grammar", "{folder}/none.txt")], "ParameterError: The grammar file .*none.txt cannot be read"),
        (
            [("opt", "{folder}/no-model")],
            "LanguageError: Cannot load the model .*give a local folder in the parameter `opt`",
        ),
    ],
)
def test_bad_languages_end_in_one_sentence(tmp_path, artifacts, parameters, sentence):
    (tmp_path / "mine.txt").write_text(MINE)
    given = [(name, value.format(folder=tmp_path)) for name, value in parameters]
    done = papermill(tmp_path, artifacts, ("preset", "smoke"), *given, chapter="chapters/a1_datasets.ipynb")
    assert done.returncode == 1
    assert re.search(sentence, done.stderr)


def test_an_endless_corpus_trains(tmp_path, artifacts):
    endless = [("size", "1K"), ("seeds", 1), ("corpus", "endless")]
    done = papermill(tmp_path, artifacts, *endless)
    assert done.returncode == 0, done.stderr[-2000:]


def test_help_explains_every_parameter():
    done = subprocess.run(
        [PAPERMILL, "--help-notebook", CHAPTER], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in ("preset", "size", "task", "steps", "seeds", "probe_seeds", "trace_sentences", "max_hours"):
        assert re.search(rf"{name}: (str|int|float) \(default .*\)\s+\S+", done.stdout), name


def test_an_unwritable_artifacts_folder_ends_in_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    done = papermill(tmp_path, tmp_path / "file" / "artifacts")
    assert done.returncode == 1
    assert "StoreError: The artifacts folder" in done.stderr


def test_a_diverging_run_ends_in_one_sentence(artifacts):
    setting = resolve({"size": "1K", "artifacts": str(artifacts)})
    run = setting.pretraining("1K", 0)
    run = replace(run, optimisation=replace(run.optimisation, lr=1e30))
    with pytest.raises(NonFiniteLoss, match="choose a smaller lr"):
        get_all(setting.store, [run], workers=1)


def test_a_chapter_at_work_can_begin_again(artifacts, capsys):
    namespace = {"size": "1K", "artifacts": str(artifacts)}
    namespace["setting"] = begin(namespace)
    namespace["size"] = "3K"
    assert begin(namespace).sizes == ("3K",)


def test_a_notebook_with_an_error_is_not_staged():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1/0", execution_count=1)])
    notebook.cells[0].outputs = [nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])]
    with pytest.raises(SystemExit, match="ended in an error"):
        presentable(notebook, Path("x.ipynb"))
    notebook.cells[0].outputs, notebook.cells[0].execution_count = [], None
    with pytest.raises(SystemExit, match="was not executed"):
        presentable(notebook, Path("x.ipynb"))


def test_a_twin_out_of_step_is_found(tmp_path, monkeypatch):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "_toc.yml").write_text("root: chapters/a\nparts: []\n")
    cell = nbformat.v4.new_code_cell("x = 1")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "chapters" / "a.ipynb")
    monkeypatch.chdir(tmp_path)
    twin = Path("chapters/a.py")
    twin.write_text("# %%\nx = 1\n")
    assert twin_differences() == []
    for other in ("# %%\nx = 2\n", '# %% tags=["hide-input"]\nx = 1\n', "# %%\nx = 1\n\n# %%\ny = 1\n"):
        twin.write_text(other)
        assert len(twin_differences()) == 1
