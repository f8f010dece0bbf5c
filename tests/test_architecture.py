"""The plan of the library: who may import whom, what is called what, and tests of every module."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from library import ROOT, dotted, folders, imported, parsed, sources
from setuptools import find_packages

from sameloss.store.store import PRICES
from sameloss.studies.statement import TEXTS

BOTTOM = {"errors", "checks", "seeds", "device", "hub", "images"}

BELOW_STORE = BOTTOM | {"statistics", "languages", "models", "training", "measures"}

MAY_IMPORT = {
    "errors": set(),
    "checks": {"errors"},
    "seeds": {"errors"},
    "device": {"errors"},
    "hub": {"errors"},
    "images": {"errors", "checks", "seeds", "hub"},
    "statistics": {"errors", "seeds"},
    "languages": BOTTOM | {"statistics"},
    "models": BOTTOM | {"statistics", "languages"},
    "training": BOTTOM | {"statistics", "languages", "models"},
    "measures": BOTTOM | {"statistics", "languages", "models"},
    "store": BOTTOM,
    "runs": BELOW_STORE | {"store"},
    "studies": BOTTOM | {"statistics", "store"},  # what all studies are written in
    "studies/*": BELOW_STORE | {"store", "runs", "studies"},  # and no study another
    "book": BELOW_STORE | {"store", "runs", "studies", "studies/*"},
}
"""What each folder may import beside itself: an import only points down.

A file at the top counts as a folder.
"""


def folder_of(source: str) -> str:
    """Return a module's place in the plan.

    >>> folder_of("errors.py"), folder_of("runs/cost.py"), folder_of("studies/dyck/runs.py")
    ('errors', 'runs', 'studies/dyck')
    """
    parts = source.removesuffix(".py").split("/")
    return "/".join(parts[:2]) if parts[0] == "studies" and len(parts) > 2 else parts[0]


SOURCE_OF = {dotted(source): source for source in sources()}


def sources_imported(source: str) -> set[str]:
    """Return the modules of the library that a module imports."""
    names = [name for name in imported(source) if name.split(".")[0] == "sameloss"]
    return {SOURCE_OF.get(name) or SOURCE_OF[name.rpartition(".")[0]] for name in names} - {source}


def allowed(importing: str, target: str) -> bool:
    kinds = ["studies/*" if "/" in folder else folder for folder in (importing, target)]
    return importing == target or kinds[1] in MAY_IMPORT[kinds[0]]


def test_imports_only_point_down():
    arrows = {(source, folder_of(target)) for source in sources() for target in sources_imported(source)}
    wrong = {(source, folder) for source, folder in arrows if not allowed(folder_of(source), folder)}
    assert not wrong, f"Imports against `MAY_IMPORT`: {sorted(wrong)}."


def test_the_plan_has_no_circle():
    """Nor have the modules inside a folder, imports inside functions and for types included."""
    modules = {source: sources_imported(source) for source in sources()}
    for graph in (MAY_IMPORT, modules):
        list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_what_stands_at_the_top():
    assert {source for source in sources() if "/" not in source} == {
        "__init__.py",
        *(f"{name}.py" for name in BOTTOM),
    }
    top = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert top == {folder.split("/")[0] for folder in MAY_IMPORT} - BOTTOM


HERE = Path(__file__).parent

OTHER_LAYERS = ("languages", "models", "training", "measures", "statistics", "store", "runs")
"""Whose tests run on another Python and torch too, where no notebook's library is installed (Makefile)."""


OURS = {"sameloss", *(path.name for path in HERE.iterdir())}


def needed(path: Path, seen: set[Path]) -> Iterator[str]:
    """Yield the packages that importing a file needs, through the files of the tests and the library."""
    if path in seen:
        return
    seen.add(path)
    body = ast.parse(path.read_text()).body
    names = {name.name for node in body if isinstance(node, ast.Import) for name in node.names}
    for node in body:
        if isinstance(node, ast.ImportFrom):
            names |= {str(node.module), *(f"{node.module}.{name.name}" for name in node.names)}
    for name in names:
        local = [HERE / f"{name.replace('.', '/')}.py", ROOT / SOURCE_OF.get(name, "absent")]
        top = name.split(".")[0]
        if found := next(filter(Path.is_file, local), None):
            yield from needed(found, seen)
        elif not {f"{top}.py", top} & OURS:
            yield top


def test_tests_of_the_layers_need_what_their_other_python_has():
    makefile = (HERE.parent / "Makefile").read_text()
    recipe = makefile[makefile.index(".venv-other/installed:") :]
    has = set(recipe[: recipe.index("--no-deps")].replace("scikit-learn", "sklearn").split())
    seen: set[Path] = set()
    for layer in OTHER_LAYERS:
        for path in sorted((HERE / layer).glob("*.py")):
            if path.name != "test_pretrained.py":
                lacking = set(needed(path, seen)) - has - sys.stdlib_module_names - {"torch"}
                assert not lacking, f"{path.name} needs {sorted(lacking)}."


EMPTY_NAMES = {
    "base",
    "common",
    "core",
    "experiments",
    "general",
    "helpers",
    "lib",
    "misc",
    "tools",
    "util",
    "utils",
}


@pytest.mark.parametrize("source", sources())
def test_a_module_has_a_name_that_says_something_and_one_idea(source):
    parts = source.removesuffix(".py").split("/")
    assert not EMPTY_NAMES & set(parts), "The name says nothing; name the idea."
    assert len((ROOT / source).read_text().splitlines()) <= 1000, "Above 1,000 lines: more than one idea."


MORE_THAN_WORDS = {"languages/__init__.py", "book/__init__.py"}
"""One folder's names are read from the folder itself; the other makes imports cheap before any is made."""


@pytest.mark.parametrize("folder", folders())
def test_a_folder_says_what_it_is(folder):
    """And nothing else: a folder that re-exported would be an import up."""
    source = f"{folder}/__init__.py".lstrip("/")
    assert source in sources(), "A folder says in its __init__.py what it is."
    summary, *_ = (ast.get_docstring(parsed(source)) or "").partition("\n\n")
    assert summary.endswith(".")
    assert len(parsed(source).body) == 1 or source in MORE_THAN_WORDS


# Studies: the same words for the same things

STUDIES = sorted(
    {folder_of(source) for source in sources() if source.count("/") > 1 and "studies/" in source}
)


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_has_the_shared_names(study):
    names = {path.stem for path in (ROOT / study).iterdir()}
    assert "experiment" in names, "What is run."
    assert names & {"claims", "statements"}, "A study judges: claims of numbers, or statements by checks."
    assert "page" in ast.get_docstring(parsed(f"{study}/__init__.py")).lower(), "Which pages read it?"


DRAWING = {"matplotlib", "seaborn", "sameloss.studies.drawing"}


def calls(source: str) -> set[str]:
    return {
        node.func.id
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


def bases(source: str) -> set[str]:
    classes = [node for node in ast.walk(parsed(source)) if isinstance(node, ast.ClassDef)]
    return {base.id for node in classes for base in node.bases if isinstance(base, ast.Name)}


@pytest.mark.parametrize("source", [source for source in sources() if folder_of(source) in STUDIES])
def test_in_a_study_the_same_things_have_the_same_name(source):
    def named(*names):
        return source.endswith(tuple(f"/{name}" for name in names))

    draws = any(name.startswith(tuple(DRAWING)) for name in imported(source))
    assert not draws or named("show.py", "figures.py"), "What draws is called show, or figures beside tables."
    assert "Run" not in bases(source) or named("experiment.py", "estimators.py"), "Runs are in experiments."
    assert "Statement" not in calls(source) or named("statements.py", "claims.py"), "Claims judge."
    assert "Claim" not in calls(source) or named("claims.py"), "Claims are in claims."
    variants = (
        "_tables.py",
        "_figures.py",
        "_runs.py",
        "_settings.py",
        "_claims.py",
        "presets.py",
        "plots.py",
    )
    assert not source.endswith(variants), "A study's shared files have the shared names, nothing before them."


# Tests beside the library


def has_logic(source: str) -> bool:
    """Tell whether a module computes: it has a function with a body, outside of protocols."""
    return any(_computes(node) for node in parsed(source).body)


def _computes(node: ast.stmt) -> bool:
    if isinstance(node, ast.ClassDef):
        protocol = any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)
        return not protocol and any(map(_computes, node.body))
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return any(not isinstance(statement, ast.Pass | ast.Raise) for statement in body)


TESTS = [path.read_text() for path in Path(__file__).parent.rglob("test_*.py")]


def own_test(source: str) -> Path:
    """Return where a module's tests are, if they have a file of their own."""
    path = Path(source)
    return Path(__file__).parent / path.parent / f"test_{path.name}"


def imports(text: str, module: str) -> bool:
    """Tell whether a test imports a module, or anything from it."""
    package, _, name = module.rpartition(".")
    return f"{module} import" in text or bool(re.search(rf"from {package} import [^\n]*\b{name}\b", text))


def test_every_module_is_tested():
    """In a file of its own name, or of another that imports it."""
    lacking = {
        source
        for source in sources()
        if has_logic(source)
        and not own_test(source).exists()
        and not any(imports(text, dotted(source)) for text in TESTS)
    }
    assert not lacking, f"No test imports anything from {sorted(lacking)}."


def test_logic_is_told_from_constants_and_protocols():
    assert has_logic("store/store.py")
    assert has_logic("seeds.py")
    assert not has_logic("models/sizes.py")
    assert not has_logic("store/__init__.py")
    assert not _computes(ast.parse("class A(Protocol):\n def f(self): return 1").body[0])
    assert _computes(ast.parse("class A:\n def f(self): return 1").body[0])
    assert not _computes(ast.parse("class A(Exception):\n 'A fault.'").body[0])


# The package

PROJECT = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_what_is_installed_has_all_modules():
    (where,) = PROJECT["packages"]["find"]["where"]
    packages = {dotted(f"{folder}/__init__.py".lstrip("/")) for folder in folders()}
    assert set(find_packages(ROOT.parents[1] / where)) == packages
    others = [path for path in ROOT.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert set(others) == {PRICES, TEXTS}
    assert PROJECT["package-data"] == {"sameloss.store": [PRICES.name], "sameloss.studies": [TEXTS.name]}
