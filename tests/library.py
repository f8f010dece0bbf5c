"""The library seen from outside: its files, what they import, and its runs."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import sameloss
from sameloss.store.store import Run

ROOT = Path(sameloss.__file__).parent


def sources() -> list[str]:
    """Return all modules as paths below the library's root."""
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse((ROOT / source).read_text())


def folders() -> list[str]:
    """Return all folders that hold modules, the library's own as an empty string."""
    return sorted({source.rpartition("/")[0] for source in sources()})


def dotted(source: str) -> str:
    """Name a module as Python does.

    >>> dotted("errors.py"), dotted("store/__init__.py"), dotted("__init__.py")
    ('sameloss.errors', 'sameloss.store', 'sameloss')
    """
    return f"sameloss/{source}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(source: str) -> Iterator[str]:
    """Yield what a module imports anywhere in it, for types too: dotted, the imported name included."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{source} has a relative import; write it from `sameloss` on."
            yield from (f"{node.module}.{name.name}" for name in node.names)


@cache
def classes() -> list[type]:
    """Return all classes that the library defines, by name."""
    found = {
        value
        for module in pkgutil.walk_packages(sameloss.__path__, "sameloss.")
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, type) and value.__module__ == module.name
    }
    return sorted(found, key=lambda kind: (kind.__name__, kind.__module__))


@cache
def run_classes() -> list[type[Run]]:
    """Return all classes of runs of the library, those that others only build on left out."""
    kinds = [kind for kind in classes() if issubclass(kind, Run) and not kind.__name__.startswith("_")]
    return [kind for kind in kinds if kind.compute is not Run.compute]
