"""A figure that a reader moves: accuracies of all runs at one KL, which is that of a line to drag.

The page carries the numbers, `_static/movable_accuracy.js` draws them. Where no script runs, a sentence leads
to the figures that stand still.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from IPython.display import HTML

from sameloss.studies.names import display_name

DIGITS = 6  # significant, of the numbers that travel in the page

FORM = """<div class="equal-loss movable"><script type="application/json">{data}</script>
<p class="still">This figure moves where scripts run; the others of this page show the same runs.</p>
<div class="controls">
<label>runs <select name="panel"></select></label>
<label>task <select name="task"></select></label>
<label>KL of the line <input name="kl" type="range" min="0" max="1000" step="1"/></label>
<output></output>
</div>
<svg viewBox="0 0 640 320" role="img" aria-label="Accuracy against KL by run; numbers follow"></svg>
<table class="dataframe"><thead><tr>
<th scope="col">model</th><th scope="col">accuracy there (%), mean</th>
<th scope="col">lowest to highest run</th><th scope="col">runs that reach it</th>
</tr></thead><tbody></tbody></table>
</div>"""


class Panel(NamedTuple):
    """Runs that a reader can choose to see together."""

    checkpoints: pd.DataFrame  # with `seed`, `step`, `kl_mean` (nats), `trace`, and accuracies (%) by task
    tasks: Sequence[str]
    by: str = "size"  # the column that tells models apart


def movable_accuracy(panels: Mapping[str, Panel]) -> HTML:
    """Return the figure, with its panels by name; the line begins at the smallest KL that all runs reach."""
    data = json.dumps({name: _runs(panel) for name, panel in panels.items()}, separators=(",", ":"))
    return HTML(FORM.format(data=data.replace("</", "<\\/")))


def _runs(panel: Panel) -> list[dict[str, Any]]:
    """Return one record a run, its checkpoints in the order of training."""
    ordered = panel.checkpoints.sort_values("step", kind="stable")
    runs = ordered.groupby([panel.by, "seed"], sort=False)
    return [_run(group, seed, run, panel.tasks) for (group, seed), run in runs]


def _run(group: str, seed: int, run: pd.DataFrame, tasks: Sequence[str]) -> dict[str, Any]:
    return {
        "group": display_name(group),
        "seed": int(seed),
        "step": run.step.tolist(),
        "kl": _short(run.kl_mean),
        "trace": _short(run.trace),
        "accuracy": {display_name(task): _short(run[task]) for task in tasks},
    }


def _short(numbers: pd.Series) -> list[float]:
    return [float(f"{number:.{DIGITS}g}") for number in numbers]
