"""Squared gradient norms against a naive loop for every kind of model, recorded uses, and a refusal."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    RobertaPreLayerNormConfig,
    RobertaPreLayerNormForMaskedLM,
    T5Config,
    T5ForTokenClassification,
)
from transformers.pytorch_utils import Conv1D

from sameloss.errors import ModelError, ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness import gradient_norms
from sameloss.measures.flatness.gradient_norms import NO_ROW, Recorder, recordings
from sameloss.models.bilstm import BiLSTM, BiLSTMShape
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.export import HuggingFaceModel

WORDS, LENGTH, SENTENCES = 11, 7, 8
SHAPE = EncoderShape(16, 2, 2, 24)
TINY = {"vocab_size": WORDS + 2, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT = {**TINY, "intermediate_size": 24, "max_position_embeddings": 2 * LENGTH, "pad_token_id": WORDS + 1}
OPT = {**TINY, "ffn_dim": 24, "max_position_embeddings": 2 * LENGTH, "pad_token_id": WORDS + 1}
OPT |= {"bos_token_id": 0, "eos_token_id": 0}
LLAMA = {**TINY, "intermediate_size": 24, "num_key_value_heads": 1, "head_dim": 8, "eos_token_id": 0}
LLAMA |= {"bos_token_id": 0, "pad_token_id": None}
GPT2 = {"vocab_size": WORDS + 2, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 2 * LENGTH}
GPT2 |= {"bos_token_id": 0, "eos_token_id": 0}
T5 = {"vocab_size": WORDS + 2, "num_labels": WORDS + 2, "d_model": 16, "d_kv": 8, "d_ff": 24}
T5 |= {"num_layers": 2, "num_heads": 2}
DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
DEBERTA |= {"norm_rel_ebd": "layer_norm", "share_att_key": True, "position_buckets": 4, "type_vocab_size": 0}
MAMBA = {"vocab_size": WORDS + 2, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}


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
gpt2 = huggingface(GPT2LMHeadModel, lambda **tied: GPT2Config(**GPT2, **tied))
llama = huggingface(LlamaForCausalLM, lambda **tied: LlamaConfig(**LLAMA, **tied))

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
    "GPT-2": gpt2,
    "GPT-2, untied": lambda: gpt2(tie_word_embeddings=False),
    "Llama": llama,
    "Llama, tied": lambda: llama(tie_word_embeddings=True),
    "Gemma": huggingface(Gemma2ForCausalLM, lambda: Gemma2Config(**LLAMA)),
    "Mamba": huggingface(MambaForCausalLM, lambda: MambaConfig(**MAMBA)),
    "T5's encoder": huggingface(T5ForTokenClassification, lambda: T5Config(**T5)),
    "DeBERTa": huggingface(DebertaV2ForMaskedLM, lambda: DebertaV2Config(**BERT, **DEBERTA)),
}
ONE_BY_ONE = {"T5's encoder", "DeBERTa", "Mamba"}
"""Models whose sentences are measured one at a time."""

IN_FLOAT32 = {"Gemma", "Mamba"}
"""Models of `transformers` that compute parts of their gradients in float32, whatever their precision."""


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


def cotangents_of(model, sentences=SENTENCES):
    generator = torch.Generator().manual_seed(2)
    dtype = next(model.parameters()).dtype
    return torch.randn(sentences, WORDS, generator=generator, dtype=torch.float64).to(dtype)


def naive(model, masked, cotangents):
    """Squared norms by parameter, with one backward pass per sentence, alone and without its padding."""
    named = dict(model.named_parameters())
    rows = []
    for i in range(len(masked.masked)):
        one = masked.rows(slice(i, i + 1)).narrowed()
        logits = model(one.masked, one.positions, one.lengths)
        gradients = torch.autograd.grad(
            logits, list(named.values()), cotangents[i : i + 1], materialize_grads=True
        )
        rows.append(torch.stack([g.square().sum() for g in gradients]))
    return dict(zip(named, torch.stack(rows, 1), strict=True))


def ours(model, masked, cotangents, chunk=5):
    sentences = len(masked.masked)
    norms = {name: torch.zeros(sentences, dtype=cotangents.dtype) for name, _ in model.named_parameters()}
    for rows, recording in recordings(model, masked, chunk):
        for name, values in recording.squared_norms(cotangents[rows]).items():
            norms[name][rows] = values
    return norms


@pytest.mark.parametrize("ragged", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("name", MODELS)
def test_norms_match_a_naive_loop(name, ragged):
    for dtype, tolerance in ((torch.float64, 1e-6 if name in IN_FLOAT32 else 1e-10), (torch.float32, 1e-6)):
        model, masked = model_of(name, dtype), batch_of(ragged)
        cotangents = cotangents_of(model)
        expected, norms = naive(model, masked, cotangents), ours(model, masked, cotangents)
        total = sum(expected.values())
        torch.testing.assert_close(sum(norms.values()), total, rtol=tolerance, atol=0)
        atol = tolerance * float(total.detach().min())
        for parameter, reference in expected.items():
            torch.testing.assert_close(norms[parameter], reference, rtol=10 * tolerance, atol=atol)


@pytest.mark.parametrize("name", MODELS)
def test_sentences_share_a_forward_pass_where_they_can(name):
    chunks = len(list(recordings(model_of(name, torch.float32), batch_of(ragged=False))))
    assert chunks == (SENTENCES if name in ONE_BY_ONE else 1)


class Odd(nn.Module):
    """Embeddings, a middle part that the test defines, then logits."""

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
    """One row per token, as OPT once did."""
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


def second(model, h):
    return model.inner(h.transpose(0, 1)).transpose(0, 1)


def packed(model, h):
    sequence = nn.utils.rnn.pack_padded_sequence(h, torch.full((len(h),), LENGTH), batch_first=True)
    return nn.utils.rnn.pad_packed_sequence(model.lstm(sequence)[0], batch_first=True)[0]


def used_both_ways(model, h):
    """A weight as it is and transposed."""
    return torch.addmm(model.bias, model.inner(h).view(-1, 6), model.inner.weight).view_as(h)


def divided_in_place(model, h):
    """Scores are scaled so in DeBERTa: on a view, whose history autograd then rewrites."""
    heads = model.inner(h).unflatten(-1, (2, 3)).transpose(1, 2)
    heads /= 3**0.5
    return h + heads.transpose(1, 2).flatten(-2)


def partly_zeroed(model, h):
    out = model.inner(h)
    out[:, 0] = 0
    out[..., 1:3].mul_(2)
    return h + out


def routed(model, h):
    """A mixture of two experts, chosen by the sign of a feature: each sentence sends them other tokens."""
    first, out = h[..., 0] > 0, h.clone()
    out[first], out[~first] = model.inner(h[first]), model.other(h[~first])
    return out


def sorted_by_norm(model, h):
    """Two experts take as many tokens each, of any sentence, so that shapes tell nothing."""
    rows = h.reshape(-1, 6)
    best, rest = rows.norm(dim=1).argsort().chunk(2)
    out = torch.zeros_like(rows).index_put((best,), model.inner(rows[best]))
    return out.index_put((rest,), model.other(rows[rest])).view_as(h)


def small_branch(model, h):
    """Its gradient is a millionth of the total, and its output is rectified in place."""
    return h + 1e-3 * model.outer(F.relu(model.inner(h), inplace=True))


def second_flattened(model, h):
    """One row per token, but ordered by position."""
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
    "divided in place": (divided_in_place, {"inner": lambda: nn.Linear(6, 6)}),
    "rectified in place": (lambda m, h: h + m.inner(h).relu_(), {"inner": lambda: nn.Linear(6, 6)}),
    "transposed in place": (lambda m, h: h + m.inner(h).transpose_(1, 2).mul_(2).mT,
                            {"inner": lambda: nn.Linear(6, 6)}),
    "partly zeroed": (partly_zeroed, {"inner": lambda: nn.Linear(6, 6)}),
    "small branch": (small_branch, {"inner": lambda: nn.Linear(6, 9), "outer": lambda: nn.Linear(9, 6)}),
    "gain and bias in place": (lambda m, h: m.norm(h).mul_(2).add_(h), {"norm": lambda: nn.LayerNorm(6)}),
    "shared, then in place": (lambda m, h: h + m.table(torch.arange(LENGTH)).mul_(2),
                              {"table": lambda: nn.Embedding(LENGTH, 6)}),
    "routed": (routed, {"inner": lambda: nn.Linear(6, 6), "other": lambda: nn.Linear(6, 6)}),
    "routed by rank": (sorted_by_norm, {"inner": lambda: nn.Linear(6, 6), "other": lambda: nn.Linear(6, 6)}),
    "vmap": (lambda m, h: torch.vmap(m.inner)(h), {"inner": lambda: nn.Linear(6, 6)}),
    "unused": (lambda model, h: h, {"inner": lambda: nn.Linear(6, 6)}),
    "RMSNorm": (lambda m, h: m.norm(h), {"norm": lambda: nn.RMSNorm(6)}),
    "gain": (lambda m, h: h * (1 + m.scale), {"scale": lambda: nn.Parameter(torch.randn(6))}),
    "Conv1D": (lambda m, h: m.conv(h), {"conv": lambda: Conv1D(6, 6)}),
    "no-op dropout of a parameter": (lambda m, h: F.linear(h, F.dropout(m.scale, 0.1, False), m.scale[0]),
                                     {"scale": lambda: nn.Parameter(torch.randn(6, 6))}),
    "rate zero": (lambda m, h: F.dropout(h, 0.0, True), {}),
    "both ways": (used_both_ways, {"inner": lambda: nn.Linear(6, 6),
                                   "bias": lambda: nn.Parameter(torch.randn(6))}),
    "number": (lambda m, h: h * m.scale, {"scale": lambda: nn.Parameter(torch.tensor(0.7))}),
    "convolution": (lambda m, h: m.conv(h.mT).mT, {"conv": lambda: nn.Conv1d(6, 6, 3, padding=1)}),
    "as an input": (lambda m, h: h + F.linear(m.scale[None], m.output.weight[:6]),
                    {"scale": lambda: nn.Parameter(torch.randn(6))}),
    "sentences second": (second, {"inner": lambda: nn.Linear(6, 6)}),
    "packed LSTM": (packed, {"lstm": lambda: nn.LSTM(6, 6, batch_first=True)}),
    "projected LSTM": (lambda m, h: m.lstm(h)[0],
                       {"lstm": lambda: nn.LSTM(6, 8, batch_first=True, proj_size=6)}),
    "two layers": (lambda m, h: m.lstm(h)[0],
                   {"lstm": lambda: nn.LSTM(6, 6, num_layers=2, batch_first=True)}),
    "frequencies": (lambda m, h: h + m.table(torch.arange(LENGTH) % 3),
                    {"table": lambda: nn.Embedding(3, 6, scale_grad_by_freq=True)}),
}  # fmt: skip


def assert_norms_are_naive(model, masked, cotangents):
    norms = ours(model, masked, cotangents)
    for name, reference in naive(model, masked, cotangents).items():
        torch.testing.assert_close(norms[name], reference, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_uses_match_a_naive_loop(name):
    torch.manual_seed(0)
    middle, parts = UNUSUAL[name]
    model = Odd(middle, **{key: make() for key, make in parts.items()}).double()
    masked, cotangents = batch_of(ragged=False), cotangents_of(model)
    assert_norms_are_naive(model, masked, cotangents)


class Hashed(Odd):
    """A mixture of experts, chosen by the word."""

    def __init__(self, rare=2):
        super().__init__(None, experts=nn.ModuleList(nn.Linear(6, 6) for _ in range(2)))
        self.rare = rare

    def forward(self, masked, positions, lengths=None):
        h, out = self.word(masked), 0
        for number, expert in enumerate(self.experts):
            chosen = (masked % self.rare == 0) == number
            if chosen.any():
                out = out + torch.zeros_like(h).index_put(chosen.nonzero(as_tuple=True), expert(h[chosen]))
        return self.output((h + out).mean(1))


@pytest.mark.parametrize("seed", range(20))
def test_tokens_of_several_sentences_may_go_to_one_expert(seed):
    """The first and the last sentence, and sometimes more, send as many tokens to each."""
    torch.manual_seed(seed)
    model, masked = Hashed().double(), batch_of(ragged=False, sentences=8)
    words = torch.randint(1, WORDS + 1, (8, 4))
    words[0], words[-1] = torch.tensor([1, 2, 3, 4]), torch.tensor([2, 4, 5, 7])
    masked = masked._replace(masked=words, positions=0 * masked.positions)
    assert_norms_are_naive(model, masked, cotangents_of(model, 8))


def test_sentences_between_the_probes_may_go_to_another_expert():
    torch.manual_seed(0)
    model, masked = Hashed(rare=WORDS).double(), batch_of(ragged=False, sentences=40)
    words = masked.masked.clamp(1, WORDS - 1)
    words[2, 3] = words[30, 2] = WORDS
    masked = masked._replace(masked=words)
    assert not (gradient_norms._probes(masked).masked == WORDS).any()
    assert_norms_are_naive(model, masked, cotangents_of(model, 40))


@pytest.mark.parametrize(
    "mixed", [lambda _, h: h + h.mean(1, keepdim=True), lambda _, h: torch.fft.fft(h, dim=1).real]
)
def test_a_model_that_heeds_padding_is_measured_without_it(mixed):
    torch.manual_seed(0)
    model, masked = Odd(mixed).double(), batch_of(ragged=True)
    assert len(list(recordings(model, masked))) == SENTENCES
    assert len(list(recordings(model, batch_of(ragged=False)))) == 1
    assert_norms_are_naive(model, masked, cotangents_of(model))


def test_a_parameter_without_gradient_needs_no_use():
    """By cancellation: LayerNorm removes a number that is added to all features."""
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        shift = nn.Linear(6, 1)
        model = Odd(lambda m, h: F.layer_norm(h + m.shift(h), (6,)), shift=shift).to(dtype)
        assert len(list(recordings(model, batch_of(ragged=False)))) == 1


def test_sentences_of_one_token_match_a_naive_loop():
    """Positions of one token have the shape of one sentence's own output."""
    model, long = model_of("encoder"), batch_of(ragged=False)
    masked = Batch(0 * long.masked[:, :1], 0 * long.positions, long.targets, None)
    cotangents = cotangents_of(model)
    assert_norms_are_naive(model, masked, cotangents)


@pytest.mark.parametrize("name", ["encoder", "BiLSTM", "GPT-2"])
def test_a_chunk_may_have_only_sentences_of_one_token(name):
    model, masked = model_of(name), batch_of(ragged=True)
    lengths = masked.lengths.where(torch.arange(SENTENCES) > 5, 1)
    masked = masked._replace(lengths=lengths, positions=masked.positions.minimum(lengths - 1))
    assert_norms_are_naive(model, masked, cotangents_of(model))


def test_a_chunk_may_have_as_many_sentences_as_tokens():
    model, masked = model_of("encoder"), batch_of(ragged=False)
    cotangents = cotangents_of(model)
    whole, parts = ours(model, masked, cotangents, SENTENCES), ours(model, masked, cotangents, LENGTH)
    for name in whole:
        torch.testing.assert_close(whole[name], parts[name], rtol=1e-10, atol=0)


def test_frozen_parameters_are_ignored():
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


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, scale):
        ctx.save_for_backward(h, scale)
        return h * scale

    @staticmethod
    def backward(ctx, gradient):
        h, scale = ctx.saved_tensors
        return gradient * scale, (gradient * h).sum((0, 1))


REFUSED = {
    "an autograd function": (
        lambda m, h: Product.apply(h, m.scale), {"scale": lambda: nn.Parameter(torch.ones(6))},
        r"norm of scale of module itself \(Odd\) is .* by autograd and 0 here; torch functions show nothing"),
    "a millionth of the total": (
        lambda m, h: h + 1e-3 * Product.apply(h, m.scale), {"scale": lambda: nn.Parameter(torch.ones(6))},
        "by autograd and 0 here"),
    "dropout": (lambda m, h: F.dropout(h, 0.1, True), {}, "drops units at random; call model.eval"),
    "random": (lambda m, h: h + torch.rand_like(h), {}, "predicts something else when it reads the"),
    "scripted in part": (lambda m, h: Product.apply(h * m.scale, m.scale),
                         {"scale": lambda: nn.Parameter(torch.ones(6))}, "torch functions show only a part"),
    "attention's dropout": (lambda m, h: F.scaled_dot_product_attention(h, h, h, dropout_p=0.1), {},
                            "drops units at random; call model.eval"),
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
def test_what_cannot_be_measured_is_refused(name):
    middle, parts, sentence = REFUSED[name]
    model = Odd(middle, **{key: make() for key, make in parts.items()})
    with pytest.raises(ModelError, match=sentence):
        list(recordings(model, batch_of(ragged=False)))


def test_bad_input_is_refused():
    model, masked = model_of("encoder"), batch_of(ragged=True)
    with pytest.raises(ModelError, match="cover 11 words, but the word behind a mask is number 12"):
        list(recordings(model, masked._replace(targets=masked.targets + 11)))
    for chunk in (0, -1):
        with pytest.raises(ParameterError, match=rf"^chunk must be .* at least 1; got {chunk}\.$"):
            list(recordings(model, masked, chunk))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_norms_on_a_gpu():
    model, masked = model_of("encoder"), batch_of(ragged=True)
    cotangents = cotangents_of(model)
    expected = ours(model, masked, cotangents)
    on_gpu = ours(model.cuda(), masked, cotangents.cuda())
    for name, norms in expected.items():
        torch.testing.assert_close(on_gpu[name].cpu(), norms, rtol=1e-8, atol=0)


# --- Recorded uses ---

TOKENS = torch.tensor([[1, 4, 0], [2, 2, 4]])


class Tiny(nn.Module):
    """A tied embedding with padding, LayerNorm, positions that all sentences share, and a bare bias."""

    def __init__(self):
        super().__init__()
        self.word, self.position = nn.Embedding(5, 4, padding_idx=0), nn.Embedding(3, 4)
        self.norm, self.bias = nn.LayerNorm(4), nn.Parameter(torch.zeros(4))

    def forward(self, tokens):
        h = self.word(tokens) + self.position(torch.arange(3))
        return F.linear(self.norm(h) + self.bias, self.word.weight[1:])


def recorded(model, tokens):
    """Record twice: the first pass shows which outputs all sentences share."""
    with (first := Recorder(model, len(tokens))):
        model(tokens)
    layout = [
        (shape, True) if shape == (3, 4) else (torch.Size([shape[0] // 2, *shape[1:]]), False)
        for shape in first.outputs
    ]
    with (second := Recorder(model, len(tokens), layout)):
        model(tokens)
    assert not first.uses
    return second.uses


def test_every_use_is_recorded():
    uses = recorded(Tiny(), TOKENS)
    assert [(use.parameter, use.kind) for use in uses] == [
        ("word.weight", "embedding"),
        ("position.weight", "embedding"),
        ("norm.weight", "gain"),
        ("norm.bias", "bias"),
        ("bias", "bias"),
        ("word.weight", "linear"),
    ]
    assert uses[-1].padding == (1, 0)
    assert {use.padding for use in uses[:-1]} == {(0, 0)}


def test_factors_of_the_gradient():
    """A linear layer's input, a gain's normalised input, an embedding's row indices."""
    model = Tiny()
    embedding, position, gain, _, _, linear = recorded(model, TOKENS)
    assert embedding.factor.squeeze(2).tolist() == [[1, 4, NO_ROW], [2, 2, 4]]
    assert position.factor.squeeze(2).tolist() == [[0, 1, 2]] * 2
    h = model.word(TOKENS) + model.position(torch.arange(3))
    torch.testing.assert_close(gain.factor, F.layer_norm(h, (4,)))
    torch.testing.assert_close(linear.factor, model.norm(h) + model.bias)
    assert not any(use.factor.requires_grad for use in (gain, linear))


def test_the_model_computes_the_same_while_it_is_watched():
    model = Tiny()
    with Recorder(model, 2):
        watched = model(TOKENS)
    assert torch.equal(watched, model(TOKENS))


def test_a_frozen_parameter_is_not_watched():
    model = Tiny()
    model.bias.requires_grad_(False)
    assert "bias" not in {use.parameter for use in recorded(model, TOKENS)}


def test_parameters_used_in_another_way_are_named():
    model = Tiny()
    with Recorder(model, 2) as recorder:
        model(TOKENS)
        assert model.bias.shape == (4,)
        assert model.norm.weight.float() is model.norm.weight
        assert not recorder.materialised
        model.bias.exp()
        model.word.weight[torch.tensor([1])]
    assert recorder.materialised == {"bias", "word.weight"}
