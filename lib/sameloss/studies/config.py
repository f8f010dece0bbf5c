"""The configuration of a study: a frozen dataclass whose fields say what a reader can set of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from sameloss.studies.parameters import MOST_WORKERS, Parameter

C = TypeVar("C")


def param(
    text: str,
    default: Any = None,
    kind: type = int,
    name: str | None = None,
    *,
    compare: bool = True,
    **bounds: Any,
) -> Any:
    """Declare a field of a configuration that a notebook can set.

    Args:
        text: what it is, for the comment in the parameters cell.
        default: of the field.
        kind: int, float or str.
        name: in notebooks; the field's where None.
        compare: whether it is part of equality, and of the keys of runs that have the configuration.
        bounds: see `Parameter`.

    """
    parameter = Parameter(text, kind | None, **bounds)
    return field(default=default, metadata={"parameter": parameter, "name": name}, compare=compare)


@dataclass(frozen=True)
class Config:
    """Base of all studies' configurations. Runs may have one: of these three fields no result depends."""

    name: str = field(default="", compare=False)  # of the preset
    max_hours: float | None = param(
        "refuse what takes one core, or GPU, longer than this; None: the preset's limit",
        kind=float,
        compare=False,
    )
    workers: int | None = param("runs at once; None: one a core", compare=False, most=MOST_WORKERS)

    def __post_init__(self) -> None:
        """Hold every field to its bounds, wherever its value comes from."""
        for name, (own, parameter) in self._settable().items():
            if isinstance(value := getattr(self, own), int | float):
                parameter.checked(name, value)

    @classmethod
    def _settable(cls) -> dict[str, tuple[str, Parameter]]:
        """Return each field that a reader can set, and its parameter, by the name in notebooks."""
        declared = {f.name: f.metadata for f in fields(cls) if "parameter" in f.metadata}
        return {m["name"] or own: (own, m["parameter"]) for own, m in declared.items()}

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """Return what a reader can set, by name, the study's own first."""
        found = {name: parameter for name, (_, parameter) in cls._settable().items()}
        return {n: found.pop(n) for n in list(found) if n not in ("max_hours", "workers")} | found

    def resolve(self, values: Mapping[str, Any]) -> Any:
        """Return the configuration with every value that a reader gave in its field.

        Raises:
            ParameterError: in one sentence, with what is valid.

        """
        given = {own: values.get(name) for name, (own, _) in self._settable().items()}
        return replace(self, **{own: value for own, value in given.items() if value is not None})


def placed(config: C, paths: Mapping[str, tuple[str, ...]], values: Mapping[str, Any]) -> C:
    """Return a configuration with each value at its paths, such as `training.optimisation.steps`."""
    for name, own in paths.items():
        for path in own if values.get(name) is not None else ():
            config = replaced(config, path, values[name])
    return config


def replaced(config: C, path: str, value: Any) -> C:
    """Return a dataclass with one field replaced, however deep it lies."""
    name, _, rest = path.partition(".")
    return replace(config, **{name: replaced(getattr(config, name), rest, value) if rest else value})  # type: ignore[type-var]
