"""Conditionals of a causal language model beside the plain loop: a pass over the sentence per candidate word.

The model is a small random OPT, or the one in a folder given by --model; its language has 2,000 words and
sentences of 24 tokens. How values are made is told in `racing.py`. The loop is timed on some candidates.

    python benchmarks/teacher.py
    python benchmarks/teacher.py --model FOLDER
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch
from jaxtyping import Float
from racing import Report, Work, conclude, contest, difference, parser
from torch import Tensor
from transformers import OPTConfig, OPTForCausalLM

from sameloss.languages import Sentences
from sameloss.languages.autoregressive import AutoregressiveLanguage
from sameloss.languages.pretrained import HubTeacherSpec

PACKAGES = ("torch", "transformers")
"""Whose versions are recorded."""

WORDS, LENGTH = 2000, 24
"""Of the paper's third language."""

EXACT = 1e-5
"""Largest difference of two probabilities: the models compute in float32."""


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    repetitions: int
    words: int
    positions: tuple[int, ...]
    candidates: int  # of the plain loop
    tolerance: float = 1e-3


FULL = Scale(5, WORDS, tuple(range(0, LENGTH, 3)), 100)

QUICK = Scale(1, 200, (4, 19), 20)


def random_opt(words: int) -> AutoregressiveLanguage:
    """Return the language of a random OPT of 0.2 million parameters, float32."""
    torch.manual_seed(0)
    config = OPTConfig(
        vocab_size=words + 2,
        hidden_size=64,
        word_embed_proj_dim=64,
        ffn_dim=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=LENGTH + 1,
        init_std=0.2,
    )
    return AutoregressiveLanguage(OPTForCausalLM(config), range(2, words + 2), (0,), (1.0,), 1, LENGTH)


@torch.no_grad()
def plain(
    language: AutoregressiveLanguage, sentences: Sentences, at: Tensor, candidates: range
) -> Float[Tensor, "batch candidate"]:
    """Return conditionals among some candidates, from a pass of the whole model over each sentence."""
    ids, rows = language.model.ids, []
    for tokens, length, position in zip(*sentences, at, strict=True):
        joint = []
        for word in candidates:
            columns = tokens[:length].index_fill(0, position, word + 1) - 1
            read = torch.cat([language.starts, ids[columns]])
            logits = language.model.model(read[None]).logits[0][:, ids].double()
            logits[0, -1] = -torch.inf  # the end token cannot come first
            targets = torch.cat(
                [columns, torch.tensor([language.words])[: int(length < language.max_length)]]
            )
            log_p = logits[: len(targets)].log_softmax(-1)
            joint.append(log_p[torch.arange(len(targets)), targets].sum())
        rows.append(torch.stack(joint).softmax(0))
    return torch.stack(rows)


def report(language: AutoregressiveLanguage, scale: Scale) -> Report:
    """Compare exact and bounded conditionals with those of the loop, at several positions."""
    drawn = language.sample(len(scale.positions), torch.Generator().manual_seed(0))
    at = torch.tensor(scale.positions).minimum(drawn.lengths - 1)
    some = range(scale.candidates)
    exact = language.conditionals_at(drawn, at)
    bounded, bounds = language.bounded_conditionals_at(drawn, at, scale.tolerance)
    ours = exact[:, : len(some)] / exact[:, : len(some)].sum(1, keepdim=True)
    agreement = difference("exact conditionals, plain loop", ours, plain(language, drawn, at, some), EXACT)
    distance = (bounded - exact).abs().sum(1) / 2 - bounds
    agreement |= difference(
        "bounded conditionals beyond their bound", distance.clamp(min=0), 0 * bounds, EXACT
    )
    loop = partial(plain, language, drawn, at, some)
    loop_units = len(at) * len(some) / language.words
    rows = []
    for name, goal, call in (
        ("exact", 20, partial(language.conditionals_at, drawn, at)),
        ("bounded", None, partial(language.bounded_conditionals_at, drawn, at, scale.tolerance)),
    ):
        works = [Work(name, "", len(at), call), Work("plain loop", "", loop_units, loop)]
        what = f"conditional, {language.words:,} words, {language.max_length} tokens"
        rows += contest(what, "ms", works, {"plain loop": goal}, scale.repetitions)
    return Report(rows, agreement)


def main(argv: Sequence[str] | None = None) -> pd.DataFrame:
    """Print the table and return it; without --quick and --model, write it into results/."""
    line = parser(__doc__)
    line.add_argument("--model", help="folder of a causal language model")
    options = line.parse_args(argv)
    torch.set_num_threads(1)
    scale = QUICK if options.quick else FULL
    language = random_opt(scale.words)
    if options.model:
        language = HubTeacherSpec.of(options.model, None, words=scale.words, max_length=LENGTH).build()
    write = not (options.quick or options.model)
    return conclude("teacher", [report(language, scale)], PACKAGES, write=write)


if __name__ == "__main__":
    main()
