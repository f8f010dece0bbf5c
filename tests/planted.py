"""Verdicts of effects that a test plants."""

from dataclasses import replace

import pandas as pd

from sameloss.studies.verdict import Topic, in_words, verdict_table


def verdicts(judged, tolerance=None):
    """Return the table of claims with the effects beside them."""
    claims = tuple(replace(claim, effect=lambda results, effect=effect: effect) for claim, effect in judged)
    return verdict_table([Topic("", claims)], None, tolerance)


def words(table):
    """Return the verdicts of a table of claims in words, by id."""
    said = map(in_words, table.direction, table["size"])
    return pd.Series(list(said), table.id)
