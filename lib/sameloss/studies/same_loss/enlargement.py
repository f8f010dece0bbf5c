"""Tables about small transformers inside large ones (Appendix B.1; B.4 of the ICML text)."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from itertools import product
from typing import get_args

import pandas as pd
import torch

from sameloss.languages.masking import Batch
from sameloss.measures.flatness.trace import EstimatedTrace, fisher_trace
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.enlarge import KINDS, Tying, deepen, kind_law, kind_of, trace_law, widen
from sameloss.models.sizes import LADDER, PRINTED_D_INTER, SIZES
from sameloss.runs.measurements import predictions
from sameloss.studies.same_loss.tables import LANGUAGES


def function_table(model: Encoder, masked: Batch) -> pd.DataFrame:
    """Return what each kind of enlargement does to a model's predictions and to its exact trace.

    Args:
        model: pre-LN, in float64; it is compared with a post-LN one that has its parameters.
        masked: masked sentences.

    """
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


def law_table(model: Encoder, masked: Batch) -> pd.DataFrame:
    """Compare measured and predicted factors of the exact trace under replication, by kind of parameter."""
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
    width, rows = math.lcm(*(shape.d_model for shape in LADDER.values())), []
    for (name, shape), printed in zip(LADDER.items(), PRINTED_D_INTER, strict=True):
        ratio = width // shape.d_model
        embeds = "yes" if ratio * printed == PRINTED_D_INTER[-1] else "no"
        columns = {"printed d_inter": printed, "printed embeds": embeds, "ratio": ratio}
        rows.append({"size": name, **asdict(shape), **columns})
    return pd.DataFrame(rows)


def inflation_table(ladder: Mapping[str, EncoderShape]) -> pd.DataFrame:
    """Return the predicted factor of the trace by width and kind of parameter."""
    width = math.lcm(*(shape.d_model for shape in ladder.values()))
    rows = [
        {"d_model": shape.d_model, "parameters": kind, "factor": kind_law(kind, width // shape.d_model)}
        for kind, shape in product(("embedding", "matrix", "vector"), ladder.values())
    ]
    return pd.DataFrame(rows)


def tilt_in_words(answers: pd.DataFrame, measurements: pd.DataFrame) -> str:
    """Return, as Markdown, what enlargement does to the ratio of traces of the smallest and largest model.

    Args:
        answers: rows of "flatness by size"; languages without an enlarged trace are left out.
        measurements: of the same languages, see `experiment.COLUMNS`.

    """
    sentences = []
    for language, rows in answers.dropna(subset="mean").groupby("language", sort=False):
        ratios = rows.set_index("row")["mean"]
        if not {"main", "enlarged to one width"} <= set(ratios.index):
            continue
        models = measurements[measurements.language == language].sort_values("parameters").model.unique()
        widths = [SIZES["laptop"][model].d_model for model in models if model in SIZES["laptop"]]
        above = int((rows.low > 1).sum())
        every = "the larger model is flatter in each comparison, but by how much depends on the comparison"
        some = "whether the larger model is flatter depends on the comparison"
        sentences.append(
            f"On the {LANGUAGES[str(language)]}, enlargement multiplies the ratio by "
            f"{ratios['enlarged to one width'] / ratios['main']:.2f}; the law for the embedding alone gives "
            f"{widths[-1] / widths[0]:.2g}, the ratio of the widths. {above} of {len(rows)} intervals "
            f"{'lies' if above == 1 else 'lie'} wholly above one. At this learning rate "
            f"{every if above == len(rows) else some}."
        )
    return " ".join(sentences) or "No recorded model was enlarged."
