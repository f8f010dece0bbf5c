"""A figure that a reader moves: what one would choose at each step after growing, and what it would be worth.

The page carries the losses of all candidates, `_static/movable_growth.js` draws them. Where no script runs, a
sentence leads to the figures that stand still.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from IPython.display import HTML
from jaxtyping import Float

from sameloss.studies.growing.claims import Grown

DIGITS = 4  # significant, of the numbers that travel in the page

FORM = """<div class="growth movable"><script type="application/json">{data}</script>
<p class="still">This figure moves where scripts run; the four panels above show the same runs.</p>
<div class="controls">
<label>runs <select name="panel"></select></label>
<label>shallow model <select name="seed"></select></label>
<label>steps after growing <input name="look" type="range" min="0" value="0" step="1"/></label>
<output></output>
</div>
<svg viewBox="0 0 640 340" role="img" aria-label="Final KL against KL at a step; numbers follow"></svg>
<table class="dataframe"><thead><tr>
<th scope="col">at this step</th><th scope="col">this shallow model</th><th scope="col">mean of all</th>
</tr></thead><tbody></tbody></table>
</div>"""


def movable_growth(panels: Mapping[str, Grown]) -> HTML:
    """Return the figure, with runs that a reader can choose to see by their names."""
    data = json.dumps({name: _panel(grown) for name, grown in panels.items()}, separators=(",", ":"))
    return HTML(FORM.format(data=data.replace("</", "<\\/")))


def _panel(grown: Grown) -> dict[str, Any]:
    return {
        "operators": [[operator.name, operator.filling] for operator in grown.operators],
        "steps": grown.steps,
        "seeds": list(grown.settings.all_seeds),
        "seen": _short(grown.chosen_by),
        "final": _short(grown.final),
    }


def _short(numbers: Float[np.ndarray, "*axes"]) -> list[Any]:
    """Return nested lists of rounded numbers."""
    rounded = [float(f"{number:.{DIGITS}g}") for number in numbers.ravel()]
    return np.array(rounded).reshape(numbers.shape).tolist()
