"""Tables of what measures of flatness are like: their errors, costs, and what they depend on."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from itertools import product
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd
import torch

from sameloss.languages.masking import Batch
from sameloss.measures.flatness.trace import EstimatedTrace, fisher_trace
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.enlarge import KINDS, Tying, common_width, deepen, kind_law, kind_of, trace_law, widen
from sameloss.models.sizes import LADDER, PRINTED_D_INTER
from sameloss.runs.flatness import MEASURES, predictions
from sameloss.runs.held_out import held_out_masked
from sameloss.studies.same_loss.estimators import ESTIMATORS, estimator_comparison, reparametrisation
from sameloss.studies.same_loss.pages import ComparisonPage


def estimator_table(page: ComparisonPage, budget: float = 10.0) -> pd.DataFrame:
    """Return the estimators of the trace on one checkpoint, and their error at equal cost.

    `off` is the distance from the known trace in standard errors; `error_at_budget` the standard
    error, in per cent of the trace, that `budget` seconds on this machine would buy.
    """
    table = page.store.get(estimator_comparison(page.group))
    known, *_ = table["mean"]
    table = table.iloc[1:].reset_index(drop=True)
    table["off"] = (table["mean"] - known) / table.standard_error
    table["error_percent"] = 100 * table.standard_error / known
    table["error_at_budget"] = table.error_percent * np.sqrt(table.seconds / budget)
    return table.assign(known=known, label=table.estimator.map(ESTIMATORS))


class Variances(NamedTuple):
    """What the error of K sampled labels of n sentences is made of, relative to the trace.

    `between`/n + `within`/(K n) is the squared error, and n (`forward` + K `backward`) the seconds it
    takes; their product, the cost of a given error, is least at `best_labels` labels.
    """

    between: float
    within: float
    forward: float
    backward: float
    best_labels: float
    one_beside_best: float  # ratio of the costs of one label and of the best number
    error_one_label: float  # per cent, with the paper's number of sentences
    error_paper: float  # per cent, with the paper's labels and sentences
    error_50_sentences: float  # per cent, with the paper's labels of 50 sentences
    times_dearer: float  # ratio of the costs of the paper's labels and of one


def variances(table: pd.DataFrame) -> Variances:
    """Return what the error of sampled labels is made of, from the estimators of `estimator_table`."""
    rows = table.set_index("estimator")
    exact, one, many = (rows.loc[name] for name in ("exact", "sampled-1", "sampled-50"))
    between, total = ((row.standard_error / row.known) ** 2 * row["count"] for row in (exact, one))
    within = total - between
    single, all_labels = (row.seconds / row["count"] for row in (one, many))
    backward = (all_labels - single) / (PAPERS_LABELS - 1)
    forward = single - backward
    papers = between + within / PAPERS_LABELS
    best = max(1.0, math.sqrt(within / between * max(0.0, forward) / backward))
    least = (between + within / best) * (forward + best * backward)
    return Variances(
        between=between,
        within=within,
        forward=forward,
        backward=backward,
        best_labels=best,
        one_beside_best=total * single / least,
        error_one_label=100 * math.sqrt(total / PAPERS_SENTENCES),
        error_paper=100 * math.sqrt(papers / PAPERS_SENTENCES),
        error_50_sentences=100 * math.sqrt(papers / 50),
        times_dearer=papers * all_labels / (total * single),
    )


PAPERS_LABELS, PAPERS_SENTENCES = 50, 10_000
"""Appendix B: 50 labels of 10,000 masked sentences."""


def reparametrisation_table(page: ComparisonPage) -> pd.DataFrame:
    """Return each measure in each form relative to the model as trained: one row a form.

    A column holds the ratio; `moved` is the largest change of a probability.
    """
    table = page.store.get(reparametrisation(page.group))
    wide = table.pivot(index="form", columns="measure", values="mean").loc[table.form.unique(), [*MEASURES]]
    ratios = (wide / wide.iloc[0]).rename(columns=MEASURES)
    ratios.insert(0, "moved", table.groupby("form").moved.first())
    return ratios.reset_index()


def measured_values(page: ComparisonPage) -> pd.DataFrame:
    """Return the measures of the model as trained, with their errors."""
    table = page.store.get(reparametrisation(page.group))
    trained = table[table.form == table.form.iloc[0]]
    return trained[["measure", "mean", "standard_error", "count"]].replace({"measure": MEASURES})


def function_table(page: ComparisonPage, sentences: int = 64) -> pd.DataFrame:
    """Return what each way to enlarge does to a model's predictions and to its exact trace."""
    model, masked = small_model(page), small_sample(page, sentences)
    post = Encoder(model.shape, len(model.head_bias), len(model.position.weight), norm="post").double()
    post.load_state_dict({name: model.state_dict()[name] for name in post.state_dict()})
    deeper = model.shape.layers + 2
    initial = deepen(model, deeper, filling="initial", generator=torch.Generator().manual_seed(0))
    changes = {
        "pre-LN, width × 2": (model, widen(model, 2)),
        "pre-LN, width × 2, balanced": (model, widen(model, 2, tied="balanced")),
        "pre-LN, 2 layers added": (model, deepen(model, deeper)),
        "pre-LN, 2 layers added, initial matrices": (model, initial),
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


def small_model(page: ComparisonPage) -> Encoder:
    """Return the last checkpoint of the smallest size in float64."""
    return page.store.whole.get(page.group.pretraining(page.group.sizes[0], 0)).last().double()


def small_sample(page: ComparisonPage, sentences: int) -> Batch:
    """Return held-out masked sentences for tables that a page computes itself."""
    return held_out_masked(page.group.domain.language.build(), sentences, 0, "tables")


def law_table(page: ComparisonPage, sentences: int = 64) -> pd.DataFrame:
    """Return measured and predicted factors of the exact trace under replication, by kind of parameter."""
    model, masked = small_model(page), small_sample(page, sentences)
    small = _means(fisher_trace(model, masked, estimator="exact"))
    rows = []
    for tied, ratio in product(get_args(Tying), (2, 3)):
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
