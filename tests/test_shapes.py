"""The checker of annotations sees what is wrong: types, shapes, and axes that do not agree."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from jaxtyping import Float
from shapes import check, checked

from sameloss.statistics import intervals

annotated = checked(typechecker=check)

Row = Float[np.ndarray, " column"]


@annotated
def scaled(table: Float[np.ndarray, "row column"], factors: Row, power: float = 1.0) -> Row:
    if not power:
        return np.ones(len(factors) + 1)
    return inner(table @ factors**power)[:1].repeat(len(factors))


@annotated
def inner(values: Row) -> Row:
    """Its column is another than that of its caller."""
    return values


@annotated
def repeated(name: str, count: int) -> str:
    return name * count if count else None


@annotated
def pieces(row: Row, size: int) -> Iterator[Row]:
    yield row[:size]


@annotated
def counted(most: int) -> Iterator[int]:
    yield from range(most)


@annotated
@dataclass
class Pair:
    first: Row
    second: Row


@annotated
def first(values: list[Row], more: Row | None = None) -> Row:
    return values[0]


@annotated
def zeros(count: int) -> Float[np.ndarray, " {count}"]:
    return np.zeros(max(count, 2))


TABLE = np.ones((3, 2))

RIGHT = [
    lambda: scaled(TABLE, np.ones(2)),
    lambda: scaled(TABLE, np.ones(2), power=2),  # a whole number is a number
    lambda: repeated("a", 2),
    lambda: list(pieces(np.ones(3), 2)),
    lambda: list(counted(3)),
    lambda: Pair(np.ones(2), np.ones(2)),
    lambda: first([np.ones(2)], np.ones(2)),
    lambda: zeros(2),
    lambda: intervals.p_value(np.ones(8)),
]

WRONG = [
    lambda: scaled(TABLE, np.ones(3)),  # another size of one axis
    lambda: scaled(TABLE[0], np.ones(2)),  # too few axes
    lambda: scaled(TABLE.astype(int), np.ones(2)),
    lambda: scaled(TABLE, np.ones(2), power="2"),
    lambda: scaled(TABLE, np.ones(2), 0.0),  # what is returned has another size than what was given
    lambda: inner([1.0]),
    lambda: repeated("a", 2.0),
    lambda: repeated("a", 0),
    lambda: pieces(np.ones((3, 3)), 2),
    lambda: list(counted("3")),
    lambda: Pair(np.ones(2), np.ones(3)),
    lambda: first([np.ones(2)], np.ones(3)),
    lambda: zeros(1),
    lambda: intervals.p_value(np.ones((8, 8))),
    lambda: intervals.seed_interval(np.ones(8), "1"),
]


@pytest.mark.parametrize("call", RIGHT)
def test_what_is_as_annotated_passes(call):
    call()


@pytest.mark.parametrize("call", WRONG)
def test_what_is_not_is_seen(call):
    """By jaxtyping where it decorates, elsewhere by beartype."""
    with pytest.raises(TypeError, match=r"(?i)type-check error|violates type hint"):
        call()
