"""Figures for any screen: vector graphics, and beside each a form with its panels one below the other."""

import base64
import os
import pickle
import re
import textwrap
from html import escape
from io import StringIO

import matplotlib.pyplot as plt
from IPython import get_ipython
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib_inline.config import InlineBackend

from sameloss.studies.drawing import RAISED, legend

WIDE = "image/svg+xml"

NARROW = "application/vnd.sameloss.narrow+svg"
"""What a notebook keeps beside a figure, for the book's page on a narrow screen."""

NARROW_WANTED = "SAMELOSS_NARROW"
"""The variable of the environment in which the book asks for narrow forms; they take as long as the wide."""

NARROW_SCREEN = "(max-width: 40rem)"
"""Where the narrow form is shown, as CSS says it."""

NARROW_IN = 3.7
"""Inches; a telephone of 390 pixels shows it so large that no label has less than 8 pixels."""


LETTERS = 40
"""So many fit a row of it."""


def show_for_any_screen() -> None:
    """Let notebooks show every figure as vector graphics, for the book in both forms."""
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    InlineBackend.instance(parent=shell).figure_formats = set()
    plt.uninstall_repl_displayhook()  # it draws what is new after every cell, and `both_forms` again
    shell.display_formatter.mimebundle_formatter.for_type(Figure, forms)


def forms(figure: Figure, **_: object) -> dict[str, str]:
    """Return what a notebook keeps of a figure, by MIME type."""
    return both_forms(figure) if NARROW_WANTED in os.environ else {WIDE: as_svg(figure)}


def both_forms(figure: Figure) -> dict[str, str]:
    """Return a figure as SVG by MIME type, wide and narrow."""
    return {WIDE: as_svg(figure), NARROW: as_svg(stacked(figure))}


def picture(figure: Figure, alternative: str) -> HTML:
    """Return a figure as another page shows it too, with what a reader who does not see it is told."""
    forms = {
        kind: f"data:{WIDE};base64,{base64.b64encode(svg.encode()).decode()}"
        for kind, svg in both_forms(figure).items()
    }
    return HTML(
        f'<picture><source media="{NARROW_SCREEN}" srcset="{forms[NARROW]}">'
        f'<img alt="{escape(alternative)}" src="{forms[WIDE]}"/></picture>'
    )


def as_svg(figure: Figure) -> str:
    """Return a figure as SVG, the same one always alike; its text stays text."""
    file = StringIO()
    with plt.rc_context({"svg.hashsalt": "same loss", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
    figure.set_layout_engine("none")  # or the next drawing would move a little
    return _short(file.getvalue())


def _short(svg: str) -> str:
    """Leave out of an SVG what nobody sees: comments, line ends, coordinates beyond a tenth of a point."""
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d)\d{3,}", r"\1", tag[0]), svg)  # not in words
    svg = re.sub(r"\s+", " ", svg).replace("base64, ", "base64,")
    svg = re.sub(r' transform="rotate\(-?0 [^"]*"', "", svg)
    svg = re.sub(r"<g(?P<of>[^>]*)>(?P<markers>( <use [^>]*/>){2,}) </g>", _said_once, svg)
    return _one_font(_without_empty_groups(_without_unused_names(svg)))


def _without_unused_names(svg: str) -> str:
    """Leave out the names of elements that nothing refers to."""
    used = set(re.findall(r"#([\w.-]+)[\")]", svg))
    return re.sub(r' id="([^"]*)"', lambda name: name[0] if name[1] in used else "", svg)


def _without_empty_groups(svg: str) -> str:
    """Take out of their groups what groups say nothing of, from the inside out."""
    found = 1
    while found:
        svg, found = re.subn(r"<g>((?:(?!</?g[ >]).)*)</g>", r"\1", svg)
    return re.sub(r" +", " ", svg)


def _one_font(svg: str) -> str:
    """Name the most common font once, for the whole figure."""
    named = re.compile(r" font-family: ([^;\"]*);?")
    if not (fonts := named.findall(svg)):
        return svg
    common = max(sorted(set(fonts)), key=fonts.count)
    svg = named.sub(lambda font: "" if font[1] == common else font[0], svg)
    return svg.replace("<svg ", f'<svg style="font-family: {common}" ', 1)


def _said_once(group: re.Match[str]) -> str:
    """Let a group say what its markers look like, where they all look alike."""
    styles = set(re.findall(r'style="[^"]*"', group["markers"]))
    if len(styles) != 1 or "style=" in group["of"]:
        return group[0]
    (style,) = styles
    return f"<g{group['of']} {style}>{group['markers'].replace(' ' + style, '')} </g>"


def stacked(figure: Figure) -> Figure:
    """Return a copy of a figure with its panels one below the other, and its words in short rows."""
    copy = pickle.loads(pickle.dumps(figure))
    plt.close(copy)  # pyplot keeps a copy, too, to be shown
    copy.set_layout_engine("constrained")
    panels = [ax for ax in copy.axes if ax.get_subplotspec() is not None]
    rows = panels[0].get_gridspec().nrows if panels else 1
    copy.set_size_inches(NARROW_IN, copy.get_figheight() / rows * max(len(panels), 1))
    for ax, place in zip(panels, copy.add_gridspec(max(len(panels), 1), 1), strict=False):
        ax.set_subplotspec(place)
        _shorten_words(ax)
    for words in copy.legends:
        words.remove()
        legend(panels[0], LETTERS)
    return copy


def _shorten_words(ax: Axes) -> None:
    """Break the words of a panel that stands alone on a narrow screen; turn those that would overlap."""
    ax.set_title(textwrap.fill(ax.get_title(), LETTERS))
    ax.tick_params(labelleft=True)
    for axis, together in ((ax.yaxis, 2), (ax.xaxis, len(ax.get_xticks()))):
        names = [label.get_text().replace("\n", " ") for label in axis.get_ticklabels()]
        if any(RAISED & set(name) for name in names):  # powers of ten: short, and no words to break
            continue
        if (
            max(map(len, names), default=0) * together > LETTERS
            and axis.get_ticklabels()[0].get_rotation() == 0
        ):
            axis.set_ticks(axis.get_ticklocs(), [textwrap.fill(name, LETTERS // 2) for name in names])
            axis.set_tick_params(rotation=90 if axis is ax.xaxis else 0)
