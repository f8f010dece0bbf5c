"""A chapter's twin as a program, with and without the packages of pages."""

import re
import subprocess
import sys
from pathlib import Path

import IPython.display
import pytest

from sameloss.book.run import main

ROOT = Path(__file__).parents[2]

WITHOUT = """
import sys
from importlib import util
found = util.find_spec
gone = ("IPython", "matplotlib", "matplotlib_inline", "myst_nb", "seaborn")
util.find_spec = lambda name, *more: None if name in gone else found(name, *more)
import sameloss.book.run as run
run.find_spec = util.find_spec
run.main()
"""


def executed(*words, code=None):
    command = [sys.executable, *(["-c", code] if code else ["-m", "sameloss.book.run"]), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.fixture
def ends(monkeypatch):
    """The sentence in which a twin that is executed here ends."""
    for name in ("display", "HTML", "Markdown"):  # which it replaces
        monkeypatch.setattr(IPython.display, name, getattr(IPython.display, name))

    def run(*words, folder=ROOT):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["run", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        return str(caught.value)

    return run


def test_a_wrong_parameter_is_one_sentence(ends):
    said = ends("chapters/05_dyck.py", "-p", "presett", "smoke")
    assert said.startswith("Unknown parameter 'presett'; valid here are ")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-p", 'preset="smoke";open("made","w");x', "1"), "Unknown parameter 'preset="),
        (("-p", "class", "1"), "Unknown parameter 'class'; valid here are "),
        (("-p", 9_000 * "x", "1"), f"Unknown parameter '{59 * 'x'} ...; valid here are "),
        (("-p", "seeds", 90_000 * "~" + "1"), "seeds must be a whole number; got '~~~~"),
    ],
)
def test_names_and_values_of_parameters_are_never_code(words, sentence, tmp_path, ends):
    twin = tmp_path / "twin.py"
    twin.write_text(
        '# %% tags=["parameters"]\npreset = "smoke"\n\n# %%\nfrom sameloss.book.cells import begin\n'
        "begin(globals(), '02_existence', {'smoke': {}})\n"
    )
    said = ends("twin.py", *words, folder=tmp_path)
    assert said.startswith(sentence)
    assert "\n" not in said
    assert len(said) < 600
    assert [path.name for path in tmp_path.iterdir()] == ["twin.py"]


@pytest.mark.parametrize("given", ["chapters/nope.py", "chapters", "chapters/02_existence.ipynb"])
def test_what_is_no_chapter_is_one_sentence(given, ends):
    assert ends(given) == f"{given} is no chapter; give one such as chapters/04_flatness.py."


def test_what_is_glued_is_for_pages_alone(tmp_path):
    twin = tmp_path / "twin.py"
    twin.write_text(
        '# %%\nfrom myst_nb import glue\n\nglue("effect", "one point", display=False)\nprint("done")\n'
    )
    done = executed(str(twin))
    assert (done.stdout, done.returncode) == ("done\n", 0)


@pytest.mark.book
@pytest.mark.parametrize("code", [None, WITHOUT], ids=["whole", "without packages of pages"])
def test_a_twin_runs_as_a_program_in_worker_processes(code, tmp_path):
    given = ("-p", "preset", "smoke", "-p", "workers", "2", "-p", "artifacts", str(tmp_path))
    done = executed("chapters/05_dyck.py", *given, code=code)
    assert done.returncode == 0, done.stderr
    assert "Computed: preset smoke, 5 runs" in done.stdout
    assert ("left out without" in done.stdout) == (code is not None)


EMULATED = """
import sys; sys.path.insert(0, "tests")
from emulated_device import emulate; emulate()
from sameloss import device
device.holds_accelerator = lambda: True
import sameloss.store.pool as pool
pool.holds_accelerator = device.holds_accelerator  # the device is of this process alone
import sameloss.book.run as run; run.main()
"""


@pytest.mark.book
def test_chapter_4_runs_whole_on_the_emulated_device(tmp_path):
    given = {"preset": "smoke", "size": "d8", "seeds": "1", "artifacts": str(tmp_path)}
    words = [word for parameter in given.items() for word in ("-p", *parameter)]
    done = executed("chapters/04_flatness.py", *words, code=EMULATED)
    assert done.returncode == 0, done.stderr
    assert re.search(r"runs on .*\bemulated, ", done.stdout)
    assert "per-example gradients have the same norms: True" in done.stdout
