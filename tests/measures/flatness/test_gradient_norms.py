"""Squared gradient norms against a naive loop, for every kind of model, and what is refused."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForMaskedLM,
    OPTConfig,
    OPTForCausalLM,
    RobertaPreLayerNormConfig,
    RobertaPreLayerNormForMaskedLM,
)

from sameloss.errors import ModelError, ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness import gradient_norms
from sameloss.measures.flatness.gradient_norms import recordings
from sameloss.models.bilstm import BiLSTM, BiLSTMShape
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.export import HuggingFaceModel

WORDS, LENGTH, SENTENCES = 11, 7, 13
SHAPE = EncoderShape(16, 2, 2, 24)
TINY = {"vocab_size": WORDS + 2, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT = {**TINY, "intermediate_size": 24, "max_position_embeddings": 2 * LENGTH, "pad_token_id": WORDS + 1}
OPT = {**TINY, "ffn_dim": 24, "max_position_embeddings": 2 * LENGTH, "pad_token_id": WORDS + 1}
OPT |= {"bos_token_id": 0, "eos_token_id": 0}


class Untied(Encoder):
    """The encoder with an output matrix of its own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.output = nn.Linear(self.word.weight.shape[1], WORDS)

    def head(self, h):
        return self.output(self.head_norm(F.gelu(self.head_dense(h))))


def huggingface(kind, config):
    return lambda **tied: HuggingFaceModel(kind(config(**tied)), WORDS)


bert = huggingface(BertForMaskedLM, lambda **tied: BertConfig(**BERT, **tied))
roberta = huggingface(
    RobertaPreLayerNormForMaskedLM,
    lambda **tied: RobertaPreLayerNormConfig(**BERT | {"max_position_embeddings": 40}, **tied),
)
opt = huggingface(OPTForCausalLM, lambda **tied: OPTConfig(**OPT, **tied))
post_opt = huggingface(
    OPTForCausalLM,
    lambda **tied: OPTConfig(**OPT, do_layer_norm_before=False, word_embed_proj_dim=8, **tied),
)

MODELS = {
    "encoder": lambda: Encoder(SHAPE, WORDS, LENGTH, seed=0),
    "encoder, post-LN": lambda: Encoder(SHAPE, WORDS, LENGTH, seed=0, norm="post"),
    "encoder, untied": lambda: Untied(SHAPE, WORDS, LENGTH, seed=0),
    "BiLSTM": lambda: BiLSTM(BiLSTMShape(16, 2), WORDS, LENGTH, seed=0),
    "BERT": bert,
    "BERT, untied": lambda: bert(tie_word_embeddings=False),
    "RoBERTa-PreLayerNorm": roberta,
    "RoBERTa-PreLayerNorm, untied": lambda: roberta(tie_word_embeddings=False),
    "OPT": opt,
    "OPT, untied": lambda: opt(tie_word_embeddings=False),
    "OPT, post-LN, projected": post_opt,
}


def model_of(name, dtype=torch.float64):
    """A model in eval mode whose parameters are all away from their initial zeros and ones."""
    torch.manual_seed(0)
    model = MODELS[name]().to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def batch_of(ragged, sentences=SENTENCES):
    generator = torch.Generator().manual_seed(1)
    masked = torch.randint(1, WORDS + 1, (sentences, LENGTH), generator=generator)
    lengths = torch.randint(2, LENGTH + 1, (sentences,), generator=generator)
    lengths[-1] = LENGTH
    ends = lengths if ragged else torch.full_like(lengths, LENGTH)
    positions = (torch.rand(sentences, generator=generator) * ends).long()
    masked[torch.arange(sentences), positions] = 0
    return Batch(masked, positions, torch.zeros_like(positions), lengths if ragged else None)


def cotangents_of(model):
    generator = torch.Generator().manual_seed(2)
    dtype = next(model.parameters()).dtype
    return torch.randn(SENTENCES, WORDS, generator=generator, dtype=torch.float64).to(dtype)


def naive(model, masked, cotangents):
    """One backward pass a sentence; squared norms by parameter."""
    named = dict(model.named_parameters())
    rows = []
    for i in range(len(masked.masked)):
        one = masked.rows(slice(i, i + 1))
        logits = model(one.masked, one.positions, one.lengths)
        gradients = torch.autograd.grad(
            logits, list(named.values()), cotangents[i : i + 1], materialize_grads=True
        )
        rows.append(torch.stack([g.square().sum() for g in gradients]))
    return dict(zip(named, torch.stack(rows, 1), strict=True))


def ours(model, masked, cotangents, chunk=5):
    norms = {name: torch.zeros(SENTENCES, dtype=cotangents.dtype) for name, _ in model.named_parameters()}
    for rows, recording in recordings(model, masked, chunk):
        for name, values in recording.squared_norms(cotangents[rows]).items():
            norms[name][rows] = values
    return norms


@pytest.mark.parametrize("ragged", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("name", MODELS)
def test_norms_match_a_naive_loop(name, ragged):
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-6)):
        model, masked = model_of(name, dtype), batch_of(ragged)
        cotangents = cotangents_of(model)
        expected, found = naive(model, masked, cotangents), ours(model, masked, cotangents)
        total = sum(expected.values())
        torch.testing.assert_close(sum(found.values()), total, rtol=tolerance, atol=0)
        for parameter, norms in expected.items():
            slack = tolerance * float(total.min())
            torch.testing.assert_close(found[parameter], norms, rtol=10 * tolerance, atol=slack)


class Odd(nn.Module):
    """Embeddings, then something a test decides, then logits."""

    def __init__(self, middle, **parts):
        super().__init__()
        self.word = nn.Embedding(WORDS + 1, 6)
        self.output = nn.Linear(6, WORDS)
        self.middle = middle
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, masked, positions, lengths=None):
        h = self.middle(self, self.word(masked))
        return self.output(h[torch.arange(len(masked)), positions])


def flattened(model, h):
    """One row a token, as OPT once did."""
    return model.inner(h.reshape(-1, 6)).relu_().view_as(h)


def positions_from_a_table(model, h):
    """Shared by all sentences, and transformed before they are added."""
    return h + model.inner(model.table(torch.arange(LENGTH)))


def slices_and_bare_biases(model, h):
    return F.linear(h, model.matrix[2:8], model.bias[1:7]) + model.bias[:6]


def relative_positions(model, h):
    """Scores with a bias for each distance and head, which has axes of its own before any of a sentence's."""
    distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH) + LENGTH
    bias = model.distances(distance).permute(2, 0, 1)[None]
    heads = h.unflatten(-1, (2, 3)).transpose(1, 2)
    return ((heads @ heads.mT + bias).softmax(-1) @ heads).transpose(1, 2).flatten(-2)


def second_flattened(model, h):
    """One row a token, but position after position."""
    rows = h.transpose(0, 1)
    return model.inner(rows.reshape(-1, 6)).view(rows.shape).transpose(0, 1)


UNUSUAL = {
    "tokens in another order": (second_flattened, {"inner": lambda: nn.Linear(6, 6)}),
    "relative positions": (relative_positions, {"distances": lambda: nn.Embedding(2 * LENGTH, 2)}),
    "flattened": (flattened, {"inner": lambda: nn.Linear(6, 6)}),
    "shared": (
        positions_from_a_table,
        {"inner": lambda: nn.Linear(6, 6), "table": lambda: nn.Embedding(LENGTH, 6)},
    ),
    "slices": (
        slices_and_bare_biases,
        {"matrix": lambda: nn.Parameter(torch.randn(9, 6)), "bias": lambda: nn.Parameter(torch.randn(8))},
    ),
    "padding row": (lambda model, h: h + model.other(torch.arange(LENGTH) % 3),
                    {"other": lambda: nn.Embedding(3, 6, padding_idx=1)}),
    "unused": (lambda model, h: h, {"inner": lambda: nn.Linear(6, 6)}),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_uses_match_a_naive_loop(name):
    torch.manual_seed(0)
    middle, parts = UNUSUAL[name]
    model = Odd(middle, **{key: make() for key, make in parts.items()}).double()
    masked, cotangents = batch_of(ragged=False), cotangents_of(model)
    found, expected = ours(model, masked, cotangents), naive(model, masked, cotangents)
    for parameter, norms in expected.items():
        torch.testing.assert_close(found[parameter], norms, rtol=1e-10, atol=1e-12)


def test_sentences_of_one_token_match_a_naive_loop():
    """Positions of one token have the shape of one sentence's own output."""
    model, long = model_of("encoder"), batch_of(ragged=False)
    masked = Batch(0 * long.masked[:, :1], 0 * long.positions, long.targets, None)
    cotangents = cotangents_of(model)
    found, expected = ours(model, masked, cotangents), naive(model, masked, cotangents)
    for parameter, norms in expected.items():
        torch.testing.assert_close(found[parameter], norms, rtol=1e-10, atol=1e-12)


def test_number_of_sentences_may_equal_that_of_tokens():
    model, masked = model_of("encoder"), batch_of(ragged=False)
    cotangents = cotangents_of(model)
    whole, parts = ours(model, masked, cotangents, SENTENCES), ours(model, masked, cotangents, LENGTH)
    for name in whole:
        torch.testing.assert_close(whole[name], parts[name], rtol=1e-10, atol=0)


def test_frozen_parameters_do_not_count():
    model, masked = model_of("encoder"), batch_of(ragged=False)
    everything = ours(model, masked, cotangents_of(model))
    model.word.weight.requires_grad_(False)
    (_, recording), *_ = recordings(model, masked)
    norms = recording.squared_norms(cotangents_of(model))
    assert "word.weight" not in norms
    torch.testing.assert_close(norms["position.weight"], everything["position.weight"])


def test_a_model_without_inputs():
    """Two sentences, softmax of a vector: squared norms of e - f are known."""

    class Unigram(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.tensor([0.5, 0.3, 0.2]).log())

        def forward(self, masked, positions, lengths=None):
            return torch.zeros(len(masked), 3) + self.bias

    masked = batch_of(ragged=False)._replace(targets=torch.zeros(SENTENCES).long())
    (_, recording), *_ = recordings(Unigram(), masked)
    cotangents = torch.tensor([0.5, -0.3, -0.2]).expand(SENTENCES, -1)
    torch.testing.assert_close(recording.squared_norms(cotangents)["bias"], torch.full((SENTENCES,), 0.38))


def test_chunks_are_chosen_by_memory(monkeypatch):
    model, masked = model_of("encoder"), batch_of(ragged=False)
    (_, whole), *rest = recordings(model, masked)
    assert not rest
    monkeypatch.setitem(gradient_norms.CHUNK_BYTES, "cpu", whole.bytes // 3)
    assert len(list(recordings(model, masked))) in (3, 4)


def hidden(model, h):
    """Scale by a parameter where no function of torch's is seen to do so."""
    with torch._C.DisableTorchFunction():
        return h * model.scale


def second(model, h):
    return model.inner(h.transpose(0, 1)).transpose(0, 1)


def scale():
    return nn.Parameter(torch.ones(6))


REFUSED = {
    "convolution": (lambda m, h: m.conv(h.mT).mT, {"conv": lambda: nn.Conv1d(6, 6, 1)},
                    r"conv.weight of module conv \(Conv1d\) is used by .*conv1d"),
    "product": (lambda m, h: h * m.scale, {"scale": scale},
                r"scale of module itself \(Odd\) is used by .*mul"),
    "as an input": (lambda m, h: h + F.linear(m.scale[None], m.output.weight[:6]), {"scale": scale},
                    "scale .* is used by"),
    "hidden": (hidden, {"scale": scale}, "norm of scale is .* by autograd and 0 "),
    "dropout": (lambda m, h: F.dropout(h, 0.1, True), {}, "drops units at random; call model.eval"),
    "attention's dropout": (lambda m, h: F.scaled_dot_product_attention(h, h, h, dropout_p=0.1), {},
                            "drops units at random; call model.eval"),
    "sentences second": (second, {"inner": lambda: nn.Linear(6, 6)}, "Sentences must be the first axis"),
    "packed LSTM": (
        lambda m, h: nn.utils.rnn.pad_packed_sequence(m.lstm(nn.utils.rnn.pack_padded_sequence(
            h, torch.full((len(h),), LENGTH), batch_first=True))[0], batch_first=True)[0],
        {"lstm": lambda: nn.LSTM(6, 6, batch_first=True)}, "an LSTM of packed sequences"),
    "projected LSTM": (lambda m, h: m.lstm(h)[0],
                       {"lstm": lambda: nn.LSTM(6, 8, batch_first=True, proj_size=6)},
                       "an LSTM that is not one layer"),
    "two layers": (lambda m, h: m.lstm(h)[0],
                   {"lstm": lambda: nn.LSTM(6, 6, num_layers=2, batch_first=True)},
                   "an LSTM that is not one layer"),
    "frequencies": (lambda m, h: h + m.table(torch.arange(LENGTH)),
                    {"table": lambda: nn.Embedding(LENGTH, 6, scale_grad_by_freq=True)},
                    "scale_grad_by_freq"),
    "wrong shape": (lambda m, h: h[:, :, None], {}, r"returned logits of shape .* \(1, words\) is needed"),
}  # fmt: skip


def test_a_recording_is_freed_without_a_garbage_collection():
    (_, recording), *_ = recordings(model_of("BiLSTM"), batch_of(ragged=True))
    gc.disable()
    try:
        factor = weakref.ref(next(use.factor for uses in recording._uses.values() for use in uses))
        del recording, _
        assert factor() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused(name):
    middle, parts, sentence = REFUSED[name]
    model = Odd(middle, **{key: make() for key, make in parts.items()})
    with pytest.raises(ModelError, match=sentence):
        list(recordings(model, batch_of(ragged=False)))


def test_train_mode_with_dropout_is_refused():
    model = HuggingFaceModel(BertForMaskedLM(BertConfig(**BERT)), WORDS).train()
    with pytest.raises(ModelError, match="drops units at random"):
        list(recordings(model, batch_of(ragged=False)))


def test_bad_input_ends_in_one_sentence():
    model, masked = model_of("encoder"), batch_of(ragged=True)
    cases = {
        "no masked sentences": Batch(*(part[:0] for part in masked)),
        "position of sentence 0 is 7, on padding": masked._replace(
            positions=torch.full_like(masked.positions, 7)
        ),
        "cover 11 words, but the word behind a mask is number 12": masked._replace(
            targets=masked.targets + 11
        ),
    }
    for sentence, bad in cases.items():
        with pytest.raises(ModelError, match=sentence):
            list(recordings(model, bad))
    for chunk in (0, -1):
        with pytest.raises(ParameterError, match=rf"^chunk must be .* at least 1; got {chunk}\.$"):
            list(recordings(model, masked, chunk))
    with torch.no_grad():
        model.head_bias[3] = float("nan")
    with pytest.raises(ModelError, match="head_bias holds values that are not finite"):
        list(recordings(model, masked))


def test_a_model_of_another_vocabulary_is_refused():
    with pytest.raises(ModelError, match=r"has 13 ids, too few for .* 13 words; it needs at least 14"):
        HuggingFaceModel(BertForMaskedLM(BertConfig(**BERT)), words=13)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_norms_on_a_gpu():
    model, masked = model_of("encoder"), batch_of(ragged=True)
    cotangents = cotangents_of(model)
    expected = ours(model, masked, cotangents)
    found = ours(model.cuda(), masked, cotangents.cuda())
    for name, norms in expected.items():
        torch.testing.assert_close(found[name].cpu(), norms, rtol=1e-8, atol=0)
