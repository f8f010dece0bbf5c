"""Sentences that no training saw, and their exact conditionals."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save
from torch import Tensor

from sameloss.languages import Language, LanguageSpec, Sentences
from sameloss.languages.masking import Batch, mask_batch
from sameloss.seeds import generator_for
from sameloss.store.manifest import write_atomically
from sameloss.store.store import Report, Run, Store

HELD_OUT = "held_out.safetensors"


def held_out(language: Language, count: int, seed: int, use: str) -> Sentences:
    """Draw sentences for one use; no two uses, and no corpus, share their random numbers."""
    generator = generator_for(use, seed)
    return language.sample(count, generator)


def held_out_masked(language: Language, count: int, seed: int, use: str) -> Batch:
    """Draw masked sentences for one use."""
    return mask_batch(*_placed(language, count, seed, use))


def held_out_conditionals(language: Language, count: int, seed: int, use: str) -> Float[Tensor, "batch word"]:
    """Compute Pr(. | x_-t) of the masked sentences that `held_out_masked` draws."""
    sentences, positions = _placed(language, count, seed, use)
    if hasattr(language, "conditionals_at"):  # all positions would cost a pass for every word of each
        return language.conditionals_at(sentences, positions)
    return language.conditionals(sentences)[torch.arange(count), positions]


def _placed(language: Language, count: int, seed: int, use: str) -> tuple[Sentences, Int[Tensor, " batch"]]:
    """Draw sentences, and in each one of its positions, all equally likely."""
    sentences = held_out(language, count, seed, use)
    generator = generator_for(f"{use} positions", seed)
    return sentences, (torch.rand(count, generator=generator) * sentences.lengths).long()


@dataclass(frozen=True)
class HeldOutConditionals(Run):
    """Sentences that no training saw, and their exact conditionals: what all models are measured on.

    It is a run of its own, because some languages take minutes for what all models share.
    """

    language: LanguageSpec
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Draw the sentences and compute their conditionals."""
        language = self.language.build()
        sentences = held_out(language, self.sentences, self.seed, "saturation")
        tensors = {**sentences._asdict(), "conditionals": language.conditionals(sentences)}
        content = save({name: value.contiguous() for name, value in tensors.items()})
        write_atomically(folder / HELD_OUT, content)

    def load(self, folder: Path) -> tuple[Sentences, Float[Tensor, "batch seq word"]]:
        """Return the sentences and their conditionals."""
        tensors = load_file(folder / HELD_OUT)
        return Sentences(tensors["tokens"], tensors["lengths"]), tensors["conditionals"]
