"""The recorded files: read, and written with one fact a line."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent

RECORD = "record again with `python tests/record.py`"


def read(name: str) -> Any:
    """Return what was recorded; nothing of a file that is not there yet."""
    path = FOLDER / name
    return json.loads(path.read_text()) if path.exists() else {}


def write(name: str, facts: Any, depth: int) -> None:
    """Record facts, `depth` levels of them one a line."""
    (FOLDER / name).write_text(_lines(facts, depth) + "\n")


def _lines(value: Any, depth: int) -> str:
    if depth and value and isinstance(value, dict):
        inner = (f"{json.dumps(name)}: {_lines(part, depth - 1)}" for name, part in value.items())
        return "{\n" + ",\n".join(inner) + "\n}"
    if depth and value and isinstance(value, list):
        return "[\n" + ",\n".join(_lines(part, depth - 1) for part in value) + "\n]"
    return json.dumps(value)
