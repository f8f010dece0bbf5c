"""Every family of masked and causal language models in `transformers`: is its Fisher trace that of a loop?

`python tests/trace_families.py` writes the answers to results/trace_families.csv, which Appendix B shows and
tests/measures/flatness/test_families.py compares.
"""

import sys
import warnings
from inspect import signature
from pathlib import Path
from unittest.mock import patch

import pandas as pd
import torch
import transformers
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.models.auto import modeling_auto

from sameloss.errors import ModelError
from sameloss.languages import Sentences
from sameloss.languages.masking import mask_batch, prefix_batch
from sameloss.measures.flatness import trace
from sameloss.models.export import HuggingFaceModel

FILE = Path(__file__).parents[1] / "results" / "trace_families.csv"
HEADS = {
    "masked": (AutoModelForMaskedLM, modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    "causal": (AutoModelForCausalLM, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
}
FAMILIES = [(head, family) for head, (_, names) in HEADS.items() for family in sorted(names)]

WORDS = 3
LENGTHS = (6, 3, 5, 6)
MOST_PARAMETERS = 1_000_000

SIZES = {
    2: """num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_attention_heads
    n_head n_heads num_heads num_key_value_heads num_kv_heads encoder_attention_heads decoder_attention_heads
    num_experts_per_tok moe_k top_k_experts experts_per_token mamba_n_heads num_latents
    num_self_attends_per_block linear_num_key_heads linear_num_value_heads state_size num_mem_blocks""",
    4: "num_experts num_local_experts n_routed_experts moe_num_experts mamba_d_state rotary_dim",
    8: """head_dim d_head mamba_head_dim q_lora_rank kv_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim
    kv_channels linear_key_head_dim linear_value_head_dim index_head_dim block_size""",
    12: "vocab_size entity_vocab_size pronunciation_vocab_size shape_vocab_size",
    16: """hidden_size d_model n_embd dim emb_dim embedding_size word_embed_proj_dim encoder_hidden_dim
    entity_emb_size pronunciation_embed_dim shape_embed_dim mamba_d_head d_latents""",
    24: """intermediate_size d_inner ffn_dim n_inner hidden_dim d_ff dim_ff encoder_ffn_dim decoder_ffn_dim
    moe_intermediate_size shared_expert_intermediate_size moe_ffn_hidden_size""",
    40: "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length",
    0: "bos_token_id eos_token_id pad_token_id",
}
TINY = {name: size for size, names in SIZES.items() for name in names.split()}
TINY |= {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}  # of DeBERTa, which divides in place
TINY |= {"default_language": "en_XX", "axial_pos_embds": False}
ATTEMPTS = (
    TINY,
    {k: v for k, v in TINY.items() if "layer" not in k},
    {k: v for k, v in TINY.items() if v not in (2, 4, 8)},
    {
        k: v
        for k, v in TINY.items()
        if k in ("vocab_size", "hidden_size", "intermediate_size", "pad_token_id")
    },
    {"vocab_size": 12, "pad_token_id": 0},
)

REASONS = {
    "predicts something else": "random, or changed by its own passes",
    "torch functions show": "uses parameters out of sight of torch functions",
    "The model returned": "its output has another form",
    "gradient that is not finite": "has gradients that are not finite",
}


def tiny(head, family):
    """A small model of a family in float64, or None if no attempt gives one."""
    kind, _ = HEADS[head]
    config_of = transformers.CONFIG_MAPPING[family]
    known = {*signature(config_of.__init__).parameters, *getattr(config_of, "__dataclass_fields__", {})}
    for attempt in ATTEMPTS:
        try:
            config = config_of(**{name: value for name, value in attempt.items() if name in known})
            config.use_cache, config._experts_implementation = False, "eager"
            if head == "causal" and hasattr(config, "is_decoder"):
                config.is_decoder = True
            with torch.device("meta"):
                model = kind.from_config(config)
            if sum(p.numel() for p in model.parameters()) <= MOST_PARAMETERS:
                torch.manual_seed(0)
                return kind.from_config(config).double().eval()
        except Exception:  # sizes that do not fit together, in words of each family's own
            continue
    return None


class Precision(TorchFunctionMode):
    """Notes whether a differentiable number is in float32 on its way."""

    single = False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype == torch.float32 and result.requires_grad:
            self.single = True
        return result


def loop(model, masked):
    r"""$\sum_y \lVert \sqrt{f_y} \nabla \log f_y \rVert^2$ by parameter and sentence, each alone."""
    parameters, rows = [p for p in model.parameters() if p.requires_grad], []
    for row in range(len(masked.masked)):
        one = masked.rows(slice(row, row + 1)).narrowed()
        total = torch.zeros(len(parameters), dtype=torch.float64)
        logs = model(one.masked, one.positions, one.lengths).log_softmax(-1)[0]
        for log in logs:
            weighted = (log.detach() / 2).exp() * log
            found = torch.autograd.grad(weighted, parameters, retain_graph=True, allow_unused=True)
            norms = [0.0 if g is None else float(g.square().sum()) for g in found]
            total += torch.tensor(norms, dtype=torch.float64)
        rows.append(total)
    return torch.stack(rows, 1)


def answer(head, family):
    """The row of one family: outcome and reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome, reason = _answer(head, family)
    return {"head": head, "family": family, "outcome": outcome, "reason": reason}


def _answer(head, family):
    model = tiny(head, family)
    if model is None:
        return "not tried", f"no model below {MOST_PARAMETERS:,} parameters"
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.data.add_(0.05 * torch.randn_like(parameter))
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor(LENGTHS)
    tokens = torch.randint(1, 1 + WORDS, (len(lengths), max(LENGTHS)), generator=generator)
    make = mask_batch if head == "masked" else prefix_batch
    masked = make(Sentences(tokens, lengths), torch.tensor([1, 0, 2, 3]))
    wrapped = HuggingFaceModel(model, WORDS)
    masked = masked._replace(targets=0 * masked.targets)
    try:
        with Precision() as precision:
            expected = loop(wrapped, masked)
    except ModelError as fault:
        expected, precision.single = str(fault), False
    except Exception:
        return "not tried", "does not run on word ids alone"
    sizes = []

    def recordings(*about):
        for rows, recording in trace_recordings(*about):
            sizes.append(len(rows))
            yield rows, recording

    trace_recordings = trace.recordings
    try:
        with patch.object(trace, "recordings", recordings):
            draws = trace.fisher_trace(wrapped, masked, estimator="exact").draws
    except ModelError as fault:
        known = [reason for part, reason in REASONS.items() if part in str(fault)]
        return "refused", known[0] if known else str(fault)
    found, tolerance = torch.stack(list(draws.values())), 1e-4 if precision.single else 1e-8
    wrong = [
        name
        for name, ours, loops in zip(draws, found, expected, strict=True)
        if not torch.allclose(
            ours, loops, rtol=tolerance, atol=(1e-2 * tolerance) ** 2 * float(expected.sum())
        )
    ]
    if wrong:
        return "wrong", ", ".join(wrong)
    return "right", "one sentence at a time" if max(sizes) == 1 else "sentences together"


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    table = pd.DataFrame(
        [answer(*family) for family in FAMILIES if not sys.argv[1:] or family[1] in sys.argv[1:]]
    )
    if sys.argv[1:]:
        print(table.to_string())
    else:
        table.to_csv(FILE, index=False)
