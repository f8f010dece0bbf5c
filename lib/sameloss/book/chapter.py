"""What every chapter does: check its parameters, say what it costs, show sources and tables."""

import inspect
from collections.abc import Callable
from typing import Any

import pandas as pd
from IPython import get_ipython
from IPython.display import Code
from myst_nb import glue
from pandas.io.formats.style import Styler

from sameloss.book.costs import announce, runs_of
from sameloss.errors import BookError
from sameloss.store.pool import get_all
from sameloss.store.provenance import origin_of
from sameloss.store.store import Run
from sameloss.studies.drawing import use_style
from sameloss.studies.same_loss.arms import ARMS, Study
from sameloss.studies.same_loss.groups import Setting
from sameloss.studies.same_loss.parameters import parameters_of, resolve


def begin_study(namespace: dict[str, Any], chapter: str) -> Study:
    """Begin a chapter that compares groups of models: see `begin`, and `study.ARMS` for the groups."""
    setting = _setting_of(namespace)
    study, runs = Study(setting, ARMS[chapter]), runs_of(setting, chapter)
    print(announce(setting, runs))
    get_all(setting.store, runs, setting.preset.workers)  # one pool of workers for the whole page
    study.prepare()
    return study


def begin(namespace: dict[str, Any], *, trains: bool = True) -> Setting:
    """Turn a notebook's parameters into a setting and print its cost; bad ones end the notebook.

    Args:
        namespace: the notebook's `globals()`. The first call takes every name in it for a
            parameter; a later one, in a notebook at work, reads the same names again.
        trains: whether the chapter reads pre-trained models.

    """
    setting = _setting_of(namespace)
    none = f"preset {setting.preset.name}: this page pre-trains no language model."
    print(announce(setting) if trains else none)
    return setting


def _setting_of(namespace: dict[str, Any]) -> Setting:
    _show_faults_as_one_sentence()
    use_style()
    names = namespace.get("_parameters") or tuple(parameters_of(namespace))
    setting = resolve({name: namespace[name] for name in names})
    namespace["_parameters"] = names
    return setting


def _show_faults_as_one_sentence() -> None:
    """Let a fault of ours end the notebook with its sentence instead of a traceback."""
    shell = get_ipython()
    if shell is not None:
        shell.set_custom_exc((BookError,), _say)


def _say(shell, kind: type, fault: BookError, traceback, tb_offset=None) -> list[str]:
    lines = [f"{kind.__name__}: {fault}"]
    shell._showtraceback(kind, fault, lines)
    return lines


def show_source(thing: Callable) -> Code:
    """Display the source of a library function, so that it stands beside its equation."""
    return Code(inspect.getsource(thing), language="python")


def provenance(setting: Setting, runs: list[Run] | None = None) -> str:
    """Say where a page's numbers come from, checkable against the run store."""
    origin = origin_of(setting.store, runs or setting.runs())
    return (
        f"Computed: {origin['runs']} runs of preset {setting.preset.name} on {', '.join(origin['device'])}, "
        f"{' to '.join(dict.fromkeys(origin['days']))}, source revision {', '.join(origin['revision'])}."
    )


def render(table: pd.DataFrame, decimals: int = 2) -> Styler:
    """Show a table without its index, numbers rounded, gaps as a dash."""
    formats = dict.fromkeys(table.select_dtypes("float").columns, f"{{:.{decimals}f}}")
    return table.style.hide(axis="index").format(formats, na_rep="–", thousands=",")


def scientific(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Write a column of tiny numbers as powers of ten."""
    return table.assign(**{column: table[column].map("{:.0e}".format)})


def render_verdicts(table: pd.DataFrame) -> Styler:
    """Show paper beside ours, and glue each row as `verdict-<id>` for the prose."""
    shown = table.copy()
    shown["95 % interval"] = [_interval(row) for row in table.itertuples()]
    for row in table.itertuples():
        glue(f"verdict-{row.id}", _in_words(row), display=False)
    columns = ["id", "place", "claim", "task", "unit", "paper", "ours", "95 % interval", "verdict"]
    return render(shown[columns].fillna({"task": "–"}))


def _interval(row: Any) -> str:
    return "–" if pd.isna(row.low) else f"{row.low:.2f} to {row.high:.2f}"


def _in_words(row: Any) -> str:
    if pd.isna(row.low):
        return row.verdict
    return f"{row.verdict} ({row.ours:+.2f} {row.unit}, 95 % interval {_interval(row)})"
