r"""Squared norms of per-sentence gradients, without the gradients (App. B).

The gradient of a sentence's loss in a matrix is a sum of outer products over its tokens: for a linear layer
$\sum_t g_t a_t^\top$ with inputs $a_t$ and output gradients $g_t$, for an embedding
$\sum_t e_{x_t} g_t^\top$. Its squared norm needs inner products only,

$$ \Bigl\lVert \sum_t \ell_t r_t^\top \Bigr\rVert_F^2 = \sum_{s,t} (\ell_s\cdot\ell_t)(r_s\cdot r_t). $$

A matrix that is used more than once, such as a tied embedding, sums over the tokens of all its uses. One
forward pass serves any number of cotangents, and no weight gradient is materialised.

This holds for linear layers (also GPT-2's `Conv1D`), embeddings, the gains of LayerNorm and RMSNorm (also
Gemma's 1 + gain), added biases, and LSTMs of one layer and direction. Other uses of a parameter, such as
Mamba's convolution, and layers without an axis of sentences, such as the relative positions of T5 and
DeBERTa, are exact too, but one sentence at a time; only the gradients of the parameters used so are
materialised. So are models in which sentences do not stay apart: that heed padding, or send tokens of
several sentences to one expert. A use that torch functions do not show, in scripted code or in an autograd
function of one's own, is refused.

All this is inferred from the calls of torch functions, and then compared with autograd, parameter by
parameter, on up to `PROBES` sentences, each alone. This costs as many forward passes of one sentence as there
are probes, as many backward passes with weight gradients, and one more forward and two more backward passes
of the probes together; it is repeated for probes that cannot share a pass. It does not grow with the
number of sentences.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import reduce
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from sameloss.checks import check_count
from sameloss.device import ACCELERATOR
from sameloss.errors import ModelError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.validation import check, check_logits, dropout_fault
from sameloss.models.bilstm import unrolled_lstm, without_cudnn

# Recording a forward pass: every use of a parameter is recorded, or its gradient will be materialised.
#
# The recorder intercepts torch functions, not modules: `torch.nn.Linear` and a bare `F.linear` are one case,
# and so are the RMSNorms of all models, which end in a product with their gain.

Kind = Literal["linear", "transposed", "embedding", "gain", "bias", "materialised"]

SUMMED: tuple[set[Kind], ...] = ({"linear", "embedding"}, {"transposed"}, {"gain", "bias"})
"""Kinds of uses of one parameter whose gradients are summed; other combinations are materialised."""

NO_ROW = -1
"""Replaces the index of an embedding row that gets no gradient."""


class Use(NamedTuple):
    """One use of a parameter, whose gradient is made of `factor` and the gradient that arrives at `edge`.

    `factor` has axes (sentence, token, feature): the input of a linear layer, the normalised input of a
    norm's gain, or the row index of an embedding as its one feature; None for a bias.
    """

    parameter: str
    kind: Kind
    edge: GradientEdge
    factor: Any = None  # Tensor | None
    padding: tuple[int, int] = (0, 0)  # rows of the parameter before and after the slice that is used


class Recorder(TorchFunctionMode):
    """Records the uses of a model's trainable parameters in the calls made under this mode."""

    def __init__(
        self, model: nn.Module, sentences: int, layout: list[tuple[torch.Size, bool]] | None = None
    ) -> None:
        """Prepare for one forward pass.

        Args:
            model: its trainable parameters are watched.
            sentences: number of sentences in the forward pass.
            layout: for each output of a known function, in order, its shape for one sentence, and whether
                all sentences share it (position embeddings, say). If None, only the outputs' shapes are
                recorded.

        """
        super().__init__()
        self.sentences, self.layout = sentences, layout
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.watched = {id(p): (name, (0, 0)) for name, p in named}  # name and padding
        self.uses: list[Use] = []
        self.materialised: set[str] = set()  # parameters with a use of no known form
        self.outputs: list[torch.Size] = []  # shapes
        self._derived: list[Tensor] = []  # references, so that no other tensor gets their id

    def __torch_function__(
        self, function: Callable, types: Iterable, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Record the uses of parameters."""
        kwargs = kwargs or {}
        if function in RANDOM and RANDOM[function](*args, **kwargs):
            raise dropout_fault()
        tensors = list(_tensors((args, kwargs)))
        used = [self.watched[id(value)][0] for value in tensors if id(value) in self.watched]
        if used and function in self._rules and not any(map(is_functorch_wrapped_tensor, tensors)):  # vmap
            result = self._rules[function](self, *args, **kwargs)
            if result is not None:
                return result
        result = function(*args, **kwargs)
        if any(id(value) not in self.watched for value in _tensors(result)):  # reading a shape is no use
            self.materialised.update(used)
        return result

    # Rules for functions of parameters. A rule returns None for a use that is not of its form.

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
        if id(input) in self.watched:
            return None
        output = self._output(F.linear(input, weight, bias))
        self._use("linear", weight, output, input)
        self._use("bias", bias, output)
        return output

    def _addmm(
        self, bias: Tensor, input: Tensor, weight: Tensor, *, beta: float = 1, alpha: float = 1
    ) -> Tensor | None:
        """Record GPT-2's `Conv1D`, a linear layer whose weight is transposed."""
        whole = self.watched.get(id(weight), ("", (0, 0)))[1] == (0, 0)
        if (beta, alpha) != (1, 1) or bias.ndim != 1 or id(input) in self.watched or not whole:
            return None
        output = self._output(torch.addmm(bias, input, weight))
        self._use("transposed", weight, output, input)
        self._use("bias", bias, output)
        return output

    def _layer_norm(
        self, input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> Tensor | None:
        if id(input) in self.watched:
            return None
        output = self._output(F.layer_norm(input, normalized_shape, weight, bias, eps))
        self._use("gain", weight, output, F.layer_norm(input.detach(), normalized_shape, eps=eps))
        self._use("bias", bias, output)
        return output

    def _rms_norm(
        self, input: Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None
    ) -> Tensor | None:
        if id(input) in self.watched:
            return None
        output = self._output(F.rms_norm(input, normalized_shape, weight, eps))
        self._use("gain", weight, output, F.rms_norm(input.detach(), normalized_shape, eps=eps))
        return output

    def _embedding(
        self,
        input: Tensor,
        weight: Tensor,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Tensor | None:
        if max_norm is not None or scale_grad_by_freq:
            return None
        output = self._output(F.embedding(input, weight, padding_idx))
        rows = input + self.watched[id(weight)][1][0]
        if padding_idx is not None:  # this row gets no gradient
            rows = rows.masked_fill(input == padding_idx % len(weight), NO_ROW)
        self._use("embedding", weight, output, rows[..., None])
        return output

    def _mul(self, input: Tensor, other: Any) -> Tensor | None:
        """Record a gain, of an RMSNorm say."""
        gain, rest = (input, other) if id(input) in self.watched else (other, input)
        if not self._one_per_feature(gain, rest):
            return None
        output = self._output(rest * gain)
        self._use("gain", gain, output, rest)
        return output

    def _add(self, input: Tensor, other: Any, *, alpha: float = 1) -> Tensor | None:
        bias, rest = (input, other) if id(input) in self.watched else (other, input)
        if alpha == 1 and isinstance(rest, int | float):  # the 1 + gain of Gemma
            return self._watch(bias + rest, *self.watched[id(bias)])
        if alpha != 1 or not self._one_per_feature(bias, rest):
            return None
        output = self._output(rest + bias)
        self._use("bias", bias, output)
        return output

    def _slice(self, tensor: Tensor, index: Any) -> Tensor | None:
        """Slice rows of a parameter, and watch the slice."""
        if not isinstance(index, slice) or index.step not in (None, 1):
            return None
        name, (before, after) = self.watched[id(tensor)]
        start, rows = index.indices(len(tensor))[0], tensor[index]
        return self._watch(rows, name, (before + start, after + len(tensor) - start - len(rows)))

    def _lstm(self, input: Tensor, states: Any, weights: Any, *options: Any) -> tuple[Tensor, ...] | None:
        """Unroll the layer: the fused kernel hides the gradients that arrive at the gates."""
        # options: biases, layers, dropout, train, bidirectional, batch_first; packed sequences have no states
        known = options[:2] + options[4:] == (True, 1, False, True) and len(weights) == 4
        if isinstance(states, Tensor) or not known:
            return None
        with self:
            return unrolled_lstm(input, states, weights)

    # functions of the class: methods bound to the recorder would make a reference cycle, which would keep the
    # activations of every forward pass alive
    _rules: ClassVar[dict[Callable, Callable]] = {
        F.linear: _linear,
        torch.addmm: _addmm,
        F.layer_norm: _layer_norm,
        F.rms_norm: _rms_norm,
        F.embedding: _embedding,
        torch.lstm: _lstm,
        Tensor.mul: _mul,
        torch.mul: _mul,
        Tensor.add: _add,
        torch.add: _add,
        Tensor.__getitem__: _slice,
    }

    def _one_per_feature(self, parameter: Any, rest: Any) -> bool:
        """Whether a watched vector has one number for each feature of another tensor."""
        if not isinstance(rest, Tensor) or id(rest) in self.watched:
            return False
        return rest.ndim > 1 and parameter.shape == rest.shape[-1:]

    def _output(self, output: Tensor) -> Tensor:
        """Record an output's shape; if all sentences share it, expand it to one copy per sentence.

        Raises:
            ModelError: if the shape does not follow from that for one sentence.

        """
        self.outputs.append(output.shape)
        if self.layout is None or self.sentences == 1:
            return output
        one, shared = next(iter(self.layout[len(self.outputs) - 1 :]), (None, False))
        if one is None or output.shape != (one if shared else (self.sentences * one[0], *one[1:])):
            raise _apart_fault()
        if not shared:
            return output
        rows = output if len(output) == 1 else output[None]
        return rows.expand(self.sentences, *rows.shape[1:])

    def _watch(self, derived: Tensor, name: str, padding: tuple[int, int]) -> Tensor:
        """Watch a tensor whose gradient is that of rows of a parameter."""
        self.watched[id(derived)] = name, padding
        self._derived.append(derived)
        return derived

    def _use(
        self, kind: Kind, parameter: Tensor | None, output: Tensor, factor: Tensor | None = None
    ) -> None:
        if parameter is None or id(parameter) not in self.watched:
            return
        if self.layout is None or not output.requires_grad:  # under torch.no_grad
            return
        if factor is not None:
            factor = factor.detach().expand(*output.shape[:-1], factor.shape[-1])
            factor = factor.reshape(self.sentences, -1, factor.shape[-1])
        name, padding = self.watched[id(parameter)]
        self.uses.append(Use(name, kind, get_gradient_edge(_unviewed(output)), factor, padding))


def _unviewed(output: Tensor) -> Tensor:
    """Return the tensor that an output is a reshaped view of: an in-place change cuts off the view's edge."""
    base = output._base
    if base is None or base.numel() != output.numel() or base.shape[-1:] != output.shape[-1:]:
        return output
    return base


def _apart_fault() -> ModelError:
    return ModelError("Sentences must be the first axis of every layer of the model, and are not.")


RANDOM: dict[Callable, Callable[..., float]] = {
    F.dropout: lambda input, p=0.5, training=True, inplace=False: p if training else 0.0,
    F.scaled_dot_product_attention: lambda q, k, v, attn_mask=None, dropout_p=0.0, *_, **__: dropout_p,
}
"""Functions that may drop units, and how to read the rate from the arguments of a call."""


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield all tensors in nested arguments."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors(part)


CHUNK_BYTES = {"cpu": 32 << 20, ACCELERATOR: 4 << 30}
"""Memory for the recorded factors of one forward pass, by device type."""

PROBES = 8
"""Sentences on which squared norms are compared with autograd's, evenly spread over the lengths."""

SELF_CHECK = 1e-3
"""Tolerated difference from autograd's squared norm of a parameter, relative to it."""

ROUNDING = 1e-5
"""Tolerated rounding, relative to the squared norm of a gradient whose tokens are orthogonal."""


class Recording:
    """One forward pass, `model(masked, positions, lengths)`, from which norms for any cotangents follow."""

    def __init__(self, model: nn.Module, masked: Batch, layout: list | None = None) -> None:
        recorder = Recorder(model, len(masked.masked), layout)
        with torch.enable_grad(), without_cudnn(), recorder:
            self.logits = model(masked.masked, masked.positions, masked.lengths)
        check_logits(self.logits, masked)
        self.outputs = recorder.outputs
        self._uses: dict[str, list[Use]] = defaultdict(list)
        for use in recorder.uses:
            self._uses[use.parameter].append(use)
        mixed = {n for n, uses in self._uses.items() if not any({u.kind for u in uses} <= s for s in SUMMED)}
        for name in mixed | recorder.materialised:
            if layout is not None and len(masked.masked) > 1:
                raise ModelError(f"The gradient of {name} is known for one sentence at a time only.")
            self._uses[name] = [Use(name, "materialised", get_gradient_edge(model.get_parameter(name)))]
        self._edges = list(dict.fromkeys(use.edge for uses in self._uses.values() for use in uses))
        self._products: dict[str, Tensor] = {}  # of inputs: the same for all cotangents

    @property
    def bytes(self) -> int:
        """Memory of the recorded factors."""
        factors = [use.factor for uses in self._uses.values() for use in uses]
        return sum(factor.nbytes for factor in factors if factor is not None)

    def squared_norms(self, cotangents: Float[Tensor, "batch word"]) -> dict[str, Float[Tensor, " batch"]]:
        """Compute the squared norm of each sentence's gradient of cotangent · logits, by parameter."""
        return {name: self._squared_norm(name, uses) for name, uses in self._reached(cotangents).items()}

    def with_rounding(
        self, cotangents: Float[Tensor, "batch word"]
    ) -> dict[str, tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]]:
        """Compute squared norms, each with its tolerated rounding."""
        reached = self._reached(cotangents)
        return {n: (self._squared_norm(n, uses), ROUNDING * _orthogonal(uses)) for n, uses in reached.items()}

    def _reached(self, cotangents: Float[Tensor, "batch word"]) -> dict[str, list[tuple[Use, Tensor]]]:
        """Return the uses that a gradient reaches, with it, by parameter."""
        arrived = torch.autograd.grad(
            self.logits, self._edges, cotangents, retain_graph=True, allow_unused=True
        )
        pairs = [(edge, g) for edge, g in zip(self._edges, arrived, strict=True) if g is not None]
        gradients = {edge: g.reshape(len(self.logits), -1, *g.shape[-1:]) for edge, g in pairs}
        reached = {
            name: [(use, gradients[use.edge]) for use in uses if use.edge in gradients]
            for name, uses in self._uses.items()
        }
        return {name: uses for name, uses in reached.items() if uses}

    def _squared_norm(self, name: str, uses: list[tuple[Use, Tensor]]) -> Float[Tensor, " batch"]:
        if uses[0][0].kind == "materialised":  # the gradient of the one sentence
            return uses[0][1].square().sum()[None]
        if uses[0][0].kind in ("gain", "bias"):
            return reduce(torch.add, (_vector(use, g) for use, g in uses)).square().sum(1)
        outer = [(_all_rows(use, g), use.factor) for use, g in uses if use.kind != "embedding"]
        looked_up = [(use.factor.squeeze(2), g) for use, g in uses if use.kind == "embedding"]
        parts = []
        if outer:
            left, right = map(_joined, zip(*outer, strict=True))
            parts.append(_inner(self._once(name, lambda: right @ right.mT), left @ left.mT))
        if looked_up:
            rows, vectors = map(_joined, zip(*looked_up, strict=True))
            same = self._once(f"{name}, rows", lambda: _same(rows).to(vectors))
            parts.append(_inner(same, vectors @ vectors.mT))
        if outer and looked_up:
            parts.append(2 * _inner(_picked(left, rows), right @ vectors.mT))
        return reduce(torch.add, parts)

    def _once(self, key: str, product: Callable[[], Tensor]) -> Float[Tensor, "batch token token"]:
        if key not in self._products:
            self._products[key] = product()
        return self._products[key]


def _orthogonal(uses: list[tuple[Use, Tensor]]) -> Float[Tensor, " batch"]:
    """Compute what the squared norms would be if the gradients of all tokens were orthogonal."""
    norms = []
    for use, g in uses:
        norms.append(g.flatten(1).norm(dim=1))
        if use.factor is not None and use.kind != "embedding":
            norms[-1] = norms[-1] * use.factor.square().sum(2).mean(1).sqrt()
    return reduce(torch.add, norms).square()


def _vector(use: Use, gradient: Float[Tensor, "batch token feature"]) -> Float[Tensor, "batch all"]:
    """Compute the gradient of a bias or a gain, one vector per sentence."""
    gradient = gradient if use.factor is None else gradient * use.factor
    return _all_rows(use, gradient.sum(1))


def _all_rows(use: Use, gradient: Tensor) -> Tensor:
    """Pad the gradient of a slice with zeros to all rows of the parameter."""
    return F.pad(gradient, use.padding) if any(use.padding) else gradient


def _same(rows: Int[Tensor, "batch token"]) -> Bool[Tensor, "batch token token"]:
    """Mark pairs of tokens that look up the same row."""
    return (rows[:, :, None] == rows[:, None]) & (rows != NO_ROW)[:, None]


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    """Concatenate the tokens of several uses."""
    return torch.cat(parts, 1) if len(parts) > 1 else parts[0]


def _inner(first: Tensor, second: Tensor) -> Float[Tensor, " batch"]:
    """Compute the Frobenius inner product of two matrices per sentence."""
    return (first * second).sum((1, 2))


def _picked(
    left: Float[Tensor, "batch token row"], rows: Int[Tensor, "batch other"]
) -> Float[Tensor, "batch token other"]:
    """Select the entries of dense left factors at these rows, zero for `NO_ROW`."""
    index = rows.clamp(min=0)[:, None].expand(-1, left.shape[1], -1)
    return left.gather(2, index).masked_fill((rows == NO_ROW)[:, None], 0)


def recordings(
    model: nn.Module, masked: Batch, chunk: int | None = None
) -> Iterator[tuple[Int[Tensor, " row"], Recording]]:
    """Record all sentences in chunks of similar lengths; yield the rows of each chunk and its recording.

    Args:
        model: called as `model(masked, positions, lengths)`, returns logits (batch, word) at the masked
            position of each sentence. Frozen parameters are ignored.
        masked: the sentences.
        chunk: sentences per forward pass; as many as `CHUNK_BYTES` allow if None.

    Raises:
        ParameterError: if `chunk` is not positive.
        ModelError: see `check`; also for dropout, for a model that is random, and for norms that differ from
            autograd's on the probes.

    """
    if chunk is not None:
        check_count("chunk", chunk)
    check(model, masked)
    device = next(model.parameters()).device
    masked = masked.to(device)
    order = torch.arange(len(masked.masked), device=device)
    if masked.lengths is not None:
        order = masked.lengths.argsort(stable=True)  # for little padding
    chunk = _chunk_size(model, _probes(masked.rows(order)), chunk)
    layouts: dict[tuple[int, bool], list] = {}  # by width and whether there is padding
    for rows in order.split(chunk):
        together = []
        if chunk > 1:
            with suppress(ModelError):  # these words may go other ways than those of the probes
                together.append(_together(model, masked.rows(rows), layouts))
        for some in [rows] if together else rows.split(1):
            yield some.cpu(), together.pop() if together else _alone(model, masked.rows(some))


def _together(model: nn.Module, part: Batch, layouts: dict[tuple[int, bool], list]) -> Recording:
    """Record sentences in one forward pass."""
    if part.lengths is None or part.lengths.max() > 1:  # outputs of one token have shapes of shared ones
        part = part.narrowed()
    key = part.masked.shape[1], part.lengths is None
    if key not in layouts:
        layouts[key] = _layout(model, _probes(part))
    return Recording(model, part, layouts[key])


def _alone(model: nn.Module, one: Batch) -> Recording:
    """Record one sentence, without its padding."""
    return Recording(model, one.narrowed(), [])


def _chunk_size(model: nn.Module, probes: Batch, requested: int | None) -> int:
    """Return the number of sentences per forward pass: as requested, or as many as memory allows.

    It is 1 if a parameter has a use of no known form, if a layer has no axis of sentences, if the model
    does more with an output that all sentences share than add it to their own (as with relative position
    biases), or if a sentence alone has other logits or gradients than in a batch; and for sentences of one
    token, whose outputs have the shape of shared ones.
    """
    try:
        probe = Recording(model, probes, _layout(model, probes))
        _self_check(model, probes, probe)
    except (ModelError, RuntimeError):
        for row in range(len(probes.masked)):
            one = probes.rows(slice(row, row + 1))
            _self_check(model, one, _alone(model, one))
        return 1
    return requested or max(
        1, CHUNK_BYTES[probes.masked.device.type] * len(probes.masked) // max(1, probe.bytes)
    )


def _probes(ordered: Batch) -> Batch:
    """Select `PROBES` sentences, at least two, masked in turn at their last and at their first position.

    A layer whose rows are not in the order of the sentences then fails the check against autograd.
    """
    sentences, device = len(ordered.masked), ordered.masked.device
    count = max(2, min(sentences, PROBES))
    probe = torch.arange(count, device=device)
    probes = ordered.rows(probe * (sentences - 1) // (count - 1))
    ends = torch.full_like(probe, ordered.masked.shape[1]) if probes.lengths is None else probes.lengths
    return probes._replace(positions=torch.where(probe % 2 == 0, ends - 1, 0))


def _layout(model: nn.Module, probes: Batch) -> list[tuple[torch.Size, bool]]:
    """Return the outputs' shapes for one sentence; all sentences share those that two do not double."""
    one, two = (Recording(model, probes.rows(slice(count))).outputs for count in (1, 2))
    grown = [(2 * shape[0], *shape[1:]) for shape in one]
    if len(one) != len(two) or any(b not in (a, g) for a, b, g in zip(one, two, grown, strict=True)):
        raise _apart_fault()
    return [(a, a == b) for a, b in zip(one, two, strict=True)]


def _self_check(model: nn.Module, some: Batch, recording: Recording) -> None:
    """Compare with autograd on each sentence alone: no use of a parameter may be missed."""
    cotangents = torch.linspace(-1, 1, recording.logits.shape[1]).to(recording.logits)
    cotangents = cotangents.expand(len(recording.logits), -1)
    ours = recording.with_rounding(cotangents)
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for row, together in enumerate(recording.logits):
        one = some.rows(slice(row, row + 1)).narrowed()
        with torch.enable_grad(), without_cudnn():
            logits = model(one.masked, one.positions, one.lengths)
        tolerance = SELF_CHECK * float(together.detach().abs().max())
        if not torch.allclose(logits[0], together, rtol=0, atol=tolerance, equal_nan=True):
            raise ModelError(
                "The model predicts something else when it reads the same sentence again; a measure needs a "
                "model that draws nothing at random and that no pass changes."
            )
        gradients = torch.autograd.grad(logits, list(named.values()), cotangents[:1], allow_unused=True)
        norms = {n: g.square().sum() for n, g in zip(named, gradients, strict=True) if g is not None}
        least = ROUNDING**2 * sum(norms.values())
        for name, norm in norms.items():
            if not norm.isfinite():
                raise ModelError(
                    f"By autograd {name} has a gradient that is not finite; measures need finite ones."
                )
            mine, rounding = (
                found[row] for found in ours.get(name, torch.zeros(2, len(some.masked)).to(norm))
            )
            if not (mine - norm).abs() <= SELF_CHECK * norm + rounding + least:
                module = name.rpartition(".")[0]
                kind = type(model.get_submodule(module)).__name__
                known = "only a part" if name in recording._uses else "nothing"
                raise ModelError(
                    f"The squared gradient norm of {name} of module {module or 'itself'} ({kind}) is "
                    f"{float(norm):.4g} by autograd and {float(mine):.4g} here; torch functions show {known} "
                    "of its use, so scripted code or an autograd function of its own uses it, which cannot "
                    "be measured."
                )
