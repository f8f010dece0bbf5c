"""SGD with label noise on the bracket language, many models at once (Sections 3 and 5 together)."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.errors import NonFiniteLoss
from sameloss.studies.dyck.language import Inputs
from sameloss.studies.dyck.transformer import Transformer, loss_gradient, pretraining_loss


def label_noise_sgd(
    model: Transformer,
    inputs: Inputs,
    noise: Float[Tensor, "models"],
    *,
    lr: float,
    batch: int,
    checkpoints: tuple[int, ...],
    generator: torch.Generator,
) -> Iterator[tuple[int, Transformer]]:
    """Train on fresh batches whose targets are g* + noise or g* - noise, and yield the checkpoints.

    Args:
        model: initial parameters, one axis of models.
        inputs: all pre-training inputs; a batch is drawn from them with replacement, for each model its own.
        noise: of each model.
        lr: learning rate of all parameters.
        batch: inputs a step.
        checkpoints: steps, ascending, after which to yield.
        generator: of batches and noise.

    Raises:
        NonFiniteLoss: where a model diverged.

    """
    for step in range(checkpoints[-1] + 1):
        if step in checkpoints:
            _check_finite(pretraining_loss(model, inputs), step, lr)
            yield step, model
        gradient = loss_gradient(model, noisy_batch(inputs, noise, batch, generator))
        model = Transformer(*(p - lr * g for p, g in zip(model, gradient, strict=True)))


def noisy_batch(
    inputs: Inputs, noise: Float[Tensor, "models"], batch: int, generator: torch.Generator
) -> Inputs:
    """Draw inputs and signs of the noise for each model."""
    shape = len(noise), batch
    drawn = inputs.rows(torch.randint(len(inputs.target), shape, generator=generator))
    signs = 2 * torch.randint(2, shape, generator=generator) - 1
    return drawn._replace(target=drawn.target + noise[:, None] * signs)


def _check_finite(losses: Float[Tensor, "models"], step: int, lr: float) -> None:
    if not bool(torch.isfinite(losses).all()):
        raise NonFiniteLoss(
            f"Training diverged before step {step} at learning rate {lr:g}; take a smaller one."
        )
