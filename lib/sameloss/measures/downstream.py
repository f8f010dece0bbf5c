"""How useful representations are downstream: linear probes and fine-tuning (Section 2.1, App. A.4)."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.checks import check_counts, check_not_negative, check_positive
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.languages import Language, Sentences
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.seeds import generator_for


def check_labels(labels: Int[Tensor, "*seed example task"], classes: Sequence[int]) -> None:
    """Require labels that a classifier can be trained on.

    A task that has one class by definition passes: the root of a grammar with one start symbol.

    Args:
        labels: 0-based classes of the training sentences, a set for each seed.
        classes: number of classes of each task.

    Raises:
        ParameterError: for the first task with more classes than sentences, with a label that is no class,
            or with labels of one class only.

    """
    examples = labels.shape[-2]
    if not examples:
        raise ParameterError("There are no labelled sentences to train on; give at least one per class.")
    for task, (count, y) in enumerate(zip(classes, labels.unbind(-1), strict=True)):
        if count > examples:
            raise ParameterError(
                f"Task {task} has {count} classes and only {examples} training sentences; "
                "give at least one per class."
            )
        wrong = y[(y < 0) | (y >= count)]
        if len(wrong):
            raise ParameterError(f"Labels of task {task} lie in 0..{count - 1}; got {int(wrong[0])}.")
        constant = (y == y[..., :1]).all(-1)
        if count > 1 and constant.any():
            raise ParameterError(
                f"All {examples} training sentences of task {task} are of class "
                f"{int(y[..., 0][constant][0])}; a classifier needs sentences of at least two classes."
            )


# Representations of sentences: computed once, then read by frozen probes.

CHUNK = 4096
"""Sentences per forward pass."""


@torch.no_grad()
def contextual_features(
    model: MaskedLanguageModel, sentences: Sentences
) -> Float[Tensor, "sentence seq_d_model"]:
    """Concatenate the final representations of all tokens of a sentence (App. A.4).

    Nothing is masked. Padding is zero, and so are non-finite values: a model that diverged then gives
    uninformative features instead of an error.

    Returns:
        One row per sentence, float32, on the CPU.

    """
    parts = []
    for rows in torch.arange(len(sentences.lengths)).split(CHUNK):
        chunk = sentences.rows(rows)
        h = _representations(model, chunk)
        features = (h * chunk.inside.to(h.device)[..., None]).flatten(1).float().cpu()
        parts.append(features.nan_to_num(0.0, 0.0, 0.0))
    return torch.cat(parts)


def _representations(
    model: MaskedLanguageModel, sentences: Sentences
) -> Float[Tensor, "sentence seq d_model"]:
    """Compute the representations of all tokens, on the model's device."""
    tokens, lengths = sentences.to(next(model.parameters()).device)
    ragged = bool((lengths < tokens.shape[1]).any())
    return model.features(tokens.long(), lengths if ragged else None)


def random_expansion(
    features: Float[Tensor, "sentence feature"], width: int
) -> Float[Tensor, "sentence {width}"]:
    """Append random ReLU features of the whole sentence, up to `width` features in all.

    All models of one width share the random map. It gives a probe of a narrow model as many features as
    one of a wide model, and no new information.

    Raises:
        ParameterError: for a width below the number of features.

    """
    before = features.shape[1]
    if width < before:
        raise ParameterError(f"{before} features cannot be expanded to {width}.")
    generator = generator_for("random expansion", before, width)
    weights = torch.randn(before, width - before, generator=generator) / before**0.5
    return torch.cat([features, (features @ weights.to(features)).relu()], 1)


def one_hot_features(language: Language, sentences: Sentences) -> Float[Tensor, "sentence seq_word"]:
    """Represent each token by its one-hot vector: the baseline without pre-training."""
    rows = torch.eye(language.words + 1, device=sentences.tokens.device)[:, 1:]
    return rows[sentences.tokens.long() * sentences.inside].flatten(1)


# Linear probes: softmax regression on frozen features (Section 2.1, App. A.4).
#
# The paper trains them with AdamW for 100 epochs; `OptimalProbe` solves for the optimum, which depends on no
# learning rate, batch size, number of steps or initial weights. Its optional random projection makes the
# capacity of probes independent of the width of the model: to 512 dimensions in Appendix A.4 of the paper's
# OpenReview version, dropped in later versions.

SMALLEST_SPREAD = 1e-6
"""Features with a smaller standard deviation count as constant: they are centred, not scaled."""


@dataclass(frozen=True)
class LinearProbes:
    """One probe per seed, the logits of all its tasks side by side.

    A probe reads (features · projection - centre) / spread. `ridge` is the weight λ of the penalty
    λ/2 ‖(W, b)‖² that was added to the mean loss of each task.
    """

    weight: Float[Tensor, "seed read logit"]
    bias: Float[Tensor, "seed 1 logit"]
    centre: Float[Tensor, "seed 1 read"]
    spread: Float[Tensor, "seed 1 read"]
    classes: tuple[int, ...]
    ridge: Float[Tensor, "seed task"]
    projection: Float[Tensor, "seed feature read"] | None = None

    def logits(self, features: Float[Tensor, "*seed example feature"]) -> tuple[Tensor, ...]:
        """Return each task's logits, with axes (seed, example, class)."""
        # projection and scale go into the weights: standardised features would take too much memory
        weight = self.weight / self.spread.mT
        bias = self.bias - self.centre @ weight
        weight = weight if self.projection is None else self.projection.to(weight) @ weight
        return (features.to(weight) @ weight + bias).split(self.classes, dim=-1)

    def correct(
        self, features: Float[Tensor, "*seed example feature"], labels: Int[Tensor, "example task"]
    ) -> Bool[Tensor, "seed example task"]:
        """Mark the correctly classified examples of each seed and task, on the CPU."""
        predicted = torch.stack([task.argmax(-1) for task in self.logits(features)], dim=-1)
        return predicted.cpu() == labels.cpu()


HELD_OUT = 0.2
"""Fraction of the training sentences on which the ridge is chosen."""

SMALLEST_MOMENT = 1e-12
"""Principal axes with a smaller second moment, relative to the largest, are rounding errors."""


def probing_bytes(sentences: int, width: int, sets: int, tested: int) -> float:
    """Peak memory of fitting and testing `OptimalProbe`, by sentences and features of each set.

    Features are in float32. One set at a time, its standardised features take three copies in float64, and
    matrices between sentences (or features, where these are fewer) the rest: 2.5 of them are counted in the
    tests, 3.5 more are the workspace of the eigenvalue solver of a GPU (`results/gpu`).
    """
    features = 4.0 * (sets * sentences + tested) * width
    return features + 8 * (3 * sentences * width + 6 * min(sentences, width) ** 2)


def probing_flops(sentences: int, width: int, sets: int) -> float:
    """Floating-point operations of the two eigenvalue problems of each set, which take most of a fit."""
    less, more = sorted((sentences, width))
    return sets * (20.0 * less**3 + 8 * less**2 * more)


@dataclass(frozen=True)
class OptimalProbe:
    """L2-regularised softmax regression on standardised features, solved by L-BFGS in float64.

    The ridge λ of each seed and task minimises the cross-entropy on the last fifth of its sentences; then the
    probe is refitted to all of them. The bias is penalised too, so that the optimum is unique even if a class
    does not occur.
    """

    ridges: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    tolerance: float = 5e-4  # of the gradient, in the principal axes of the features
    iterations: int = 1000
    projection: int | None = None

    def __post_init__(self) -> None:
        check_positive(self, "tolerance")
        check_counts(self, "iterations", *(() if self.projection is None else ("projection",)))
        if not self.ridges or min(self.ridges) <= 0:
            raise ParameterError(f"ridges must be one or more positive numbers; got {self.ridges}.")

    def fit(
        self,
        features: Float[Tensor, "seed example feature"],
        labels: Int[Tensor, "seed example task"],
        classes: Sequence[int],
        seed: int,
    ) -> LinearProbes:
        r"""Fit one probe per seed, each to its own sentences.

        A probe minimises the mean of $-\log \mathrm{softmax}(W h + b)_y$ over its examples (Section 2.1,
        App. A.4). Tasks share no parameter.

        Args:
            features: training representations h; the probes are fitted on their device.
            labels: 0-based classes y.
            classes: number of classes of each task.
            seed: of the random projection.

        Raises:
            ParameterError: see `check_labels`.

        >>> features = torch.tensor([[[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]])
        >>> labels = torch.tensor([[[0], [1], [0], [1], [1]]])  # of one seed and task: the first feature
        >>> probes = OptimalProbe().fit(features, labels, [2], seed=0)
        >>> probes.correct(features, labels[0])[..., 0].all()
        tensor(True)

        """
        check_labels(labels, classes)
        projection = None
        if self.projection is not None:
            seeds, _, width = features.shape
            normal = torch.randn(seeds, width, self.projection, generator=torch.Generator().manual_seed(seed))
            projection = (normal / width**0.5).to(features)
        labels, solutions = labels.to(features.device), []
        for i, h in enumerate(features):  # one seed at a time: wide features fill the memory of a GPU
            h = (h if projection is None else h @ projection[i]).double()
            centre, spread = h.mean(0, keepdim=True), h.std(0, keepdim=True)
            spread = spread.where(spread > SMALLEST_SPREAD, 1.0)
            read = F.pad((h - centre).div_(spread), (0, 1), value=1.0)
            ridge, start = self._chosen_ridge(read, labels[i], classes)
            weight = self._optimum(_principal_axes(read), labels[i], classes, ridge, start)
            solutions.append((weight, ridge, centre, spread))
        weight, ridge, centre, spread = (torch.stack(parts) for parts in zip(*solutions, strict=True))
        return LinearProbes(weight[:, :-1], weight[:, -1:], centre, spread, tuple(classes), ridge, projection)

    def _chosen_ridge(
        self, read: Float[Tensor, "example read"], labels: Int[Tensor, "example task"], classes: Sequence[int]
    ) -> tuple[Float[Tensor, " task"], Float[Tensor, "read logit"]]:
        """Return the ridge of each task with the least held-out loss, and the weights fitted with it.

        The largest ridge comes first: each optimum is a good start for the next.
        """
        train = len(read) - max(1, round(HELD_OUT * len(read)))
        axes = _principal_axes(read[:train])
        weight = best_weight = read.new_zeros(read.shape[1], sum(classes))
        best_loss = read.new_full((len(classes),), torch.inf)
        best_ridge = torch.zeros_like(best_loss)
        for ridge in sorted(self.ridges, reverse=True):
            weight = self._optimum(axes, labels[:train], classes, torch.full_like(best_loss, ridge), weight)
            loss = _losses(read[train:] @ weight, labels[train:], classes)
            better = loss < best_loss
            best_loss, best_ridge = loss.minimum(best_loss), best_ridge.masked_fill(better, ridge)
            best_weight = torch.where(_per_logit(better, classes), weight, best_weight)
        return best_ridge, best_weight

    def _optimum(
        self,
        principal: tuple[Tensor, Tensor, Tensor],
        labels: Int[Tensor, "example task"],
        classes: Sequence[int],
        ridge: Float[Tensor, " task"],
        start: Float[Tensor, "read logit"],
    ) -> Float[Tensor, "read logit"]:
        """Minimise the mean cross-entropy + ridge / 2 ‖W‖² of every task.

        The Hessian of cross-entropy is at most half the features' second moment (Böhning 1992). In its
        principal axes, each scaled by this bound, the problem is well conditioned and L-BFGS needs few steps.
        """
        read, moments, axes = principal
        penalty = _per_logit(ridge, classes)
        scale = (moments[:, None] / 2 + penalty).rsqrt()
        scaled = (axes.T @ start / scale).requires_grad_()
        solver = torch.optim.LBFGS(
            [scaled],
            max_iter=self.iterations,
            max_eval=2 * self.iterations,
            history_size=20,
            tolerance_grad=self.tolerance * float(scale.min()),
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Tensor:
            solver.zero_grad()
            weight = scale * scaled
            total = _losses(read @ weight, labels, classes).sum() + (penalty * weight**2).sum() / 2
            total.backward()
            return total

        with torch.enable_grad():
            solver.step(loss)
        return axes @ (scale * scaled).detach()


def _principal_axes(
    read: Float[Tensor, "example width"],
) -> tuple[Float[Tensor, "example axis"], Float[Tensor, " axis"], Float[Tensor, "width axis"]]:
    """Return the features in the principal axes of their second moment, its eigenvalues, and the axes.

    Fewer sentences than features span one axis each; along all others the optimum is zero.
    """
    if len(read) < read.shape[1]:
        moments, ends = torch.linalg.eigh(read @ read.T / len(read))
        axes = read.T @ (ends / (len(read) * moments.clamp_min(moments[-1] * SMALLEST_MOMENT)).sqrt())
    else:
        moments, axes = torch.linalg.eigh(read.T @ read / len(read))
    return read @ axes, moments.clamp_min(0), axes


def _per_logit(values: Tensor, classes: Sequence[int]) -> Tensor:
    """Repeat each task's value for all of its logits."""
    return values.repeat_interleave(torch.tensor(classes, device=values.device), dim=-1)


def _losses(
    logits: Float[Tensor, "example logit"], labels: Int[Tensor, "example task"], classes: Sequence[int]
) -> Float[Tensor, " task"]:
    """Compute the mean cross-entropy of each task."""
    tasks = zip(logits.split(tuple(classes), dim=-1), labels.unbind(1), strict=True)
    return torch.stack([F.cross_entropy(task, y) for task, y in tasks])


# Fine-tuning: a whole model and a linear head, trained on one task (App. A.4).


@dataclass(frozen=True)
class FinetuneSettings:
    """AdamW as in Appendix A.4: learning rate 1e-4, 200 warm-up steps, 10 epochs.

    The appendix gives neither the batch size nor the schedule after the warm-up; here the learning rate
    stays constant.
    """

    epochs: int = 10
    batch: int = 128
    lr: float = 1e-4
    warmup_steps: int = 200

    def __post_init__(self) -> None:
        check_counts(self, "epochs", "batch")
        check_positive(self, "lr")
        check_not_negative(self, "warmup_steps")


@dataclass(frozen=True)
class FinetunedClassifier:
    """A model and a linear head that reads the first token's representation, in place of [CLS]."""

    model: MaskedLanguageModel
    weight: Float[Tensor, "class d_model"]
    bias: Float[Tensor, " class"]

    def logits(self, sentences: Sentences) -> Float[Tensor, "example class"]:
        return F.linear(_representations(self.model, sentences)[:, 0], self.weight, self.bias)

    @torch.no_grad()
    def correct(self, sentences: Sentences, labels: Int[Tensor, " example"]) -> Bool[Tensor, " example"]:
        """Mark the correctly classified sentences, on the CPU."""
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
    """Train a copy of a pre-trained model and a new linear head on one task (App. A.4).

    The paper's head reads the representation of [CLS]. Sentences of our languages have no such token, so it
    reads that of their first token. Dropout is off, whether or not the model was pre-trained with it.

    Args:
        model: the pre-trained model, which is left unchanged; training runs on its device.
        sentences: training sentences, padded or not.
        labels: their 0-based classes.
        classes: number of classes.
        settings: optimiser and length of training.
        seed: of the head's initial weights and the order of the sentences.

    Returns:
        The fine-tuned copy with its head.

    Raises:
        ParameterError: see `check_labels`.
        NonFiniteLoss: if the training diverges.

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
    tuned = _with_new_head(model, classes, generator)
    parameters = [*tuned.model.parameters(), tuned.weight, tuned.bias]
    optimiser = torch.optim.AdamW(parameters, weight_decay=0.0)
    orders = (torch.randperm(len(labels), generator=generator) for _ in range(settings.epochs))
    for step, rows in enumerate(part for order in orders for part in order.split(settings.batch)):
        warmup = min(1.0, (step + 1) / max(1, settings.warmup_steps))
        optimiser.param_groups[0]["lr"] = settings.lr * warmup
        optimiser.zero_grad()
        logits = tuned.logits(sentences.rows(rows))
        loss = F.cross_entropy(logits, labels[rows].to(logits.device))
        loss.backward()
        optimiser.step()
    if not loss.isfinite():
        raise NonFiniteLoss(f"Fine-tuning ended with a loss of {loss.item()}; choose a smaller lr.")
    tuned.model.eval()
    return tuned


def _with_new_head(
    model: MaskedLanguageModel, classes: int, generator: torch.Generator
) -> FinetunedClassifier:
    """Put a random head on a trainable copy of the model, without dropout."""
    copy = deepcopy(model).requires_grad_().eval()
    for module in copy.modules():
        module.training = isinstance(module, nn.RNNBase)  # in evaluation mode cuDNN has no backward pass
    embedding = copy.word.weight
    width = embedding.shape[1]
    weight = torch.randn(classes, width, generator=generator) / width**0.5
    bias = embedding.new_zeros(classes).requires_grad_()
    return FinetunedClassifier(copy, weight.to(embedding).requires_grad_(), bias)
