"""Validate a grid of runs, language x size x number of seeds, before anything starts.

python -m sameloss.book.grid preset=gpu sizes=5M,13M seeds=3

prints the input of `lib/grid.smk` as JSON, or one sentence with what is valid.
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
"""Chapter executed in each cell."""


@dataclass(frozen=True)
class Grid:
    """Axes, as values separated by commas, and common settings; `None` is the preset's value."""

    preset: str = "laptop"
    languages: str = "grammar"
    sizes: str = "all"  # all: each of the preset's
    seeds: str = "None"
    steps: str = "None"
    max_hours: str = "None"
    workers: str = "1"  # of each cell
    artifacts: str = "artifacts"
    out: str = "_build/grid"

    @property
    def folder(self) -> str:
        """Folder of the notebooks, one per length of training.

        >>> Grid().folder, Grid(steps="500").folder
        ('_build/grid', '_build/grid/steps-500')
        """
        return str(Path(self.out) if self.steps == "None" else Path(self.out) / f"steps-{self.steps}")


def grid_of(words: Iterable[str]) -> Grid:
    """Parse words such as `sizes=2M,5M`, and normalise numbers.

    Raises:
        ParameterError: for an unknown name, an invalid number, and a folder name that is empty or has a tilde
            or braces, which are a pattern to Snakemake.

    """
    known = [field.name for field in fields(Grid)]
    given = {name: value for name, _, value in (word.partition("=") for word in words)}
    if unknown := [name for name in given if name not in known]:
        raise ParameterError(f"A grid has no {unknown[0]!r}; valid are {', '.join(known)}.")
    grid = Grid(**given)
    if not grid.out or {"{", "}", "~"} & set(grid.out):
        raise ParameterError(f"out is a folder whose name has no braces and no tilde; got {grid.out!r}.")
    table = study_of(CHAPTER).table(CHAPTER)
    shared = {name: _number(getattr(grid, name)) for name in ("steps", "max_hours", "workers")}
    return replace(grid, **{name: str(table[name].checked(name, value)) for name, value in shared.items()})


def cells(grid: Grid) -> list[str]:
    """Valid cells of the grid, as `preset/language/size/seeds-N`.

    Raises:
        ParameterError: in one sentence, with what is valid.
        StoreError: if the artifacts folder cannot be written.

    """
    shared = {name: _number(getattr(grid, name)) for name in ("steps", "max_hours", "workers")}
    shared |= {"preset": grid.preset, "artifacts": grid.artifacts}
    names = []
    axes = (axis.split(",") for axis in (grid.languages, grid.sizes, grid.seeds))
    for language, size, seeds in product(*axes):
        opened = open_page(CHAPTER, language=language, size=size, seeds=_number(seeds), **shared)
        replicates = list(opened.config.replicates())
        start, end = f"{opened.config.name}/{language}", f"seeds-{len(replicates)}"
        names += [f"{start}/{model}/{end}" for model in replicates[0].models]
    return list(dict.fromkeys(names))


def _number(text: str) -> Any:
    """Parse a number; other text is left to parameter validation."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return None if text == "None" else text


def main() -> None:
    """Validate the grid on the command line."""
    try:
        grid = grid_of(sys.argv[1:])
        described = {**asdict(grid), "folder": grid.folder, "cells": cells(grid)}
    except BookError as fault:
        raise SystemExit(str(fault)) from None
    # Chapters run in the book's folder, wherever Snakemake was started.
    described["artifacts"] = str(Path(expanduser(grid.artifacts)).absolute())  # noqa: PTH111 - as in `Parameter`
    print(json.dumps(described | {"workers": int(_number(grid.workers) or 1)}))


if __name__ == "__main__":
    main()
