"""The diagonal of the Hessian in its Fisher form, and what is made of it: one entry a parameter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from sameloss.checks import check_count
from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.hessian import flat_parameters, unflattened
from sameloss.measures.flatness.validation import check
from sameloss.models.bilstm import without_cudnn
from sameloss.statistics.bootstrap import Estimate

FEWEST_GROUPS = 10
"""Fewest groups of a jackknife: its standard error is itself uncertain by 1 / sqrt(2 (groups - 1))."""

GRADIENT_BYTES = {"cpu": 64 << 20, "cuda": 4 << 30}
"""Memory for the per-example gradients held at once, by kind of device."""


@dataclass(frozen=True)
class GroupDiagonals:
    r"""The Fisher diagonal $D_i = E (\partial_i \log f[y])^2$, estimated by each group of sentences.

    At saturation D is the Hessian's diagonal (Lemma 3.2). Parameters are in the order of
    `flat_parameters`. `sizes` counts the sentences of the groups, so that D is the mean of `values`
    weighted by it.
    """

    values: Float[Tensor, "group parameter"]
    sizes: Int[Tensor, " group"]

    def adam_trace(self) -> Estimate:
        r"""Estimate $\mathrm{Tr}\, \mathrm{Diag}(H)^{1/2} = \sum_i \sqrt{H_{ii}}$ in its Fisher form.

        With label noise it is what Adam lowers along the minimisers, where SGD lowers Tr H (Li, Wen and
        Lyu 2025, "Adam Reduces a Unique Form of Sharpness"). The root of a noisy diagonal is too small
        on average; the jackknife takes the bias off to first order. Signs and permutations of
        parameters leave it alone, other rotations and scalings do not.
        """
        return jackknife(self, lambda diagonal: diagonal.sqrt().sum())

    def adaptive_trace(self, model: nn.Module) -> Estimate:
        r"""Estimate $\sum_i \theta_i^2 H_{ii}$ in its Fisher form, $2/\rho^2$ of the adaptive sharpness.

        To second order in rho it is the average-case elementwise `adaptive_sharpness`, and like it
        invariant under scalings that keep the function. The jackknife gives its error; the sum itself
        has no bias.

        Args:
            model: the model that the diagonal is of.

        """
        weights = flat_parameters(model).double().cpu().square()
        return jackknife(self, lambda diagonal: weights @ diagonal)


def jackknife(
    diagonals: GroupDiagonals, statistic: Callable[[Float[Tensor, " parameter"]], Tensor]
) -> Estimate:
    r"""Estimate a statistic S of the diagonal without its bias of order 1/N, by deleting each group once.

    With $h_g = N / n_g$ and $S_{-g}$ of all but the $n_g$ sentences of group g, the pseudo-values are
    $\tau_g = h_g S - (h_g - 1) S_{-g}$, the estimate is $\hat S = \sum_g \tau_g / h_g$, and the squared
    error is $\frac1G \sum_g (\tau_g - \hat S)^2 / (h_g - 1)$ (Busing, Meijer and van der Leeden 1999,
    "Delete-m jackknife for unequal m"). Its count is the number of sentences N.

    Args:
        diagonals: the diagonals of independent groups.
        statistic: a function from a diagonal, in float64, to a number.

    """
    sizes = diagonals.sizes.double()
    sentences = sizes.sum()
    total = sum(n * d.double() for n, d in zip(sizes, diagonals.values, strict=True))
    whole = statistic(total / sentences)
    pairs = zip(sizes, diagonals.values, strict=True)
    # A sum of what is not negative is at least each of its terms, rounded or not: no root of less than 0.
    without = torch.stack([statistic((total - n * d.double()) / (sentences - n)) for n, d in pairs])
    ratio = sentences / sizes
    pseudo = ratio * whole - (ratio - 1) * without
    mean = (pseudo / ratio).sum()
    variance = ((pseudo - mean).square() / (ratio - 1)).mean()
    return Estimate(float(mean), float(variance.sqrt()), int(sentences))


def group_diagonals(
    model: nn.Module,
    masked: Batch,
    *,
    generator: torch.Generator | None = None,
    labels: int = 1,
    estimator: Literal["exact", "sampled"] = "sampled",
    groups: int = 20,
) -> GroupDiagonals:
    r"""Estimate the Fisher diagonal by each of some groups of consecutive sentences.

    One pass serves both traces of `GroupDiagonals`. A chunk of squared gradients at a time is added
    up, so that memory holds `groups` diagonals and one chunk.

    Args:
        model: a masked language model.
        masked: independent masked sentences; their targets are not used.
        generator: random numbers for sampled labels, on the CPU.
        labels: labels drawn for each sentence, where sampled.
        estimator: `exact` sums over all labels with their probabilities; `sampled` draws them.
        groups: number of groups of the jackknife; a diagonal is kept for each.

    Returns:
        The diagonals, nats by squared parameter.

    Raises:
        ModelError: for what `check` refuses.
        ParameterError: for fewer than 10 groups or more than sentences, no labels, an unknown
            estimator, or labels to sample without a generator.

    >>> from sameloss.measures.flatness.trace import Unigram, one_word_sentences
    >>> model, masked = Unigram([0.5, 0.25, 0.25]), one_word_sentences([0, 0, 1, 2] * 25)
    >>> diagonals = group_diagonals(model, masked, estimator="exact")
    >>> diagonals.values[0]  # f (1 - f)
    tensor([0.2500, 0.1875, 0.1875], dtype=torch.float64)
    >>> round(diagonals.adam_trace().mean, 3)
    1.366

    """
    check(model, masked)
    sizes = _group_sizes(len(masked.masked), groups)
    like = flat_parameters(model)
    masked = masked.to(like.device)
    group = torch.arange(groups).repeat_interleave(sizes).to(like.device)
    pairs = _labelled(model, masked, generator, labels, estimator)
    sums = like.new_zeros(groups, len(like))
    for rows, words, weights in zip(
        *(part.to(like.device).split(_chunk(like)) for part in pairs), strict=True
    ):
        gradients = _weighted_gradients(model, masked.rows(rows), words, weights)
        sums.index_add_(0, group[rows], gradients.square_())
    return GroupDiagonals(sums.cpu() / sizes[:, None], sizes)


def _group_sizes(sentences: int, groups: int) -> Int[Tensor, " {groups}"]:
    """Return sizes that differ by one at most."""
    if not FEWEST_GROUPS <= groups <= sentences:
        raise ParameterError(
            f"groups must be from {FEWEST_GROUPS} to the number of sentences, here {sentences}; got {groups}."
        )
    return sentences // groups + (torch.arange(groups) < sentences % groups).long()


def _chunk(gradient: Float[Tensor, " parameter"]) -> int:
    """Return how many gradients like this one are held at once."""
    memory = GRADIENT_BYTES.get(gradient.device.type, GRADIENT_BYTES["cpu"])
    return max(1, memory // gradient.nbytes)


def _labelled(
    model: nn.Module, masked: Batch, generator: torch.Generator | None, labels: int, estimator: str
) -> tuple[Int[Tensor, " pair"], Int[Tensor, " pair"], Float[Tensor, " pair"]]:
    """Return sentences, words and weights, of which each sentence's add up to 1."""
    with torch.no_grad():
        predicted = model(masked.masked, masked.positions, masked.lengths).softmax(-1).cpu()
    sentences, words = predicted.shape
    if estimator == "exact":
        every = torch.arange(words).repeat(sentences)
        return torch.arange(sentences).repeat_interleave(words), every, predicted.flatten()
    _check_sampling(generator, labels, estimator)
    drawn = torch.multinomial(predicted, labels, True, generator=generator).flatten()
    rows = torch.arange(sentences).repeat_interleave(labels)
    return rows, drawn, torch.full_like(drawn, 1 / labels, dtype=predicted.dtype)


def _check_sampling(generator: torch.Generator | None, labels: int, estimator: str) -> None:
    if estimator != "sampled":
        raise ParameterError(f"Unknown estimator {estimator!r}; choose exact or sampled.")
    check_count("labels", labels)
    if generator is None:
        raise ParameterError("Sampled labels need a generator; give one or choose the exact estimator.")


def _weighted_gradients(
    model: nn.Module,
    masked: Batch,
    words: Int[Tensor, " pair"],
    weights: Float[Tensor, " pair"],
) -> Float[Tensor, "pair parameter"]:
    """Return sqrt(weight) grad log f[word] of each sentence: squares are then weighted."""

    def scaled(
        parameters: dict[str, Tensor],
        sentence: Tensor,
        position: Tensor,
        length: Tensor | None,
        word: Tensor,
        weight: Tensor,
    ) -> Tensor:
        inputs = (sentence[None], position[None], None if length is None else length[None])
        logits = functional_call(model, parameters, inputs)[0]
        return weight.sqrt() * logits.log_softmax(-1).gather(0, word[None])[0]

    ragged = None if masked.lengths is None else 0
    gradient = vmap(grad(scaled), in_dims=(None, 0, 0, ragged, 0, 0))
    parameters = unflattened(model, flat_parameters(model))
    inputs = (masked.masked, masked.positions, masked.lengths, words, weights)
    with without_cudnn():
        return torch.cat([part.flatten(1) for part in gradient(parameters, *inputs).values()], 1)
