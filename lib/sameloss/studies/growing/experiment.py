"""Growth operators, the stored runs of this study, and what its chapters share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor

from sameloss.errors import ParameterError
from sameloss.languages import HierarchySpec, LanguageSpec
from sameloss.languages.masking import mask_batch
from sameloss.models.encoder import EncoderShape
from sameloss.models.enlarge import PRESERVING, Filling, LayerMap, grid, grow, repeated
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.runs.checkpoints import STEP, Checkpoints, Resumable, TrainedRun, save_tensors, weights_name
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import CorpusSampling, HeldOutConditionals
from sameloss.runs.stage import TABLE, Tabled
from sameloss.seeds import generator_for, stream_seed
from sameloss.store.store import SCRATCH, Folder, Report, Run, Store, write_atomically
from sameloss.training.ensembles import (
    Carried,
    Ensemble,
    EnsembleStep,
    Moments,
    grown_moments,
    moments_of,
    train_together,
)
from sameloss.training.loop import Optimisation, TrainingStep
from sameloss.training.objectives import Objective, noisy_targets

# Growth operators


@dataclass(frozen=True)
class Operator:
    """A growth operator: where layers are added, and how they are initialised."""

    index: int  # i, from 0
    block: int  # b
    filling: Filling

    def layers(self, shallow: int, added: int) -> LayerMap:
        return repeated(shallow, added, self.index, self.block)

    @property
    def name(self) -> str:
        """Label in tables.

        >>> Operator(2, 1, "duplicate").name
        'duplicate, i = 2, b = 1'
        """
        return f"{self.filling}, i = {self.index}, b = {self.block}"


NOT_GROWN = "not grown"
"""The label of a model that keeps its depth."""

PUBLISHED: tuple[Filling, ...] = ("duplicate", "random")
"""The fillings of the thesis; those that preserve the function are controls."""


# Runs of growing: shallow models with their optimiser state, the candidates grown from each, and stages.

MOMENTS = "moments.safetensors"

MEMBERS = "members.safetensors"


@dataclass(frozen=True)
class GrowthBase(Pretraining):
    """The pre-training of a shallow model, stored with the final optimiser state."""

    shape: EncoderShape

    def keep_more(self, model: MaskedLanguageModel, optimiser: torch.optim.Optimizer, folder: Path) -> None:
        write_moments(moments_of(model, optimiser), folder)

    @property
    def root(self) -> "GrowthBase":
        return self

    @property
    def done(self) -> int:
        """Steps since initialisation."""
        return self.optimisation.steps

    def flops_of_step(self, shape: EncoderShape) -> float:
        """FLOPs of one step on a batch of this training, for a model of the given shape."""
        language = self.corpus.language
        return self.optimisation.batch * shape.flops(language.words, language.max_length)


def write_moments(moments: Mapping[str, Moments], folder: Path) -> None:
    """Save AdamW's moments by parameter."""
    fields = {f"{name}/{field}": v for name, own in moments.items() for field, v in own._asdict().items()}
    save_tensors(fields, folder / MOMENTS)


def read_moments(folder: Path) -> dict[str, Moments]:
    """Load what `write_moments` saved."""
    tensors = load_file(folder / MOMENTS)
    names = dict.fromkeys(name.rpartition("/")[0] for name in tensors)
    return {name: Moments(*(tensors[f"{name}/{field}"] for field in Moments._fields)) for name in names}


class HeldOutTargets:
    """Held-out masked sentences and exact conditionals: one half selects operators, the other evaluates.

    One position of each sentence is masked, all positions equally often.
    """

    def __init__(self, store: Store, held_out: HeldOutConditionals) -> None:
        sentences, conditionals = store.get(held_out)
        rows = torch.arange(len(sentences.lengths))
        positions = rows % sentences.lengths
        self.batch = mask_batch(sentences, positions)
        self.conditionals = conditionals[rows, positions]
        self.half = len(rows) // 2

    @torch.no_grad()
    def kl(self, logits: Float[Tensor, "member row word"]) -> tuple[Tensor, Tensor]:
        """Each member's KL on the selection and the evaluation half (nats per masked token)."""
        log_q = logits.double().cpu().log_softmax(-1)
        p = self.conditionals
        kl = (torch.xlogy(p, p) - p * log_q).sum(-1)
        return kl[:, : self.half].mean(1), kl[:, self.half :].mean(1)


@dataclass(frozen=True)
class _Grown(Run):
    """A model grown by each operator and trained on the batches that come next.

    Without operators the model keeps its depth. The table has one row per operator and evaluation:
    `chosen_by` and `kl` are the KLs on the selection and the evaluation half of the held-out sentences,
    `loss` that of the last training batch, all in nats per masked token. They are NaN for a model that
    diverged.
    """

    base: "GrowthBase | Stage"
    operators: tuple[Operator, ...]
    added: int
    steps: int
    looks: tuple[int, ...]  # steps of the evaluations
    carried: Carried
    held_out: HeldOutConditionals

    weight_suffixes = (".safetensors",)
    accelerated: ClassVar[bool] = True

    @property
    def root(self) -> GrowthBase:
        """The pre-training from which all growing begins."""
        return self.base.root

    @property
    def optimisation(self) -> Optimisation:
        """From the final learning rate of the shallow model linearly to zero.

        The thesis keeps the rate constant for BERT; models of this size then fluctuate by more than they
        differ.
        """
        return replace(self.root.optimisation, steps=self.steps, warmup=0.0, schedule="linear")

    @cached_property
    def shape(self) -> EncoderShape:
        """The shape after growing."""
        before: EncoderShape = self.base.shape
        return replace(before, layers=before.layers + self.added) if self.operators else before

    @property
    def names(self) -> list[str]:
        return [operator.name for operator in self.operators] or [NOT_GROWN]

    def ensemble(self, store: Store) -> Ensemble:
        """Grow the models; they are not trained yet."""
        checkpoints = store.get(self.base)
        model, moments = checkpoints.last(), read_moments(checkpoints.folder)
        if not self.operators:
            return Ensemble([model], [moments])
        models, grown = [], []
        for operator in self.operators:
            layers = operator.layers(model.shape.layers, self.added)
            generator = generator_for(f"new layers {operator.name}", self.root.seed)
            models.append(grow(model, layers, operator.filling, generator))
            grown.append(grown_moments(moments, layers, operator.filling, self.carried))
        return Ensemble(models, grown)

    def trained(self, ensemble: Ensemble, store: Store, start: int = 0) -> Iterator[EnsembleStep]:
        """Train on the batches that the shallow model would see next."""
        root, done = self.root, self.base.done
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
    def work(self) -> float:
        return self.steps * (STEP + len(self.names) * self.root.flops_of_step(self.shape))


def _evaluation(
    names: Sequence[str], ensemble: Ensemble, targets: HeldOutTargets, step: int, losses: Tensor
) -> pd.DataFrame:
    """The rows of one evaluation in the table of `_Grown`."""
    chosen_by, kl = targets.kl(ensemble.logits(targets.batch))
    columns = {"chosen_by": chosen_by, "kl": kl, "loss": losses.detach()}
    return pd.DataFrame({"operator": names, "step": step} | {n: v.cpu().numpy() for n, v in columns.items()})


@dataclass(frozen=True)
class Candidates(_Grown, Tabled):
    """One shallow model grown by every operator; all candidates are trained on the same batches."""

    schema = 2

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        ensemble, targets = self.ensemble(store), HeldOutTargets(store, self.held_out)
        resumable = Resumable(folder / SCRATCH, {"ensemble": ensemble}, self.root.resume_every)
        (folder / SCRATCH).mkdir(exist_ok=True)
        tables = {step: folder / SCRATCH / f"look-{step:07}.csv" for step in self.looks}
        start = resumable.load(lambda done: (path for step, path in tables.items() if step <= done))

        def evaluate(step: int, losses: Tensor) -> None:
            table = _evaluation(self.names, ensemble, targets, step, losses)
            write_atomically(tables[step], table.to_csv(index=False).encode())
            report(step / self.steps, f"KL {table.kl.min():.4f}")

        if not start:
            evaluate(0, torch.full((len(ensemble),), torch.nan))
        for step in self.trained(ensemble, store, start):
            if step.done in self.looks:  # before the state is saved, or a resumed run would skip it
                evaluate(step.done, step.losses)
            resumable.record(TrainingStep(step.done, float(step.losses.mean()), torch.nan))
        pd.concat(map(pd.read_csv, tables.values())).to_csv(folder / TABLE, index=False)
        save_tensors(ensemble.weights, folder / MEMBERS)


@dataclass(frozen=True)
class Member(TrainedRun):
    """One candidate after its last step."""

    candidates: Candidates
    at: int  # index among the operators

    @cached_property
    def corpus(self) -> CorpusSampling:
        return self.candidates.root.corpus

    @cached_property
    def shape(self) -> EncoderShape:
        return self.candidates.shape

    @cached_property
    def checkpoints(self) -> tuple[int, ...]:
        return (self.candidates.steps,)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        store.compute(self.candidates)
        weights = load_file(store.folder(self.candidates) / MEMBERS)
        own = {name: members[self.at] for name, members in weights.items()}
        save_tensors(own, folder / weights_name(self.checkpoints[0]))

    def load(self, folder: Folder) -> Checkpoints:
        model = replace(self.candidates.root, shape=self.shape)
        return Checkpoints(folder, self.checkpoints, model.new_model)


class StageEnd(Checkpoints):
    """The models of one stage after its trial steps, and their evaluations."""

    @property
    def table(self) -> pd.DataFrame:
        """One row per evaluation; `flops` counts everything since initialisation."""
        return pd.read_csv(self.folder / TABLE)


@dataclass(frozen=True)
class Stage(_Grown):
    """One stage of stacking: grow a model by each operator, continue with the best after a few steps.

    With one operator there is no trial. Evaluations begin after the trial.
    """

    lag: int  # steps of the trial
    ends: bool  # whether the learning rate decays to zero, as in the last stage

    def __post_init__(self) -> None:
        """Require a choice before the first evaluation."""
        if self.lag and self.lag >= self.looks[0]:
            raise ParameterError(
                f"A stage's operator is chosen after 0 to {self.looks[0] - 1} of its steps, and before it is "
                f"first evaluated; got {self.lag}."
            )

    @property
    def done(self) -> int:
        """Steps since initialisation."""
        return self.base.done + self.steps

    @property
    def optimisation(self) -> Optimisation:
        decaying = super().optimisation
        return decaying if self.ends else replace(decaying, schedule="constant")

    @property
    def flops(self) -> float:
        return self.flops_at(self.steps)

    def flops_at(self, step: int) -> float:
        """FLOPs from initialisation to a step of this stage, rejected candidates included."""
        trials = max(0, len(self.operators) - 1) * min(self.lag, step)
        return self.base.flops + (step + trials) * self.root.flops_of_step(self.shape)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        targets, tables = HeldOutTargets(store, self.held_out), []
        name, ensemble = self._best(targets, store)
        for step in self.trained(ensemble, store, self.lag):
            if step.done in self.looks:
                table = _evaluation([name], ensemble, targets, step.done, step.losses)
                tables.append(table.assign(flops=self.flops_at(step.done)))
                save_tensors(ensemble.member(0).state_dict(), folder / weights_name(step.done))
                report(step.done / self.steps, f"KL {table.kl.item():.4f}")
        pd.concat(tables).to_csv(folder / TABLE, index=False)
        write_moments(ensemble.moments_of(0), folder)

    def _best(self, targets: HeldOutTargets, store: Store) -> tuple[str, Ensemble]:
        """Return the operator with the smallest KL after the trial, and its model."""
        ensemble = self.ensemble(store)
        steps = self.trained(ensemble, store)
        for _ in range(self.lag):
            next(steps)
        best = int(targets.kl(ensemble.logits(targets.batch))[0].nan_to_num(torch.inf).argmin())
        return self.names[best], ensemble.kept([best])

    def load(self, folder: Folder) -> StageEnd:
        return StageEnd(folder, self.looks, replace(self.root, shape=self.shape).new_model)

    @property
    def work(self) -> float:
        return self.steps * STEP + self.flops - self.base.flops


# Growing once


LAPTOP_LANGUAGE = HierarchySpec(levels=3, symbols=5, rules=3, smoothing=0.03)
"""A random hierarchy in which depth pays: of four in a pilot, the one in which four layers gain most over two
(KL 0.15 against 0.20 after 2,000 steps on exact labels). From three layers to five, and with fewer steps, the
gain was indistinguishable from zero. The pilot's seeds are not those of the chapters."""

LONG_LANGUAGE = HierarchySpec(levels=4, symbols=4, rules=2, smoothing=0.03)
"""Sentences twice as long. In a pilot depth paid up to ten layers: KL 0.160, 0.127, 0.115, 0.109 and 0.095
for 2, 4, 5, 7 and 10 layers after 2,000 steps on exact labels, means over two seeds."""


def base_training(
    language: LanguageSpec, shape: EncoderShape, optimisation: Optimisation, seed: int, label_noise: float
) -> GrowthBase:
    """A training from random weights on fresh sentences."""
    return GrowthBase(
        CorpusSampling(language, None, 0),
        shape,
        optimisation,
        seed,
        checkpoints=(optimisation.steps,),
        micro_batch=optimisation.batch,
        resume_every=250,
        objective=Objective(label_noise=label_noise),
    )


def preserving(*places: tuple[int, int]) -> tuple[Operator, ...]:
    """The operators that preserve the function, at each index and block size."""
    return tuple(Operator(index, block, filling) for filling in PRESERVING for index, block in places)


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How shallow models grow once, and when the candidates are evaluated."""

    shape: EncoderShape  # of the shallow models
    seeds: tuple[int, ...]  # of the shallow models
    added: int  # layers
    steps: int  # after growing
    lag: int  # steps after which LAG chooses, its k
    evaluations: int  # after growing, about geometrically spaced
    held_out: HeldOutConditionals
    stride: int = 1  # between the indices of the operators
    preserving: tuple[Operator, ...] = ()  # beside the thesis' operators
    state: Carried = "mapped"  # of the optimiser

    def __post_init__(self) -> None:
        """Require a choice before the end of the training."""
        if not self.lag < self.steps:
            raise ParameterError(
                f"LAG chooses after 1 to {self.steps - 1} of the {self.steps} steps that follow growing; "
                f"got lag = {self.lag}."
            )

    @property
    def operators(self) -> tuple[Operator, ...]:
        """All operators, the thesis' first."""
        places = grid(self.shape.layers, self.added, self.stride)
        return tuple(Operator(i, b, filling) for filling in PUBLISHED for i, b in places) + self.preserving

    def on_top(self, filling: Filling) -> Operator:
        """A baseline of the thesis: new layers on top, copies of the last ones or random."""
        return Operator(self.shape.layers - self.added, self.added, filling)

    @property
    def looks(self) -> tuple[int, ...]:
        """Steps after growing at which all candidates are evaluated, with 0, LAG's and the last."""
        ratio = self.steps ** (1 / (self.evaluations - 1))
        spaced = {round(ratio**power) for power in range(self.evaluations)}
        return tuple(sorted({0, self.lag, self.steps, *spaced}))

    @property
    def deep(self) -> EncoderShape:
        """The shape of the grown models."""
        return replace(self.shape, layers=self.shape.layers + self.added)

    def candidates(self, base: GrowthBase, operators: tuple[Operator, ...]) -> Candidates:
        """A model grown by each operator; without operators it keeps its depth."""
        return Candidates(base, operators, self.added, self.steps, self.looks, self.state, self.held_out)
