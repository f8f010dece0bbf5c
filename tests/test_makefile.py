"""The Makefile: an environment that is not fit is noticed first, and made again; any folder will do."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]

PYTHON = f"""#!/bin/sh
# Makes environments of itself, and notes what else it is asked for.
case "$1 $2" in
    "-m venv") rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python; touch .venv/bin/pip ;;
    "-c import sys"*) exec "{sys.executable}" -c "import sys; sys.version_info = (VERSION, 0); $2" ;;
esac
echo "$*" >> "$NOTES"
"""


@pytest.fixture
def clone(tmp_path):
    """What make needs of a clone, in a folder whose name has everything that a shell could trip over."""
    folder = tmp_path / 'Müller\'s $HOME `x` "book"'
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.txt", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def make(clone, tmp_path):
    """Make a target with a Python that notes what it is asked for; return how it ended, and the notes."""

    def made(target, *words, version="3, 11", folder=clone, environment=()):
        python, notes = tmp_path / "a python", tmp_path / "notes"
        python.write_text(PYTHON.replace("VERSION", version))
        python.chmod(0o755)
        notes.write_text("")
        command = ["make", target, f"PYTHON={python}", *words]
        environment = {"PATH": "/usr/bin:/bin", "NOTES": str(notes), **dict(environment)}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        return done, notes.read_text().splitlines()

    return made


INSTALLED = ("-m pip", "-m pip", "-m sameloss.book.build html --committed")


def asked(notes):
    """Return what was asked of a Python, the options of pip left out."""
    return tuple("-m pip" if note.startswith("-m pip") else note for note in notes)


def test_an_environment_is_made_once(make):
    done, notes = make("html")
    assert done.returncode == 0, done.stderr
    assert asked(notes) == ("-m venv --clear .venv", *INSTALLED)
    _, notes = make("html")
    assert asked(notes) == INSTALLED[2:]


def test_an_older_python_is_refused_before_anything_is_made(make, clone):
    done, notes = make("html", version="3, 10")
    assert done.returncode != 0
    sentence, *_ = done.stderr.splitlines()
    assert sentence.startswith("Python 3.11 or newer is needed, which ")
    assert sentence.endswith(" is not; install one or say make html PYTHON=/path/to/python3")
    assert not notes
    assert not (clone / ".venv").exists()


def test_the_newest_python_that_runs_is_taken(clone, tmp_path):
    """Not one that pyenv, say, has a name of and refuses to run."""
    names, notes = tmp_path / "names", tmp_path / "notes"
    names.mkdir()
    for name, source in (
        ("python3.13", "#!/bin/sh\nexit 127"),
        ("python3.12", PYTHON),
        ("python3.11", PYTHON),
    ):
        (names / name).write_text(source.replace("VERSION", name.removeprefix("python").replace(".", ", ")))
        (names / name).chmod(0o755)
    environment = {"PATH": f"{names}:/usr/bin:/bin", "NOTES": str(notes)}
    done = subprocess.run(["make", "html"], cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "(3, 12, 0)" in (clone / ".venv" / "bin" / "python").read_text()


@pytest.mark.parametrize("what", ["older", "gone", "moved", "no pip"])
def test_an_environment_that_is_not_fit_is_made_again(make, clone, what):
    make("html")
    python = clone / ".venv" / "bin" / "python"
    if what == "older":
        python.write_text(PYTHON.replace("VERSION", "3, 10"))
    elif what == "gone":
        python.unlink()
        python.symlink_to("nowhere")
    elif what == "no pip":
        (clone / ".venv" / "bin" / "pip").unlink()
    folder = clone.rename(clone.with_name("elsewhere")) if what == "moved" else clone
    done, notes = make("html", folder=folder)
    assert done.returncode == 0, done.stderr
    assert asked(notes) == ("-m venv --clear .venv", *INSTALLED)
    _, notes = make("html", folder=folder)
    assert asked(notes) == INSTALLED[2:]


def test_an_environment_of_the_readers_is_kept(make, clone):
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "pip").touch()
    python = clone / ".venv" / "bin" / "python"
    python.write_text(PYTHON.replace("VERSION", "3, 12"))
    python.chmod(0o755)
    done, notes = make("html", version="3, 11")
    assert done.returncode == 0, done.stderr
    assert asked(notes) == INSTALLED


def test_a_limit_of_hours_is_handed_on(make):
    make("html")
    for target, command in (("book", "execute --preset laptop"), ("record", "record --preset laptop-long")):
        _, notes = make(target, "MAX_HOURS=20")
        assert notes[0] == f"-m sameloss.book.build {command} --max-hours 20"


CODE = (
    "`touch made`",
    "$(touch made)",
    "$$(touch made)",
    "$(shell touch made)",
    "x; touch made",
    '"; touch made; "',
)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        *(("record", name) for name in ("PRESET", "PAGE", "MAX_HOURS", "MINUTES", "FLAGS")),
        *(("book", name) for name in ("PRESET", "MAX_HOURS")),
        ("chapters-test", "MAX_HOURS"),
        *(("notebooks", name) for name in ("PAGE", "MAX_HOURS")),
        *(("gpu-check", name) for name in ("GPU_PYTHON", "FLAGS")),
    ],
)
@pytest.mark.parametrize("in_environment", [False, True])
def test_what_is_given_is_never_code(make, clone, target, name, in_environment):
    make("html")
    for text in CODE:
        words = {"GPU_PYTHON": ".venv/bin/python", name: text}
        if in_environment:
            _, notes = make(target, environment=words)
        else:
            _, notes = make(target, *(f"{key}={value}" for key, value in words.items()))
        assert not (clone / "made").exists()
        assert name == "GPU_PYTHON" or any(f" {text} " in f"{note} " for note in notes)


def test_several_flags_are_several_words(make):
    make("html")
    _, notes = make("record", "FLAGS=--dry-run --finished", "PAGE=ii5_growing", "MINUTES=9")
    assert notes[0].endswith("--preset laptop-long --page ii5_growing --minutes 9 --dry-run --finished")


def test_one_notebook_can_be_executed_alone(make):
    make("html")
    _, notes = make("notebooks", "PAGE=02_confirmation")
    commands = ("twins --sync", "adopt --check", "execute --force", "adopt")
    pages = ["", *[" --page 02_confirmation"] * 3]
    assert notes == [f"-m sameloss.book.build {c}{p}" for c, p in zip(commands, pages, strict=True)]


def test_the_forges_workflow_runs_the_two_commands_of_the_readme():
    commands = re.search(r"## Two commands.*?```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    readme = [line.partition("#")[0].strip() for line in commands[1].splitlines()]
    jobs = yaml.safe_load((ROOT / ".github/workflows/book.yml").read_text())["jobs"]
    run = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert run == readme
    assert set(jobs["publish"]["needs"]) == jobs.keys() - {"publish"}
