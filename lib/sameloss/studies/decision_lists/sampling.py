"""The sampled runs of this study: Figure 4.1, SGD, fixed samples, and transformer blocks."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sameloss.device import best_device
from sameloss.seeds import stream_seed
from sameloss.store.store import Report
from sameloss.studies.decision_lists.block import block_looked_at, new_block, train_block
from sameloss.studies.decision_lists.one_step import recall, sampled_step
from sameloss.studies.decision_lists.runs import ListRun
from sameloss.studies.decision_lists.settings import Blocks, Samples, TaskShape
from sameloss.studies.decision_lists.sgd import (
    Steps,
    both_by_sgd,
    error_of,
    looked_at,
    scores_by_sgd,
    trained_on,
)
from sameloss.studies.decision_lists.task import DecisionLists, draw_sequences


def generator(use: str, *path: int) -> torch.Generator:
    """Return random numbers for one use, on the device that computes."""
    return torch.Generator(best_device()).manual_seed(stream_seed(f"lists {use}", *path))


@dataclass(frozen=True)
class FigureStep(ListRun):
    """Figure 4.1's step on drawn sequences: how much of P is seen in V."""

    task: TaskShape
    counts: tuple[int, ...]
    seed: int

    def rows(self, report: Report) -> Iterator[dict]:
        """Take the step on each number of sequences."""
        task, words = self.task.build(), self.task.words
        for count in self.counts:
            own = torch.Generator().manual_seed(stream_seed("lists step", self.seed, count))
            read_out = sampled_step(task, self.task.length, float(words**2), count, own)
            diagonal = read_out[task.image, torch.arange(words)]
            rest = read_out.index_put((task.image, torch.arange(words)), torch.tensor(0.0))
            yield {
                "count": count,
                "recall": recall(task, read_out),
                "row_recall": recall(_inverse(task), read_out.T),
                "diagonal": float(diagonal.mean()),
                "least": float(diagonal.min()),
                "largest_other": float(rest.abs().max()),
            }
            report(count / max(self.counts), f"{count} sequences")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 1.2e-4 * sum(self.counts)


def _inverse(task: DecisionLists) -> DecisionLists:
    """Return a task whose permutation is turned round; its lists do not matter."""
    inverse = torch.empty_like(task.image)
    inverse[task.image] = torch.arange(task.words)
    return DecisionLists(tuple(inverse.tolist()), tuple((token,) for token in range(task.words)))


@dataclass(frozen=True)
class ListSGD(ListRun):
    """SGD on drawn sequences: on W at V = cP, or on both matrices from nothing (`readout` None)."""

    task: TaskShape
    readout: float | None
    how: Steps
    looked: int
    seed: int

    def rows(self, report: Report) -> Iterator[dict]:
        """Train, and look."""
        task, length = self.task.build(), self.task.length
        held_out = draw_sequences(task.words, length, self.looked, generator("held out"))
        own = generator("sgd", self.seed)
        if self.readout is None:
            looks = both_by_sgd(task, length, self.how, own)
        else:
            looks = scores_by_sgd(task, length, self.readout, self.how, own)
        for found in looks:
            report(found.step / self.how.steps, f"step {found.step}")
            yield looked_at(task, found, held_out)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        token = self.task.length * self.task.words
        dense = self.how.batch * token * self.task.words if self.readout is None else 0
        return self.how.steps * (1.2e-3 + dense / 2e10) + self.how.looks * self.looked * token / 1e8


@dataclass(frozen=True)
class ListSamples(ListRun):
    """The error on new sequences after training on a fixed sample of each size."""

    samples: Samples
    seed: int

    def rows(self, report: Report) -> Iterator[dict]:
        """Train on the first sequences of one large sample, more and more of them."""
        s = self.samples
        for words in s.words:
            shape = TaskShape(words, s.length, s.rules)
            task, own = (
                shape.build(),
                torch.Generator().manual_seed(stream_seed("lists samples", self.seed, words)),
            )
            drawn = draw_sequences(words, s.length, max(s.sizes), own)
            tested = draw_sequences(words, s.length, s.tested, own)
            rate = 4 * words / (s.readout**2 / 8 + s.readout)
            for size in s.sizes:
                scores = trained_on(task, s.readout, rate, drawn[:size], s.most_steps)
                errors = {
                    "error": error_of(task, s.readout, scores, tested),
                    "trained_error": error_of(task, s.readout, scores, drawn[:size]),
                }
                yield {"words": words, "size": size, "mass": shape.column(1.0).triple_mass, **errors}
            report((s.words.index(words) + 1) / len(s.words), f"L = {words}")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        s = self.samples
        return 5e-9 * sum(s.words) * sum(s.sizes) * s.most_steps


@dataclass(frozen=True)
class ListBlock(ListRun):
    """An encoder of the library trained on the task, and what its attention looks at."""

    blocks: Blocks
    layers: int
    mlp: bool
    seed: int

    def rows(self, report: Report) -> Iterator[dict]:
        """Train; look at a model that was not trained, too."""
        b, device = self.blocks, best_device()
        task, length = b.task.build(), b.task.length
        model = new_block(b.task.words, length, b.shape(self.layers), self.mlp, self.seed).to(device)
        held_out = draw_sequences(b.task.words, length, 1000, generator("block held out"))
        yield {"step": 0, **block_looked_at(model, task, held_out)}
        for step in train_block(model, task, b.lr, b.batch, b.steps, generator("block", self.seed)):
            if step % max(1, b.steps // 10) == 0:
                report(step / b.steps, f"step {step}")
        yield {"step": b.steps, **block_looked_at(model, task, held_out)}

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        b = self.blocks
        return b.steps * self.layers * (1.5e-3 + 1.5e-7 * b.batch * b.task.length * b.d_model)
