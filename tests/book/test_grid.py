"""A grid of runs under Snakemake: killed, resumed, refused."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sameloss.book.grid import grid_of, main
from sameloss.errors import ParameterError

ROOT = Path(__file__).parents[2]
SNAKEMAKE = ROOT / ".venv-grid" / "bin" / "snakemake"
SEEDS = (1, 2)  # the first seed belongs to both cells


def snakemake(folder, *options, **config):
    """Return the command for a grid whose store and notebooks are in a folder."""
    assert SNAKEMAKE.exists(), "Snakemake is not installed; `make snakemake` does it."
    given = [f"{name}={value}" for name, value in {"artifacts": folder / "artifacts", **config}.items()]
    command = [SNAKEMAKE, "-s", ROOT / "lib" / "grid.smk", "--directory", folder, "--cores", "2"]
    return [*command, *options, "--config", *given]


def tiny(folder, *options):
    return snakemake(folder, *options, preset="smoke", sizes="d8", steps=20, seeds=",".join(map(str, SEEDS)))


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def finished(folder):
    """Return every finished run, and what changes if it is computed again; none that is but partly there."""
    manifests = (folder / "artifacts").glob("*/*/manifest.json")
    there = [path for path in manifests if path.parent.suffix != ".partial"]
    return {path: (path.stat().st_mtime_ns, path.read_text()) for path in there}


def notebooks(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("seeds-*.ipynb")}


@pytest.fixture
def strays():
    """Processes to end at last: kernels and their workers have process groups of their own."""
    found = []
    yield found
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def start_and_kill(folder, strays):
    """Kill the whole process group once both cells have pre-trained and neither is done."""
    with subprocess.Popen(tiny(folder), start_new_session=True, stderr=subprocess.DEVNULL) as started:
        until = time.monotonic() + 600
        while sum("Pretraining" in path.parts for path in map(Path, finished(folder))) < max(SEEDS):
            assert started.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
        strays += psutil.Process(started.pid).children(recursive=True)
        os.killpg(started.pid, signal.SIGKILL)


@pytest.mark.book
def test_a_killed_grid_goes_on_and_computes_nothing_twice(tmp_path, strays):
    start_and_kill(tmp_path, strays)
    before = finished(tmp_path)
    assert not [path for path in notebooks(tmp_path) if "unfinished" not in path.name]

    locked = run(tiny(tmp_path))
    assert locked.returncode != 0
    assert "--unlock" in locked.stderr
    assert run(tiny(tmp_path, "--unlock")).returncode == 0
    resumed = run(tiny(tmp_path, "--rerun-incomplete", "--rerun-triggers", "mtime"))
    assert resumed.returncode == 0, resumed.stderr[-3000:]

    made = notebooks(tmp_path)
    cell = tmp_path / "_build" / "grid" / "steps-20" / "smoke" / "grammar" / "d8"
    assert set(made) == {cell / f"seeds-{seeds}.ipynb" for seeds in SEEDS}
    after = finished(tmp_path)
    assert {path: after[path] for path in before} == before
    trained = list((tmp_path / "artifacts" / "Pretraining").glob("*/manifest.json"))
    assert len(trained) == 4 * max(SEEDS)  # three descents and a plateau a replicate

    again = run(tiny(tmp_path))
    assert again.returncode == 0
    assert "Nothing to be done" in again.stderr
    assert (notebooks(tmp_path), finished(tmp_path)) == (made, after)


REFUSALS = [
    ({"szies": "d8"}, "A grid has no 'szies'; valid are preset, languages, sizes, seeds, "),
    ({"preset": "samll"}, "Unknown preset 'samll'; choose one of auto, smoke, laptop, "),
    (
        {"languages": "grammar,dutch"},
        "Language dutch is not in preset smoke; choose all or grammar, hmm, ",
    ),
    ({"sizes": "d8,9K"}, "Size 9K is not on grammar at preset smoke; choose one of all, d8, "),
    ({"sizes": "2M"}, "Size 2M is not on grammar at preset smoke; choose one of all, d8, "),
    (
        {"preset": "paper", "sizes": "2M", "languages": "hmm"},
        "Size 2M is not on hmm at preset paper; it goes with language grammar.",
    ),
    ({"seeds": "1,0"}, "seeds must be positive; got 0."),
    ({"seeds": "few"}, "seeds must be a whole number; got 'few'."),
    ({"steps": "-1"}, "steps must be positive; got -1."),
    ({"max_hours": "9" * 400}, "max_hours is at most 2,147,483,648; got 9999"),
    ({"max_hours": "nan"}, "max_hours must be a number; got 'nan'."),
    ({"seeds": "9" * 5000}, "seeds must be a whole number; got '9999"),
    ({"workers": "1.5"}, "workers must be a whole number; got 1.5."),
    ({"artifacts": ""}, "artifacts must be a name of printable characters, "),
    ({"out": ""}, "out is a folder whose name has no braces and no tilde; got ''."),
    ({"out": "{x}"}, "out is a folder whose name has no braces and no tilde; got '{x}'."),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSALS)
def test_an_impossible_grid_is_refused_in_one_sentence(tmp_path, given, sentence):
    words = {"preset": "smoke", "artifacts": tmp_path, **given}
    with pytest.raises(ParameterError) as refused:
        grid_of(f"{name}={value}" for name, value in words.items())
    assert str(refused.value).startswith(sentence)
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


@pytest.mark.book
def test_snakemake_says_the_sentence_and_starts_nothing(tmp_path):
    refused = run(snakemake(tmp_path, preset="smoke", sizes="d8,lstm16"))
    assert refused.returncode == 1
    assert "Size lstm16 is not on grammar at preset smoke; it goes with language hmm." in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not finished(tmp_path)
    assert not (tmp_path / "_build").exists()


def test_all_sizes_are_those_of_each_language(tmp_path):
    grid = grid_of(["preset=paper", "languages=grammar,hmm", f"artifacts={tmp_path}"])
    pcfg, hmm = (
        ("2M", "5M", "9M", "13M", "41M", "110M", "235M", "430M", "730M"),
        ("4M", "10M", "29M", "67M", "135M"),
    )
    expected = [
        f"paper/{language}/{size}" for language, sizes in (("grammar", pcfg), ("hmm", hmm)) for size in sizes
    ]
    assert grid["cells"] == [f"{cell}/seeds-1" for cell in expected]


def cells_of(tmp_path, **given):
    return grid_of(f"{name}={value}" for name, value in {"artifacts": tmp_path, **given}.items())["cells"]


def test_axes_are_multiplied_and_no_cell_is_there_twice(tmp_path):
    """A size by name stands beside all sizes, which hold it."""
    found = cells_of(tmp_path, preset="smoke", sizes="d8,all", seeds="1,2")
    assert len(found) == len(set(found)) == 2 * 2
    assert found[:2] == ["smoke/grammar/d8/seeds-1", "smoke/grammar/d8/seeds-2"]


def test_what_is_left_out_is_the_presets(tmp_path):
    """As a chapter would take it: a whole number may be written as a power of ten."""
    assert cells_of(tmp_path, preset="smoke", sizes="d8", steps="1e3") == ["smoke/grammar/d8/seeds-2"]
    assert cells_of(tmp_path, preset="auto", sizes="2M", seeds="None") == ["paper/grammar/2M/seeds-1"]


def test_another_length_of_training_has_a_folder_of_its_own():
    assert grid_of(["out=x"])["folder"] == "x"
    assert grid_of(["out=x", "steps=20"])["folder"] == "x/steps-20"


@pytest.mark.parametrize("steps", ["1000", "1e3", "1_000", "1000\n", "1000.0"])
def test_a_number_is_handed_on_as_one_however_it_is_written(tmp_path, steps):
    grid = grid_of([f"steps={steps}", "max_hours=5e-1\n", "workers=2"])
    assert (grid["steps"], grid["max_hours"], grid["workers"]) == ("1000", "0.5", 2)
    assert grid["folder"] == "_build/grid/steps-1000"
    assert cells_of(tmp_path, preset="smoke", sizes="d8", seeds="1\n") == ["smoke/grammar/d8/seeds-1"]


def test_what_is_handed_to_the_shell_is_quoted():
    command = (ROOT / "lib" / "grid.smk").read_text().partition("    shell:")[2]
    fields = re.findall(r"{(.*?)}", command)
    assert [field for field in fields if not field.endswith(":q")] == ["threads"]


def test_the_defaults_are_a_grid_of_the_laptop(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["grid", f"artifacts={tmp_path}"])
    main()
    grid = json.loads(capsys.readouterr().out)
    assert grid["cells"] == [f"laptop/grammar/{size}/seeds-2" for size in ("d24", "d96")]
    assert (grid["folder"], grid["workers"]) == ("_build/grid", 1)
