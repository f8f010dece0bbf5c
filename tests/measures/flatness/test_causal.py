"""The trace of a causal model's next-token loss against one backward pass per sentence and label."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import predictions, seeded
from transformers import AutoConfig, AutoModelForCausalLM

from sameloss.languages import Sentences
from sameloss.languages.masking import prefix_batch
from sameloss.measures.flatness.hessian import dense_hessian
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.export import HuggingFaceModel

WORDS = 7
TINY = {"vocab_size": WORDS, "num_attention_heads": 2, "max_position_embeddings": 16, "hidden_size": 8}
TINY |= {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
KINDS = {
    "opt": {"ffn_dim": 12, "word_embed_proj_dim": 8},
    "gpt2": {"n_inner": 12},
    "llama": {"intermediate_size": 12, "num_key_value_heads": 1},
}


def causal(kind, layers=2, **options):
    """A random model in float64 whose parameters are all away from zero and one."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **TINY, **KINDS[kind], num_hidden_layers=layers, **options)
    model = AutoModelForCausalLM.from_config(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


MODELS = {f"{kind}, tied" if tied else kind: (kind, tied) for kind in KINDS for tied in (False, True)}


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS)
def model(request):
    kind, tied = request.param
    return causal(kind, tie_word_embeddings=tied)


def loop(model, tokens, position):
    r"""Return $\sum_y \lVert \sqrt{f_y} \nabla \log f_y \rVert^2$ of the token after a position.

    The root is inside because the RMSNorm of `transformers` rounds gradients to float32.
    """
    logs, total = model(input_ids=tokens[None]).logits[0, position].log_softmax(-1), 0.0
    for log in logs:
        weighted = (log.detach() / 2).exp() * log
        gradients = torch.autograd.grad(
            weighted, list(model.parameters()), retain_graph=True, materialize_grads=True
        )
        total += sum(float(g.square().sum()) for g in gradients)
    return total


@settings(max_examples=3, derandomize=True)
@given(lengths=st.lists(st.integers(2, 6), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_the_trace_is_that_of_a_loop(model, lengths, seed):
    tokens = torch.randint(WORDS, (len(lengths), 6), generator=seeded(seed))
    positions = torch.tensor([(seed + row) % (length - 1) for row, length in enumerate(lengths)])
    batch = prefix_batch(Sentences(tokens, torch.tensor(lengths)), positions)
    trace = fisher_trace(HuggingFaceModel(model), batch, estimator="exact")
    cases = zip(tokens, lengths, positions.tolist(), strict=True)
    expected = torch.tensor([loop(model, row[:n], t) for row, n, t in cases], dtype=torch.float64)
    torch.testing.assert_close(sum(trace.draws.values()), expected, rtol=1e-8, atol=0)


def test_the_trace_is_that_of_the_hessian_at_saturation():
    model = HuggingFaceModel(causal("gpt2", layers=1))
    tokens, lengths = torch.randint(WORDS, (3, 5), generator=seeded()), torch.tensor([5, 4, 2])
    batch = prefix_batch(Sentences(tokens, lengths), torch.tensor([3, 1, 0]))
    hessian = dense_hessian(model, batch, predictions(model, batch))
    exact = fisher_trace(model, batch, estimator="exact").total.mean
    assert exact == pytest.approx(float(hessian.trace()), rel=1e-8)


@torch.no_grad()
def test_a_batch_of_prefixes_predicts_the_tokens_that_follow(model):
    tokens, positions = torch.randint(WORDS, (4, 6), generator=seeded()), torch.tensor([0, 4, 2, 2])
    batch = prefix_batch(Sentences(tokens, torch.full((4,), 6)), positions)
    rows = torch.arange(4)
    assert torch.equal(batch.targets, tokens[rows, positions + 1])
    logits = HuggingFaceModel(model)(batch.masked, batch.positions, batch.lengths)
    torch.testing.assert_close(logits, model(input_ids=tokens).logits[rows, positions])
