r"""Squared norms of every sentence's gradient, without the gradients (App. B).

The gradient of a sentence with respect to a matrix is a sum of outer products, one a token: of a
linear layer $\sum_t g_t a_t^\top$ with inputs $a_t$ and output gradients $g_t$, of an embedding
$\sum_t e_{x_t} g_t^\top$. Its squared norm needs inner products only,

$$ \Bigl\lVert \sum_t \ell_t r_t^\top \Bigr\rVert_F^2 = \sum_{s,t} (\ell_s\cdot\ell_t)(r_s\cdot r_t), $$

and so does that of a matrix used twice, such as a tied embedding: the tokens of all its uses form one
sum. One forward pass serves any number of cotangents, and no weight gradient is ever made.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import reduce

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.checks import check_count
from sameloss.errors import ModelError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.parameter_uses import NO_ROW, Recorder, Use
from sameloss.measures.flatness.validation import check, check_logits
from sameloss.models.bilstm import without_cudnn

CHUNK_BYTES = {"cpu": 32 << 20, "cuda": 4 << 30}
"""Memory for what a forward pass records at once, by kind of device."""

SELF_CHECK = 1e-3
"""Largest difference from autograd's squared norms on two sentences, relative to their sum."""

Norms = dict[str, Float[Tensor, " batch"]]
"""Squared norms by parameter name."""


class Recording:
    """One forward pass of some sentences, ready to give norms for any cotangents."""

    def __init__(self, model: nn.Module, masked: Batch, shared: list | None = None) -> None:
        """Run the model, called as `model(masked, positions, lengths)`, under a `Recorder`."""
        recorder = Recorder(model, len(masked.masked), shared)
        with torch.enable_grad(), without_cudnn(), recorder:
            self.logits = model(masked.masked, masked.positions, masked.lengths)
        check_logits(self.logits, masked)
        self.outputs = recorder.outputs
        self._shapes = recorder.shapes
        self._uses = defaultdict(list)
        for use in recorder.uses:
            self._uses[use.parameter].append(use)
        self._edges = list(dict.fromkeys(use.edge for use in recorder.uses))
        self._products: dict[str, Tensor] = {}  # of inputs; the same for all cotangents

    @property
    def bytes(self) -> int:
        """The memory of the recorded factors."""
        return sum(
            use.factor.nbytes for uses in self._uses.values() for use in uses if use.factor is not None
        )

    def squared_norms(self, cotangents: Float[Tensor, "batch word"]) -> Norms:
        """Return the squared norm of each sentence's gradient of cotangent · logits, by parameter."""
        arrived = torch.autograd.grad(
            self.logits, self._edges, cotangents, retain_graph=True, allow_unused=True
        )
        size = len(self.logits)
        gradients = {
            edge: gradient.reshape(size, -1, gradient.shape[-1])
            for edge, gradient in zip(self._edges, arrived, strict=True)
            if gradient is not None
        }
        reached = {
            name: [(use, gradients[use.edge]) for use in uses if use.edge in gradients]
            for name, uses in self._uses.items()
        }
        return {name: self._squared_norm(name, uses) for name, uses in reached.items() if uses}

    def _squared_norm(self, name: str, uses: list[tuple[Use, Tensor]]) -> Float[Tensor, " batch"]:
        if uses[0][0].kind in ("gain", "bias"):
            return reduce(torch.add, (self._vector(use, g) for use, g in uses)).square().sum(1)
        outer = [(self._all_rows(use, g), use.factor) for use, g in uses if use.kind == "linear"]
        looked_up = [
            (use.factor.squeeze(2), g)
            for use, g in uses
            if use.kind == "embedding" and use.factor is not None
        ]
        parts = []
        if outer:
            left, right = map(_joined, zip(*outer, strict=True))
            parts.append(_inner(self._gram(name, right), left @ left.mT))
        if looked_up:
            rows, vectors = map(_joined, zip(*looked_up, strict=True))
            parts.append(_inner(self._same(name, rows), vectors @ vectors.mT))
        if outer and looked_up:
            parts.append(2 * _inner(_picked(left, rows), right @ vectors.mT))
        return reduce(torch.add, parts)

    def _vector(self, use: Use, gradient: Float[Tensor, "batch token feature"]) -> Tensor:
        """Return the gradient of a bias or a gain, one vector a sentence."""
        gradient = gradient if use.factor is None else gradient * use.factor
        return self._all_rows(use, gradient.sum(1))

    def _all_rows(self, use: Use, gradient: Tensor) -> Tensor:
        """Put the rows that a slice of a parameter lacks around its gradient, as zeros."""
        rows = self._shapes[use.parameter][0]
        after = rows - use.first_row - gradient.shape[-1]
        return F.pad(gradient, (use.first_row, after)) if use.first_row or after else gradient

    def _gram(self, name: str, inputs: Tensor) -> Float[Tensor, "batch token token"]:
        if name not in self._products:
            self._products[name] = inputs @ inputs.mT
        return self._products[name]

    def _same(self, name: str, rows: Tensor) -> Float[Tensor, "batch token token"]:
        key = f"{name}, rows"
        if key not in self._products:
            same = (rows[:, :, None] == rows[:, None]) & (rows != NO_ROW)[:, None]
            self._products[key] = same.to(self.logits.dtype)
        return self._products[key]


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    """Join the tokens of several uses."""
    return torch.cat(parts, 1) if len(parts) > 1 else parts[0]


def _inner(first: Tensor, second: Tensor) -> Float[Tensor, " batch"]:
    """Return the inner product of two matrices, sentence by sentence."""
    return (first * second).sum((1, 2))


def _picked(
    left: Float[Tensor, "batch token row"], rows: Int[Tensor, "batch other"]
) -> Float[Tensor, "batch token other"]:
    """Return the entries of dense left factors in these rows, zero for no row."""
    index = rows.clamp(min=0)[:, None].expand(-1, left.shape[1], -1)
    return left.gather(2, index).masked_fill((rows == NO_ROW)[:, None], 0)


def recordings(
    model: nn.Module, masked: Batch, chunk: int | None = None
) -> Iterator[tuple[Int[Tensor, " row"], Recording]]:
    """Yield recordings of all sentences, a chunk of similar lengths at a time, with the rows they cover.

    Args:
        model: called as `model(masked, positions, lengths)`, returns logits (batch, word) for the
            masked position of each sentence. Parameters that need no gradient do not count.
        masked: the sentences.
        chunk: sentences that go through the model at once; by memory where None.

    Raises:
        ParameterError: for a chunk of no sentences.
        ModelError: for what `check` refuses, a parameter used in a way that is not known, random
            dropout, or norms that differ from autograd's on two of the sentences.

    """
    if chunk is not None:
        check_count("chunk", chunk)
    check(model, masked)
    device = next(model.parameters()).device
    masked = masked.to(device)
    chunk = _at_once(model, _two_sentences(masked), chunk)
    layouts: dict[tuple[int, bool], list] = {}  # by width, and whether there is padding
    for rows in _by_length(masked).split(chunk):
        part = masked.rows(rows).narrowed()
        layout = part.masked.shape[1], part.lengths is None
        if layout not in layouts:
            layouts[layout] = _shared(model, _two_sentences(part))
        yield rows.cpu(), Recording(model, part, layouts[layout])


def _at_once(model: nn.Module, two: Batch, wanted: int | None) -> int:
    """Return how many sentences go through the model at once: as many as wanted, or as memory has room for.

    It is one where the model does more to an output that all sentences share than add it to their own: to
    relative position biases, say.
    """
    try:
        probe = Recording(model, two, _shared(model, two))
        _self_check(model, two, probe)
    except (ModelError, RuntimeError):
        for row in range(2):
            one = two.rows(slice(row, row + 1))
            _self_check(model, one, Recording(model, one, _shared(model, two)))
        return 1
    return wanted or max(1, CHUNK_BYTES[two.masked.device.type] * 2 // max(1, probe.bytes))


def _by_length(masked: Batch) -> Int[Tensor, " row"]:
    """Return the rows in the order of the sentences' lengths, so that a chunk has little padding."""
    if masked.lengths is None:
        return torch.arange(len(masked.masked), device=masked.masked.device)
    return masked.lengths.argsort(stable=True)


def _two_sentences(masked: Batch) -> Batch:
    """Return the first and the last sentence, read at the last and the first token.

    Rows of a layer that stand in another order than sentence after sentence then show.
    """
    two = masked.rows(torch.tensor([0, -1], device=masked.masked.device))
    end = masked.masked.shape[1] if two.lengths is None else int(two.lengths[0])
    return two._replace(positions=torch.tensor([end - 1, 0], device=two.positions.device))


def _shared(model: nn.Module, two: Batch) -> list[torch.Size | None]:
    """Return the shapes of the outputs that all sentences share: those that do not grow with them."""
    one, both = (Recording(model, some).outputs for some in (two.rows(slice(0, 1)), two))
    grown = [(2 * shape[0], *shape[1:]) for shape in one]
    if len(one) != len(both) or any(b not in (a, g) for a, b, g in zip(one, both, grown, strict=True)):
        raise ModelError("Sentences must be the first axis of every layer of the model, and are not.")
    return [a if a == b else None for a, b in zip(one, both, strict=True)]


def _self_check(model: nn.Module, some: Batch, recording: Recording) -> None:
    """Compare with autograd, sentence by sentence, so that no use of a parameter is ever missed."""
    cotangents = torch.linspace(-1, 1, recording.logits.shape[1]).to(recording.logits)
    cotangents = cotangents.expand(len(recording.logits), -1)
    ours = recording.squared_norms(cotangents)
    for row in range(len(some.masked)):
        norms = _by_autograd(model, some.rows(slice(row, row + 1)), cotangents[:1])
        slack = SELF_CHECK * sum(norms.values())
        for name, norm in norms.items():
            mine = ours[name][row] if name in ours else torch.zeros_like(norm)
            if not (mine - norm).abs() <= slack:
                raise ModelError(
                    f"The squared gradient norm of {name} is {float(norm):.4g} by autograd and "
                    f"{float(mine):.4g} here: this model computes in a way that is not known."
                )


def _by_autograd(model: nn.Module, one: Batch, cotangents: Tensor) -> dict[str, Float[Tensor, ""]]:
    """Return the squared gradient norms of one sentence as autograd has them."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with torch.enable_grad(), without_cudnn():
        logits = model(one.masked, one.positions, one.lengths)
    gradients = torch.autograd.grad(logits, list(named.values()), cotangents, allow_unused=True)
    return {name: g.square().sum() for name, g in zip(named, gradients, strict=True) if g is not None}
