"""The checker of annotations: every call that a test makes of the library is checked, shapes included.

Jaxtyping's own way checks parameters twice, and keeps a scope of axes for functions that have none: half of
the time of all tests. Here a call is checked once, and in such a scope where there are axes.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import partial, wraps
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, jaxtyped

check = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=TypeError))
"""An int is a float, as type checkers have it; faults are those of jaxtyping, which are type errors."""


def checked(decorated: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """Decorate functions and dataclasses of the library, in the place of `jaxtyping.jaxtyped`.

    Left to it are generators of shapes, sizes computed of arguments, and names that are not yet defined.
    """
    if decorated is None:
        return partial(checked, typechecker=typechecker)
    if inspect.isclass(decorated):
        if is_dataclass(decorated) and "__init__" in vars(decorated):
            decorated.__init__ = checked(decorated.__init__, typechecker=typechecker)
        return decorated
    annotations = decorated.__annotations__.values()
    axes = [found for annotation in annotations for found in axes_of(annotation)]
    by_name = any(isinstance(annotation, str) for annotation in annotations)
    computed = any("{" in found for found in axes)
    if by_name or computed or (axes and inspect.isgeneratorfunction(decorated)):
        return jaxtyped(decorated, typechecker=typechecker)
    return in_scope(typechecker(decorated)) if axes else typechecker(decorated)


def axes_of(annotation: Any) -> Iterator[str]:
    """Return the axes of all shapes in an annotation."""
    if inspect.isclass(annotation) and issubclass(annotation, AbstractArray):
        yield annotation.dim_str
    for part in annotation if isinstance(annotation, list) else get_args(annotation):
        yield from axes_of(part)


def in_scope(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with axes of its own: during a call a name has one size."""

    @wraps(inspect.unwrap(function))
    def called(*given: Any, **named: Any) -> Any:
        with jaxtyped("context"):
            return function(*given, **named)

    return called


if jaxtyping.jaxtyped.__name__ == "jaxtyped":  # not where this file is imported once more, for its doctests
    jaxtyping.jaxtyped = checked  # which modules of the library look up when they are imported
