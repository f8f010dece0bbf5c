"""Interactive figures: data in the page, drawn by `_static/movable_<name>.js`.

Without scripts, a sentence refers to the static figures.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from sameloss.studies.decision_lists.statements import Tables
from sameloss.studies.decision_lists.theory import order_of
from sameloss.studies.growing.claims import Grown
from sameloss.studies.manifold_flow.experiment import Landscape
from sameloss.studies.same_loss.saturated import Arm, course, curve_of

FORM = """<div class="{kind} movable"><script type="application/json">{data}</script>
<p class="still">This figure moves where scripts run; {still}.</p>
<div class="controls">
{controls}
</div>
<svg viewBox="0 0 {size}" role="img" aria-label="{label}"></svg>
{below}
</div>"""

OUTPUT = "<output></output>"
"""Element in which a figure describes what it shows."""


def _figure(kind: str, data: Any, **parts: str) -> HTML:
    """Fill in `FORM`."""
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")  # no text can end the script element
    return HTML(FORM.format(kind=kind, data=text, **parts))


def _choice(label: str, name: str) -> str:
    return f'<label>{label} <select name="{name}"></select></label>\n'


def _slider(label: str, name: str, span: str = 'min="0" value="0" step="1"') -> str:
    return f'<label>{label} <input name="{name}" type="range" {span}/></label>\n'


def _table(*heads: str) -> str:
    cells = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return f'<table class="dataframe"><thead><tr>{cells}</tr></thead><tbody></tbody></table>'


def _short(numbers: Any, digits: int = 6) -> list[Any]:
    """Nested lists of numbers, with `digits` significant digits."""
    array = np.asarray(numbers, float)
    return np.reshape([float(f"{number:.{digits}g}") for number in array.ravel()], array.shape).tolist()


def movable_accuracy(cells: pd.DataFrame, sizes: Mapping[str, Arm], readings: Mapping[str, str]) -> HTML:
    """Accuracies of two sizes at the KL of a movable line, on the draws in which both reach it.

    Args:
        cells: see `saturated.cells`.
        sizes: the smaller and the larger one, by name.
        readings: how accuracy is read, by name: columns of `cells`.

    """

    def run(name: str, draw: int) -> dict[str, Any]:
        curve = curve_of(cells, draw, sizes[name], next(iter(readings.values())))
        courses = {shown: np.transpose(course(curve, of)) for shown, of in readings.items()}
        log_kl, _, steps = next(iter(courses.values()))
        about = {"size": name, "draw": draw, "kl": _short(np.exp(log_kl)), "steps": _short(steps)}
        return about | {"accuracy": {shown: _short(values) for shown, (_, values, _) in courses.items()}}

    return _figure(
        "equal-loss",
        [run(name, int(draw)) for name in sizes for draw in cells.index.unique("replicate")],
        still="the one above shows the means of the same trainings",
        controls=_choice("read by", "reading")
        + _slider("KL of the line", "kl", 'min="0" max="100" step="1"')
        + OUTPUT,
        size="640 320",
        label="Accuracy against KL by draw and size; numbers follow",
        below=_table("model", "accuracy there (%), mean", "lowest to highest draw"),
    )


def movable_growth(panels: Mapping[str, Grown]) -> HTML:
    """The operator that one would choose at each step after growing, and its final KL."""
    data = {
        name: {
            "operators": [[operator.name, operator.filling] for operator in grown.operators],
            "steps": grown.steps,
            "seeds": list(grown.growth.seeds),
            "seen": _short(grown.chosen_by, 4),
            "final": _short(grown.final, 4),
        }
        for name, grown in panels.items()
    }
    return _figure(
        "growth",
        data,
        still="the figures above show the same runs",
        controls=_choice("runs", "panel")
        + _choice("shallow model", "seed")
        + _slider("steps after growing", "look")
        + OUTPUT,
        size="640 340",
        label="Final KL against KL at a step; numbers follow",
        below=_table("at this step", "this shallow model", "mean of all"),
    )


def movable_landscape(run: Landscape) -> HTML:
    """SGD on the two-parameter loss of Section 3, from the run's first initial point."""
    return _figure(
        "sgd-landscape",
        {
            "q": run.probability,
            "start": run.starts[0],
            "steps": run.steps,
            "minimisers": run.minimisers().round(4).to_numpy().tolist(),
        },
        still="the chapter on implicit bias has a still of two paths",
        controls=_slider("learning rate", "rate", 'min="-2.3" max="-0.5" step="0.01" value="-1.4"')
        + '<label>batch size <select name="batch"><option>1</option><option selected="selected">4</option>'
        "<option>16</option><option>64</option></select></label>\n"
        '<label><input name="noise" type="checkbox" checked="checked"/> label noise</label>\n'
        '<button type="button" name="play">Play</button>\n'
        '<button type="button" name="again">new seed</button>',
        size="420 420",
        label="SGD over minimisers; the text below gives its end",
        below=f"<p>{OUTPUT}</p>",
    )


def movable_lists(tables: Tables) -> HTML:
    """Attention of one token along the exact flow, by kind of sequence and read-out."""
    column = tables.task.column(1.0)
    data = {
        "rules": column.rules,
        "length": column.length,
        "counts": column.counts.tolist(),
        "masses": _short(column.masses / column.masses.sum(), 5),
        "flows": {
            name: {
                "times": _short(flow.natural, 3),
                "scores": _short(flow[tables.entries]),
                "orders": [order_of(row) for row in flow[tables.entries].to_numpy()],
                "accuracy": _short(flow.accuracy, 4),
            }
            for name, flow in tables.curves.groupby("name", sort=False)
        },
    }
    return _figure(
        "lists",
        data,
        still="the figures above show the same flows",
        controls=_choice("read-out", "readout") + _slider("time", "time") + OUTPUT,
        size="640 340",
        label="Attention in every kind of sequence; numbers follow",
        below=_table("now", ""),
    )
