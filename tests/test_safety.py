"""Nothing that is read can run code: no pickle from a disk that others may write, no shell, no eval."""

import ast
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile import ENTRIES, KINDS, hostile_folder
from library import ROOT, parsed, sources

from sameloss.errors import LanguageError

PICKLES = {
    "runs/torchrun.py",  # in a folder that its user alone can open, see test_torchrun.py
    "store/pool.py",  # what the parent process has sent
}
"""The modules that read pickles, none of which lies in a store, in a record or in a reader's folder."""

READ_CODE = {"eval", "exec", "compile", "read_pickle", "trust_remote_code", "shell"}
"""Functions, and arguments that may be given no other value than False, by which data become code."""


def calls(source: str) -> Iterator[tuple[str, dict[str, ast.expr]]]:
    """Yield the calls of a module: what is called, as it is written, and its named arguments."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {word.arg: word.value for word in node.keywords if word.arg}


def is_true(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def is_false(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def what_runs_code(name: str, arguments: dict[str, ast.expr]) -> str | None:
    """Return what in a call could run code that is read, or None.

    >>> what_runs_code("torch.load", {}), what_runs_code("model.eval", {})
    ('torch.load', None)
    """
    if name == "torch.load":
        return None if is_true(arguments.get("weights_only")) else name
    if name in READ_CODE or name.split(".")[-1] in READ_CODE - {"eval", "compile"}:
        return name
    given = [word for word in ("allow_pickle", "trust_remote_code", "shell") if word in arguments]
    return next((f"{name}({word})" for word in given if not is_false(arguments[word])), None)


@pytest.mark.parametrize("source", sources())
def test_nothing_that_is_read_can_run_code(source):
    found = [what for call in calls(source) if (what := what_runs_code(*call))]
    if source in ("book/run.py", "book/cells.py"):  # execute a chapter, as Jupyter does
        found = [what for what in found if what not in ("exec", "eval", "compile")]
    assert not found, f"{source} calls {', '.join(found)}."


def test_pickles_are_read_where_nobody_else_writes():
    readers = {
        source
        for source in sources()
        for name, _ in calls(source)
        if name in ("pickle.load", "pickle.loads", "pickle.Unpickler", "joblib.load")
    }
    assert readers == PICKLES


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("torch.load", "weights_only=False"),
        ("torch.load", "map_location=x"),
        ("np.load", "allow_pickle=True"),
        ("pd.read_pickle", ""),
        ("eval", ""),
        ("subprocess.run", "shell=True"),
        ("AutoModel.from_pretrained", "trust_remote_code=True"),
        ("AutoModel.from_pretrained", "trust_remote_code=None"),
        ("subprocess.run", "shell=given"),
    ],
)
def test_what_runs_code_is_seen(name, arguments):
    call = ast.parse(f"{name}(x, {arguments})").body[0].value
    assert what_runs_code(name, {word.arg: word.value for word in call.keywords})


# Loaders of transformers and datasets: without `trust_remote_code=False` they ask whether to run code

LOADERS = {"from_pretrained", "from_config", "load_dataset", "pipeline", "load_custom_generate"}
BOOK = ROOT.parent.parent


def loaders(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield where a module names a loader, but for what it hands to `load_without_code` or forbids code."""
    allowed = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if ast.unparse(node.func) in ("load_without_code", "self._loaded"):
                allowed.update(node.args)
            if any(word.arg == "trust_remote_code" and is_false(word.value) for word in node.keywords):
                allowed.add(node.func)
    for node in ast.walk(tree):
        name = {ast.Attribute: "attr", ast.Name: "id", ast.alias: "name", ast.Constant: "value"}.get(
            type(node)
        )
        if name and getattr(node, name) in LOADERS and node not in allowed:
            yield node


def snippets(page: Path) -> str:
    """Return all Python code of a Markdown page."""
    text = page.read_text()
    shell = re.findall(r"<<'END'\n(.*?)\nEND", text, re.DOTALL)
    return "\n".join([*re.findall(r"```python\n(.*?)```", text, re.DOTALL), *shell])


def test_a_loader_that_asks_is_seen():
    for code in (
        "A.from_pretrained(x)",
        "partial(A.from_pretrained, x)",
        "from datasets import load_dataset",
    ):
        assert list(loaders(ast.parse(code))), code
    for code in ("load_without_code(A.from_pretrained, x)", "A.from_pretrained(x, trust_remote_code=False)"):
        assert not list(loaders(ast.parse(code))), code


@pytest.mark.parametrize("source", sources())
def test_the_library_loads_in_one_place_only(source):
    """A loader is named only where it is handed to `load_without_code`, or to `_loaded`, which does so."""
    assert not [ast.unparse(node) for node in loaders(parsed(source))]
    forbidding = [name for name, given in calls(source) if "trust_remote_code" in given]
    assert forbidding == (["load"] if source == "hub.py" else [])


PAGES = [
    *sorted(BOOK.glob("chapters/*.py")),
    *sorted(BOOK.glob("benchmarks/*.py")),
    *(BOOK / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(BOOK.glob("chapters/*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_and_benchmarks_forbid_code_wherever_they_load(page):
    tree = ast.parse(snippets(page) if page.suffix == ".md" else page.read_text())
    assert not [ast.unparse(node) for node in loaders(tree)]


# Folders that want to run code, with a reader at the terminal who says yes


@pytest.fixture(params=KINDS)
def wants_code(request, tmp_path, monkeypatch):
    """A folder whose code would leave a mark, and the mark."""
    folder, mark = tmp_path / "model", tmp_path / "mark"
    hostile_folder(request.param, folder, mark)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 100))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    return folder, mark


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_code_of_a_model_folder_runs_even_if_the_reader_says_yes(wants_code, tmp_path, entry, capsys):
    folder, mark = wants_code
    try:
        ENTRIES[entry](str(folder), str(tmp_path / "artifacts"))
    except LanguageError as error:
        assert "needs code of its own, which is never run" in str(error) or "holds a" in str(error)  # noqa: PT017
        assert str(folder) in str(error)  # noqa: PT017
        assert "give a local folder" not in str(error)  # noqa: PT017
    assert not mark.exists()
    assert "[y/N]" not in capsys.readouterr().out


@pytest.mark.parametrize("wants_code", ["own type"], indirect=True)
def test_no_code_of_a_model_folder_runs_in_the_program(wants_code, tmp_path):
    folder, mark = wants_code
    given = {
        "language": "opt",
        "opt": str(folder),
        "preset": "smoke",
        "artifacts": str(tmp_path / "artifacts"),
    }
    command = [sys.executable, "-m", "sameloss.book.run", str(BOOK / "chapters" / "02_existence.py")]
    command += [word for pair in given.items() for word in ("-p", *pair)]
    said = subprocess.run(command, input="y\n" * 9, capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert said.stderr.strip().splitlines()[-1] == (
        f"Cannot load config.json in {folder} (it needs code of its own, which is never run); "
        "put that right, or change the parameter `opt`."
    )
    assert not mark.exists()
