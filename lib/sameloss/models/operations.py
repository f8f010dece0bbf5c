"""What a training takes, counted: floating-point operations and memory."""

from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.encoder import EncoderShape

Shape = EncoderShape | BiLSTMShape


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
