"""The verdicts of all studies on one page."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from sameloss.studies.page import Page


def all_statements(pages: Iterable[Page[Any]]) -> pd.DataFrame:
    """Return one row a lemma or theorem of some pages, with its verdict and its page."""
    found = [page.statements().assign(page=page.name) for page in pages]
    return pd.concat([table for table in found if len(table)], ignore_index=True)
