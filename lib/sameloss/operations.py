"""What a training takes, counted: floating-point operations and memory."""

from sameloss.experiments import Pretraining
from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.encoder import EncoderShape
from sameloss.presets import Shape


def block_parameters(shape: Shape) -> int:
    """Return the parameters that multiply every token: the matrices of the blocks.

    >>> block_parameters(EncoderShape(64, 1, 1, 256)), block_parameters(BiLSTMShape(64, 1))
    (49152, 24576)
    """
    if isinstance(shape, BiLSTMShape):
        return shape.layers * 6 * shape.d_model**2  # two directions of four gates
    return shape.layers * (4 * shape.d_model**2 + 2 * shape.d_model * shape.d_inter)


def sentence_flops(shape: Shape, words: int, length: float) -> float:
    """Return the floating-point operations of a training step on one sentence.

    6 for each product with a parameter (forward 2, backward 4): of a block's at every token, but of
    an encoder's last block only keys and values are needed at all of them; of the head's at the one
    masked position. Attention adds 12 d T a token and layer.
    """
    products = length * block_parameters(shape) + shape.d_model * (shape.d_model + words)
    attention = 0.0
    if isinstance(shape, EncoderShape):
        spared = block_parameters(shape) // shape.layers - 2 * shape.d_model**2
        products -= (length - 1) * spared
        attention = 12 * shape.d_model * length * ((shape.layers - 1) * length + 1)
    return float(6 * products + attention)


def training_flops(run: Pretraining, length: float | None = None) -> float:
    """Return the floating-point operations of a pre-training.

    Args:
        run: the pre-training.
        length: tokens of a sentence; where None the most that its language has, as if all were full.

    """
    language, sentences = run.corpus.language, run.optimisation.steps * run.optimisation.batch
    each = sentence_flops(run.shape, language.words, language.max_length if length is None else length)
    return run.passes * sentences * each


def training_bytes(run: Pretraining) -> float:
    """Return a rough peak of a process's memory: weights, gradients, two moments, and activations."""
    shape, length = run.shape, run.corpus.language.max_length
    words = run.corpus.language.words
    parameters = block_parameters(shape) + shape.d_model * (words + length + shape.d_model)
    if isinstance(shape, BiLSTMShape):
        activations = shape.layers * 20 * shape.d_model
    else:
        activations = shape.layers * (12 * shape.d_model + 3 * shape.d_inter + 3 * shape.heads * length)
    together = min(run.micro_batch, run.optimisation.batch // run.execution.processes)
    return 4.0 * (4 * parameters + together * length * activations)


def micro_steps(run: Pretraining) -> int:
    """Return how many times micro-batches go forward and back through the model."""
    each = -(-run.optimisation.batch // (run.execution.processes * run.micro_batch))
    return run.passes * run.optimisation.steps * each
