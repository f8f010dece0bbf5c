"""Definitions of chapters can be imported by tests."""

from cells import definitions


def test_definitions_of_a_chapter():
    found = definitions("04_flatness")
    assert callable(found.plain_trace)
    assert not hasattr(found, "page")
