"""The LSTM stack against PyTorch's packed bidirectional LSTM; the unrolled LSTM against PyTorch's."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sameloss.errors import ParameterError
from sameloss.models.bilstm import BiLSTM, BiLSTMShape, unrolled_lstm, without_cudnn
from sameloss.models.encoder import Encoder, EncoderShape

WORDS, LENGTH = 11, 7
RAGGED = torch.tensor([7, 3, 5, 6, 1])


@pytest.fixture
def model():
    """A model whose parameters are all away from their initial zeros and ones."""
    model = BiLSTM(BiLSTMShape(8, 3), WORDS, LENGTH, seed=0).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator).double())
    return model


@pytest.fixture
def tokens():
    return torch.randint(0, WORDS + 1, (len(RAGGED), LENGTH), generator=torch.Generator().manual_seed(2))


def packed(block, h, lengths):
    """Apply PyTorch's bidirectional LSTM with the block's weights."""
    d = h.shape[-1]
    twin = nn.LSTM(d, d // 2, batch_first=True, bidirectional=True).double()
    weights = dict(block.lstm_forward.state_dict())
    weights |= {f"{name}_reverse": w for name, w in block.lstm_backward.state_dict().items()}
    twin.load_state_dict(weights)
    sentences = pack_padded_sequence(h, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(twin(sentences)[0], batch_first=True, total_length=h.shape[1])[0]


@pytest.mark.parametrize("ragged", [False, True])
@torch.no_grad()
def test_features_equal_a_packed_lstm(model, tokens, ragged):
    lengths = RAGGED if ragged else torch.full_like(RAGGED, LENGTH)
    h = model.embedding_norm(model.word(tokens) + model.position.weight)
    for block in model.blocks:
        h = h + block.norm(packed(block, h, lengths))
    inside = torch.arange(LENGTH) < lengths[:, None]
    features = model.features(tokens, lengths if ragged else None)
    torch.testing.assert_close(features[inside], h[inside], rtol=1e-10, atol=1e-12)


@torch.no_grad()
def test_padding_does_not_matter(model, tokens):
    features = model.features(tokens, RAGGED)
    for row, length in enumerate(RAGGED):
        alone = model.features(tokens[row : row + 1, :length])[0]
        torch.testing.assert_close(features[row, :length], alone)


@torch.no_grad()
def test_both_directions_reach_every_position(model, tokens):
    features = model.features(tokens)
    changed = tokens.clone()
    changed[:, 3] = (tokens[:, 3] + 1) % (WORDS + 1)
    assert (model.features(changed) - features).abs().amin(-1).gt(0).all()


@torch.no_grad()
def test_forward_reads_the_masked_position(model, tokens):
    positions = torch.tensor([6, 0, 4, 2, 0])
    logits = model.head(model.features(tokens, RAGGED))
    expected = logits[torch.arange(len(tokens)), positions]
    torch.testing.assert_close(model(tokens, positions, RAGGED), expected)


def test_head_is_the_encoders(model):
    encoder = Encoder(EncoderShape(8, 1, 1, 8), WORDS, LENGTH, norm="post").double()
    shared = {name: w for name, w in model.state_dict().items() if "blocks" not in name}
    encoder.load_state_dict(shared, strict=False)
    h = torch.randn(3, 8, generator=torch.Generator().manual_seed(3)).double()
    torch.testing.assert_close(model.head(h), encoder.head(h))


@pytest.mark.parametrize(
    ("d_model", "layers", "millions"),
    [(128, 4, 4.4), (256, 6, 10.5), (512, 8, 29.1), (768, 12, 67.6), (1024, 16, 134.8)],
)
def test_counts_are_the_papers(d_model, layers, millions):
    """As the released code counts: BERT's vocabulary, 512 positions and a pooler."""
    with torch.device("meta"):
        model = BiLSTM(BiLSTMShape(d_model, layers), 30_522 - 1, 512)
    pooler = d_model**2 + d_model
    assert model.parameter_count + pooler == pytest.approx(1e6 * millions, rel=0.01)


def test_seed_decides_the_initial_weights():
    make = lambda seed: BiLSTM(BiLSTMShape(8, 2), 5, 4, seed).state_dict()  # noqa: E731
    assert all(torch.equal(a, b) for a, b in zip(make(1).values(), make(1).values(), strict=True))
    assert all(not torch.equal(make(1)[name], make(2)[name]) for name in make(1) if "lstm" in name)


def test_initial_scales():
    """LSTMs are uniform within 1/√(d/2) = 1/8, all other matrices N(0, 0.02²)."""
    weights = BiLSTM(BiLSTMShape(128, 1), 200, 32, seed=0).state_dict()
    lstms = [w for name, w in weights.items() if "lstm" in name]
    assert all(0.97 / 8 < w.abs().max() <= 1 / 8 for w in lstms)
    others = [w for name, w in weights.items() if w.ndim == 2 and "lstm" not in name]
    assert [w.std().item() for w in others] == pytest.approx([0.02] * 3, rel=0.05)


def test_an_odd_width_is_refused():
    with pytest.raises(ParameterError, match="d_model = 7 is odd; two directions need an even width"):
        BiLSTMShape(7, 1)


@pytest.mark.parametrize("shape", [(0, 1), (8, 0)])
def test_an_empty_shape_is_refused(shape):
    with pytest.raises(ParameterError, match="must be a whole number, at least 1; got 0"):
        BiLSTMShape(*shape)


# --- LSTMs that can be differentiated twice ---


def test_unrolled_is_the_same_function():
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 4, batch_first=True).double()
    inputs = torch.randn(5, 6, 3).double().requires_grad_()
    states = torch.randn(2, 1, 5, 4).double().unbind()
    expected, (last_h, last_c) = lstm(inputs, states)
    unrolled = unrolled_lstm(inputs, states, lstm._flat_weights)
    for ours, theirs in zip(unrolled, (expected, last_h, last_c), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    variables = [inputs, *lstm.parameters()]
    ours = torch.autograd.grad(unrolled[0].square().sum(), variables)
    theirs = torch.autograd.grad(expected.square().sum(), variables)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_the_unrolled_gradient_can_be_differentiated():
    weights = [torch.randn(8, 3), torch.randn(8, 2), torch.randn(8), torch.randn(8)]
    weights = [weight.double().requires_grad_() for weight in weights]
    states = torch.zeros(1, 1, 2).double(), torch.zeros(1, 1, 2).double()
    inputs = torch.randn(1, 3, 3).double()

    def outputs(*weights):
        return unrolled_lstm(inputs, states, list(weights))[0]

    assert torch.autograd.gradgradcheck(outputs, weights)


def test_cudnn_is_disabled_in_a_context():
    before = torch.backends.cudnn.enabled
    with without_cudnn():
        assert not torch.backends.cudnn.enabled
    assert torch.backends.cudnn.enabled == before
