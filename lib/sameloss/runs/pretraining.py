"""The runs that make models: a pre-training with its checkpoints, and one that ends at a wanted loss."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, cast

import torch

from sameloss.checks import check_choice, check_counts, check_parts, check_positive
from sameloss.device import best_device
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.measures.saturation import divergences
from sameloss.models.masked_model import MaskedLanguageModel, Norm, Shape
from sameloss.runs.checkpoints import (
    Checkpoints,
    Resumable,
    TrainedRun,
    save_weights,
    weights_name,
    write_history,
)
from sameloss.runs.cost import CORE
from sameloss.runs.sampling import CorpusSampling, HeldOutConditionals, LabelledSampling
from sameloss.runs.torchrun import launch
from sameloss.seeds import stream_seed
from sameloss.store.store import SCRATCH, Report, Store
from sameloss.training.loop import (
    ALONE,
    PLAIN,
    Execution,
    Optimisation,
    Process,
    TrainingStep,
    make_optimiser,
    pretrain,
)
from sameloss.training.objectives import (
    ORDINARY,
    BatchLoss,
    Objective,
    TaskExamples,
    loss_of,
    one_hot_classes,
)


@dataclass(frozen=True)
class Pretraining(TrainedRun):
    """One pre-training and its checkpoints."""

    corpus: CorpusSampling
    shape: Shape
    optimisation: Optimisation
    seed: int
    checkpoints: tuple[int, ...]
    micro_batch: int
    resume_every: int
    dtype: str = "float32"
    objective: Objective = ORDINARY
    norm: Norm = "pre"
    dropout: float = 0.0
    downstream: LabelledSampling | None = None  # what an adversary knows of the tasks
    origin: "Pretraining | None" = None  # the training from one of whose checkpoints this one starts
    execution: Execution = PLAIN
    origin_step: int | None = None  # which checkpoint; None: the last

    schema: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Refuse what cannot be trained or kept, and an execution that objective or batch do not go with."""
        check_counts(self, "micro_batch", "resume_every")
        check_parts(self, "dropout")
        check_choice(self, "dtype", ("float32", "float64"))
        check_counts(self, "seed", least=0)
        steps, kept = self.optimisation.steps, self.checkpoints
        if not kept or kept[-1] > steps or any(a >= b for a, b in pairwise((-1, *kept))):
            raise ParameterError(
                f"Checkpoints are kept after steps from 0 to {steps} in rising order, one at least; "
                f"got {kept}."
            )
        if self.objective.adversary is not None and self.downstream is None:
            raise ParameterError("An adversary needs `downstream`: the tasks that it is to spoil.")
        if self.origin_step is not None and (
            self.origin is None or self.origin_step not in self.origin.checkpoints
        ):
            raise ParameterError(f"There is no checkpoint after {self.origin_step} steps to start from.")
        how, batch = self.execution, self.optimisation.batch
        self.shape.check_plain(self.norm == "post", self.dropout > 0, how.autocast, how.compiled)
        processes = how.processes
        if batch % processes:
            raise ParameterError(
                f"A batch of {batch} sentences cannot be shared equally by {processes} processes; "
                "choose a number of processes that divides it."
            )
        if how != how.eager_in_one_process() and self.objective != ORDINARY:
            raise ParameterError("Only ordinary training can be compiled or run in several processes.")

    @property
    def kept(self) -> frozenset[str]:
        """Return the names of the weights: a training that goes on behind a checkpoint has it already."""
        return frozenset(map(weights_name, self.checkpoints))

    def new_model(self) -> MaskedLanguageModel:
        """Return the initial model of a training that starts from nothing."""
        language, seed = self.corpus.language, stream_seed("initial weights", self.seed)
        model = self.shape.build(language.words, language.max_length, seed, self.norm, self.dropout)
        return model.to(getattr(torch, self.dtype))

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train in as many processes as the execution says."""
        if self.execution.processes == 1:
            self.train(folder, store, report)
        else:
            for parent in self.parents():
                store.get(parent)
            launch(self, folder, store.root, self.execution.processes)

    def train(self, folder: Path, store: Store, report: Report, process: Process = ALONE) -> None:
        """Train from the last resumable state, if there is one; the leading process writes."""
        model = self._first_model(store)
        optimiser = make_optimiser(model, self.optimisation)
        parts = {"model": model, "optimiser": optimiser}
        resumable = Resumable(folder / SCRATCH, parts, self.resume_every, writes=process.leads)
        kept = self.checkpoints if process.leads else ()
        written = lambda done: (folder / weights_name(at) for at in self.checkpoints if 0 < at <= done)  # noqa: E731
        steps = self._steps(model, optimiser, store, resumable.load(written), process)
        gpus = [torch.cuda.current_device()] if best_device() == "cuda" else []
        try:
            with torch.random.fork_rng(devices=gpus):  # from the global generators dropout draws
                for step in steps:
                    if step.done in kept:  # before the state is saved from which it would not be made again
                        save_weights(model, folder / weights_name(step.done))
                    resumable.record(step)
                    report(step.done / self.optimisation.steps, f"loss {step.loss:.3f}")
        except NonFiniteLoss as error:
            o = self.objective
            strong = o.adversary or o.trace_penalty or o.label_noise > 1
            raise NonFiniteLoss(
                f"{error}, seed {self.seed}. The last saved state (step {resumable.saved}) is kept; "
                f"choose a smaller {'strength (or lr)' if strong else 'lr'}."
            ) from None
        if process.leads:
            self.keep_more(model, optimiser, folder)
            write_history(resumable.history, folder)

    def keep_more(self, model: MaskedLanguageModel, optimiser: torch.optim.Optimizer, folder: Path) -> None:
        """Write what a kind of pre-training keeps of its end beside the weights: nothing."""

    def _first_model(self, store: Store) -> MaskedLanguageModel:
        """Return the model before the first step, where it is trained."""
        model = self.new_model()
        if self.origin is not None:
            step = self.origin.checkpoints[-1] if self.origin_step is None else self.origin_step
            model.load_state_dict(store.get(self.origin).model(step).state_dict())
        return model.to(best_device())

    def _steps(
        self,
        model: MaskedLanguageModel,
        optimiser: torch.optim.Optimizer,
        store: Store,
        start: int,
        process: Process,
    ) -> Iterator[TrainingStep]:
        """Train step by step, as long as the training gets anywhere."""
        corpus, stream = store.get(self.corpus), stream_seed("batches", self.seed)
        if best_device() == "cuda":
            corpus = corpus.on("cuda")
        size, rate = self.optimisation.batch, self.objective.mask_rate
        steps = pretrain(
            model,
            optimiser,
            lambda step: corpus.batch(stream, step, size, rate),
            self.optimisation,
            loss_at=self._losses(store, process),
            start=start,
            micro_batch=self.micro_batch,
            execution=self.execution,
            process=process,
        )
        guessing = math.log(self.corpus.language.words)
        for step in steps:  # what would come of one that does worse than guessing is not worth its time
            if step.done > self.optimisation.steps / 2 and step.loss > guessing + 1:
                raise NonFiniteLoss(
                    f"The loss is {step.loss:.2f} nats at step {step.done}, far above guessing "
                    f"({guessing:.2f}), with lr = {step.lr:.3g}"
                )
            yield step

    def _losses(self, store: Store, process: Process) -> Callable[[int], BatchLoss]:
        """Return the loss of each step; its random numbers are a function of seed, step and process."""
        language, known = self.corpus.language.build(), None
        if self.downstream is not None:
            (sentences, labels), _ = store.get(self.downstream)
            known = TaskExamples(sentences, one_hot_classes(labels, self.downstream.classes))
        first = stream_seed("objective", self.seed, *([] if process.leads else [process.rank]))

        def loss_at(step: int) -> BatchLoss:
            seed = (first + step) % (1 << 32)  # of a seed, torch's generator takes 32 bits
            if self.dropout:
                torch.manual_seed(seed)
            return loss_of(self.objective.at(step), torch.Generator().manual_seed(seed), language, known)

        return loss_at

    def load(self, folder: Path) -> Checkpoints:
        """Open the checkpoints."""
        return Checkpoints(folder, self.checkpoints, self.new_model)

    @property
    def memory_advice(self) -> str:
        """Name what bounds the activations."""
        return f"choose a smaller micro_batch than {self.micro_batch}"

    @property
    def passes(self) -> int:
        """Return roughly how many forward and backward passes over a batch a step takes."""
        extra = bool(self.optimisation.sam_radius) + bool(self.objective.adversary)
        return 1 + extra + 2 * bool(self.objective.trace_penalty)

    @property
    def expected_steps(self) -> int:
        """Return how many steps the training is likely to take."""
        return self.optimisation.steps

    @property
    def effort(self) -> float:
        """Return roughly the seconds that the training takes on the reference core."""
        return CORE.seconds(self)


@dataclass(frozen=True)
class CoolDown(Pretraining):
    """A training that goes on from a treated model and ends at the first look at which its KL is low.

    Low is a share of the KL of a reference, the last model of another training. So models that were made of
    one in different ways are brought to one loss. Every `look_every` steps the KL is measured on held-out
    sentences, which should not be those that it is reported on: the first of many looks that is low enough is
    so by luck, too. The model is kept as the only checkpoint, under the number of steps that there are at
    most. Where these do not suffice, it is the last model: who compares has to look at the KLs.
    """

    held_out: HeldOutConditionals | None = None
    reference: Pretraining | None = None
    target_share: float = 1.0  # of the reference's KL
    look_every: int = 20  # steps

    schema: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Refuse a cool-down from nowhere or to nowhere."""
        super().__post_init__()
        if self.origin is None or self.reference is None or self.held_out is None:
            raise ParameterError("A cool-down needs a treated model, a reference and held-out sentences.")
        check_positive(self, "target_share")
        check_counts(self, "look_every")
        if self.checkpoints != (self.optimisation.steps,):
            raise ParameterError("A cool-down keeps its last model alone.")

    @property
    def expected_steps(self) -> int:
        """Return two fifths of the most steps there are: what the book's cool-downs took on average."""
        return round(0.4 * self.optimisation.steps)

    def _steps(
        self,
        model: MaskedLanguageModel,
        optimiser: torch.optim.Optimizer,
        store: Store,
        start: int,
        process: Process,
    ) -> Iterator[TrainingStep]:
        """Train step by step until the KL is low enough."""
        sentences, conditionals = store.get(cast(HeldOutConditionals, self.held_out))

        def kl(model: MaskedLanguageModel) -> float:
            return float(divergences(model, sentences, conditionals).mean())

        wanted = self.target_share * kl(store.get(cast(Pretraining, self.reference)).last())
        for step in super()._steps(model, optimiser, store, start, process):
            if step.done % self.look_every == 0 and kl(model) <= wanted:
                yield step._replace(done=self.optimisation.steps)  # the name of the checkpoint
                return
            yield step
