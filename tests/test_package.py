"""The package: it says what it needs, and works from a wheel where nothing else of the book is."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from library import imported, sources
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


def plain(name):
    """Return the name of a distribution as all its spellings have it."""
    return re.sub(r"[-_.]+", "-", name.lower())


def named(requirements):
    return {plain(Requirement(line).name) for line in requirements}


def needed(*, book):
    """Return the distributions that the library imports, in its part on the book or outside of it."""
    tops = {
        name.partition(".")[0]
        for source in sources()
        if source.startswith("book/") == book
        for name in imported(source)
    }
    known = packages_distributions()
    others = tops - sys.stdlib_module_names - {"sameloss"}
    return {plain(known[top][0]) for top in others}


def test_what_the_library_imports_is_what_it_says_it_needs():
    own, book = named(PROJECT["dependencies"]), named(PROJECT["optional-dependencies"]["book"])
    assert own == needed(book=False)
    assert book == needed(book=True) - own | {"myst-nb"}  # for `glue` in chapters


def test_what_it_needs_is_what_it_is_tested_with():
    for line in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["book"]):
        requirement = Requirement(line)
        assert requirement.specifier.contains(version(requirement.name)), line


def run(*words, folder):
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Python of an environment with the wheel alone, which borrows what it needs from this one."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    alone = ("--no-deps", "--no-index", "--no-build-isolation")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "lib", folder / "lib", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    run(*pip, "wheel", "-q", *alone, ".", folder=folder)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    (place,) = (folder / "env" / "lib").glob("python*/site-packages")
    run(*pip, "--python", python, "install", "-q", *alone[:2], wheel, folder=folder)
    (place / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


MINIMAL = """
import sys
sys.modules.update(dict.fromkeys("IPython nltk datasets nbformat jupytext matplotlib seaborn psutil".split()))
import torch
from sameloss.languages import PCFGSpec
from sameloss.languages.masking import mask_batch
from sameloss.measures.downstream import OptimalProbe
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.encoder import EncoderShape
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import CorpusSampling
from sameloss.store.store import Store
from sameloss.studies.same_loss import experiment
from sameloss.training.loop import Optimisation

spec, shape = PCFGSpec(2, 2, 2, 2, 2, 4, 2, 1.0, 1.0, seed=0), EncoderShape(8, 2, 1, 16)
run = Pretraining(CorpusSampling(spec, 50, 0), shape, Optimisation(4, 8, 1e-2), 0, (4,), 8, 4)
model = Store(sys.argv[1]).get(run).last()
sentences = spec.build().sample(8, torch.Generator().manual_seed(0))
masked = mask_batch(sentences, torch.zeros(8).long())
print(fisher_trace(model, masked, generator=torch.Generator()).total.mean > 0)
labels = (torch.arange(40) % 2)[None, :, None]
print(OptimalProbe().fit(torch.randn(1, 40, 3), labels, [2], seed=0) is not None)
"""
"""A training, a trace and a probe where these packages are missing."""


def test_the_library_computes_without_what_draws_and_executes(tmp_path):
    assert run(sys.executable, "-c", MINIMAL, tmp_path, folder=tmp_path).split() == ["True", "True"]


def test_what_a_build_leaves_is_not_committed():
    assert {"build/", "*.egg-info/"} <= set((ROOT / ".gitignore").read_text().splitlines())


@pytest.mark.book
def test_the_snippets_of_the_readme_run_from_a_wheel(installed, tmp_path):
    assert len(SNIPPETS) >= 3
    where = "import sameloss; print(sameloss.__file__)"
    assert str(installed.parents[1]) in run(installed, "-c", where, folder=tmp_path)
    run(installed, "-c", "\n".join(SNIPPETS), folder=tmp_path)
    assert (tmp_path / "exported" / "config.json").exists()


@pytest.mark.book
def test_a_wheel_has_every_module(installed):
    (package,) = installed.parents[1].glob("lib/python*/site-packages/sameloss")
    assert {str(path.relative_to(package)) for path in package.rglob("*.py")} >= set(sources())
