"""How far a model is from the best possible loss: entropy, KL to the truth, loss (App. A.4).

The loss is H + KL: the entropy of the true conditional plus the divergence of the model from it.
Both are computed from the exact conditionals, so no label is sampled.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.languages import Sentences, mask_one

CHUNK = 2048
"""Sentences that go through the model at once."""


@torch.no_grad()
def divergences(
    model: nn.Module, sentences: Sentences, conditionals: Float[Tensor, "batch seq word"]
) -> Float[Tensor, " batch"]:
    r"""Compute the divergence of a model's predictions from the truth, for each sentence.

    It is the mean over positions t of

    $$\mathrm{KL}(\Pr(\cdot \mid x_{-t}) \,\Vert\, f(x_{-t}))
      = \sum_y \Pr(y \mid x_{-t}) \log \frac{\Pr(y \mid x_{-t})}{[f(x_{-t})]_y}.$$

    Args:
        model: a masked language model, called as `model(masked, positions, lengths)`.
        sentences: unmasked sentences.
        conditionals: Pr(. | x_-t) of every position.

    Returns:
        Nats a masked token, float64, on the CPU.

    """
    sentences, conditionals = sentences.to("cpu"), conditionals.cpu()
    total = torch.zeros(len(sentences.lengths), dtype=torch.float64)
    for rows in torch.arange(len(total)).split(CHUNK):
        part = sentences.rows(rows)
        for position in range(int(part.lengths.max())):
            there = (part.lengths > position).nonzero().squeeze(1)
            truth = conditionals[rows[there], position]
            predicted = log_predictions(model, part.rows(there), position)
            # xlogy: a word of probability zero adds nothing.
            kl = (torch.xlogy(truth, truth) - truth * predicted).sum(-1)
            total[rows[there]] += kl / part.lengths[there]
    return total


def log_predictions(model: nn.Module, sentences: Sentences, position: int) -> Float[Tensor, "batch word"]:
    """Return log f(x_-t) with the same position t masked in every sentence, float64, on the CPU."""
    device = next(model.parameters()).device
    tokens = sentences.tokens.long().to(device)
    positions = torch.full((len(tokens),), position, device=device)
    ragged = bool((sentences.lengths < tokens.shape[1]).any())
    lengths = sentences.lengths.to(device) if ragged else None
    logits = model(mask_one(tokens, positions), positions, lengths)
    return logits.double().log_softmax(-1).cpu()


# What a model is compared with: the bag of words.


def bag_of_words_kl(
    fitted_to: tuple[Sentences, Float[Tensor, "batch seq word"]],
    sentences: Sentences,
    conditionals: Float[Tensor, "batch seq word"],
) -> float:
    """Return the KL of the best bag of words: softmax regression on the counts of the other words.

    It has an intercept for each position and length, and is fitted to exact conditionals.

    Args:
        fitted_to: sentences and their conditionals that it is fitted to.
        sentences: others, on which its KL is measured (nats a masked token).
        conditionals: of these.

    """
    counts, truth, _ = _counts_of_others(*fitted_to)
    weight = torch.zeros(counts.shape[1], truth.shape[1], dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([weight], max_iter=500, tolerance_grad=1e-7, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        found = -(truth * (counts @ weight).log_softmax(1)).sum(1).mean()
        found.backward()
        return found

    with torch.enable_grad():
        solver.step(loss)
    counts, truth, weights = _counts_of_others(sentences, conditionals)
    predicted = (counts @ weight.detach()).log_softmax(1)
    kl = (torch.xlogy(truth, truth) - truth * predicted).sum(1)
    return float((kl * weights).sum() / len(sentences.lengths))


def _counts_of_others(
    sentences: Sentences, conditionals: Float[Tensor, "batch seq word"]
) -> tuple[Float[Tensor, "token feature"], Float[Tensor, "token word"], Float[Tensor, " token"]]:
    """Return for each token the counts of the other words and its place, the truth, and 1 / length."""
    tokens, lengths = sentences.tokens.long(), sentences.lengths
    inside, longest, words = sentences.inside, tokens.shape[1], conditionals.shape[-1]
    words_at = F.one_hot(tokens * inside, words + 1)[..., 1:].double()
    others = words_at.sum(1, keepdim=True) - words_at
    place = torch.arange(longest) + longest * (lengths[:, None] - 1)
    places = F.one_hot(place, longest**2).double()
    features = torch.cat([others, places], -1)
    return features[inside], conditionals[inside], (1 / lengths.double())[:, None].expand_as(inside)[inside]
