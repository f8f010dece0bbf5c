"""The command line that builds the book, and what is committed of it."""

import errno
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import chdir, suppress
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from campaign.limits import disk, may_mount, mount
from tiny_book import PAGE

from sameloss.book import site
from sameloss.book.build import MODULES, arguments, main
from sameloss.book.notebooks import notebooks
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


def test_a_command_and_all_that_it_starts_are_for_the_book_that_it_is_given_in(book, monkeypatch):
    """Whosever the library is."""
    monkeypatch.setenv(HOME, "/elsewhere")
    monkeypatch.setattr(sys, "argv", ["build", "compute"])
    monkeypatch.setattr("sameloss.book.record.compute", lambda **_: None)
    main()
    assert book_root() == book
    assert os.environ[HOME] == str(book)


@pytest.mark.parametrize("name", MODULES)
def test_outside_of_the_book_a_command_says_so_and_leaves_nothing(name, tmp_path):
    done = say(name, folder=tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"This is not the folder of the book, .*\n", done.stderr)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def said(monkeypatch):
    """The sentence in which a command of the book ends here."""

    def end(*words):
        monkeypatch.setattr(sys, "argv", ["build", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        return str(caught.value)

    return end


def test_a_fault_is_one_sentence(book, said):
    assert re.fullmatch(r"Unknown preset 'smal'; choose one of .*", said("compute", "--preset", "smal"))


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            r"The disk cannot be used \(No space.*\); put that right",
        ),
        (OSError(errno.EDQUOT, "Quota", "a.txt"), r"a.txt cannot be used \(Quota\); put that right"),
        (
            PermissionError(errno.EACCES, "Permission denied", "record/a"),
            r"record/a cannot be used \(Permission denied\); put that right",
        ),
        (OSError(errno.EROFS, "Read-only", "a.txt"), r"a.txt cannot be used \(Read-only\); put that right"),
    ],
)
def test_what_the_system_refuses_is_one_sentence(book, said, monkeypatch, error, sentence):
    def refused(committed):
        raise error

    monkeypatch.setattr(site, "html", refused)
    assert re.fullmatch(sentence + r", then run this again: what was computed is kept\.", said("html"))


def test_an_interruption_is_one_sentence(book, said, monkeypatch):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sameloss.book.record.compute", interrupted)
    assert said("compute") == "Interrupted; run this again to go on: what was computed is kept."


@pytest.mark.parametrize("number", ["0", "-1", "nan", "inf", "1e400"])
@pytest.mark.parametrize(
    "words",
    [
        ("record", "--minutes"),
        ("record", "--max-hours"),
        ("execute", "--max-hours"),
        ("compute", "--max-hours"),
    ],
    ids=" ".join,
)
def test_numbers_are_checked_before_anything_is_done(book, said, monkeypatch, words, number):
    monkeypatch.setattr(f"sameloss.book.{MODULES[words[0]]}.{words[0]}", lambda **_: pytest.fail("begun"))
    name = words[1].strip("-").replace("-", "_")
    assert said(*words, number) == f"{name} must be positive and finite; got {float(number)}."


def test_an_error_that_is_about_no_disk_is_not_hidden(book, monkeypatch):
    def failing(committed):
        raise ConnectionError("a bug")

    monkeypatch.setattr(site, "html", failing)
    monkeypatch.setattr(sys, "argv", ["build", "html"])
    with pytest.raises(ConnectionError, match="a bug"):
        main()


@pytest.fixture
def another_disk(book, tmp_path_factory, monkeypatch):
    """A disk of 2 MB with the tiny book, in which the test runs."""
    if not may_mount():
        pytest.skip("this user may not mount disks")
    monkeypatch.setattr("sameloss.book.execute.source_revision", lambda: "abc")
    monkeypatch.setattr("sameloss.book.record.compute", lambda *given: None)
    PAGE.with_suffix(".py").write_text("# %%\nx = 2\n")
    with disk(tmp_path_factory.mktemp("mounted") / "disk", 2_000_000) as mounted:
        shutil.copytree(book, mounted / "book")
        with chdir(mounted / "book"):
            yield mounted


WRITING = ("html --committed", "twins --sync", "execute --preset smoke")


@pytest.mark.book
@pytest.mark.parametrize("words", WRITING)
def test_a_book_that_may_only_be_read_says_so(another_disk, said, words):
    mount(another_disk, "remount,ro")
    sentence = said(*words.split())
    assert re.search(rf"{another_disk}/book/artifacts cannot be written|cannot be used \(Read-only", sentence)
    assert "\n" not in sentence


@pytest.mark.book
@pytest.mark.parametrize("words", WRITING)
def test_a_full_disk_says_so_and_what_it_left_is_not_in_the_way(another_disk, said, words):
    filler = Path("filler")
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    sentence = said(*words.split())
    assert re.fullmatch(
        r"(The disk|\S+) cannot be used \(.*No space left on device\); .*, then run this again.*", sentence
    )


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
