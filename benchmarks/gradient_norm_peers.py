"""Squared norms of the gradients of log f[y], by every method that `trace.py` races.

All of them are told the same sentences and the same labels, and answer with one number for each
(sentence, label) pair: the squared norm over all parameters.

What the peers cannot do: with several labels per sentence, all of them run the sentence again for each
one, and none gives a standard error. Opacus fails on a head tied to the embedding, a function's use of
a module's parameter that its hooks do not see, and on positions embedded once for all sentences;
ghost norms of a module called twice it refuses. BackPACK has nothing for LayerNorm's parameters, whose
norms it leaves out with a warning, so its encoder has them frozen.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from sameloss.languages.masking import Batch
from sameloss.measures.flatness.gradient_norms import recordings
from sameloss.models.encoder import Attention, Encoder, EncoderShape
from sameloss.models.masked_model import chosen

Labels = Int[Tensor, "sentence label"]
Norms = Float[Tensor, "sentence label"]
OfPairs = Callable[[Batch, Int[Tensor, " pair"]], Float[Tensor, " pair"]]
"""A method that runs each sentence once for each of its labels."""


# Models


class CalledAttention(Attention):
    """Attention that calls its layers: Opacus and BackPACK watch modules, not functions."""

    def forward(self, x: Tensor, bias: Tensor | None, at: Tensor | None = None) -> Tensor:
        """Mix the positions, then choose."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        weights = (scores if bias is None else scores + bias).softmax(-1)
        return self.out(chosen((weights @ v).transpose(1, 2).flatten(-2), at))


class Untied(Encoder):
    """The encoder as Opacus can see it: a head with a matrix of its own, positions for each sentence."""

    def __init__(self, shape: EncoderShape, words: int, max_length: int, seed: int) -> None:
        """Build the encoder; the head starts as the embedding, the same function and the same compute."""
        super().__init__(shape, words, max_length, seed)
        self.decoder = nn.Linear(shape.d_model, words)
        with torch.no_grad():
            self.decoder.weight.copy_(self.word.weight[1:])
            self.decoder.bias.copy_(self.head_bias)
        del self.head_bias
        for block in self.blocks:
            block.attention.__class__ = CalledAttention

    def features(
        self, tokens: Tensor, lengths: Tensor | None = None, at: Tensor | None = None
    ) -> Float[Tensor, "batch out d_model"]:
        """Return the contextual representations."""
        place = torch.arange(tokens.shape[1], device=tokens.device).repeat(len(tokens), 1)
        context = self.context(tokens, lengths)
        h = self.embedding_norm(self.word(tokens) + self.position(place))
        *first, last = self.blocks
        for block in first:
            h = block(h, context)
        return self.final_norm(last(h, context, at))

    def head(self, h: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch word"]:
        """Return the logits."""
        return self.decoder(self.head_norm(F.gelu(self.head_dense(h))))


def without_norms(model: nn.Module) -> nn.Module:
    """Freeze the gains and biases of LayerNorm, and return the model."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.requires_grad_(False)
    return model


class Perceptron(nn.Sequential):
    """A masked language model that BackPACK can see: an MLP over the embeddings side by side."""

    def __init__(self, width: int, words: int, length: int, seed: int) -> None:
        """Build it with embeddings of `width` and layers of `length * width`, as torch initialises."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            inner = length * width
            super().__init__(
                nn.Embedding(words + 1, width),
                nn.Flatten(),
                nn.Linear(inner, inner),
                nn.Tanh(),
                nn.Linear(inner, inner),
                nn.Tanh(),
                nn.Linear(inner, words),
            )

    def forward(self, masked: Tensor, positions: object = None, lengths: object = None) -> Tensor:
        """Return the logits; the mask is seen among the tokens."""
        return super().forward(masked)


# Methods


def ours(model: nn.Module, masked: Batch, labels: Labels, chunk: int | None = None) -> Norms:
    """One forward pass of a sentence for all its labels, and no gradient of a weight."""
    norms = torch.empty(labels.shape, device=labels.device)
    for rows, recording in recordings(model, masked, chunk):
        f = recording.logits.detach().softmax(-1)
        for i, label in enumerate(labels[rows].T):
            cotangents = F.one_hot(label, f.shape[1]).to(f) - f
            norms[rows, i] = sum(recording.squared_norms(cotangents).values())
    return norms


def naive(model: nn.Module, masked: Batch, labels: Labels) -> Norms:
    """One forward and one backward pass for each pair, without padding."""
    parameters, norms = list(model.parameters()), torch.empty(labels.shape, device=labels.device)
    lengths = None if masked.lengths is None else masked.lengths.tolist()
    for row in range(len(labels)):
        one = masked.rows(slice(row, row + 1))
        tokens = one.masked if lengths is None else one.masked[:, : lengths[row]]
        for i, label in enumerate(labels[row]):
            log_probability = model(tokens, one.positions).log_softmax(-1)[0, label]
            gradients = torch.autograd.grad(log_probability, parameters)
            norms[row, i] = sum(gradient.square().sum() for gradient in gradients)
    return norms


def by_pairs(norms: OfPairs, masked: Batch, labels: Labels, size: int) -> Norms:
    """Call a method on `size` pairs at a time."""
    rows = torch.arange(len(labels), device=labels.device).repeat_interleave(labels.shape[1])
    parts = zip(rows.split(size), labels.flatten().split(size), strict=True)
    return torch.cat([norms(masked.rows(some), label) for some, label in parts]).view(labels.shape)


class VmapGrad:
    """`torch.func.vmap` of `grad`: all gradients of a chunk in memory. The book did so at first."""

    def __init__(self, model: nn.Module) -> None:
        """Take the model as a function of its parameters."""
        self.model = model
        self.parameters = {name: p.detach() for name, p in model.named_parameters()}

    def _log_probability(
        self, parameters: dict, tokens: Tensor, position: Tensor, length: Tensor | None, label: Tensor
    ) -> Tensor:
        inputs = tokens[None], position[None], None if length is None else length[None]
        logits = functional_call(self.model, parameters, inputs)[0]
        return logits.log_softmax(-1).gather(0, label[None])[0]

    def __call__(self, masked: Batch, labels: Tensor) -> Tensor:
        """Return one number per pair."""
        ragged = None if masked.lengths is None else 0
        gradient = vmap(grad(self._log_probability), in_dims=(None, 0, 0, ragged, 0))
        gradients = gradient(self.parameters, masked.masked, masked.positions, masked.lengths, labels)
        return sum(g.flatten(1).square().sum(1) for g in gradients.values())


@contextmanager
def _quiet(*messages: str) -> Iterator[None]:
    """Silence warnings that begin so, and torch's about a hook at an embedding (inputs have no gradient)."""
    with warnings.catch_warnings():
        for message in ("Full backward hook is firing", *messages):
            warnings.filterwarnings("ignore", message, UserWarning)
        yield


class Opacus:
    """Ghost norms, as when training with them: forward, loss of each pair, backward; then no clipping."""

    def __init__(self, model: nn.Module) -> None:
        """Wrap a copy, because torch.func cannot pass the hooks."""
        from opacus.grad_sample import GradSampleModuleFastGradientClipping

        model = copy.deepcopy(model).train()
        self.model = GradSampleModuleFastGradientClipping(model, loss_reduction="sum")

    def __call__(self, masked: Batch, labels: Tensor) -> Tensor:
        """Return one number per pair."""
        with _quiet():
            logits = self.model(masked.masked, masked.positions, masked.lengths)
            F.cross_entropy(logits, labels, reduction="none").sum().backward()
        norms = self.model.get_norm_sample().square()
        self.model.zero_grad(set_to_none=True)
        return norms


class BackPack:
    """BackPACK's BatchL2Grad."""

    def __init__(self, model: nn.Module) -> None:
        """Extend a copy."""
        from backpack import extend

        self.model = extend(copy.deepcopy(model))

    def __call__(self, masked: Batch, labels: Tensor) -> Tensor:
        """Return one number per pair."""
        from backpack import backpack
        from backpack.extensions import BatchL2Grad

        inputs = masked.masked, masked.positions, masked.lengths
        with _quiet("Extension saving to batch_l2 does not have an extension"), backpack(BatchL2Grad()):
            F.cross_entropy(self.model(*inputs), labels, reduction="sum").backward()
        norms = sum(parameter.batch_l2 for parameter in self.model.parameters() if parameter.requires_grad)
        self.model.zero_grad(set_to_none=True)
        return norms
