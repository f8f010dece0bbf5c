"""Functions that chapters define, for their tests."""

import ast
from pathlib import Path
from types import ModuleType

CHAPTERS = Path(__file__).parents[1] / "chapters"


def definitions(chapter: str) -> ModuleType:
    """What the twin of a chapter imports and defines: functions, classes, constants in capitals."""
    path = CHAPTERS / f"{chapter}.py"
    tree = ast.parse(path.read_text("utf-8"))
    tree.body = [node for node in tree.body if _defines(node)]
    module = ModuleType(chapter)
    exec(compile(tree, path, "exec"), vars(module))
    return module


def _defines(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) and target.id.isupper() for target in node.targets)
    return isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)
