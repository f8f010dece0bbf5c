"""The command line that builds the book, and what is committed of it."""

import inspect
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import nbformat
import pytest

from sameloss.book.build import MODULES, arguments, main
from sameloss.book.contents import notebooks
from sameloss.store.location import HOME, book_root

ROOT = Path(__file__).parents[2]


def say(*words, folder):
    command = [sys.executable, "-m", "sameloss.book.build", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", MODULES)
def test_a_command_is_the_function_of_its_name(name):
    command = getattr(import_module(f"sameloss.book.{MODULES[name]}"), name)
    given = vars(arguments().parse_args([name]))
    assert given.pop("command") == name
    inspect.signature(command).bind(**given)


def test_a_fault_is_one_sentence(book):
    done = say("compute", "--preset", "smal", folder=book)
    assert done.returncode == 1
    assert re.fullmatch(r"Unknown preset 'smal'; choose one of .*\n", done.stderr)


def test_a_command_and_all_that_it_starts_are_for_the_book_that_it_is_given_in(book, monkeypatch):
    """Whosever the library is."""
    monkeypatch.setenv(HOME, "/elsewhere")
    monkeypatch.setattr(sys, "argv", ["build", "compute"])
    monkeypatch.setattr("sameloss.book.compute.compute", lambda **_: None)
    main()
    assert book_root() == book
    assert os.environ[HOME] == str(book)


@pytest.mark.parametrize("name", MODULES)
def test_outside_of_the_book_a_command_says_so_and_leaves_nothing(name, tmp_path):
    done = say(name, folder=tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"This is not the folder of the book, .*\n", done.stderr)
    assert not list(tmp_path.iterdir())


def test_processes_that_a_command_starts_import_little():
    """They import its module again, whatever they are for."""
    says = "import sameloss.book.build, sys; print(*{'torch', 'papermill', 'nbformat'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_notebooks_are_committed_executed_and_clean(monkeypatch):
    monkeypatch.chdir(ROOT)
    for path in notebooks():
        notebook = nbformat.read(path, as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
        assert all(cell.execution_count for cell in code), path
        assert not [o for cell in code for o in cell.outputs if o.output_type == "error"]
        assert "parameters" in code[0].metadata.tags
        assert max(len(cell.source.splitlines()) for cell in code) <= 30
        outputs = json.dumps([cell.outputs for cell in code])
        assert not re.search(r"/(?:root|work|tmp|home)/", outputs), path
        assert path.stat().st_size < 1_000_000
