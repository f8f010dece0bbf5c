"""How useful representations are downstream: linear probes and fine-tuning (Section 2.1, App. A.4)."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.checks import check_counts, check_not_negative, check_positive
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.languages import Language, Sentences
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.seeds import generator_for

# What a downstream classifier asks of its labels before it trains.


def check_labels(labels: Int[Tensor, "*seed example task"], classes: Sequence[int]) -> None:
    """Refuse training labels from which nothing can be learned, such as those of one class of several.

    A task that by its definition has one class passes: its classifier is trivial, but not wrong
    (the root of a grammar with one start symbol).

    Args:
        labels: 0-based classes of the training sentences, which every seed has of its own.
        classes: number of classes of each task.

    Raises:
        ParameterError: naming the first such task, counted from 0.

    """
    examples = labels.shape[-2]
    if not examples:
        raise ParameterError("There are no labelled sentences to train on; give at least one a class.")
    for task, (count, own) in enumerate(zip(classes, labels.unbind(-1), strict=True)):
        if count > examples:
            raise ParameterError(
                f"Task {task} has {count} classes and only {examples} training sentences; "
                "give at least one a class."
            )
        least, most = int(own.min()), int(own.max())
        if least < 0 or most >= count:
            wrong = least if least < 0 else most
            raise ParameterError(f"Labels of task {task} lie in 0..{count - 1}; got {wrong}.")
        single = (own == own[..., :1]).all(-1)
        if count > 1 and single.any():
            raise ParameterError(
                f"All {examples} training sentences of task {task} are of class "
                f"{int(own[..., 0][single][0])}; a classifier needs sentences of at least two classes."
            )


# Linear probes: softmax regression on frozen features (Section 2.1, App. A.4).
#
# `OptimalProbe` solves it; the paper trains it with AdamW for 100 epochs. A projection first maps features to
# so many dimensions by a fixed random matrix: representations of different widths are read by probes of one
# capacity, 512 in Appendix A.4 of the paper's OpenReview version; its later versions do without.

SMALLEST_SPREAD = 1e-6
"""Features that vary less than this are constant: they are centred, not scaled."""


@dataclass(frozen=True)
class LinearProbes:
    """One probe for each seed; the logits of the tasks stand side by side.

    A probe reads the features mapped by `projection`, less `centre`, divided by `spread`. `ridge` is the
    weight λ of λ/2 ‖(W, b)‖² for each task, which was added to the mean loss when the probe was fitted.
    """

    weight: Float[Tensor, "seed read logit"]
    bias: Float[Tensor, "seed 1 logit"]
    centre: Float[Tensor, "seed 1 read"]
    spread: Float[Tensor, "seed 1 read"]
    classes: tuple[int, ...]
    ridge: Float[Tensor, "seed task"]
    projection: Float[Tensor, "seed feature read"] | None = None

    def read(self, features: Float[Tensor, "*seed example feature"]) -> Float[Tensor, "seed example read"]:
        """Return what the probes see of features."""
        seen = features if self.projection is None else features @ self.projection
        return (seen - self.centre) / self.spread

    def logits(self, features: Float[Tensor, "*seed example feature"]) -> list[Tensor]:
        """Return each task's logits, axes (seed, example, class)."""
        weight = self.weight / self.spread.mT  # what is read is not made: of many sentences it fills a memory
        bias = self.bias - self.centre @ weight
        weight = weight if self.projection is None else self.projection.to(weight) @ weight
        return logits_of(features.to(weight), weight, bias, self.classes)

    def correct(
        self,
        features: Float[Tensor, "*seed example feature"],
        labels: Int[Tensor, "example task"],
    ) -> Bool[Tensor, "seed example task"]:
        """Return of which examples and tasks the most probable class is right, on the CPU."""
        predicted = torch.stack([task.argmax(-1) for task in self.logits(features)], dim=-1)
        return predicted.cpu() == labels.cpu()

    def gradient(
        self, features: Float[Tensor, "seed example feature"], labels: Int[Tensor, "seed example task"]
    ) -> Float[Tensor, " seed"]:
        """Return the largest entry of the gradient of what is minimised: how far a probe is from its optimum.

        Args:
            features: the sentences that the probes were fitted to.
            labels: their classes.

        """
        read = self.read(features).double()
        weight, bias = (part.detach().double().requires_grad_() for part in (self.weight, self.bias))
        with torch.enable_grad():
            logits = logits_of(read, weight, bias, self.classes)
            losses = [
                F.cross_entropy(task.flatten(0, 1), own.flatten())
                * len(task)  # each probe's gradient is its own
                for task, own in zip(logits, labels.to(read.device).unbind(-1), strict=True)
            ]
            loss = reduce(torch.add, losses)
            each = _each(self.ridge, self.classes)
            penalty = (each[:, None] * torch.cat([weight, bias], 1) ** 2).sum() / 2
            slopes = torch.autograd.grad(loss + penalty, [weight, bias])
        return torch.cat([slope.abs().flatten(1) for slope in slopes], 1).amax(1)


def scaling(features: Float[Tensor, "seed example read"]) -> tuple[Tensor, Tensor]:
    """Return what gives every feature mean 0 and variance 1: centre and spread, axes (seed, 1, read)."""
    spread = features.std(1, keepdim=True)
    return features.mean(1, keepdim=True), spread.where(spread > SMALLEST_SPREAD, 1.0)


def logits_of(read: Tensor, weight: Tensor, bias: Tensor, classes: Sequence[int]) -> list[Tensor]:
    """Return each task's logits."""
    return list((read @ weight + bias).split(tuple(classes), dim=-1))


# What a probe reads: representations of sentences, computed once (Section 2.1, App. A.4).

CHUNK = 4096
"""Sentences that go through a model at once."""


@torch.no_grad()
def contextual_features(
    model: MaskedLanguageModel, sentences: Sentences
) -> Float[Tensor, "sentence seq_d_model"]:
    """Concatenate the final representations of all tokens of a sentence (App. A.4).

    Nothing is masked. Places beyond the end of a sentence hold zeros, and so does what is no number: a model
    that diverged tells a probe nothing, instead of ending it.

    Returns:
        One row a sentence, float32, on the CPU.

    """
    device = next(model.parameters()).device
    parts = []
    for start in range(0, len(sentences.lengths), CHUNK):
        tokens, lengths = (x.to(device) for x in sentences.rows(slice(start, start + CHUNK)))
        ragged = bool((lengths < tokens.shape[1]).any())
        features = model.features(tokens.long(), lengths if ragged else None)
        inside = torch.arange(tokens.shape[1], device=device) < lengths[:, None]
        told = (features * inside[..., None]).flatten(1).float().cpu()
        parts.append(told.nan_to_num(0.0, 0.0, 0.0))
    return torch.cat(parts)


def random_expansion(
    features: Float[Tensor, "sentence feature"], width: int
) -> Float[Tensor, "sentence {width}"]:
    """Append random ReLU features of the whole sentence until there are `width`.

    The map is the same for all models that have as many features. It gives a narrow model as many features
    to be read as a wide one has, and no new information.

    Raises:
        ParameterError: where there are more features already.

    """
    before = features.shape[1]
    if width < before:
        raise ParameterError(f"{before} features cannot be expanded to {width}.")
    generator = generator_for("random expansion", before, width)
    weights = torch.randn(before, width - before, generator=generator) / before**0.5
    return torch.cat([features, (features @ weights.to(features)).relu()], 1)


def one_hot_features(language: Language, sentences: Sentences) -> Float[Tensor, "sentence seq_word"]:
    """Represent each token by itself: what a probe does with no pre-training at all."""
    rows = torch.eye(language.words + 1, device=sentences.tokens.device)[:, 1:]
    return rows[sentences.tokens.long() * sentences.inside].flatten(1)


# Linear probes at their optimum: softmax regression with a ridge that held-out sentences choose.
#
# Nothing of an optimiser is left in the result: no rate, no batch, no length, no start.

ROUNDING = 1e-12
"""Axes along which the second moment is this much smaller than along the first are rounding."""


@dataclass(frozen=True)
class OptimalProbe:
    """L2-regularised softmax regression on standardised features, solved by L-BFGS in float64.

    The ridge λ of each seed and task is the one of `ridges` with the least cross-entropy on the last
    `held_out` share of its sentences, to which it was not fitted; then the probe is fitted to all. The bias
    is penalised too, so that there is one optimum even where a class does not occur.
    """

    ridges: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    held_out: float = 0.2
    tolerance: float = 5e-4  # of the gradient, in the principal axes of the features
    iterations: int = 1000
    projection: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings with which there is no optimum, or none that could be found."""
        check_positive(self, "tolerance")
        check_counts(self, "iterations", *(() if self.projection is None else ("projection",)))
        if not self.ridges or min(self.ridges) <= 0:
            raise ParameterError(f"ridges must be positive numbers, one at least; got {self.ridges}.")
        if not 0 < self.held_out < 1:
            raise ParameterError(f"held_out must lie between 0 and 1; got {self.held_out}.")

    @property
    def passes(self) -> int:
        """Return roughly how many times it goes over its sentences, as measured on those of a laptop."""
        return 60 * (1 + len(self.ridges))

    def fit(
        self,
        features: Float[Tensor, "seed example feature"],
        labels: Int[Tensor, "seed example task"],
        classes: Sequence[int],
        seed: int,
    ) -> LinearProbes:
        r"""Solve one probe for each seed, to its own sentences; only the projection is random.

        A probe minimises the mean of $-\log \mathrm{softmax}(W h + b)_y$ over its examples (Section 2.1,
        App. A.4). Different tasks share no parameter.

        Args:
            features: the training representations h of each seed; the probes are fitted on their device.
            labels: 0-based classes y of each task.
            classes: number of classes of each task.
            seed: of the projection.

        Raises:
            ParameterError: for labels that `check_labels` refuses.

        >>> features = torch.tensor([[[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]])
        >>> labels = torch.tensor([[[0], [1], [0], [1], [1]]])  # of one seed and task: the first feature
        >>> probes = OptimalProbe().fit(features, labels, [2], seed=0)
        >>> probes.correct(features, labels[0])[..., 0].all()
        tensor(True)
        >>> bool(probes.gradient(features, labels) < 5e-4)
        True

        """
        check_labels(labels, classes)
        projection = None
        if (
            self.projection is not None
        ):  # entries N(0, 1 / features): it keeps squared lengths, up to a factor
            seeds, _, before = features.shape
            drawn = torch.randn(seeds, before, self.projection, generator=torch.Generator().manual_seed(seed))
            projection = (drawn / before**0.5).to(features)
        labels, solved = labels.to(features.device), []
        for number, own in enumerate(features):  # one seed at a time: wide features fill a GPU
            own = (own if projection is None else own @ projection[number]).double()
            centre, spread = scaling(own[None])
            read = F.pad((own - centre[0]).div_(spread[0]), (0, 1), value=1.0)
            ridge, start = self._chosen_ridge(read, labels[number], classes)
            weight = self._optimum(_turned(read), labels[number], classes, ridge, start)
            solved.append((weight, ridge, centre[0], spread[0]))
        weight, ridge, centre, spread = (torch.stack(parts) for parts in zip(*solved, strict=True))
        return LinearProbes(weight[:, :-1], weight[:, -1:], centre, spread, tuple(classes), ridge, projection)

    def _chosen_ridge(
        self, read: Float[Tensor, "example read"], labels: Int[Tensor, "example task"], classes: Sequence[int]
    ) -> tuple[Float[Tensor, " task"], Float[Tensor, "read logit"]]:
        """Return the ridge of each task that is best on held-out sentences, and the weights found with it.

        The largest ridge is solved first: each optimum is a good start for the next.
        """
        kept = len(read) - max(1, round(self.held_out * len(read)))
        weight, best = read.new_zeros(read.shape[1], sum(classes)), read.new_full((len(classes),), torch.inf)
        ridge, found, own = torch.zeros_like(best), weight, _turned(read[:kept])
        for tried in sorted(self.ridges, reverse=True):
            weight = self._optimum(own, labels[:kept], classes, torch.full_like(best, tried), weight)
            loss = _losses(read[kept:] @ weight, labels[kept:], classes)
            better = loss < best
            best, ridge = loss.minimum(best), ridge.masked_fill(better, tried)
            found = torch.where(_each(better, classes), weight, found)
        return ridge, found

    def _optimum(
        self,
        own: "_Turned",
        labels: Int[Tensor, "example task"],
        classes: Sequence[int],
        ridge: Float[Tensor, " task"],
        start: Float[Tensor, "read logit"],
    ) -> Float[Tensor, "read logit"]:
        """Minimise the mean cross-entropy + ridge / 2 ‖W‖² of every task.

        The curvature of cross-entropy is at most half the features' second moment (Böhning 1992). In its
        principal axes, each scaled by that bound, all directions curve alike, and L-BFGS takes few steps.
        """
        each = _each(ridge, classes)
        scale = (own.moment[:, None] / 2 + each).rsqrt()
        free = (own.axes.T @ start / scale).requires_grad_()
        solver = torch.optim.LBFGS(
            [free],
            max_iter=self.iterations,
            max_eval=2 * self.iterations,
            history_size=20,
            tolerance_grad=self.tolerance * float(scale.min()),
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Tensor:
            solver.zero_grad()
            weight = scale * free
            total = _losses(own.read @ weight, labels, classes).sum() + (each * weight**2).sum() / 2
            total.backward()
            return total

        with torch.enable_grad():
            solver.step(loss)
        return own.axes @ (scale * free).detach()


class _Turned(NamedTuple):
    """Features in the principal axes of their second moment."""

    read: Float[Tensor, "example axis"]
    moment: Float[Tensor, " axis"]
    axes: Float[Tensor, "width axis"]


def _turned(read: Float[Tensor, "example width"]) -> _Turned:
    """Turn features into their principal axes.

    Fewer sentences than features span as many axes as sentences; along all others the optimum is zero.
    """
    if len(read) < read.shape[1]:
        moment, ends = torch.linalg.eigh(read @ read.T / len(read))
        axes = read.T @ (ends / (len(read) * moment.clamp_min(moment[-1] * ROUNDING)).sqrt())
    else:
        moment, axes = torch.linalg.eigh(read.T @ read / len(read))
    return _Turned(read @ axes, moment.clamp_min(0), axes)


def _each(values: Tensor, classes: Sequence[int]) -> Tensor:
    """Repeat the value of each task for all of its logits."""
    return values.repeat_interleave(torch.tensor(classes, device=values.device), dim=-1)


def _losses(
    logits: Float[Tensor, "example logit"], labels: Int[Tensor, "example task"], classes: Sequence[int]
) -> Float[Tensor, " task"]:
    """Return the mean cross-entropy of each task."""
    tasks = zip(logits.split(tuple(classes), dim=-1), labels.unbind(1), strict=True)
    return torch.stack([F.cross_entropy(task, own) for task, own in tasks])


# Fine-tuning: a whole model and a linear head, trained on one task (App. A.4).


@dataclass(frozen=True)
class FinetuneSettings:
    """AdamW as in Appendix A.4: learning rate 1e-4, 200 warm-up steps, 10 epochs.

    The appendix says neither the size of a batch nor what follows the warm-up. Here the learning rate
    stays constant after it.
    """

    epochs: int = 10
    batch: int = 128
    lr: float = 1e-4
    warmup_steps: int = 200
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Refuse settings with which nothing would be trained."""
        check_counts(self, "epochs", "batch")
        check_positive(self, "lr")
        check_not_negative(self, "warmup_steps", "weight_decay")

    def lr_at(self, step: int) -> float:
        """Return the learning rate of step 0, 1, ...: it rises over the warm-up, then stays constant.

        >>> [FinetuneSettings(lr=1.0, warmup_steps=4).lr_at(step) for step in (0, 1, 3, 4, 99)]
        [0.25, 0.5, 1.0, 1.0, 1.0]
        """
        return self.lr * min(1.0, (step + 1) / max(1, self.warmup_steps))


@dataclass(frozen=True)
class FinetunedClassifier:
    """A model and a linear head that reads the first token's representation, in the place of [CLS]."""

    model: MaskedLanguageModel
    weight: Float[Tensor, "class d_model"]
    bias: Float[Tensor, " class"]

    def logits(self, sentences: Sentences) -> Float[Tensor, "example class"]:
        """Return the logits of the classes, on the model's device."""
        tokens, lengths = sentences
        ragged, device = bool((lengths < tokens.shape[1]).any()), self.weight.device
        features = self.model.features(tokens.to(device).long(), lengths.to(device) if ragged else None)
        return F.linear(features[:, 0], self.weight, self.bias)

    @torch.no_grad()
    def correct(self, sentences: Sentences, labels: Int[Tensor, " example"]) -> Bool[Tensor, " example"]:
        """Return of which sentences the most probable class is right, on the CPU."""
        parts = torch.arange(len(sentences.lengths)).split(CHUNK)
        predicted = [self.logits(sentences.rows(part)).argmax(-1).cpu() for part in parts]
        return torch.cat(predicted) == labels.cpu()


@torch.enable_grad()
def finetune(
    model: MaskedLanguageModel,
    sentences: Sentences,
    labels: Int[Tensor, " example"],
    classes: int,
    settings: FinetuneSettings,
    seed: int,
) -> FinetunedClassifier:
    """Train a copy of a pre-trained model and a new head on one task (App. A.4); the model stays as it is.

    The paper's head reads the representation of [CLS]. Sentences of our languages have no such
    token, so it reads that of their first token, which stands in its place. A model that was
    pre-trained with dropout is fine-tuned without, so that all are fine-tuned alike.

    Args:
        model: a pre-trained model; the copy is trained on its device.
        sentences: the training sentences, of equal or different lengths.
        labels: their 0-based classes.
        classes: number of classes.
        settings: optimiser and length of training.
        seed: seed of the head's initial weights and of the sentences' order.

    Returns:
        The tuned copy with its head.

    Raises:
        ParameterError: for labels that `check_labels` refuses.
        NonFiniteLoss: where the training diverged.

    >>> from sameloss.models.encoder import Encoder, EncoderShape
    >>> model = Encoder(EncoderShape(8, 2, 1, 16), words=3, max_length=2, seed=0)
    >>> tokens = torch.tensor([[1, 1], [1, 2], [2, 1], [2, 2]] * 8)
    >>> sentences, labels = Sentences(tokens, torch.full((32,), 2)), tokens[:, 1] - 1
    >>> settings = FinetuneSettings(epochs=10, batch=8, lr=1e-2, warmup_steps=5)
    >>> tuned = finetune(model, sentences, labels, 2, settings, seed=0)
    >>> float(tuned.correct(sentences, labels).float().mean())
    1.0

    """
    check_labels(labels[:, None], [classes])
    generator = torch.Generator().manual_seed(seed)
    tuned = _untrained(model, classes, generator)
    parameters = [*tuned.model.parameters(), tuned.weight, tuned.bias]
    optimiser = torch.optim.AdamW(parameters, weight_decay=settings.weight_decay)
    orders = (torch.randperm(len(labels), generator=generator) for _ in range(settings.epochs))
    for step, chosen in enumerate(part for order in orders for part in order.split(settings.batch)):
        for group in optimiser.param_groups:
            group["lr"] = settings.lr_at(step)
        optimiser.zero_grad()
        logits = tuned.logits(sentences.rows(chosen))
        loss = F.cross_entropy(logits, labels[chosen].to(logits.device))
        loss.backward()
        optimiser.step()
    if not loss.isfinite():
        raise NonFiniteLoss(f"Fine-tuning ended with a loss of {loss.item()}; choose a smaller lr.")
    tuned.model.eval()
    return tuned


def _untrained(model: MaskedLanguageModel, classes: int, generator: torch.Generator) -> FinetunedClassifier:
    """Put a random head on a copy of the model, all of it to be trained and none of it dropped."""
    copy = deepcopy(model).requires_grad_().eval()
    for module in copy.modules():
        module.training = isinstance(module, nn.RNNBase)  # elsewise cuDNN would refuse its gradient
    embedding = copy.word.weight
    width = embedding.shape[1]
    weight = torch.randn(classes, width, generator=generator) / width**0.5
    bias = embedding.new_zeros(classes).requires_grad_()
    return FinetunedClassifier(copy, weight.to(embedding).requires_grad_(), bias)
