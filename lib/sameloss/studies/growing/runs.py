"""The runs of growing: shallow models with their optimiser's state, all candidates of each, and stages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from safetensors.torch import load_file, save
from torch import Tensor

from sameloss.languages.masking import mask_batch
from sameloss.models.encoder import EncoderShape
from sameloss.models.grow import grow
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.runs.checkpoints import Checkpoints, TrainedRun, save_weights, weights_name
from sameloss.runs.frames import TABLE, Tabled
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.resumable import Resumable
from sameloss.runs.sampling import CorpusSampling
from sameloss.seeds import generator_for, stream_seed
from sameloss.store.files import write_atomically
from sameloss.store.manifest import SCRATCH
from sameloss.store.store import Report, Run, Store
from sameloss.studies.growing.operators import NOT_GROWN, Operator
from sameloss.training.ensembles import Ensemble, EnsembleStep, train_together
from sameloss.training.loop import Optimisation, TrainingStep
from sameloss.training.masked_loss import noisy_targets
from sameloss.training.moments import Carried, Moments, grown_moments, moments_of

MOMENTS = "moments.safetensors"

MEMBERS = "members.safetensors"

OVERHEAD = 1e-3
"""Seconds that a step takes for each layer and the rest of a model, however small they are."""


@dataclass(frozen=True)
class GrowthBase(Pretraining):
    """The pre-training of a shallow model, which keeps what its optimiser knows at the end."""

    shape: EncoderShape

    def keep_more(self, model: MaskedLanguageModel, optimiser: torch.optim.Optimizer, folder: Path) -> None:
        """Write the moments of all parameters."""
        write_moments(moments_of(model, optimiser), folder)

    @property
    def root(self) -> "GrowthBase":
        """Return the pre-training from which all growing begins: this one."""
        return self

    @property
    def done(self) -> int:
        """Return the number of steps since the first weights were drawn."""
        return self.optimisation.steps

    @property
    def flops(self) -> float:
        """Return what the training takes."""
        return self.done * self.flops_of_step(self.shape)

    def flops_of_step(self, shape: EncoderShape) -> float:
        """Return what a step on a batch of this training takes a model of some shape."""
        language = self.corpus.language
        return self.optimisation.batch * shape.flops(language.words, language.max_length)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return super().effort + self.done * OVERHEAD * (1 + self.shape.layers)

    def of_shape(self, shape: EncoderShape) -> MaskedLanguageModel:
        """Return a new model of another shape, for weights to be loaded into."""
        return replace(self, shape=shape).new_model()


def write_moments(found: dict[str, Moments], folder: Path) -> None:
    """Write what AdamW knows of a model."""
    tensors = {f"{name}/{field}": v for name, own in found.items() for field, v in own._asdict().items()}
    write_atomically(folder / MOMENTS, save({name: v.cpu().contiguous() for name, v in tensors.items()}))


def read_moments(folder: Path) -> dict[str, Moments]:
    """Read what `write_moments` wrote."""
    tensors = load_file(folder / MOMENTS)
    names = dict.fromkeys(name.rpartition("/")[0] for name in tensors)
    return {name: Moments(*(tensors[f"{name}/{field}"] for field in Moments._fields)) for name in names}


class Pairs:
    """Masked sentences that no training saw, with the truth: half to choose by, half to judge by."""

    def __init__(self, store: Store, held_out: HeldOutConditionals) -> None:
        """Mask one position of each sentence, every position equally often."""
        sentences, conditionals = store.get(held_out)
        rows = torch.arange(len(sentences.lengths))
        positions = rows % sentences.lengths
        self.batch = mask_batch(sentences, positions)
        self.truth = conditionals[rows, positions]
        self.half = len(rows) // 2

    @torch.no_grad()
    def kl(self, logits: Float[Tensor, "member row word"]) -> tuple[Tensor, Tensor]:
        """Return the KL of each member on the two halves, in nats a masked token."""
        log_q = logits.double().cpu().log_softmax(-1)
        found = (torch.xlogy(self.truth, self.truth) - self.truth * log_q).sum(-1)
        return found[:, : self.half].mean(1), found[:, self.half :].mean(1)


@dataclass(frozen=True)
class _Grown(Run):
    """A model grown by some operators, and trained on the batches that come next.

    Without operators the model goes on as it is. Its table has a row an operator and look: `chosen_by` and
    `kl` are the KL on the two halves of the held-out pairs, `loss` that of the batch just trained on, nats a
    masked token. A candidate that diverged has none.
    """

    base: "GrowthBase | Stage"
    operators: tuple[Operator, ...]
    added: int
    steps: int
    looks: tuple[int, ...]
    carried: Carried
    held_out: HeldOutConditionals

    @property
    def optimisation(self) -> Optimisation:
        """Return the settings after growing: from the rate at which the shallow model ended, down to zero.

        At a constant rate, the thesis' for BERT, models of this size go up and down by more than they differ.
        """
        return replace(self.base.root.optimisation, steps=self.steps, warmup=0.0, schedule="linear")

    @cached_property
    def shape(self) -> EncoderShape:
        """Return the shape after growing."""
        before: EncoderShape = self.base.shape
        return replace(before, layers=before.layers + self.added) if self.operators else before

    @property
    def names(self) -> list[str]:
        """Return what the members are called."""
        return [operator.name for operator in self.operators] or [NOT_GROWN]

    def ensemble(self, store: Store) -> Ensemble:
        """Return the grown models before any further step."""
        checkpoints = store.get(self.base)
        model, moments = checkpoints.last(), read_moments(checkpoints.folder)
        if not self.operators:
            return Ensemble([model], [moments])
        maps = [operator.layers(model.shape.layers, self.added) for operator in self.operators]
        fillings = [operator.filling for operator in self.operators]
        seed = self.base.root.seed
        drawn = [generator_for(f"new layers {operator.name}", seed) for operator in self.operators]
        return Ensemble(
            [grow(model, *given) for given in zip(maps, fillings, drawn, strict=True)],
            [grown_moments(moments, *given, self.carried) for given in zip(maps, fillings, strict=True)],
        )

    def trained(self, ensemble: Ensemble, store: Store, start: int = 0) -> Iterator[EnsembleStep]:
        """Train on the batches that the shallow model would see next."""
        root, done = self.base.root, self.base.done
        corpus, language = store.get(root.corpus), root.corpus.language.build()
        stream, size = stream_seed("batches", root.seed), root.optimisation.batch
        return train_together(
            ensemble,
            lambda step: corpus.batch(stream, done + step, size),
            lambda batch: noisy_targets(language, batch, root.objective.label_noise),
            self.optimisation,
            start,
        )

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        root = self.base.root
        rows = self.steps * root.optimisation.batch + len(self.looks) * self.held_out.sentences / 3
        work = len(self.names) * rows * root.flops_of_step(self.shape) / root.optimisation.batch / 1.9e10
        return work + self.steps * OVERHEAD * (1 + self.shape.layers)


def _look(names: Sequence[str], ensemble: Ensemble, pairs: Pairs, step: int, losses: Tensor) -> pd.DataFrame:
    chosen_by, kl = pairs.kl(ensemble.logits(pairs.batch))
    found = {"chosen_by": chosen_by, "kl": kl, "loss": losses.detach()}
    return pd.DataFrame({"operator": names, "step": step} | {n: v.cpu().numpy() for n, v in found.items()})


@dataclass(frozen=True)
class Candidates(_Grown, Tabled):
    """One shallow model grown by every operator, and all of them trained to the end on the same batches."""

    schema = 2
    weights = (".safetensors",)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Grow, train, look; go on from the last saved state, if there is one."""
        ensemble, pairs = self.ensemble(store), Pairs(store, self.held_out)
        resumable = Resumable(folder / SCRATCH, {"ensemble": ensemble}, self.base.root.resume_every)
        start = resumable.load(lambda done: (_kept(folder, look) for look in self.looks if look <= done))

        def look(step: int, losses: Tensor) -> None:
            found = _look(self.names, ensemble, pairs, step, losses)
            write_atomically(_kept(folder, step), found.to_csv(index=False).encode())
            report(step / self.steps, f"KL {found.kl.min():.4f}")

        if not start:
            look(0, torch.full((len(ensemble),), torch.nan))
        for step in self.trained(ensemble, store, start):
            if step.done in self.looks:  # before the state is saved from which it would not be made again
                look(step.done, step.losses)
            resumable.record(TrainingStep(step.done, float(step.losses.mean()), torch.nan))
        tables = [pd.read_csv(_kept(folder, step)) for step in self.looks]
        pd.concat(tables).to_csv(folder / TABLE, index=False)
        weights = {name: stacked.cpu().contiguous() for name, stacked in ensemble.weights.items()}
        write_atomically(folder / MEMBERS, save(weights))


def _kept(folder: Path, step: int) -> Path:
    """Return where a look is kept until all are there."""
    (folder / SCRATCH).mkdir(exist_ok=True)
    return folder / SCRATCH / f"look-{step:07}.csv"


@dataclass(frozen=True)
class Member(TrainedRun):
    """One of the candidates as it ended."""

    candidates: Candidates
    at: int

    @cached_property
    def corpus(self) -> CorpusSampling:
        """Return what it was trained on."""
        return self.candidates.base.root.corpus

    @cached_property
    def shape(self) -> EncoderShape:
        """Return its shape."""
        return self.candidates.shape

    @cached_property
    def checkpoints(self) -> tuple[int, ...]:
        """Return the only one: the steps after growing."""
        return (self.candidates.steps,)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Take its weights from those of all."""
        store.compute(self.candidates)
        weights = load_file(store.folder(self.candidates) / MEMBERS)
        own = {name: stacked[self.at].contiguous() for name, stacked in weights.items()}
        write_atomically(folder / weights_name(self.checkpoints[0]), save(own))

    def load(self, folder: Path) -> Checkpoints:
        """Open it."""
        new_model = self.candidates.base.root.of_shape
        return Checkpoints(folder, self.checkpoints, lambda: new_model(self.shape))

    @property
    def effort(self) -> float:
        """Return next to nothing: weights are copied."""
        return 0.01


class StageEnd(Checkpoints):
    """The model along the second part of a stage, and what was seen of it."""

    @property
    def table(self) -> pd.DataFrame:
        """Return the rows of all looks; `flops` counts everything since the first weights were drawn."""
        return pd.read_csv(self.folder / TABLE)


@dataclass(frozen=True)
class Stage(_Grown, TrainedRun):
    """One stage of stacking: a model is grown by each operator, and the best after some steps goes on.

    With one operator there is nothing to choose. Looks begin where the choice is made.
    """

    lag: int  # steps after which one is chosen
    ends: bool  # whether the rate falls to zero, as in the last stage

    @cached_property
    def corpus(self) -> CorpusSampling:
        """Return what it is trained on."""
        return self.root.corpus

    @cached_property
    def checkpoints(self) -> tuple[int, ...]:
        """Return the steps of this stage after which weights are kept: all looks."""
        return self.looks

    @property
    def root(self) -> GrowthBase:
        """Return the pre-training of the first stage."""
        return self.base.root

    @property
    def done(self) -> int:
        """Return the number of steps since the first weights were drawn."""
        return self.base.done + self.steps

    @property
    def optimisation(self) -> Optimisation:
        """Return the settings of this stage: a constant rate, but in the last."""
        falling = super().optimisation
        return falling if self.ends else replace(falling, schedule="constant")

    @property
    def flops(self) -> float:
        """Return what everything up to its end takes."""
        return self.flops_at(self.steps)

    def flops_at(self, step: int) -> float:
        """Return what everything up to a step of this stage takes, candidates that were dropped too."""
        tried = max(0, len(self.operators) - 1) * min(self.lag, step)
        return self.base.flops + (step + tried) * self.root.flops_of_step(self.shape)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Grow, choose, train on."""
        pairs, tables = Pairs(store, self.held_out), []
        name, ensemble = self._chosen(pairs, store)
        for step in self.trained(ensemble, store, self.lag):
            if step.done in self.looks:
                found = _look([name], ensemble, pairs, step.done, step.losses)
                tables.append(found.assign(flops=self.flops_at(step.done)))
                save_weights(ensemble.member(0), folder / weights_name(step.done))
                report(step.done / self.steps, f"KL {found.kl.item():.4f}")
        pd.concat(tables).to_csv(folder / TABLE, index=False)
        write_moments(ensemble.moments_of(0), folder)

    def _chosen(self, pairs: Pairs, store: Store) -> tuple[str, Ensemble]:
        """Return the operator whose model has the smallest KL after LAG's steps, and that model then."""
        ensemble = self.ensemble(store)
        steps = self.trained(ensemble, store)
        for _ in range(self.lag):
            next(steps)
        best = int(pairs.kl(ensemble.logits(pairs.batch))[0].nan_to_num(torch.inf).argmin())
        return self.names[best], ensemble.kept([best])

    def load(self, folder: Path) -> StageEnd:
        """Open what was kept."""
        return StageEnd(folder, self.checkpoints, lambda: self.root.of_shape(self.shape))

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        share = (self.steps + max(0, len(self.operators) - 1) * self.lag) / self.steps
        return super().effort * share / len(self.names)
