"""Watching a forward pass: every use of a parameter is written down, or refused by name.

It watches torch's functions and not modules, so it sees whatever a model does with a parameter,
however its layers are written: `torch.nn.Linear` and a bare `F.linear` are one case.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, resolve_name

from sameloss.errors import ModelError
from sameloss.measures.flatness.validation import dropout_fault
from sameloss.models.bilstm import unrolled_lstm

Kind = Literal["linear", "embedding", "gain", "bias"]

NO_ROW = -1
"""Stands for a row of an embedding that gets no gradient."""


class Use(NamedTuple):
    """One use of a parameter; its gradient is made of `factor` and of what arrives at `edge`.

    `factor` is (sentence, token, feature): the input of a linear layer, the normalised input of a
    LayerNorm's gain, the one row number an embedding looks up; None for a bias.
    """

    parameter: str
    kind: Kind
    edge: GradientEdge
    factor: Tensor | None
    first_row: int  # of the parameter, where only some of its rows are used


class Recorder(TorchFunctionMode):
    """Records the uses of a model's trainable parameters in the calls made under it."""

    def __init__(
        self, model: nn.Module, sentences: int, shared: list[torch.Size | None] | None = None
    ) -> None:
        """Prepare for a forward pass.

        Args:
            model: whose parameters are watched.
            sentences: how many the model is about to see.
            shared: for each output of a known function, in order, its shape where all sentences share
                it (positions, say), else None. Without this only the outputs' shapes are recorded.

        """
        super().__init__()
        self.model, self.sentences, self.shared = model, sentences, shared
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.shapes = {name: p.shape for name, p in named}
        self.watched = {id(p): (name, 0) for name, p in named}  # the second number: of its first row
        self.uses: list[Use] = []
        self.outputs: list[torch.Size] = []  # their shapes
        self._slices: list[Tensor] = []  # kept, so that no other tensor gets their id

    def __torch_function__(
        self, function: Callable, types: Iterable, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let pass what uses no parameter, record what is known, refuse the rest."""
        kwargs = kwargs or {}
        if function in RANDOM and RANDOM[function](*args, **kwargs):
            raise dropout_fault()
        used = [value for value in _tensors((args, kwargs)) if id(value) in self.watched]
        if used and function in self._known:
            return self._known[function](self, *args, **kwargs)
        result = function(*args, **kwargs)
        if used and next(_tensors(result), None) is not None:  # a shape or a device is no use
            self._refuse(used[0], function)
        return result

    def _refuse(self, tensor: Tensor, function: Callable | str) -> NoReturn:
        name, _ = self.watched[id(tensor)]
        module = name.rpartition(".")[0]
        kind = type(self.model.get_submodule(module)).__name__
        called = function if isinstance(function, str) else resolve_name(function) or function.__name__
        raise ModelError(
            f"Parameter {name} of module {module or 'itself'} ({kind}) is used by {called}, whose gradient "
            "norm is not known here; known are linear layers, embeddings, LayerNorm, LSTM and added biases."
        )

    # The functions that are known

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        self._not_watched(input, "linear, as its input")
        output = self._output(F.linear(input, weight, bias))
        self._use("linear", weight, output, input)
        self._use("bias", bias, output)
        return output

    def _layer_norm(
        self,
        input: Tensor,
        normalized_shape: Sequence[int],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        self._not_watched(input, "layer_norm, as its input")
        output = self._output(F.layer_norm(input, normalized_shape, weight, bias, eps))
        normalised = F.layer_norm(input.detach(), normalized_shape, eps=eps)
        self._use("gain", weight, output, normalised)
        self._use("bias", bias, output)
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
    ) -> Tensor:
        if max_norm is not None or scale_grad_by_freq:
            self._refuse(weight, "an embedding with max_norm or scale_grad_by_freq")
        output = self._output(F.embedding(input, weight, padding_idx))
        rows = input
        if padding_idx is not None:  # that row gets no gradient: it becomes a number no row has
            rows = input.masked_fill(input == padding_idx % len(weight), NO_ROW)
        self._use("embedding", weight, output, rows[..., None])
        return output

    def _add(self, input: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor:
        bias, rest = (input, other) if id(input) in self.watched else (other, input)
        if alpha != 1 or bias.ndim != 1 or rest.ndim < 2 or rest.shape[-1] != len(bias):
            self._refuse(bias, "an addition that is not `tensor + bias`")
        self._not_watched(rest, "addition to a parameter")
        output = self._output(rest + bias)
        self._use("bias", bias, output)
        return output

    def _slice(self, tensor: Tensor, index: Any) -> Tensor:
        """Return rows of a parameter, and watch them as such."""
        rows = tensor[index]
        if not isinstance(index, slice) or index.step not in (None, 1):
            self._refuse(tensor, "an index that is not a slice of rows")
        name, first = self.watched[id(tensor)]
        self.watched[id(rows)] = name, first + index.indices(len(tensor))[0]
        self._slices.append(rows)
        return rows

    def _lstm(self, input: Tensor, states: Any, weights: Any, *options: Any) -> tuple[Tensor, ...]:
        """Unroll the layers: the fused kernel hides what arrives at the gates."""
        first = next(value for value in _tensors((weights, options)) if id(value) in self.watched)
        if isinstance(states, Tensor):
            self._refuse(first, "an LSTM of packed sequences")
        has_biases, layers, dropout, training, bidirectional, batch_first = options
        if dropout and training:
            raise dropout_fault()
        if len(weights) != layers * (1 + bidirectional) * (2 + 2 * has_biases):
            self._refuse(first, "an LSTM with projections")
        with self:
            return unrolled_lstm(input, states, weights, has_biases, layers, bidirectional, batch_first)

    # Functions of the class, not methods bound to the recorder: a cycle of references would keep the
    # activations of every forward pass alive.
    _known: ClassVar[dict[Callable, Callable]] = {
        F.linear: _linear,
        F.layer_norm: _layer_norm,
        F.embedding: _embedding,
        torch.lstm: _lstm,
        Tensor.add: _add,
        torch.add: _add,
        Tensor.__getitem__: _slice,
    }

    # Writing down

    def _output(self, output: Tensor) -> Tensor:
        """Note an output's shape; return it with rows of its own for every sentence."""
        self.outputs.append(output.shape)
        if self.shared is None or self.sentences == 1 or output.shape != self.shared[len(self.outputs) - 1]:
            return output
        rows = output if len(output) == 1 else output[None]
        return rows.expand(self.sentences, *rows.shape[1:])

    def _use(
        self, kind: Kind, parameter: Tensor | None, output: Tensor, factor: Tensor | None = None
    ) -> None:
        if self.shared is None or parameter is None or id(parameter) not in self.watched:
            return
        if factor is not None:
            factor = factor.detach().expand(*output.shape[:-1], factor.shape[-1])
            factor = factor.reshape(self.sentences, -1, factor.shape[-1])
        name, first = self.watched[id(parameter)]
        self.uses.append(Use(name, kind, get_gradient_edge(output), factor, first))

    def _not_watched(self, tensor: Tensor, where: str) -> None:
        if id(tensor) in self.watched:
            self._refuse(tensor, where)


def _rate(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> float:
    return p if training else 0.0


def _attention_rate(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    *_: Any,
    **__: Any,
) -> float:
    return dropout_p


RANDOM: dict[Callable, Callable[..., float]] = {
    F.dropout: _rate,
    F.scaled_dot_product_attention: _attention_rate,
}
"""Functions that may drop units, and how to read from a call how many."""


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested arguments."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors(part)
