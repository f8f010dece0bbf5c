"""Stored pre-trainings: one with checkpoints, and one that ends at a target loss."""

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch.optim import Optimizer

from sameloss.checks import check_choice, check_counts, check_half_open, check_positive
from sameloss.device import accelerated, accelerator, best_device
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.measures.saturation import divergences
from sameloss.models.masked_model import MaskedLanguageModel, Norm, Shape
from sameloss.runs.checkpoints import STEP, Checkpoints, Resumable, TrainedRun, save_tensors, weights_name
from sameloss.runs.sampling import CorpusSampling, HeldOutConditionals, LabelledSampling
from sameloss.runs.torchrun import launch
from sameloss.seeds import stream_seed
from sameloss.store.store import SCRATCH, Folder, Report, Store
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
    plain_loss,
)

TENSORBOARD = "SAMELOSS_TENSORBOARD"
"""Environment variable: the folder to which losses are logged for TensorBoard."""


def _log(name: str, start: int) -> Any:
    """PyTorch's writer for TensorBoard from a step on, if a folder is named; else None.

    Raises:
        ParameterError: if TensorBoard is not installed.

    """
    if folder := os.environ.get(TENSORBOARD):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ParameterError(f"{TENSORBOARD} needs TensorBoard; run pip install tensorboard.") from None
        return SummaryWriter(Path(folder) / name, purge_step=start + 1)
    return None


@dataclass(frozen=True)
class Pretraining(TrainedRun):
    """One pre-training and its checkpoints."""

    corpus: CorpusSampling
    shape: Shape
    optimisation: Optimisation
    seed: int
    checkpoints: tuple[int, ...]  # steps after which weights are saved
    micro_batch: int  # sentences
    resume_every: int  # steps between saves of the resumable state
    dtype: str = "float32"
    objective: Objective = ORDINARY
    norm: Norm = "pre"
    dropout: float = 0.0
    downstream: LabelledSampling | None = None  # what an adversary knows of the tasks
    origin: "Pretraining | None" = None  # the training to continue from
    execution: Execution = PLAIN
    origin_step: int | None = None  # checkpoint of `origin`; None: the last

    schema: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_counts(self, "micro_batch", "resume_every")
        check_half_open(self, "dropout")
        check_choice(self, "dtype", ("float32", "float64"))
        check_counts(self, "seed", least=0)
        steps, checkpoints = self.optimisation.steps, self.checkpoints
        if not checkpoints or checkpoints[-1] > steps or any(a >= b for a, b in pairwise((-1, *checkpoints))):
            raise ParameterError(f"checkpoints must be increasing steps in [0, {steps}]; got {checkpoints}.")
        if self.objective.adversary is not None and self.downstream is None:
            raise ParameterError("An adversary needs `downstream`: the tasks that it is to spoil.")
        if self.origin_step not in (None, *(self.origin.checkpoints if self.origin else ())):
            raise ParameterError(f"There is no checkpoint after {self.origin_step} steps to start from.")
        how, batch = self.execution, self.optimisation.batch
        self.shape.check_plain(self.norm == "post", self.dropout > 0, how.autocast, how.compiled)
        if batch % how.processes:
            raise ParameterError(f"processes must divide batch = {batch}; got {how.processes}.")
        if how != how.eager_in_one_process() and self.objective != ORDINARY:
            raise ParameterError("Only ordinary training can be compiled or run in several processes.")

    @property
    def resumable(self) -> frozenset[str]:
        """The weights: a training resumed behind a checkpoint does not write it again."""
        return frozenset(map(weights_name, self.checkpoints))

    def new_model(self) -> MaskedLanguageModel:
        """Initialise the model."""
        language, seed = self.corpus.language, stream_seed("initial weights", self.seed)
        model = self.shape.build(language.words, language.max_length, seed, self.norm, self.dropout)
        return model.to(getattr(torch, self.dtype))

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        if self.execution.processes == 1:
            self.train(folder, store, report)
        else:
            for parent in self.parents():
                store.compute(parent)
            launch(self, folder, store.root, self.execution.processes)

    def train(self, folder: Path, store: Store, report: Report, process: Process = ALONE) -> None:
        """Train from the saved state, if there is one; of several processes the leading one writes."""
        model = self._initial_model(store)
        optimiser = make_optimiser(model, self.optimisation)
        parts = {"model": model, "optimiser": optimiser}
        resumable = Resumable(folder / SCRATCH, parts, self.resume_every, writes=process.leads)
        start = resumable.load(
            lambda step: (folder / weights_name(at) for at in self.checkpoints if 0 < at <= step)
        )
        few, began = store.get(self.corpus).batch(0, 0, 256), time.perf_counter()
        length = few.masked.shape[1] if few.lengths is None else float(few.lengths.double().mean())
        gpus = [accelerator().current_device()] if accelerated() else []
        log = _log(f"{self.kind}-{self.key}", start) if process.leads else None
        try:
            # Dropout draws from the global generators.
            with torch.random.fork_rng(gpus, device_type=best_device()):
                for step in self._steps(model, optimiser, store, start, process):
                    if process.leads and step.done in self.checkpoints:  # before the state that follows it
                        save_tensors(model.state_dict(), folder / weights_name(step.done))
                    resumable.record(step)
                    if log:
                        log.add_scalar("loss", step.loss, step.done)
                        log.add_scalar("lr", step.lr, step.done)
                    tokens = (step.done - start) * self.optimisation.batch * length
                    speed = tokens / (time.perf_counter() - began)
                    report(
                        step.done / self.optimisation.steps, f"loss {step.loss:.3f}, {speed:,.0f} tokens/s"
                    )
        except NonFiniteLoss as error:
            raise NonFiniteLoss(
                f"{error}, seed {self.seed}. The last saved state (step {resumable.saved}) is kept; "
                "choose a smaller lr, or a smaller strength of the algorithm."
            ) from None
        if log:
            log.close()
        if process.leads:
            self.keep_more(model, optimiser, folder)
            resumable.write_history(folder)

    def keep_more(self, model: MaskedLanguageModel, optimiser: Optimizer, folder: Path) -> None:
        """Write what a subclass saves at the end besides weights."""

    def _initial_model(self, store: Store) -> MaskedLanguageModel:
        """The model before the first step, on the training device."""
        model = self.new_model()
        if self.origin is not None:
            step = self.origin.checkpoints[-1] if self.origin_step is None else self.origin_step
            model.load_state_dict(store.get(self.origin).model(step).state_dict())
        return model.to(best_device())

    def _steps(
        self, model: MaskedLanguageModel, optimiser: Optimizer, store: Store, start: int, process: Process
    ) -> Iterator[TrainingStep]:
        """Train step by step; abort in the second half if the loss is far above that of guessing."""
        corpus, stream = store.get(self.corpus), stream_seed("batches", self.seed)
        if accelerated():
            corpus = corpus.on(best_device())
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
        for step in steps:
            if step.done > self.optimisation.steps / 2 and step.loss > guessing + 1:
                raise NonFiniteLoss(
                    f"The loss is {step.loss:.2f} nats at step {step.done}, far above guessing "
                    f"({guessing:.2f}), with lr = {step.lr:.3g}"
                )
            yield step

    def _losses(self, store: Store, process: Process) -> Callable[[int], BatchLoss]:
        """The loss of each step, whose random numbers are a function of seed, step and process."""
        language = None if self.objective.plain else self.corpus.language.build()  # a teacher is large
        examples = None
        if self.downstream is not None:
            (sentences, labels), _ = store.get(self.downstream)
            examples = TaskExamples.labelled(sentences, labels, self.downstream.classes)
        first = stream_seed("objective", self.seed, *([] if process.leads else [process.rank]))

        def loss_at(step: int) -> BatchLoss:
            seed = (first + step) % (1 << 32)  # torch's generator uses 32 bits of a seed
            if self.dropout:
                torch.manual_seed(seed)
            if language is None:
                return plain_loss
            return loss_of(self.objective, torch.Generator().manual_seed(seed), language, examples)

        return loss_at

    def load(self, folder: Folder) -> Checkpoints:
        return Checkpoints(folder, self.checkpoints, self.new_model)

    @property
    def memory_advice(self) -> str:
        return f"choose a smaller micro_batch than {self.micro_batch}"

    @property
    def passes(self) -> int:
        """Approximate number of forward and backward passes over a batch in a step."""
        extra = bool(self.optimisation.sam_radius) + bool(self.objective.adversary)
        return 1 + extra + 2 * bool(self.objective.trace_penalty)

    @property
    def flops(self) -> float:
        """Floating-point operations, with all sentences of maximal length."""
        return self.passes * self.optimisation.steps * self.optimisation.batch * self.sentence_flops

    @property
    def work(self) -> float:
        return self.flops / self.execution.processes + self.passes * self.optimisation.steps * STEP

    @property
    def memory(self) -> float:
        """Weights, gradients, both moments, and activations of a micro-batch, in one process.

        Products in bfloat16 keep two thirds of the activations' bytes, and a copy of the weights. An H100
        took what this says to 3 % (`results/gpu`: 235M in parts of 256, 512 and 2,048 sentences).
        """
        length = self.corpus.language.max_length
        sentences = min(self.micro_batch, self.optimisation.batch // self.execution.processes)
        activations = 4 * sentences * length * self.shape.activations(length)
        if self.execution.autocast:
            return 18 * self.parameter_count + activations * 2 / 3
        return 16 * self.parameter_count + activations


@dataclass(frozen=True)
class CoolDown(Pretraining):
    """A training that continues from a treated model until its KL is as low as a reference's.

    It brings models that were made from one in different ways to the same loss: every `look_every` steps
    the KL is measured, and training ends once it is at most `target_share` times that of the reference's
    last model. The first of many measurements below a target is so partly by chance, so `held_out` should
    not be the sentences on which results are reported. The final model is the only checkpoint, saved under
    the maximal number of steps. If these do not suffice, the target is missed without an error.
    """

    held_out: HeldOutConditionals | None = None
    reference: Pretraining | None = None
    target_share: float = 1.0  # of the reference's KL
    look_every: int = 20  # steps

    schema: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.origin is None or self.reference is None or self.held_out is None:
            raise ParameterError("A cool-down needs a treated model, a reference and held-out sentences.")
        check_positive(self, "target_share")
        check_counts(self, "look_every")
        if self.checkpoints != (self.optimisation.steps,):
            raise ParameterError("A cool-down keeps its last model alone.")

    def _steps(
        self, model: MaskedLanguageModel, optimiser: Optimizer, store: Store, start: int, process: Process
    ) -> Iterator[TrainingStep]:
        """Train step by step until the KL is low enough."""
        sentences, conditionals = store.get(cast(HeldOutConditionals, self.held_out))

        def kl(model: MaskedLanguageModel) -> float:
            return float(divergences(model, sentences, conditionals).mean())

        target = self.target_share * kl(store.get(cast(Pretraining, self.reference)).last())
        for step in super()._steps(model, optimiser, store, start, process):
            if step.done % self.look_every == 0 and kl(model) <= target:
                yield step._replace(done=self.optimisation.steps)  # the name of the checkpoint
                return
            yield step
