"""Functions that chapters define, and their experiments with other values, for their tests."""

import ast
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

from quick_workers import quick_workers

from sameloss.book import cells
from sameloss.book.cells import NOWHERE, begin, opened
from sameloss.store.store import Store

CHAPTERS = Path(__file__).parents[1] / "chapters"


def definitions(chapter: str) -> ModuleType:
    """What the twin of a chapter imports and defines: functions, classes, constants with names in capitals.

    A single letter is a symbol of a formula.
    """
    path = CHAPTERS / f"{chapter}.py"
    tree = ast.parse(path.read_text("utf-8"))
    tree.body = [node for node in tree.body if _defines(node)]
    module = ModuleType(chapter)
    exec(compile(tree, path, "exec"), vars(module))
    return module


def _defines(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        return len(names) == len(node.targets) and all(name.isupper() and len(name) > 1 for name in names)
    return isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)


def listed(chapter: str, preset: str = "smoke", **given: Any) -> SimpleNamespace:
    """All names of a chapter's experiment, whose runs are listed and not computed."""
    return _executed(chapter, NOWHERE, {"preset": preset, **given}, {}, compared=False)


def computed(chapter: str, store: Store, given: dict[str, Any], **changes: Any) -> SimpleNamespace:
    """All names of a chapter's experiment at the preset smoke with other values, computed.

    Args:
        chapter: by name.
        store: for its runs.
        given: parameters.
        changes: values of the preset.

    """
    return _executed(chapter, store, {"preset": "smoke", **given}, changes, compared=True)


def _executed(chapter, store, given, changes, *, compared):
    names = {}

    def begun(namespace, name, presets, *rest, **options):
        names["found"] = namespace
        other = {preset: {**values, **changes} for preset, values in presets.items()}
        return begin(namespace, name, other, *rest, **options)

    with patch.object(cells, "begin", begun), quick_workers():
        opened(chapter, given, store, compared=compared)
    return SimpleNamespace(**names["found"])
