"""Appendix B.1: the enlarged encoder is the same function, and its trace follows the law."""

import itertools

import pytest
import torch
from torch.func import functional_call, grad, vmap

from sameloss.errors import ParameterError
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.enlarge import deepen, trace_law, widen
from sameloss.models.sizes import LADDER, PRINTED_D_INTER

SHAPE, WORDS, LENGTH = EncoderShape(4, 2, 2, 8), 5, 6
LENGTHS = {"full": None, "ragged": torch.tensor([6, 3, 4])}


def random_model(norm="pre"):
    """Return a float64 encoder, all of whose parameters are away from their initial values."""
    model = Encoder(SHAPE, WORDS, LENGTH, seed=0, norm=norm).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator).double())
    return model


@pytest.fixture
def sentences():
    tokens = torch.randint(1, WORDS + 1, (3, LENGTH), generator=torch.Generator().manual_seed(2))
    positions = torch.tensor([4, 0, 2])
    tokens[torch.arange(3), positions] = 0
    return tokens, positions


@torch.no_grad()
def logits(model, tokens, lengths):
    """The logits of all positions that are not padding."""
    limits = torch.full((len(tokens),), LENGTH) if lengths is None else lengths
    return model.head(model.features(tokens, lengths))[torch.arange(LENGTH) < limits[:, None]]


def traces(model, tokens, positions, lengths):
    """The Fisher trace of each parameter, exact over the labels, one gradient per sentence and label."""
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def log_probability(weights, sentence, position, length, label):
        inputs = (sentence[None], position[None], None if length is None else length[None])
        return functional_call(model, weights, inputs)[0].log_softmax(-1).gather(0, label[None])[0]

    rows = torch.arange(len(tokens)).repeat_interleave(WORDS)
    pairs = (tokens[rows], positions[rows], None if lengths is None else lengths[rows])
    labels = torch.arange(WORDS).repeat(len(tokens))
    with torch.no_grad():
        probabilities = model(tokens, positions, lengths).softmax(-1).flatten() / len(tokens)
    dims = (None, 0, 0, None if lengths is None else 0, 0)
    gradients = vmap(grad(log_probability), in_dims=dims)(weights, *pairs, labels)
    return {name: (g.flatten(1).square().sum(1) @ probabilities).item() for name, g in gradients.items()}


BOTH = pytest.mark.parametrize("norm", ["pre", "post"])
TIED = pytest.mark.parametrize("tied", ["paper", "balanced"])
RATIO = pytest.mark.parametrize("ratio", [2, 3])
PADDING = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)


@BOTH
@TIED
@RATIO
@PADDING
def test_widening_preserves_the_function(sentences, norm, tied, ratio, lengths):
    small = random_model(norm)
    large = widen(small, ratio, tied=tied)
    assert large.shape == EncoderShape(4 * ratio, 2 * ratio, 2, 8 * ratio)
    assert large.norm == norm
    expected = logits(small, sentences[0], lengths)
    torch.testing.assert_close(logits(large, sentences[0], lengths), expected, rtol=1e-9, atol=1e-9)


@BOTH
@TIED
@RATIO
@PADDING
def test_traces_follow_the_law(sentences, norm, tied, ratio, lengths):
    small = random_model(norm)
    before = traces(small, *sentences, lengths)
    after = traces(widen(small, ratio, tied=tied), *sentences, lengths)
    assert min(before.values()) > 0
    expected = {name: before[name] * trace_law(name, ratio, tied) for name in before}
    assert after == pytest.approx(expected, rel=1e-8)


def test_laws_are_the_published_ones():
    laws = {name: trace_law(name, 4) for name, _ in random_model().named_parameters()}
    balanced = {name: trace_law(name, 4, "balanced") for name in laws}
    changed = {name for name in laws if laws[name] != balanced[name]}
    assert changed == {"word.weight", "position.weight", "head_norm.weight", "head_norm.bias"}
    assert all(balanced[name] == 1 for name in changed)
    for name, law in laws.items():
        if name in ("word.weight", "position.weight"):
            assert law == 4
        elif name == "head_bias" or (name.endswith("weight") and "norm" not in name):
            assert law == 1
        else:
            assert law == 1 / 4


@pytest.mark.parametrize("filling", ["zeros", "initial"])
@TIED
@PADDING
def test_enlarging_preserves_a_pre_norm_function(sentences, filling, tied, lengths):
    small, shape = random_model(), EncoderShape(12, 6, 5, 24)
    generator = torch.Generator().manual_seed(3)
    large = deepen(widen(small, 3, tied=tied), 5, filling=filling, generator=generator)
    assert large.shape == shape
    assert len(large.blocks) == 5
    expected = logits(small, sentences[0], lengths)
    torch.testing.assert_close(logits(large, sentences[0], lengths), expected, rtol=1e-9, atol=1e-9)


def test_deepening_changes_a_trained_post_norm_function(sentences):
    """The erratum: LN(h) = h holds for the initial gains and biases only."""
    small = random_model("post")
    expected = logits(small, sentences[0], None)
    assert (logits(deepen(small, 3), sentences[0], None) - expected).abs().max() > 0.1
    with torch.no_grad():
        small.blocks[-1].mlp_norm.weight.fill_(1)
        small.blocks[-1].mlp_norm.bias.zero_()
    expected = logits(small, sentences[0], None)
    torch.testing.assert_close(logits(deepen(small, 3), sentences[0], None), expected, rtol=1e-9, atol=1e-9)


def test_added_blocks_of_zeros_have_the_trace_of_their_output_biases(sentences):
    small = random_model()
    before = traces(small, *sentences, None)
    after = traces(deepen(small, 4), *sentences, None)
    added = {name: trace for name, trace in after.items() if name not in before}
    biases = {f"blocks.{layer}.{part}.bias" for layer in (2, 3) for part in ("attention.out", "mlp_out")}
    expected = {name: before["blocks.1.mlp_out.bias"] * (name in biases) for name in added}
    assert added == pytest.approx(expected, rel=1e-9, abs=0)
    assert {name: after[name] for name in before} == pytest.approx(before, rel=1e-9)


def test_fillings():
    small = random_model()
    new = ("blocks.2.", "blocks.3.")
    for filling, std in (("zeros", 0), ("initial", 0.02)):
        generator = torch.Generator().manual_seed(0)
        added = deepen(widen(small, 8), 4, filling=filling, generator=generator).state_dict()
        for name, value in added.items():
            if name.startswith(new):
                drawn = value.ndim == 2 and not name.endswith(("attention.out.weight", "mlp_out.weight"))
                assert value.std().item() == pytest.approx(std if drawn else 0, rel=0.05)
                assert drawn or (value == float(name.endswith("norm.weight"))).all()


def test_a_generator_decides_the_initial_filling():
    def make(seed):
        generator = torch.Generator().manual_seed(seed)
        return deepen(random_model(), 3, filling="initial", generator=generator).blocks[2].mlp_in.weight

    assert torch.equal(make(1), make(1))
    assert not torch.equal(make(1), make(2))


@BOTH
def test_the_small_model_is_left_alone(norm):
    small = random_model(norm)
    before = {name: value.clone() for name, value in small.state_dict().items()}
    random_state = torch.get_rng_state()
    larger = [widen(small, 1), deepen(small, 3), widen(small, 2, tied="balanced")]
    with torch.no_grad():
        for parameter in itertools.chain(*(model.parameters() for model in larger)):
            parameter.add_(1)
    assert all(torch.equal(value, before[name]) for name, value in small.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert not small.training
    for model in larger:
        assert not model.training
        assert all(p.dtype == torch.float64 and p.requires_grad for p in model.parameters())
    assert widen(Encoder(SHAPE, WORDS, LENGTH, seed=0), 2).word.weight.dtype == torch.float32
    assert widen(Encoder(SHAPE, WORDS, LENGTH, seed=0), 2).training


def test_the_ladder_embeds_into_its_largest_and_not_as_printed():
    """Heads and d_inter have to grow by the ratio of the widths."""
    large = LADDER["d1920"]
    for shape, printed in zip(LADDER.values(), PRINTED_D_INTER, strict=True):
        ratio = large.d_model // shape.d_model
        wide = (ratio * shape.d_model, ratio * shape.heads, ratio * shape.d_inter)
        assert wide == (large.d_model, large.heads, large.d_inter)
        assert (ratio * printed == PRINTED_D_INTER[-1]) == (ratio == 1)
    assert list(LADDER) == ["d128", "d192", "d320", "d384", "d640", "d960", "d1920"]
    assert all(shape.d_model == 64 * shape.heads for shape in LADDER.values())


def test_bad_arguments_are_refused():
    small = random_model()
    with pytest.raises(ParameterError, match="ratio must be a whole number, at least 1; got 0"):
        widen(small, 0)
    with pytest.raises(ParameterError, match="'word' is not a parameter of an encoder"):
        trace_law("word", 2)
