"""Verdicts of effects that a test plants."""

from dataclasses import replace

from sameloss.studies.verdict import Topic, verdict_table


def verdicts(judged, tolerance=None):
    """Return the table of claims with the effects beside them."""
    claims = tuple(replace(claim, effect=lambda results, effect=effect: effect) for claim, effect in judged)
    return verdict_table([Topic("", claims)], None, tolerance)
