"""Are three seeds of one size trained faster as one stacked model? Laptop sizes, one thread.

The same parameters, batches and optimiser either way: three models in turn, or `vmap` over stacked
parameters. Prints milliseconds per step (best of three) and the ratio; above 1 stacking is faster.
"""

import time
from collections.abc import Callable

import torch
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from sameloss.languages.masking import Batch
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.studies.same_loss.experiment import GRAMMAR, LADDER
from sameloss.training.corpus import EndlessCorpus

SEEDS, STEPS = 3, 20


def milliseconds(step: Callable[[], None]) -> float:
    """Return the best time of a step."""
    step()
    times = []
    for _ in range(3):
        started = time.perf_counter()
        for _ in range(STEPS):
            step()
        times.append((time.perf_counter() - started) / STEPS)
    return 1e3 * min(times)


def in_turn(models: list[Encoder], batches: list[Batch]) -> Callable[[], None]:
    """Return a step of every model, one after the other."""
    optimisers = [torch.optim.AdamW(model.parameters(), fused=True) for model in models]

    def step() -> None:
        for model, optimiser, batch in zip(models, optimisers, batches, strict=True):
            optimiser.zero_grad()
            F.cross_entropy(model(batch.masked, batch.positions, batch.lengths), batch.targets).backward()
            optimiser.step()

    return step


def stacked(models: list[Encoder], batches: list[Batch]) -> Callable[[], None]:
    """Return a step of all models as one."""
    stack, _ = stack_module_state(models)
    parameters = {name: value.detach().requires_grad_() for name, value in stack.items()}
    optimiser = torch.optim.AdamW(parameters.values(), fused=True)
    masked, positions, targets = (torch.stack(field) for field in list(zip(*batches, strict=True))[:3])

    def logits(own: dict[str, torch.Tensor], tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return functional_call(models[0], own, (tokens, places))

    def step() -> None:
        optimiser.zero_grad()
        together = vmap(logits)(parameters, masked, positions).flatten(0, 1)
        (SEEDS * F.cross_entropy(together, targets.flatten())).backward()
        optimiser.step()

    return step


def compare(shape: EncoderShape, batch: int) -> tuple[float, float]:
    """Return milliseconds of a step of all seeds: in turn, and stacked."""
    language = GRAMMAR.build()
    corpus = EndlessCorpus(language, 0)
    batches = [corpus.batch(seed, 0, batch) for seed in range(SEEDS)]
    models = [Encoder(shape, language.words, language.max_length, seed) for seed in range(SEEDS)]
    return milliseconds(in_turn(models, batches)), milliseconds(stacked(models, batches))


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print(f"{'batch':>6} {'size':>6} {'in turn (ms)':>13} {'stacked (ms)':>13} {'ratio':>6}")
    for batch in (128, 256):
        for size, shape in LADDER.items():
            apart, together = compare(shape, batch)
            print(f"{batch:>6} {size:>6} {apart:>13.1f} {together:>13.1f} {apart / together:>6.2f}")


if __name__ == "__main__":
    main()
