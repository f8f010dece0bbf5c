"""Tables of what measures of flatness are like: their errors, costs, and what they depend on."""

import math

import numpy as np
import pandas as pd

from sameloss.results import KEYS
from sameloss.setting import Setting

MEASURES = pd.DataFrame(
    [
        ("trace", r"$\mathrm{Tr}\,H$", "Theorem 3.3; exact over labels here"),
        ("top eigenvalue", r"$\lambda_{\max}(H)$", "Lanczos on Hessian-vector products (ARPACK)"),
        ("Tr Diag(H)^½", r"$\sum_i \sqrt{H_{ii}}$", "what Adam lowers in place of the trace"),
        ("adaptive trace", r"$\sum_i \theta_i^2 H_{ii}$", "second order of the next, times $2/\\rho^2$"),
        (
            "adaptive sharpness",
            r"$\mathbb E_z L(\theta + \rho|\theta| z) - L(\theta)$",
            "Andriushchenko et al. 2023, average case",
        ),
        (
            "worst adaptive sharpness",
            r"$\max_{\Vert\epsilon/|\theta|\Vert\le\rho} L(\theta+\epsilon) - L(\theta)$",
            "ASAM, Kwon et al. 2021, one step",
        ),
        (
            "relative trace",
            r"$\sum_l \Vert W_l\Vert_F^2\,\mathrm{Tr}\,H_{ll}$",
            "Tsuzuku et al. 2020; Petzka et al. 2021",
        ),
        (
            "learning coefficient",
            r"$n\beta\,(\mathbb E_w L_n(w) - L_n(\theta))$",
            "Lau et al. 2025, sampled by Langevin dynamics",
        ),
    ],
    columns=["measure", "definition", "reference"],
)
"""The measures of flatness beside the trace, in the order of the tables."""


def estimator_table(setting: Setting, budget: float = 10.0) -> pd.DataFrame:
    """Return the estimators of the trace on one checkpoint, and their error at equal cost.

    `off` is the distance from the known trace in standard errors; `error_at_budget` the standard
    error, in per cent of the trace, that `budget` seconds on this machine would buy.
    """
    table = setting.store.get(setting.estimator_comparison())
    known, *_ = table["mean"]
    table = table.iloc[1:].reset_index(drop=True)
    table["off"] = (table["mean"] - known) / table.standard_error
    table["error_percent"] = 100 * table.standard_error / known
    table["error_at_budget"] = table.error_percent * np.sqrt(table.seconds / budget)
    return table.assign(known=known)


def variance_table(table: pd.DataFrame) -> pd.Series:
    """Return what the error of K sampled labels is made of, from the estimators of `estimator_table`.

    With n sentences, `between`/n + `within`/(K n) is the squared relative error, and n (`forward` +
    K `backward`) the seconds it takes; their product is least at `best_labels` labels.
    """
    rows = table.set_index("estimator")
    exact, one, many = (rows.loc[name] for name in ("exact over labels", "1 sampled label", PAPERS))
    between, total = ((row.standard_error / row.known) ** 2 * row["count"] for row in (exact, one))
    within = total - between
    single, all_labels = (row.seconds / row["count"] for row in (one, many))
    backward = (all_labels - single) / (PAPERS_LABELS - 1)
    forward = single - backward
    papers = between + within / PAPERS_LABELS
    return pd.Series(
        {
            "between": between,
            "within": within,
            "forward": forward,
            "backward": backward,
            "best_labels": math.sqrt(within / between * forward / backward) if forward > 0 else 0.0,
            "error_one_label": 100 * math.sqrt(total / PAPERS_SENTENCES),
            "error_paper": 100 * math.sqrt(papers / PAPERS_SENTENCES),
            "error_50_sentences": 100 * math.sqrt(papers / 50),
            "times_dearer": papers * all_labels / (total * single),
        }
    )


PAPERS = "50 sampled labels (the paper's)"
PAPERS_LABELS, PAPERS_SENTENCES = 50, 10_000
"""Appendix B: 50 labels of 10,000 masked sentences."""


def reparametrisation_table(setting: Setting) -> pd.DataFrame:
    """Return each measure in each form relative to the model as trained: one row a form.

    A column holds the ratio; `moved` is the largest change of a probability.
    """
    table = setting.store.get(setting.reparametrisation())
    wide = table.pivot(index="form", columns="measure", values="mean").loc[table.form.unique()]
    ratios = wide[list(MEASURES.measure)] / wide.iloc[0][list(MEASURES.measure)]
    ratios.insert(0, "moved", table.groupby("form").moved.first())
    return ratios.reset_index()


def measured_values(setting: Setting) -> pd.DataFrame:
    """Return the measures of the model as trained, with definition, reference and error."""
    table = setting.store.get(setting.reparametrisation())
    own = table[table.form == table.form.iloc[0]]
    return MEASURES.merge(own[["measure", "mean", "standard_error"]], on="measure")


def enlarged_traces(setting: Setting) -> pd.DataFrame:
    """Return the traces of the last checkpoints by size, seed, form and part."""
    return pd.concat(
        [
            setting.store.get(run).assign(size=size, seed=seed, step=setting.steps[-1])
            for (size, seed), run in setting.enlargements().items()
        ],
        ignore_index=True,
    )


FORMS = {
    ("native", "total"): "native parameters",
    ("paper", "total"): "enlarged, embedding / k (the paper's)",
    ("balanced", "total"): "enlarged, embedding / √k",
    ("paper", "without embeddings"): "enlarged, without embeddings",
}
"""Ways to compare the traces of different sizes: (form, part) and its name."""


def enlarged_totals(traces: pd.DataFrame) -> pd.DataFrame:
    """Return one row a checkpoint and way to compare: trace and its standard error."""
    rows = [
        traces[(traces.form == form) & (traces.part == part)].assign(comparison=name)
        for (form, part), name in FORMS.items()
    ]
    columns = {"mean": "trace", "standard_error": "trace_se"}
    return pd.concat(rows, ignore_index=True).rename(columns=columns)[
        [*KEYS, "comparison", "trace", "trace_se"]
    ]
