"""A figure that a reader moves: which noise one filter has learnt to ignore, after every step.

The page carries the accuracies of all flows, `_static/movable_phase.js` draws them. Where no script runs, a
sentence leads to the figure that stands still.
"""

import json

from IPython.display import HTML

from sameloss.studies.local_signal.found import Found

DIGITS = 4
"""Decimals of the accuracies that travel in the page."""

FORM = """<div class="phase movable"><script type="application/json">{data}</script>
<p class="still">This figure moves where scripts run; the tables of colours above show three of its steps.</p>
<div class="controls">
<label>steps <input name="look" type="range" min="0" value="0" step="1"/></label>
<output></output>
</div>
<svg viewBox="0 0 640 300" role="img" aria-label="Accuracy by rows and strength of noise; numbers follow"></svg>
<table class="dataframe"><thead><tr>
<th scope="col">at this step</th><th scope="col">settings</th>
</tr></thead><tbody></tbody></table>
</div>"""


def movable_phase(found: Found) -> HTML:
    """Return the figure."""
    flows = found.phase[found.phase.step > 0]
    by_setting = {about: own.accuracy for about, own in flows.groupby(["multiplier", "noise"])}
    multipliers, rows = (sorted({about[at] for about in by_setting}) for at in (0, 1))
    data = {
        "rows": [int(k) for k in rows],
        "multipliers": [float(m) for m in multipliers],
        "steps": [float(f"{step:.4g}") for step in sorted(flows.step.unique())],
        "accuracy": [[[*by_setting[m, k].round(DIGITS)] for k in rows] for m in multipliers],
    }
    return HTML(FORM.format(data=json.dumps(data, separators=(",", ":"))))
