"""The run that brings a model to a wanted loss: a training that ends when its KL is low enough."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

import torch

from sameloss.checks import check_counts, check_positive
from sameloss.errors import ParameterError
from sameloss.measures.saturation import divergences
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.pretraining import Pretraining
from sameloss.store.store import Store
from sameloss.training.execution import Process
from sameloss.training.loop import TrainingStep


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
        kl = self._kl_on_held_out(store)
        wanted = self.target_share * kl(store.get(cast(Pretraining, self.reference)).last())
        for step in super()._steps(model, optimiser, store, start, process):
            if step.done % self.look_every == 0 and kl(model) <= wanted:
                yield step._replace(done=self.optimisation.steps)  # the name of the checkpoint
                return
            yield step

    def _kl_on_held_out(self, store: Store) -> Callable[[MaskedLanguageModel], float]:
        """Return what measures the KL of a model, in nats a masked token."""
        sentences, conditionals = store.get(cast(HeldOutConditionals, self.held_out))
        return lambda model: float(divergences(model, sentences, conditionals).mean())
