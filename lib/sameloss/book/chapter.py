"""What every chapter does: begin with checked parameters, show tables, say where numbers come from."""

import inspect
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pandas as pd
from IPython import InteractiveShell, get_ipython
from IPython.display import Code, Markdown, display
from myst_nb import glue
from pandas.io.formats.style import Styler

from sameloss.book.costs import announce, measured
from sameloss.book.studies import study_of
from sameloss.errors import BookError
from sameloss.store.pool import compute_all
from sameloss.store.provenance import origin_in_words
from sameloss.studies.drawing import download, use_style
from sameloss.studies.page import Page
from sameloss.studies.parameters import parameters_in
from sameloss.studies.verdict import chance_in_words, in_unit


def begin(namespace: dict[str, Any], name: str) -> Page[Any]:
    """Begin a chapter: check its parameters, say what it costs, compute what it reads and is missing.

    Bad parameters end the notebook with one sentence.

    Args:
        namespace: the notebook's `globals()`. The first call takes every name in it for a
            parameter; a later one, in a notebook at work, reads the same names again.
        name: of the page.

    """
    _show_faults_as_one_sentence()
    use_style()
    names = namespace.get("_parameters") or tuple(parameters_in(namespace))
    page = study_of(name).open(name, {given: namespace[given] for given in names})
    namespace["_parameters"] = names
    print(announce(page))
    compute_all(page.store, page.runs(), page.settings.limits.workers)
    return page


def close(page: Page[Any], data: pd.DataFrame | None = None) -> None:
    """End a chapter: say where its numbers come from and what they took, and offer its data.

    Args:
        page: from `begin`.
        data: the table that a reader can save.

    """
    runs = page.runs()
    if runs:
        print(f"Computed: preset {page.settings.name}, {origin_in_words(page.store, runs)}")
        display(render(measured(page.store, runs), decimals=2))
    if data is not None:
        display(download(data, page.name))


def beside_the_paper(page: Page[Any]) -> pd.DataFrame:
    """Show paper beside ours and what chance alone would give, then recorded runs; return the verdicts.

    Each row is glued as `verdict-<id>` for the prose.
    """
    verdicts = page.verdicts()
    if verdicts.empty:
        print("No claim of the paper is about what this page was asked to show.")
    else:
        display(render_verdicts(verdicts))
        display(Markdown(chance_in_words(verdicts)))
        display(Markdown("The same claims in runs too long to wait for, recorded once:"))
        display(render(page.recorded(verdicts)))
    return verdicts


def _show_faults_as_one_sentence() -> None:
    """Let a fault of ours end the notebook with its sentence instead of a traceback."""
    shell = get_ipython()
    if shell is not None:
        shell.set_custom_exc((BookError,), _show_sentence)


def _show_sentence(
    shell: InteractiveShell, kind: type, fault: BookError, traceback: Any, tb_offset: int | None = None
) -> list[str]:
    lines = [f"{kind.__name__}: {fault}"]
    shell._showtraceback(kind, fault, lines)
    return lines


def show_source(thing: Callable) -> Code:
    """Display the source of a library function, so that it stands beside its equation."""
    return Code(inspect.getsource(thing), language="python")


def render(table: pd.DataFrame, decimals: int = 2) -> Styler:
    """Show a table without its index, numbers rounded, gaps as a dash."""
    formats = dict.fromkeys(table.select_dtypes("float").columns, f"{{:.{decimals}f}}")
    name = sha256(table.to_csv().encode()).hexdigest()[:8]  # not a random one: the same table, the same page
    shown = table.style.set_uuid(name).set_table_attributes('class="dataframe"')  # as the theme expects
    return shown.hide(axis="index").format(formats, na_rep="–", thousands=",")


def scientific(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Write a column of tiny numbers as powers of ten."""
    return table.assign(**{column: table[column].map("{:.0e}".format)})


def render_verdicts(table: pd.DataFrame) -> Styler:
    """Show paper beside ours, and glue each row as `verdict-<id>` for the prose."""
    shown = table.copy()
    shown["95 % interval"] = [_interval(row) for row in table.itertuples()]
    for column in ("paper", "ours"):
        shown[column] = [in_unit(n, unit) for n, unit in zip(table[column], table.unit, strict=True)]
    for row in table.itertuples():
        glue(f"verdict-{row.id}", _in_words(row), display=False)
    # What matters most first: on a narrow screen the rest is scrolled to.
    columns = ["claim", "verdict", "ours", "95 % interval", "paper", "unit", "task", "place", "id"]
    verdicts = render(shown[columns].fillna({"task": "–"}))
    return verdicts.set_table_attributes('class="dataframe verdicts"')


def _interval(row: Any) -> str:
    return "–" if pd.isna(row.low) else f"{in_unit(row.low, row.unit)} to {in_unit(row.high, row.unit)}"


def _in_words(row: Any) -> str:
    if pd.isna(row.low):
        return row.verdict
    return f"{row.verdict} ({in_unit(row.ours, row.unit, '+')} {row.unit}, 95 % interval {_interval(row)})"
