"""Reading and writing the recorded files."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent

RECORD = "record again with `python tests/record.py`"


def read(name: str) -> Any:
    """Read a recorded file; an empty dictionary if there is none."""
    path = FOLDER / name
    return json.loads(path.read_text()) if path.exists() else {}


def write(name: str, facts: Any, depth: int) -> None:
    """Write a recorded file, with its outer `depth` levels on lines of their own."""
    (FOLDER / name).write_text(_lines(facts, depth) + "\n")


def _lines(value: Any, depth: int) -> str:
    if depth and value and isinstance(value, dict):
        inner = (f"{json.dumps(name)}: {_lines(part, depth - 1)}" for name, part in value.items())
        return "{\n" + ",\n".join(inner) + "\n}"
    if depth and value and isinstance(value, list):
        return "[\n" + ",\n".join(_lines(part, depth - 1) for part in value) + "\n]"
    return json.dumps(value)
