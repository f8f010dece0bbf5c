"""Validate a grid of runs, language x size x number of seeds, before anything starts.

python -m sameloss.book.grid preset=gpu sizes=5M,13M seeds=3

prints the input of `lib/grid.smk` as JSON, or one sentence with what is valid.
"""

import json
import sys
from collections.abc import Iterable
from itertools import product
from os.path import expanduser
from pathlib import Path
from typing import Any

from sameloss.book.cells import declared
from sameloss.book.pages import open_page
from sameloss.book.run import value_of
from sameloss.errors import BookError, ParameterError
from sameloss.studies.same_loss.parameters import chosen

CHAPTER = "02_existence"
"""Chapter executed in each cell."""

DEFAULTS = {
    "preset": "laptop",
    "languages": "grammar",
    "sizes": "all",  # each of the preset's
    "seeds": "None",  # the preset's
    "steps": "None",
    "max_hours": "None",
    "workers": "1",  # of each cell
    "artifacts": "artifacts",
    "out": "_build/grid",
}
"""Axes, as values separated by commas, and common settings."""


def grid_of(words: Iterable[str]) -> dict[str, Any]:
    """Check a grid of words such as `sizes=2M,5M`.

    Returns:
        The settings; the `folder` of the notebooks, one per length of training; and the `cells`, as
        `preset/language/size/seeds-N`.

    Raises:
        ParameterError: for an unknown name or value, and a folder name that is empty or has a tilde or
            braces, which are a pattern to Snakemake.
        StoreError: if the artifacts folder cannot be written.

    """
    given = {name: value for name, _, value in (word.partition("=") for word in words)}
    if unknown := [name for name in given if name not in DEFAULTS]:
        raise ParameterError(f"A grid has no {unknown[0]!r}; valid are {', '.join(DEFAULTS)}.")
    grid = DEFAULTS | given
    if not grid["out"] or {"{", "}", "~"} & set(grid["out"]):
        raise ParameterError(f"out is a folder whose name has no braces and no tilde; got {grid['out']!r}.")
    table = declared(CHAPTER).parameters
    numbers = ("steps", "max_hours", "workers")
    shared = {name: table[name].checked(name, value_of(grid[name])) for name in numbers}
    names = []
    axes = (grid[axis].split(",") for axis in ("languages", "sizes", "seeds"))
    for language, size, seeds in product(*axes):
        about = {"language": language, "size": size, "seeds": value_of(seeds), **shared}
        opened = open_page(CHAPTER, preset=grid["preset"], artifacts=grid["artifacts"], **about)
        replicates = list(chosen(opened.values).replicates())
        start, end = f"{opened.preset}/{language}", f"seeds-{len(replicates)}"
        names += [f"{start}/{model}/{end}" for model in replicates[0].models]
    steps = f"steps-{shared['steps']}" if shared["steps"] else ""
    return {
        **grid,
        **{name: str(value) for name, value in shared.items()},
        "workers": shared["workers"] or 1,
        # Chapters run in the book's folder, wherever Snakemake was started.
        "artifacts": str(Path(expanduser(grid["artifacts"])).absolute()),  # noqa: PTH111 - as in `Parameter`
        "folder": str(Path(grid["out"]) / steps),
        "cells": list(dict.fromkeys(names)),
    }


def main() -> None:
    """Check the grid on the command line."""
    try:
        print(json.dumps(grid_of(sys.argv[1:])))
    except BookError as fault:
        raise SystemExit(str(fault)) from None


if __name__ == "__main__":
    main()
