"""How far a model is from the best possible loss (App. A.4).

The loss is the entropy of the true conditionals plus the KL divergence of the model from them. Both are
computed from the exact conditionals: no label is sampled.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.errors import ModelError
from sameloss.languages import Sentences, mask_one

CHUNK = 2048
"""Sentences per forward pass."""


@torch.no_grad()
def divergences(
    model: nn.Module, sentences: Sentences, conditionals: Float[Tensor, "batch seq word"]
) -> Float[Tensor, " batch"]:
    r"""Compute the KL divergence of the model's predictions from the truth, per sentence.

    It is the mean over positions t of

    $$\mathrm{KL}(\Pr(\cdot \mid x_{-t}) \,\Vert\, f(x_{-t}))
      = \sum_y \Pr(y \mid x_{-t}) \log \frac{\Pr(y \mid x_{-t})}{[f(x_{-t})]_y}.$$

    Args:
        model: a masked language model, called as `model(masked, positions, lengths)`.
        sentences: unmasked sentences.
        conditionals: Pr(. | x_-t) at every position.

    Returns:
        Nats per masked token, float64, on the CPU.

    Raises:
        ModelError: if it predicts another number of words than the language has.

    """
    sentences, conditionals = sentences.to("cpu"), conditionals.cpu()
    total = torch.zeros(len(sentences.lengths), dtype=torch.float64)
    for rows in torch.arange(len(total)).split(CHUNK):
        part = sentences.rows(rows)
        for position in range(int(part.lengths.max())):
            long_enough = (part.lengths > position).nonzero().squeeze(1)
            truth = conditionals[rows[long_enough], position]
            predicted = _log_predictions(model, part.rows(long_enough), position)
            if predicted.shape != truth.shape:
                raise ModelError(
                    f"The model predicts {predicted.shape[-1]} words, and the language has {truth.shape[-1]}."
                )
            kl = (torch.xlogy(truth, truth) - truth * predicted).sum(-1)  # xlogy(0, 0) = 0
            total[rows[long_enough]] += kl / part.lengths[long_enough]
    return total


def _log_predictions(model: nn.Module, sentences: Sentences, position: int) -> Float[Tensor, "batch word"]:
    """Compute log f(x_-t) with one position t masked in every sentence, float64, on the CPU."""
    device = next(model.parameters()).device
    tokens = sentences.tokens.long().to(device)
    positions = torch.full((len(tokens),), position, device=device)
    ragged = bool((sentences.lengths < tokens.shape[1]).any())
    lengths = sentences.lengths.to(device) if ragged else None
    logits = model(mask_one(tokens, positions), positions, lengths)
    return logits.double().log_softmax(-1).cpu()


def bag_of_words_kl(
    fitted_to: tuple[Sentences, Float[Tensor, "batch seq word"]],
    sentences: Sentences,
    conditionals: Float[Tensor, "batch seq word"],
) -> float:
    """Compute the KL of a baseline, the best bag of words: softmax regression on counts of the other words.

    It has an intercept for each position and length, and is fitted to exact conditionals.

    Args:
        fitted_to: training sentences and their conditionals.
        sentences: test sentences.
        conditionals: of the test sentences.

    Returns:
        Nats per masked token on the test sentences.

    """
    counts, truth, _ = _counts_of_others(*fitted_to)
    weight = torch.zeros(counts.shape[1], truth.shape[1], dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([weight], max_iter=500, tolerance_grad=1e-7, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        cross_entropy = -(truth * (counts @ weight).log_softmax(1)).sum(1).mean()
        cross_entropy.backward()
        return cross_entropy

    with torch.enable_grad():
        solver.step(loss)
    counts, truth, token_weights = _counts_of_others(sentences, conditionals)
    predicted = (counts @ weight.detach()).log_softmax(1)
    kl = (torch.xlogy(truth, truth) - truth * predicted).sum(1)
    return float((kl * token_weights).sum() / len(sentences.lengths))


def _counts_of_others(
    sentences: Sentences, conditionals: Float[Tensor, "batch seq word"]
) -> tuple[Float[Tensor, "token feature"], Float[Tensor, "token word"], Float[Tensor, " token"]]:
    """Return each token's features (counts of the other words; place and length), truth, and 1 / length."""
    inside, words = sentences.inside, conditionals.shape[-1]
    one_hot = F.one_hot(sentences.tokens.long() * inside, words + 1)[..., 1:].double()
    others = one_hot.sum(1, keepdim=True) - one_hot
    seq, lengths = inside.shape[1], sentences.lengths[:, None]
    places = F.one_hot(torch.arange(seq) + seq * (lengths - 1), seq**2).double()
    features = torch.cat([others, places], -1)
    return features[inside], conditionals[inside], (1 / lengths.double()).expand_as(inside)[inside]
