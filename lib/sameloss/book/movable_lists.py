"""A figure that a reader moves: what one token attends to along the exact flow, in every kind of sequence.

The page carries scores at all times, `_static/movable_lists.js` computes attention and draws it. Where no
script runs, a sentence leads to the figures that stand still.
"""

import json

from IPython.display import HTML

from sameloss.studies.decision_lists.tables import Tables
from sameloss.studies.decision_lists.theory import order_of

DIGITS = 6  # significant

FORM = """<div class="lists movable"><script type="application/json">{data}</script>
<p class="still">This figure moves where scripts run; the figures above show the same flows.</p>
<div class="controls">
<label>read-out <select name="readout"></select></label>
<label>time <input name="time" type="range" min="0" value="0" step="1"/></label>
<output></output>
</div>
<svg viewBox="0 0 640 340" role="img" aria-label="Attention in every kind of sequence; numbers follow"></svg>
<table class="dataframe"><thead><tr><th scope="col">now</th><th scope="col"></th></tr></thead>
<tbody></tbody></table>
</div>"""


def movable_lists(tables: Tables) -> HTML:
    """Return the figure, with a read-out that a reader can choose."""
    column = tables.settings.task.column(1.0)
    flows = {
        name: {
            "times": [float(f"{time:.3g}") for time in own.natural],
            "scores": [
                [float(f"{score:.{DIGITS}g}") for score in row] for row in own[tables.entries].to_numpy()
            ],
            "orders": [order_of(row) for row in own[tables.entries].to_numpy()],
            "accuracy": [float(f"{value:.4g}") for value in own.accuracy],
        }
        for name, own in tables.curves.groupby("name", sort=False)
    }
    given = {
        "rules": column.rules,
        "length": column.length,
        "counts": column.counts.tolist(),
        "masses": [float(f"{mass:.5g}") for mass in column.masses / column.masses.sum()],
        "flows": flows,
    }
    data = json.dumps(given, separators=(",", ":"))
    return HTML(FORM.format(data=data.replace("</", "<\\/")))
