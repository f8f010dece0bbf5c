"""Exported models compute our logits in `transformers`, and HuggingFace models can be called as ours."""

import inspect

import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    OPTConfig,
    OPTForCausalLM,
)

from sameloss.errors import ModelError
from sameloss.models.bilstm import BiLSTM, BiLSTMShape
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.export import HuggingFaceModel, export_model

SHAPE, WORDS, LENGTH = EncoderShape(32, 4, 3, 64), 11, 7
LENGTHS = torch.tensor([7, 3, 5, 7, 1])
PADDING = WORDS + 1
CLASSES = {"pre": "RobertaPreLayerNormForMaskedLM", "post": "BertForMaskedLM"}

both_norms = pytest.mark.parametrize("norm", ["pre", "post"])


def random_model(norm, dtype=torch.float64):
    """An encoder whose parameters are all away from their initial values."""
    model = Encoder(SHAPE, WORDS, LENGTH, seed=0, norm=norm).to(dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator).to(dtype))
    return model.eval()


@pytest.fixture
def tokens():
    """Sentences with all ids within their lengths: none of them may count as padding."""
    return torch.arange(len(LENGTHS) * LENGTH).view(-1, LENGTH) % PADDING


def opened(folder):
    model, report = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    return model


def passed_through(model, folder):
    export_model(model, folder)
    return opened(folder)


@both_norms
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("padding", ["none", "a word", "the padding id"])
@torch.no_grad()
def test_logits_are_ours(tmp_path, tokens, norm, dtype, tolerance, padding):
    model = random_model(norm, dtype)
    twin = passed_through(model, tmp_path)
    if padding == "none":
        inside, ours = torch.ones_like(tokens).bool(), model.head(model.features(tokens))
        theirs = twin(tokens).logits
    else:
        inside, ours = torch.arange(LENGTH) < LENGTHS[:, None], model.head(model.features(tokens, LENGTHS))
        padded = tokens.where(inside, PADDING) if padding == "the padding id" else tokens
        theirs = twin(padded, attention_mask=inside.long()).logits
    assert (type(twin).__name__, theirs.dtype) == (CLASSES[norm], dtype)
    assert set(tokens[inside].tolist()) == set(range(PADDING))
    torch.testing.assert_close(theirs[inside][:, 1:PADDING], ours[inside], rtol=0, atol=tolerance)


@both_norms
@torch.no_grad()
def test_probabilities_are_ours(tmp_path, tokens, norm):
    """A softmax over all ids gives probability 0 to [MASK] and padding."""
    model = random_model(norm)
    theirs = passed_through(model, tmp_path)(tokens).logits.softmax(-1)
    ours = model.head(model.features(tokens)).softmax(-1)
    torch.testing.assert_close(theirs[..., 1:PADDING], ours, rtol=1e-10, atol=0)
    assert theirs[..., [0, PADDING]].eq(0).all()


@both_norms
@torch.no_grad()
def test_called_as_the_books_models_are(tmp_path, tokens, norm):
    model = random_model(norm)
    twin = HuggingFaceModel(passed_through(model, tmp_path), WORDS)
    batch = tokens, LENGTHS - 1, LENGTHS
    torch.testing.assert_close(twin(*batch), model(*batch), rtol=0, atol=1e-10)


@both_norms
@torch.no_grad()
def test_opens_again_once_transformers_saved_it(tmp_path, tokens, norm):
    twin = passed_through(random_model(norm), tmp_path / "ours")
    twin.save_pretrained(tmp_path / "theirs")
    assert torch.equal(opened(tmp_path / "theirs")(tokens).logits, twin(tokens).logits)


@both_norms
def test_trains_without_dropout_and_with_a_tied_head(tmp_path, tokens, norm):
    twin = passed_through(random_model(norm), tmp_path).train()
    logits = twin(tokens).logits
    torch.testing.assert_close(twin(tokens).logits, logits, rtol=0, atol=0)
    assert twin.get_output_embeddings().weight is twin.get_input_embeddings().weight


@both_norms
def test_the_model_and_the_random_state_are_unchanged(tmp_path, norm):
    model = random_model(norm)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random_state = torch.get_rng_state()
    export_model(model, tmp_path / "new" / "folder")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize("other", [BiLSTM(BiLSTMShape(8, 1), 5, 4), nn.Linear(2, 2)])
def test_another_model_is_refused(tmp_path, other):
    sentence = (
        rf"^transformers has no equivalent of {type(other).__name__}; "
        r"an Encoder can be exported, pre-LN or post-LN\.$"
    )
    with pytest.raises(ModelError, match=sentence):
        inspect.unwrap(export_model)(other, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


# --- HuggingFace models called as ours ---

SIZES = {"vocab_size": 7, "max_position_embeddings": 4, "num_hidden_layers": 1}
MODELS = {
    "bert": lambda: BertForMaskedLM(
        BertConfig(**SIZES, hidden_size=8, num_attention_heads=2, intermediate_size=8)
    ),
    "opt": lambda: OPTForCausalLM(
        OPTConfig(**SIZES, hidden_size=8, num_attention_heads=2, ffn_dim=8, word_embed_proj_dim=8)
    ),
}
IDS, POSITIONS = torch.tensor([[1, 0, 5, 2], [3, 4, 0, 1]]), torch.tensor([1, 2])


@pytest.fixture(params=MODELS)
def huggingface(request):
    torch.manual_seed(0)
    return MODELS[request.param]().double().eval()


@torch.no_grad()
def test_logits_are_those_of_the_words_at_the_position(huggingface):
    logits = HuggingFaceModel(huggingface, 5)(IDS, POSITIONS)
    everywhere = huggingface(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits
    expected = torch.stack([everywhere[0, 1, 1:6], everywhere[1, 2, 1:6]])
    torch.testing.assert_close(logits, expected)


@torch.no_grad()
def test_padding_does_not_matter(huggingface):
    wrapped = HuggingFaceModel(huggingface, 5)
    padded = wrapped(IDS, POSITIONS, torch.tensor([3, 4]))
    changed = IDS.clone()
    changed[0, 3] = 4
    assert torch.equal(wrapped(changed, POSITIONS, torch.tensor([3, 4])), padded)
    torch.testing.assert_close(padded[:1], wrapped(IDS[:1, :3], POSITIONS[:1]))


def test_a_vocabulary_that_is_too_small_is_refused(huggingface):
    HuggingFaceModel(huggingface, 6)
    with pytest.raises(ModelError, match=r"has 7 ids, too few for \[MASK\] and 7 words; it needs at least 8"):
        HuggingFaceModel(huggingface, 7)


@pytest.mark.parametrize(
    ("kind", "returned"),
    [
        (BertForSequenceClassification, r"logits of shape \(2, 2\)"),
        (BertForTokenClassification, r"logits of shape \(2, 4, 2\)"),
        (BertModel, "no logits"),
    ],
)
def test_another_head_is_refused(kind, returned):
    config = BertConfig(**SIZES, hidden_size=8, num_attention_heads=2, intermediate_size=8)
    wrapped = HuggingFaceModel(kind(config).eval(), 5)
    with pytest.raises(ModelError, match=rf"^The model returned {returned} for tokens of shape \(2, 4\); it"):
        wrapped(IDS, POSITIONS)
