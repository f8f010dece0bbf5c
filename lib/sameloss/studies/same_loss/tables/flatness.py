"""Tables of what measures of flatness are like: their errors, costs, and what they depend on."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from itertools import product
from typing import get_args

import numpy as np
import pandas as pd
import torch

from sameloss.languages.masking import Batch
from sameloss.measures.flatness.estimated_trace import EstimatedTrace
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.enlarge import KINDS, Tying, common_width, deepen, kind_law, kind_of, trace_law, widen
from sameloss.models.sizes import LADDER, PRINTED_D_INTER
from sameloss.runs.flatness import predictions
from sameloss.runs.held_out import held_out_masked
from sameloss.store.pool import get_all
from sameloss.studies.same_loss.groups import Setting
from sameloss.studies.same_loss.results import KEYS, Results, final

MEASURES = (
    "trace",
    "top eigenvalue",
    "Tr Diag(H)^½",
    "adaptive trace",
    "adaptive sharpness",
    "worst adaptive sharpness",
    "relative trace",
    "learning coefficient",
)
"""The measures of flatness, in the order of the tables; chapter B has their definitions."""


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
    K `backward`) the seconds it takes; their product, the cost of a given error, is least at
    `best_labels` labels, and `one_beside_best` and `times_dearer` are ratios of such costs.
    """
    rows = table.set_index("estimator")
    exact, one, many = (rows.loc[name] for name in ("exact over labels", "1 sampled label", PAPERS))
    between, total = ((row.standard_error / row.known) ** 2 * row["count"] for row in (exact, one))
    within = total - between
    single, all_labels = (row.seconds / row["count"] for row in (one, many))
    backward = (all_labels - single) / (PAPERS_LABELS - 1)
    forward = single - backward
    papers = between + within / PAPERS_LABELS
    best = max(1.0, math.sqrt(within / between * max(0.0, forward) / backward))
    least = (between + within / best) * (forward + best * backward)
    return pd.Series(
        {
            "between": between,
            "within": within,
            "forward": forward,
            "backward": backward,
            "best_labels": best,
            "one_beside_best": total * single / least,
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
    ratios = wide[[*MEASURES]] / wide.iloc[0][[*MEASURES]]
    ratios.insert(0, "moved", table.groupby("form").moved.first())
    return ratios.reset_index()


def measured_values(setting: Setting) -> pd.DataFrame:
    """Return the measures of the model as trained, with their errors."""
    table = setting.store.get(setting.reparametrisation())
    return table[table.form == table.form.iloc[0]][["measure", "mean", "standard_error", "count"]]


def enlarged_traces(setting: Setting) -> pd.DataFrame:
    """Return the traces of the last checkpoints by size, seed, form and part."""
    runs = setting.enlargements()
    tables = get_all(setting.store, list(runs.values()), setting.preset.workers)
    return pd.concat(
        [
            table.assign(size=size, seed=seed, step=setting.steps[-1])
            for (size, seed), table in zip(runs, tables, strict=True)
        ],
        ignore_index=True,
    )


FORMS = {
    "native parameters": ("native", "total"),
    "native, without embeddings": ("native", "without embeddings"),
    "enlarged, embedding / k (the paper's)": ("paper", "total"),
    "enlarged, embedding / √k": ("balanced", "total"),
    "enlarged, without embeddings": ("paper", "without embeddings"),
    "relative trace": ("relative", "total"),
}
"""Ways to compare the traces of different sizes: the form and the part of it that counts."""

AS_THE_PAPER = "enlarged, embedding / k (the paper's)"


def enlarged_totals(traces: pd.DataFrame) -> pd.DataFrame:
    """Return one row a checkpoint and way to compare: trace and its standard error."""
    rows = [
        traces[(traces.form == form) & (traces.part == part)].assign(comparison=name)
        for name, (form, part) in FORMS.items()
    ]
    columns = {"mean": "trace", "standard_error": "trace_se"}
    return pd.concat(rows, ignore_index=True).rename(columns=columns)[
        [*KEYS, "comparison", "trace", "trace_se"]
    ]


def accuracy_and_enlarged(results: Results) -> pd.DataFrame:
    """Return the last checkpoints with their accuracies once for each way to compare traces."""
    totals = enlarged_totals(enlarged_traces(results.setting))
    return final(results).drop(columns=["trace", "trace_se"]).merge(totals, on=KEYS)


def law_alone(traces: pd.DataFrame, setting: Setting) -> pd.Series:
    """Return the excess of the smallest size's trace if its native parts were those of the largest.

    In per unit, by way to compare: what the enlargement does by itself.
    """
    shapes = [setting.preset.sizes[size] for size in setting.sizes]
    ratio = common_width(shapes) // shapes[0].d_model
    largest = traces[(traces["size"] == setting.sizes[-1]) & (traces.form == "native")]
    parts = largest[largest.part.isin(KINDS)].groupby("part")["mean"].mean()

    def excess(form: str, part: str) -> float:
        counted = parts.drop("embedding") if part == "without embeddings" else parts
        enlarged = form in get_args(Tying)
        law = {kind: kind_law(kind, ratio, form) if enlarged else 1.0 for kind in counted.index}
        return float((counted * pd.Series(law)).sum() / counted.sum() - 1)

    return pd.Series({name: excess(*which) for name, which in FORMS.items()})


def function_table(setting: Setting, sentences: int = 64) -> pd.DataFrame:
    """Return what each way to enlarge does to a model's predictions and to its exact trace."""
    model, masked = small_model(setting), small_sample(setting, sentences)
    post = Encoder(model.shape, len(model.head_bias), len(model.position.weight), norm="post").double()
    post.load_state_dict({name: model.state_dict()[name] for name in post.state_dict()})
    initial = {"filling": "initial", "generator": torch.Generator().manual_seed(0)}
    deeper = model.shape.layers + 2
    changes = {
        "pre-LN, width × 2": (model, widen(model, 2)),
        "pre-LN, width × 2, balanced": (model, widen(model, 2, tied="balanced")),
        "pre-LN, 2 layers added": (model, deepen(model, deeper)),
        "pre-LN, 2 layers added, initial matrices": (model, deepen(model, deeper, **initial)),
        "post-LN, width × 2": (post, widen(post, 2)),
        "post-LN, 2 layers added": (post, deepen(post, deeper)),
    }
    return pd.DataFrame([{"change": name, **_compared(*pair, masked)} for name, pair in changes.items()])


def _compared(small: Encoder, large: Encoder, masked: Batch) -> dict[str, float]:
    before, after = (predictions(model, masked) for model in (small, large))
    traces = [fisher_trace(model, masked, estimator="exact").total.mean for model in (small, large)]
    return {
        "moved": float((after - before).abs().max()),
        "KL": max(0.0, float((before * (before / after).log()).sum(1).mean())),  # not -0.0
        "trace": traces[1] / traces[0],
    }


def small_model(setting: Setting) -> Encoder:
    """Return the last checkpoint of the smallest size in float64."""
    checkpoints = setting.store.get(setting.pretraining(setting.sizes[0], 0))
    return checkpoints.model(checkpoints.steps[-1]).double()


def small_sample(setting: Setting, sentences: int) -> Batch:
    """Return held-out masked sentences for tables that a page computes itself."""
    return held_out_masked(setting.preset.language.build(), sentences, 0, "tables")


def law_table(setting: Setting, sentences: int = 64) -> pd.DataFrame:
    """Return measured and predicted factors of the exact trace under replication, by kind of parameter."""
    model, masked = small_model(setting), small_sample(setting, sentences)
    small = _means(fisher_trace(model, masked, estimator="exact"))
    rows = []
    for tied, ratio in product(("paper", "balanced"), (2, 3)):
        large = _means(fisher_trace(widen(model, ratio, tied=tied), masked, estimator="exact"))
        law = pd.Series({name: trace_law(name, ratio, tied) for name in small.index})
        off = (large / (law * small) - 1).abs().groupby(kind_of).max()
        measured = large.groupby(kind_of).sum() / small.groupby(kind_of).sum()
        for kind in KINDS:
            columns = {"measured": measured[kind], "law": kind_law(kind, ratio, tied), "off": off[kind]}
            rows.append({"map": tied, "ratio": ratio, "parameters": kind, **columns})
    return pd.DataFrame(rows)


def _means(trace: EstimatedTrace) -> pd.Series:
    return pd.Series({name: float(values.mean()) for name, values in trace.draws.items()})


def ladder_table() -> pd.DataFrame:
    """Return Table 4 of the ICML text with MLP widths that embed beside the printed ones."""
    largest = list(LADDER.values())[-1]
    rows = []
    for (name, shape), printed in zip(LADDER.items(), PRINTED_D_INTER, strict=True):
        ratio = largest.d_model // shape.d_model
        embeds = "yes" if ratio * printed == PRINTED_D_INTER[-1] else "no"
        columns = {"printed d_inter": printed, "printed embeds": embeds, "ratio": ratio}
        rows.append({"size": name, **asdict(shape), **columns})
    return pd.DataFrame(rows)


def inflation_table(ladder: Mapping[str, EncoderShape]) -> pd.DataFrame:
    """Return the factor of the trace by width and kind of parameter under the paper's enlargement."""
    width = common_width(ladder.values())
    return pd.DataFrame(
        [
            {"d_model": s.d_model, "parameters": kind, "factor": kind_law(kind, width // s.d_model)}
            for kind in ("embedding", "matrix", "vector")
            for s in ladder.values()
        ]
    )
