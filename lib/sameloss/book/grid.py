"""A grid of runs, checked before anything starts: language x size x number of seeds.

python -m sameloss.book.grid preset=gpu sizes=5M,13M seeds=3

prints as JSON what `lib/grid.smk` needs, or one sentence that says what is valid.
"""

import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from os.path import expanduser
from pathlib import Path
from typing import Any

from sameloss.book.pages import open_page, study_of
from sameloss.errors import BookError, ParameterError

CHAPTER = "02_existence"
"""Whose parameters the axes are."""


@dataclass(frozen=True)
class Grid:
    """The axes, each one value or several with commas between, and what all cells share.

    `None` leaves a number to the preset.
    """

    preset: str = "laptop"
    languages: str = "grammar"
    sizes: str = "all"  # each of the preset's on the language
    seeds: str = "None"
    steps: str = "None"
    max_hours: str = "None"
    workers: str = "1"  # runs that a cell computes at once
    artifacts: str = "artifacts"
    out: str = "_build/grid"

    @property
    def folder(self) -> str:
        """Return where the notebooks go; another length of training has a folder of its own.

        >>> Grid().folder, Grid(steps="500").folder
        ('_build/grid', '_build/grid/steps-500')
        """
        return str(Path(self.out) if self.steps == "None" else Path(self.out) / f"steps-{self.steps}")


def grid_of(words: Iterable[str]) -> Grid:
    """Read words like `sizes=2M,5M`; numbers that all cells share are written in one way.

    Raises:
        ParameterError: for a name that no grid has or that is given twice, for a number that no page takes,
            and for a folder whose name is a pattern to Snakemake, is empty or has a tilde.

    """
    known = [field.name for field in fields(Grid)]
    given: dict[str, str] = {}
    for name, _, value in (word.partition("=") for word in words):
        if name not in known:
            raise ParameterError(f"A grid has no {name!r}; valid are {', '.join(known)}.")
        if name in given:
            raise ParameterError(f"{name} is given twice; write {name}={given[name]},{value}.")
        given[name] = value
    grid = Grid(**given)
    if not grid.out or {"{", "}", "~"} & set(grid.out):
        raise ParameterError(f"out is a folder whose name has no braces and no tilde; got {grid.out!r}.")
    table = study_of(CHAPTER).table(CHAPTER)
    shared = {name: _number(getattr(grid, name)) for name in ("steps", "max_hours", "workers")}
    return replace(grid, **{name: str(table[name].checked(name, value)) for name, value in shared.items()})


def cells(grid: Grid) -> list[str]:
    """Return the cells as `preset/language/size/seeds-N`, each one a chapter can be run with.

    Raises:
        ParameterError: in one sentence, with what is valid.
        StoreError: where the artifacts folder cannot be written.

    """
    shared = {name: _number(getattr(grid, name)) for name in ("steps", "max_hours", "workers")}
    shared |= {"preset": grid.preset, "artifacts": grid.artifacts}
    found = []
    axes = (axis.split(",") for axis in (grid.languages, grid.sizes, grid.seeds))
    for language, size, seeds in product(*axes):
        opened = open_page(CHAPTER, language=language, size=size, seeds=_number(seeds), **shared)
        replicates = list(opened.config.replicates())
        start, end = f"{opened.config.name}/{language}", f"seeds-{len(replicates)}"
        found += [f"{start}/{one}/{end}" for one in replicates[0].models]
    return list(dict.fromkeys(found))


def _number(text: str) -> Any:
    """Read a number, and leave anything else to the check of parameters."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return None if text == "None" else text


def main() -> None:
    """Check the grid given on the command line."""
    try:
        grid = grid_of(sys.argv[1:])
        told = {**asdict(grid), "folder": grid.folder, "cells": cells(grid)}
    except BookError as fault:
        raise SystemExit(str(fault)) from None
    # Chapters run in the book's folder, wherever Snakemake was called.
    told["artifacts"] = str(Path(expanduser(grid.artifacts)).absolute())  # noqa: PTH111 - as in `Parameter`
    print(json.dumps(told | {"workers": int(_number(grid.workers) or 1)}))


if __name__ == "__main__":
    main()
