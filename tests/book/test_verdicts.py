"""The verdicts of all studies on one page."""

from dataclasses import dataclass

import pandas as pd

from sameloss.book.verdicts import all_statements
from sameloss.studies.page import Page


@dataclass
class Proved(Page):
    """A page that proves what it is told."""

    proved: tuple[str, ...] = ()

    def statements(self) -> pd.DataFrame:
        return pd.DataFrame({"id": self.proved, "verdict": "holds"})


def test_statements_of_all_pages_stand_under_each_other_with_their_page(opened):
    """Pages without any add nothing."""
    plain = opened("a2_conditionals")
    about = plain.config, plain.store
    pages = [Proved("one", *about, ("a", "b")), plain, Proved("none", *about), Proved("two", *about, ("c",))]
    table = all_statements(pages)
    assert table.to_numpy().tolist() == [["a", "holds", "one"], ["b", "holds", "one"], ["c", "holds", "two"]]
    assert table.index.tolist() == [0, 1, 2]
