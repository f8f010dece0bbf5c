"""The run that makes models: a pre-training with its checkpoints."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import torch

from sameloss.checks import check_choice, check_counts, check_parts
from sameloss.device import best_device
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.models.masked_model import MaskedLanguageModel, Norm, Shape, asked_of_model
from sameloss.runs.checkpoints import (
    Checkpoints,
    Resumable,
    Stateful,
    TrainedRun,
    save_weights,
    weights_name,
    write_history,
)
from sameloss.runs.cost import CORE
from sameloss.runs.sampling import CorpusSampling, LabelledSampling
from sameloss.runs.torchrun import launch
from sameloss.seeds import stream_seed
from sameloss.store.manifest import SCRATCH
from sameloss.store.store import Report, Store
from sameloss.training.execution import ALONE, PLAIN, Execution, Process
from sameloss.training.loop import Optimisation, TrainingStep, make_optimiser, pretrain
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
        self._check_checkpoints()
        if self.objective.adversary is not None and self.downstream is None:
            raise ParameterError("An adversary needs `downstream`: the tasks that it is to spoil.")
        if self.origin_step is not None and (
            self.origin is None or self.origin_step not in self.origin.checkpoints
        ):
            raise ParameterError(f"There is no checkpoint after {self.origin_step} steps to start from.")
        self.shape.check_options(asked_of_model(self.norm, self.dropout) + self.execution.options)
        processes, batch = self.execution.processes, self.optimisation.batch
        if batch % processes:
            raise ParameterError(
                f"A batch of {batch} sentences cannot be shared equally by {processes} processes; "
                "choose a number of processes that divides it."
            )
        if self.execution != self.execution.eager_in_one_process() and self.objective != ORDINARY:
            raise ParameterError("Only ordinary training can be compiled or run in several processes.")

    def _check_checkpoints(self) -> None:
        """Refuse, before anything is trained, checkpoints that no step would leave."""
        steps, kept = self.optimisation.steps, self.checkpoints
        if not kept or kept[-1] > steps or any(a >= b for a, b in pairwise((-1, *kept))):
            raise ParameterError(
                f"Checkpoints are kept after steps from 0 to {steps} in rising order, one at least; "
                f"got {kept}."
            )

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
        parts: dict[str, Stateful] = {"model": model, "optimiser": optimiser}
        resumable = Resumable(folder / SCRATCH, parts, self.resume_every, writes=process.leads)
        kept = self.checkpoints if process.leads else ()
        written = lambda done: (folder / weights_name(at) for at in self.checkpoints if 0 < at <= done)  # noqa: E731
        steps = self._steps(model, optimiser, store, resumable.load(written), process)
        with _global_generators_kept(), self._divergence_explained(resumable):
            for step in steps:
                if step.done in kept:  # before the state is saved from which it would not be made again
                    save_weights(model, folder / weights_name(step.done))
                resumable.record(step)
                report(step.done / self.optimisation.steps, f"loss {step.loss:.3f}")
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

    @contextmanager
    def _divergence_explained(self, resumable: Resumable) -> Iterator[None]:
        """Say of a training that diverges what is kept of it, and what most likely made it diverge."""
        try:
            yield
        except NonFiniteLoss as error:
            raise NonFiniteLoss(
                f"{error}, seed {self.seed}. The last saved state (step {resumable.saved}) is kept; "
                f"choose a smaller {self._suspect}."
            ) from None

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
        for step in steps:
            self._check_progress(step)
            yield step

    def _losses(self, store: Store, process: Process) -> Callable[[int], BatchLoss]:
        """Return the loss of each step; its random numbers are a function of seed, step and process."""
        language, downstream = self.corpus.language.build(), self._known_tasks(store)
        first = stream_seed("objective", self.seed, *([] if process.leads else [process.rank]))

        def loss_at(step: int) -> BatchLoss:
            seed = (first + step) % (1 << 32)  # of a seed, torch's generator takes 32 bits
            if self.dropout:
                torch.manual_seed(seed)
            return loss_of(self.objective.at(step), torch.Generator().manual_seed(seed), language, downstream)

        return loss_at

    def _known_tasks(self, store: Store) -> TaskExamples | None:
        if self.downstream is None:
            return None
        (sentences, labels), _ = store.get(self.downstream)
        return TaskExamples(sentences, one_hot_classes(labels, self.downstream.classes))

    def _check_progress(self, step: TrainingStep) -> None:
        """Stop a training that does worse than guessing: what would come is not worth its time."""
        guessing = math.log(self.corpus.language.words)
        if step.done > self.optimisation.steps / 2 and step.loss > guessing + 1:
            raise NonFiniteLoss(
                f"The loss is {step.loss:.2f} nats at step {step.done}, far above guessing "
                f"({guessing:.2f}), with lr = {step.lr:.3g}"
            )

    @property
    def _suspect(self) -> str:
        """Name what most likely made it diverge."""
        strong = self.objective.adversary or self.objective.trace_penalty or self.objective.label_noise > 1
        return "strength (or lr)" if strong else "lr"

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


def _global_generators_kept() -> AbstractContextManager[None]:
    """Leave PyTorch's global generators, from which dropout draws, as they were before."""
    gpus = [torch.cuda.current_device()] if best_device() == "cuda" else []
    return torch.random.fork_rng(devices=gpus)
