"""What chapters call: `close`, verdicts, tables."""

import gc
import inspect
import re
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
from IPython import InteractiveShell, get_ipython
from IPython.display import HTML, Code, Markdown, display
from pandas.io.formats.style import Styler

from sameloss.book import verdict_table
from sameloss.book.costs import measured
from sameloss.book.page import Chapter
from sameloss.errors import BookError
from sameloss.store.location import HOME, book_root
from sameloss.store.provenance import origin_in_words
from sameloss.store.store import Store
from sameloss.studies.drawing import download, use_style
from sameloss.studies.names import column_head, display_name
from sameloss.studies.parameters import assigned
from sameloss.studies.verdict import chance_in_words

MOST_STAGES = 30
"""`close` shows no table of costs above this number of stages; the page *Costs* has it."""


def begun(store: Store) -> None:
    """Say where results go if there is no book, and exempt loaded objects from garbage collection.

    The kernel then exits a second sooner.
    """
    if book_root() is None:
        print(
            f"No book was found from {Path.cwd()}: results go to {store.root}, and records cannot be "
            f"shown; set {HOME} to the book's folder."
        )
    gc.freeze()


def given_parameters(namespace: dict[str, Any], declared: Iterable[str]) -> dict[str, Any]:
    """Prepare a notebook for a page, and return its parameters.

    Invalid ones end the notebook with one sentence.

    Args:
        namespace: of the notebook.
        declared: names in the parameters cell; others are those that papermill or a command has put in.

    """
    hidden: dict[str, Any] = {}
    if shell := get_ipython():
        shell.set_custom_exc((BookError,), _show_sentence)
        hidden = shell.user_ns_hidden
    use_style()
    put_in = [assigned(cell) for cell in hidden.get("In", ()) if cell.startswith(INJECTED)]
    names = {**dict.fromkeys(declared), **dict.fromkeys(namespace.get("_parameters", ()))}
    names |= dict.fromkeys(set().union(*put_in))
    return {name: namespace[name] for name in names if name in namespace}


INJECTED = "# Parameters\n"
"""First line of the cell that papermill adds."""


def close(page: Chapter, data: pd.DataFrame | None = None) -> None:
    """End a chapter: provenance and cost of its runs, its data, a command to try.

    Args:
        page: from `cells.begin`.
        data: table offered for download.

    """
    runs = page.runs()
    if runs:
        own = "".join(f" -p {name} {_written(value)}" for name, value in page.own.items())
        print(f"Computed: preset {page.preset}{own}, {origin_in_words(page.store, runs)}")
        stages = measured(page.store, runs)
        if len(stages) < MOST_STAGES:
            display(render(stages, decimals=2))
    if data is not None:
        display(download(data, page.name))
    print(f"With a parameter of your own: {example_of(page)}")


def _written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def example_of(page: Chapter) -> str:
    """A command that executes a page with one parameter changed."""
    options = (f" -p {name} {p.example}" for name, p in page.parameters.items() if p.example)
    return f"papermill chapters/{page.name}.ipynb out.ipynb{next(options, '')}"


def beside_the_paper(page: Chapter, *, home: bool = False) -> pd.DataFrame:
    """Display the verdicts of this page and of records beside the paper; return this page's.

    Args:
        page: whose claims are shown.
        home: whether this is the page of all verdicts, whose rows link to chapters instead of vice versa.

    """
    verdicts = page.verdicts()
    if verdicts.empty:
        print("No claim of the paper is about what this page was asked to show.")
        return verdicts
    display(HTML(verdict_table.table(verdicts, page.evidence(verdicts), page.topics, home)))
    say(chance_in_words(verdicts))
    return verdicts


def say(text: str) -> None:
    """Display a paragraph with computed numbers, as Markdown that every notebook viewer shows."""
    display(Markdown(with_minus(text)))


def with_minus(text: str) -> str:
    """Write negative numbers with a minus sign.

    >>> with_minus("-0.5 (-1.2 to 0.3), as m^-1 on 2026-01-02 in [II.2](ii-2.ipynb), 1e-05")
    '−0.5 (−1.2 to 0.3), as m^−1 on 2026-01-02 in [II.2](ii-2.ipynb), 1e-05'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def finding(text: str) -> None:
    """Display what a figure shows: the first line of its cell, and its title in the book."""
    say(f"**{text}**")


def _show_sentence(
    shell: InteractiveShell, kind: type, fault: BookError, traceback: Any, tb_offset: int | None = None
) -> list[str]:
    """Show one sentence instead of a traceback for the book's own errors."""
    lines = [f"{kind.__name__}: {fault}"]
    shell._showtraceback(kind, fault, lines)
    return lines


def show_source(thing: Callable) -> Code:
    """Display the source of a library function."""
    return Code(inspect.getsource(thing), language="python")


def render(table: pd.DataFrame, decimals: int = 2) -> Styler:
    """Style a table: display names, rounded numbers, a dash for NaN, no index."""
    table = table.map(lambda value: with_minus(display_name(value)) if isinstance(value, str) else value)
    table = table.rename(columns=column_head)
    formats = {}
    for column, numbers in table.select_dtypes("float").items():
        large_counts = numbers.abs().max() >= 1000 and (numbers.dropna() % 1 == 0).all()
        formats[column] = partial(_rounded, decimals=0 if large_counts else decimals)
    name = sha256(table.to_csv().encode()).hexdigest()[:8]  # deterministic, unlike the default
    styled = table.style.set_uuid(name).set_table_attributes('class="dataframe"')  # class of the theme
    styled = styled.hide(axis="index").format_index(escape="html", axis="columns")  # may contain user input
    return styled.format(formats, na_rep="–", thousands=",", escape="html")


def _rounded(number: float, decimals: int) -> str:
    return with_minus(f"{number:z,.{decimals}f}")  # z: no negative zero


def scientific(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Format a column of tiny numbers in scientific notation."""
    return table.assign(**{column: table[column].map(lambda number: f"{number:.0e}" if number else "0")})
