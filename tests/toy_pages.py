"""A page whose record has parts of next to no work."""

from dataclasses import dataclass

from toy_runs import Squaring

from sameloss.studies.page import Page
from sameloss.studies.parameters import Config


@dataclass
class Squares(Page):
    """A page that reads squares, in parts by name."""

    numbers: dict[str, list[Squaring]]

    def parts(self):
        return self.numbers

    def runs(self):
        return [run for part in self.numbers.values() for run in part]


def squares(store, numbers):
    """Return the page at a preset that is none of the book's."""
    return Squares("squares", Config("toy", max_hours=1.0, workers=2), store, numbers)
