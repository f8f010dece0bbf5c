"""What every chapter says about itself: its source, its sources of numbers, its tables."""

import inspect
from collections.abc import Callable

import pandas as pd
from IPython.display import Code
from pandas.io.formats.style import Styler

from sameloss.presets import Setting
from sameloss.runs import with_ancestors


def show_source(thing: Callable) -> Code:
    """Display the source of a library function, so that it stands beside its equation."""
    return Code(inspect.getsource(thing), language="python")


def provenance(setting: Setting) -> str:
    """Say where a page's numbers come from, checkable against the run store."""
    runs = with_ancestors(setting.runs())
    manifests = [setting.store.manifest(run) for run in runs]
    devices = ", ".join(sorted({m["device"] for m in manifests}))
    revisions = ", ".join(sorted({m["revision"] for m in manifests}))
    days = sorted({m["created"][:10] for m in manifests})
    return (
        f"Computed: {len(runs)} runs of preset {setting.preset.name} on {devices}, "
        f"{' to '.join(dict.fromkeys((days[0], days[-1])))}, source revision {revisions}."
    )


def render(table: pd.DataFrame, decimals: int = 2) -> Styler:
    """Show a table without its index, numbers rounded, gaps as a dash."""
    formats = dict.fromkeys(table.select_dtypes("float").columns, f"{{:.{decimals}f}}")
    return table.style.hide(axis="index").format(formats, na_rep="–")


VERDICT_COLUMNS = [
    "id",
    "place",
    "claim",
    "unit",
    "paper",
    "ours",
    "95 % interval",
    "task",
    "verdict",
]


def render_verdicts(table: pd.DataFrame) -> Styler:
    """Show paper beside ours."""
    shown = table.copy()
    shown["95 % interval"] = [
        "–" if row.low != row.low else f"{row.low:.2f} … {row.high:.2f}" for row in table.itertuples()
    ]
    return render(shown[VERDICT_COLUMNS].fillna({"task": "–"}))
