"""The examples of the page *Use the parts* run as they stand, and print what the page says."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "chapters" / "use.md"

NUMBER = r"\d+(?:\.\d+)?"


def printed(text):
    """Return what each example prints, and what the page says of it."""
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    namespace = {}
    for code, said in examples:
        out = StringIO()
        with redirect_stdout(out):
            exec(code, namespace)
        yield out.getvalue(), said


def test_the_examples_print_what_the_page_says():
    """Numbers within a tenth: a training's depend on the processor."""
    text = PAGE.read_text("utf-8")
    found = list(printed(text))
    assert len(found) == text.count("```python") == 3
    for out, said in found:
        assert re.split(NUMBER, out) == re.split(NUMBER, said)
        numbers = [list(map(float, re.findall(NUMBER, part))) for part in (out, said)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.1, abs=0.002)
