"""Execute a chapter's py:percent twin as a program, for machines without Jupyter.

python -m sameloss.book.run chapters/04_flatness.py -p size 2M

Tables and texts are printed, figures are not shown. Where a package for pages is missing (IPython,
matplotlib), cells that need it are left out.
"""

import argparse
import ast
import linecache
import re
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pandas as pd

from sameloss.errors import BookError
from sameloss.studies.parameters import assigned

FOR_PAGES = {
    "IPython": ("core", "core.pylabtools", "display"),
    "matplotlib": ("axes", "axis", "colors", "figure", "pyplot", "scale", "ticker"),
    "matplotlib_inline": ("config",),
    "myst_nb": (),
    "seaborn": (),
}
"""Packages that only show results, with their modules that the library imports."""


def run(chapter: Path, parameters: dict[str, Any]) -> None:
    """Execute the code cells of a twin, its parameters replaced.

    Raises:
        BookError: from its cells, as any other exception if no package is missing.

    """
    missing = [name for name in FOR_PAGES if find_spec(name) is None]
    for name in missing:
        sys.modules.update(
            {".".join(path): MagicMock() for path in [(name,), *((name, m) for m in FOR_PAGES[name])]}
        )
    import IPython  # or what stands for it

    vars(IPython.display).update(display=show, HTML=str, Markdown=str)
    if "IPython" in missing:
        IPython.get_ipython = lambda: None
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for source, tags in cells(chapter.read_text("utf-8")):
        try:
            execute(source, namespace)
            if PARAMETERS in tags:
                namespace.update(parameters, _parameters=(*assigned(source), *parameters))
        except BookError:
            raise
        except Exception as error:
            if not missing:
                raise
            print(f"[left out without {', '.join(missing)}: {type(error).__name__}]")


PARAMETERS = "parameters"
"""Tag of the parameters cell."""


def cells(twin: str) -> Iterator[tuple[str, frozenset[str]]]:
    r"""Yield the sources of a twin's code cells, with their tags.

    >>> list(cells('# %% tags=["parameters"]\na = 1\n\n# %% [markdown]\n# Text\n\n# %%\na'))
    [('a = 1', frozenset({'parameters'})), ('a', frozenset())]
    """
    for cell in re.split(r"^# %%", twin, flags=re.MULTILINE)[1:]:
        head, _, source = cell.partition("\n")
        if "[markdown]" not in head:
            tags = re.search(r"tags=\[(.*?)\]", head)
            yield source.strip(), frozenset(re.findall(r'"([\w-]+)"', tags[1]) if tags else ())


def execute(source: str, namespace: dict[str, Any]) -> None:
    """Execute a cell, and show its last expression as a notebook does."""
    body = ast.parse(source).body
    last = body[-1] if body else None
    if isinstance(last, ast.Expr):
        body.pop()
    exec(compile(ast.Module(body, []), named(source), "exec"), namespace)
    if isinstance(last, ast.Expr):
        show(eval(compile(ast.Expression(last.value), "cell", "eval"), namespace))


def named(source: str) -> str:
    """File name for a cell's code, under which `inspect` finds it."""
    name = f"<cell {sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    return name


def show(*values: Any, raw: bool = False, **_: Any) -> None:
    """Print texts and tables; raw data (of `glue`) is for pages."""
    for value in () if raw else values:
        value = getattr(value, "data", value)  # of a styled table
        if isinstance(value, pd.DataFrame):
            print(value.to_string(index=False))
        elif isinstance(value, str) and not value.startswith("<"):
            print(value)


def main() -> None:
    """Run a chapter on the command line."""
    parser = argparse.ArgumentParser(prog="python -m sameloss.book.run", description=__doc__)
    parser.add_argument("chapter", type=Path)
    parser.add_argument("-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"))
    given = parser.parse_args()
    if given.chapter.suffix != ".py" or not given.chapter.is_file():
        raise SystemExit(f"{given.chapter} is no chapter; give one such as chapters/04_flatness.py.")
    try:
        run(given.chapter, {name: value_of(text) for name, text in given.p})
    except BookError as fault:
        raise SystemExit(str(fault)) from None
    except KeyboardInterrupt:
        raise SystemExit("Interrupted; run this again to go on: what was computed is kept.") from None


def value_of(text: str) -> Any:
    """Read a Python literal; other text stands for itself.

    >>> value_of("1e4"), value_of("None"), value_of("5M")
    (10000.0, None, '5M')
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # the last two for deep nesting
        return text


if __name__ == "__main__":
    main()
