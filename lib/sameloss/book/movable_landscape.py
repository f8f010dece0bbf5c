"""A figure that a reader moves: SGD on Chapter 3's loss of two parameters, as `_static/` draws it."""

import json

from IPython.display import HTML

from sameloss.studies.manifold_flow.experiment import Landscape
from sameloss.studies.manifold_flow.figures import manifold_of

POINTS = 120  # of the curve of minimisers

FORM = """<div class="sgd-landscape movable"><script type="application/json">{data}</script>
<p class="still">This figure moves where scripts run; the one above shows two of its paths.</p>
<div class="controls">
<label>learning rate <input name="rate" type="range" min="-2.3" max="-0.5" step="0.01" value="-1.4"/></label>
<label>batch <select name="batch"><option>1</option><option selected="selected">4</option><option>16</option>
<option>64</option></select></label>
<label><input name="noise" type="checkbox" checked="checked"/> label noise</label>
<button type="button">other draws</button>
</div>
<svg viewBox="0 0 420 420" role="img" aria-label="SGD over minimisers; its end is told below"></svg>
<p><output></output></p>
</div>"""


def movable_landscape(run: Landscape) -> HTML:
    """Return the figure: the run's loss, first start and number of steps; rate, batch and noise to be set."""
    curve = manifold_of(run.population(), POINTS)
    data = {
        "q": run.probability,
        "start": run.starts[0],
        "steps": run.steps,
        "minimisers": curve[["x", "y", "trace"]].round(4).to_numpy().tolist(),
    }
    return HTML(FORM.format(data=json.dumps(data, separators=(",", ":"))))
