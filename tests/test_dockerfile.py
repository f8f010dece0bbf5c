"""The container recipe: known instructions, paths that exist, a command that runs."""

import re
from pathlib import Path

import pytest

from sameloss.book import run as chapters

ROOT = Path(__file__).parents[1]

LINES = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text()).splitlines()

INSTRUCTIONS = [line.split(maxsplit=1) for line in LINES if line.strip() and not line.startswith("#")]


def test_the_recipe_has_known_instructions_and_one_base_image():
    names = [name for name, _ in INSTRUCTIONS]
    assert names[0] == "FROM"
    assert names.count("FROM") == names.count("ENTRYPOINT") == 1
    assert set(names) <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "ENTRYPOINT", "CMD"}
    assert re.fullmatch(r"pytorch/pytorch:[\d.]+-cuda[\d.]+-cudnn\d+-runtime", INSTRUCTIONS[0][1])


@pytest.mark.parametrize("copied", [rest for name, rest in INSTRUCTIONS if name == "COPY"])
def test_what_is_copied_is_there(copied):
    *sources, _ = copied.split()
    assert all((ROOT / source).exists() for source in sources)


def test_what_is_executed_is_there():
    given = dict(INSTRUCTIONS)
    assert given["ENTRYPOINT"] == '["python", "-m", "sameloss.book.run"]'
    chapter, *words = re.findall(r'"([^"]*)"', given["CMD"])
    assert words[0] == "-p"
    assert list(chapters.cells((ROOT / chapter).read_text()))
