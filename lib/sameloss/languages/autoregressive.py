"""Causal language models as languages, with exact conditionals by enumeration (Section 2.2, App. A.1-A.2).

The paper samples from facebook/opt-125m, with its output restricted to 2,000 tokens (see `pretrained`). Any
causal language model of `transformers` is such a language; the default is a small random one.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sameloss.checks import check_count, check_counts, check_positive
from sameloss.errors import LanguageError
from sameloss.languages.language import MASK, LanguageSpec, Sentences, check_task, check_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FILLINGS = 10_000
"""Largest number of ways to fill the masks of one sentence."""


def fillings(sentences: Sentences, words: int) -> tuple[Sentences, Int[Tensor, " filling"]]:
    """Replace the masks of each sentence by all combinations of words.

    Args:
        sentences: tokens in 0..words.
        words: vocabulary size c.

    Returns:
        The filled sentences, and for each the row that it comes from.

    Raises:
        LanguageError: if a sentence has more than `FILLINGS` fillings.

    """
    tokens, owners = sentences.tokens.long(), torch.arange(len(sentences.lengths))
    masks = (tokens == MASK) & sentences.inside
    most = int(masks.sum(1).max()) if len(masks) else 0
    if words**most > FILLINGS:
        raise LanguageError(
            f"{most} masks of {words} words have {words**most:,} fillings; at most {FILLINGS:,} are summed "
            "one by one, which is the only way for an autoregressive language."
        )
    for position in masks.any(0).nonzero().flatten().tolist():
        masked = masks[owners, position]
        every = tokens[masked].repeat_interleave(words, 0)
        every[:, position] = torch.arange(1, words + 1).repeat(int(masked.sum()))
        tokens = torch.cat([tokens[~masked], every])
        owners = torch.cat([owners[~masked], owners[masked].repeat_interleave(words)])
    return Sentences(tokens, sentences.lengths[owners]), owners


def sum_of_fillings(
    logs: Float[Tensor, "filling _column"], owners: Int[Tensor, " filling"], sentences: int
) -> Float[Tensor, "_sentence _column"]:
    """Compute the log-sum-exp over the fillings of each sentence."""
    index = owners[:, None].expand_as(logs)
    most = logs.new_full((sentences, logs.shape[1]), -torch.inf).scatter_reduce(0, index, logs, "amax")
    total = torch.zeros_like(most).index_add(0, owners, (logs - most[owners]).exp())
    return most + total.log()


class RestrictedModel:
    """The next-token distribution of a causal language model, renormalised over some of its tokens.

    Column w - 1 is word w, the w-th allowed token; the last column is the end token. Only these rows of the
    output layer are multiplied. Tokens and results are on the CPU, wherever the model is. Float64 models need
    the attention `sdpa`, the default of `transformers`: `eager` rounds its softmax to float32.

    Attributes:
        cached: whether keys and values of earlier tokens are kept. A model without them, such as Mamba, reads
            all earlier tokens again: the same numbers, more slowly.

    """

    def __init__(self, model: "PreTrainedModel", allowed: Sequence[int], end: int) -> None:
        """Require a causal model whose logits are linear in its last hidden state."""
        from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

        self.model, self.ids = model.eval(), torch.tensor([*allowed, end])
        config, head = model.config, model.get_output_embeddings()
        numbers = (2 * config.num_hidden_layers + 8) * config.hidden_size + len(self.ids)
        self.numbers_per_token = round(numbers * head.weight.itemsize / 8)
        self.weight = head.weight.detach()[self.ids]
        self.bias = None if head.bias is None else head.bias.detach()[self.ids]
        few = self.ids[None, :2]
        with torch.no_grad():
            ids = few.to(self.weight.device)
            kept = getattr(model.base_model(input_ids=ids, use_cache=True), "past_key_values", None)
            known = {type(layer) for layer in getattr(kept, "layers", ())}
            self.cached = bool(known) and known <= {DynamicLayer, DynamicSlidingWindowLayer}
            expected = model(ids).logits[0, -1].cpu()[self.ids].log_softmax(-1)
            (first, cache), (whole, _) = self.log_probs(few[:, :1], None), self.log_probs(few, None)
            parts = torch.cat([first, self.log_probs(few[:, 1:], cache)[0]], 1)
        if parts.isnan().any() or whole.isnan().any() or expected.isnan().any():
            raise LanguageError(
                "The model's predictions are not finite; its weights are too large, or damaged."
            )
        if not torch.allclose(parts, whole, rtol=1e-3, atol=1e-3):
            raise LanguageError(
                "The model reads ahead; give one that predicts the next token, such as OPT or GPT-2."
            )
        if not torch.allclose(whole[0, -1].to(expected), expected, rtol=1e-2, atol=1e-2):
            raise LanguageError("The model's logits must be a linear map of its last hidden state.")

    def log_probs(
        self, tokens: Int[Tensor, "row step"], cache: Any
    ) -> tuple[Float[Tensor, "row step _column"], Any]:
        """Predict the token after each input token.

        Args:
            tokens: token ids of the model.
            cache: what is kept of the preceding tokens, which may be updated in place; None at the start.

        Returns:
            Log probabilities of the columns after each token (float64, nats), and the updated cache. At the
            start of a sentence the end token has -inf, so no sentence is empty.

        """
        device, start, steps = self.weight.device, cache is None, tokens.shape[1]
        if self.cached:
            output = self.model.base_model(input_ids=tokens.to(device), past_key_values=cache, use_cache=True)
            cache = output.past_key_values
        else:
            cache = tokens if start else torch.cat([cache, tokens], 1)
            output = self.model.base_model(input_ids=cache.to(device), use_cache=False)
        logits = nn.functional.linear(output.last_hidden_state[:, -steps:], self.weight, self.bias)
        if start:
            logits[:, 0, -1] = -torch.inf
        return logits.log_softmax(-1).double().cpu(), cache


def rows_of(cache: Any, rows: Int[Tensor, " row"]) -> Any:
    """Select rows of a cache, repeats allowed; the cache itself stays as it is."""
    if isinstance(cache, Tensor):
        return cache[rows]
    chosen = copy.deepcopy(cache)
    chosen.batch_select_indices(rows.to(cache.layers[0].keys.device))
    return chosen


NUMBERS = 1 << 24
"""Largest size of a forward pass (caches, activations, outputs), in numbers of float64: a rough bound."""


NEXT, NEXT_WORDS = "next", 8
"""A downstream task, and its largest number of classes."""

LogRest = Callable[[Int[Tensor, " candidate"], int | None], Tensor]


class AutoregressiveLanguage:
    r"""Sentences sampled from a causal language model restricted to some of its tokens.

    A sentence begins after a start token z and ends before an end token or at `max_length` tokens:

    $$\Pr(x) = \sum_z \pi(z) \prod_{t=1}^n p(x_t \mid z, x_{<t}) \; p(\text{end} \mid z, x)^{[n < N]}.$$

    Here p is the model's softmax at temperature 1 over the allowed tokens and the end token, which is not
    allowed first. The start token is the class of the downstream task `topic`, if there are several. With one
    start there is the task `next`, which is not the paper's: which of the first `NEXT_WORDS` words is most
    probable after the sentence, if it goes on. One pass over the sentence tells.

    Conditionals follow from the joint probability, at one pass over the rest of the sentence per candidate
    word. Sums are computed on the CPU, wherever the model is; results are on the device of the tokens.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        allowed: Sequence[int],
        starts: Sequence[int],
        prior: Sequence[float],
        end: int,
        max_length: int,
        tolerance: float = 0.0,
    ) -> None:
        """Require a causal model whose logits are linear in its last hidden state.

        Args:
            model: see `RestrictedModel`.
            allowed: token ids of the model; word w of the language is allowed[w - 1].
            starts: token ids of the model, one per topic.
            prior: Pr(z) of each start token.
            end: token id that ends a sentence; may be a start token, but not an allowed one.
            max_length: largest number of tokens of a sentence, without the start.
            tolerance: of conditionals, see `bounded_conditionals_at`; 0: exact ones.

        """
        self.model, self.max_length = RestrictedModel(model, allowed, end), max_length
        self.tolerance = tolerance
        self.starts, self.prior = torch.tensor(starts), torch.tensor(prior, dtype=torch.float64)
        self.words = len(allowed)
        self.tasks: tuple[str, ...] = ("topic",) if len(starts) > 1 else (NEXT,)

    def classes(self, task: str) -> int:
        """Number of start tokens, or of the words between which the task `next` chooses."""
        check_task(self, task)
        return min(NEXT_WORDS, self.words) if task == NEXT else len(self.starts)

    @property
    def _rows(self) -> int:
        """Largest number of sentences per forward pass."""
        return max(1, NUMBERS // (self.model.numbers_per_token * (self.max_length + 1)))

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw independent sentences, padded with zeros."""
        check_count("count", count, least=0)
        uniform = torch.rand(count, 1 + self.max_length, dtype=torch.float64, generator=generator)
        tokens = torch.zeros(count, self.max_length, dtype=torch.long)
        for rows in torch.arange(count).split(self._rows):
            if len(rows):
                tokens[rows] = self._draw(uniform[rows])
        return Sentences(tokens, (tokens != MASK).sum(1))

    def _draw(self, uniform: Float[Tensor, "batch _draw"]) -> Int[Tensor, "batch _seq"]:
        """Draw the start and then each token by inverting its cumulative distribution function."""
        start, *draws = uniform.split(1, dim=1)
        ids, cache = self.starts[inverse(self.prior.expand(len(uniform), -1), start)], None
        alive = torch.arange(len(uniform))  # sentences that have not ended
        tokens = torch.zeros(len(uniform), self.max_length, dtype=torch.long)
        for step, draw in enumerate(draws):
            log_p, cache = self.model.log_probs(ids, cache)
            columns = inverse(log_p[:, -1].exp(), draw[alive])
            (going,) = (columns < self.words).squeeze(1).nonzero(as_tuple=True)
            if len(going) == 0:
                break
            if len(going) < len(alive):
                alive, columns, cache = alive[going], columns[going], rows_of(cache, going)
            tokens[alive, step] = columns.squeeze(1) + 1
            ids = self.model.ids[columns]
        return tokens

    @torch.no_grad()
    def log_prob(self, sentences: Sentences) -> Float[Tensor, " batch"]:
        """Compute log Pr(x) in nats; masked tokens are summed out.

        Raises:
            LanguageError: for token ids, lengths or numbers of masks out of range.

        """
        scores = self._log_likelihoods(sentences) + self.prior.log()
        return scores.logsumexp(1).to(sentences.tokens.device)

    @torch.no_grad()
    def likelihood(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Compute Pr(x | z) for each start token z, divided by the largest of them; `posterior` of `next`."""
        if task == NEXT:
            return self.posterior(sentences, task)
        check_task(self, task)
        scores = self._log_likelihoods(sentences)
        return (scores - scores.amax(1, keepdim=True)).exp().to(sentences.tokens.device)

    @torch.no_grad()
    def posterior(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Compute Pr(z | x) for each start token z; for `next`, Pr(next word | x) among the first words.

        Raises:
            LanguageError: for sentences that are not of the language; in `next`, also for masked tokens.

        """
        check_task(self, task)
        log_given = self._log_next if task == NEXT else self._log_likelihoods
        scores = log_given(sentences) + self.prior.log()  # of one start: 0
        return scores.softmax(1).to(sentences.tokens.device)

    def _log_next(self, sentences: Sentences) -> Float[Tensor, "batch class"]:
        """Compute log Pr(next word | x, no end) up to a constant, on the CPU."""
        sentences = sentences.to("cpu")
        self._check(sentences)
        if ((sentences.tokens == MASK) & sentences.inside).any():
            raise LanguageError(f"The task {NEXT} needs sentences without masked tokens.")
        scores = torch.empty(len(sentences.lengths), self.classes(NEXT), dtype=torch.float64)
        for rows, tokens in sentences.chunks(self._rows):
            log_p, _ = self.model.log_probs(self._after_starts(tokens - 1), None)
            scores[rows] = log_p[:, -1, : scores.shape[1]]
        return scores

    def _log_likelihoods(self, sentences: Sentences) -> Float[Tensor, "batch start"]:
        """Compute log Pr(x | z) on the CPU."""
        sentences = sentences.to("cpu")
        self._check(sentences)
        filled, owners = fillings(sentences, self.words)
        result = torch.empty(len(owners), len(self.starts), dtype=torch.float64)
        for rows, tokens in filled.chunks(max(1, self._rows // len(self.starts))):
            targets = self._targets(tokens)
            log_p, _ = self.model.log_probs(self._after_starts(targets[:, :-1]), None)
            chosen = _chosen(log_p, targets.repeat(len(self.starts), 1)).sum(1)
            result[rows] = chosen.view(-1, len(tokens)).T
        return sum_of_fillings(result, owners, len(sentences.lengths))

    def conditionals(self, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
        """Compute Pr(x_t = word + 1 | x_-t) at every position; rows of padding are zero.

        Raises:
            LanguageError: for token ids, lengths or numbers of masks out of range.

        """
        device, sentences = sentences.tokens.device, sentences.to("cpu")
        self._check(sentences)
        result = torch.zeros(*sentences.tokens.shape, self.words, dtype=torch.float64)
        for position in range(sentences.tokens.shape[1]):
            rows = (sentences.lengths > position).nonzero().squeeze(1)
            at = torch.full_like(rows, position)
            result[rows, position] = self.conditionals_at(sentences.rows(rows), at)
        return result.to(device)

    @torch.no_grad()
    def conditionals_at(
        self, sentences: Sentences, positions: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch word"]:
        r"""Compute Pr(x_t = word + 1 | x_-t) at one position of each sentence (App. A.2).

        $$\Pr(x_t = v \mid x_{-t}) \propto \Pr(x_1, \dots, x_{t-1}, v, x_{t+1}, \dots, x_n)$$

        The model reads the tokens before t once for all v, and those after t once for each.

        Args:
            sentences: the token at t is ignored; other masked tokens are summed out.
            positions: t, counted from 0.

        Returns:
            float64 probabilities.

        Raises:
            LanguageError: for token ids, lengths, positions or numbers of masks out of range.

        """
        if self.tolerance:
            return self.bounded_conditionals_at(sentences, positions, self.tolerance)[0]
        device, sentences, positions = sentences.tokens.device, sentences.to("cpu"), positions.cpu()
        any_word = self._with_any_word(sentences, positions)
        filled, owners = fillings(Sentences(any_word, sentences.lengths), self.words)
        result = torch.empty(len(owners), self.words, dtype=torch.float64)
        chunk = max(1, self._rows // (len(self.starts) * self.words))
        for position in positions.unique().tolist():
            here = (positions[owners] == position).nonzero().squeeze(1)
            for rows, tokens in filled.rows(here).chunks(chunk):
                result[here[rows]] = self._log_joint(tokens, position).logsumexp(0)
        return sum_of_fillings(result, owners, len(positions)).softmax(1).to(device)

    @torch.no_grad()
    def bounded_conditionals_at(
        self,
        sentences: Sentences,
        positions: Int[Tensor, " batch"],
        tolerance: float,
        margin: float = 1.0,
    ) -> tuple[Float[Tensor, "batch word"], Float[Tensor, " batch"]]:
        r"""Compute Pr(x_t = word + 1 | x_-t) without the words that can hold almost nothing, which get zero.

        Let w_v be the probability of the sentence up to a word v at t, or up to the next token, and r_v that
        of the rest. Words are read in the order of w_v ρ, where ρ bounds r_v, until those left have

        $$\sum_v w_v\, \rho \le \text{tolerance} \cdot \sum_{v\ \text{read}} w_v r_v, \qquad
        \rho = \min(1, \text{margin} \cdot \max_{v\ \text{read}} r_v).$$

        With an infinite margin this is proved, because r_v is a probability, but leaves out little in long
        sentences. A finite one assumes that the rest of the sentence is at most so many times as probable
        after a word left out as after any that is read.

        Args:
            sentences: without masked tokens, but for the one at t.
            positions: t, counted from 0.
            tolerance: on the total variation distance from the exact conditionals.
            margin: see above.

        Returns:
            float64 probabilities, and the bound reached on their total variation distance from the exact.

        Raises:
            LanguageError: for masked tokens; see also `conditionals_at`.

        """
        device, sentences, positions = sentences.tokens.device, sentences.to("cpu"), positions.cpu()
        known = self._with_any_word(sentences, positions)
        if ((known == MASK) & sentences.inside).any():
            raise LanguageError("Other masked tokens are summed out exactly only: set the tolerance to 0.")
        results, bounds = torch.zeros(len(positions), self.words, dtype=torch.float64), []
        for row, (length, position) in enumerate(
            zip(sentences.lengths.tolist(), positions.tolist(), strict=True)
        ):
            candidates = self._candidates(known[row : row + 1, :length], position)
            logs, bound = self._read_until(*candidates, tolerance, math.log(margin))
            results[row] = logs.view(-1, self.words).logsumexp(0).softmax(0)
            bounds.append(bound)
        return results.to(device), torch.tensor(bounds, dtype=torch.float64, device=device)

    def _read_until(
        self, ahead: Float[Tensor, "_row word"], log_rest: LogRest, tolerance: float, log_margin: float
    ) -> tuple[Float[Tensor, " candidate"], float]:
        """Compute the log joint probabilities of the candidates read, and bound those of the others."""
        logs, rest = ahead.flatten().clone(), torch.full((ahead.numel(), 2), -torch.inf, dtype=torch.float64)
        seen = torch.zeros(len(logs), dtype=torch.long)  # 0: only the prefix, 1: also the next token, 2: all
        chosen = logs.topk(min(self._rows, len(logs))).indices
        seen[chosen] = 1
        while True:
            read, glanced = chosen[seen[chosen] == 1], chosen[seen[chosen] == 0]
            steps = log_rest(read, None)
            rest[read] = torch.stack([steps.sum(1), steps[:, 1:].sum(1)], 1)
            logs[read] = ahead.flatten()[read] + rest[read, 0]
            logs[glanced] += log_rest(glanced, 1).sum(1)
            seen[chosen] += 1
            most = (log_margin + rest.amax(0)).clamp(max=0)[seen.clamp(max=1)]
            upper = (logs + most).where(seen < 2, -torch.inf)
            bound = float((upper.logsumexp(0) - logs[seen == 2].logsumexp(0)).exp())
            if bound <= tolerance:
                return logs.where(seen == 2, -torch.inf), bound
            chosen = upper.topk(min(self._rows, int((seen < 2).sum()))).indices

    def _log_joint(
        self, tokens: Int[Tensor, "batch length"], position: int
    ) -> Float[Tensor, "_start batch word"]:
        """Compute log Pr(z, x with x_t = word + 1) for every start and word."""
        ahead, log_rest = self._candidates(tokens, position)
        rest = log_rest(torch.arange(ahead.numel()), None).sum(1)
        return (ahead + rest.view_as(ahead)).view(len(self.starts), -1, self.words)

    def _candidates(
        self, tokens: Int[Tensor, "batch length"], position: int
    ) -> tuple[Float[Tensor, "_row word"], LogRest]:
        """Compute log Pr(z, x_<t, x_t = word + 1) for every start and sentence (a row) and every word.

        Returns:
            Also a function of candidates, numbered row * words + word, that computes the log probabilities of
            the tokens after t, or of the first few: (candidate, token).

        """
        targets = self._targets(tokens)
        before, after = targets[:, :position], targets[:, position + 1 :].repeat(len(self.starts), 1)
        log_p, cache = self.model.log_probs(self._after_starts(before), None)
        prefix = _chosen(log_p[:, :position], before.repeat(len(self.starts), 1)).sum(1)
        prior = self.prior.log().repeat_interleave(len(tokens))

        def log_rest(candidates: Int[Tensor, " candidate"], few: int | None) -> Tensor:
            wanted, parts = after[:, :few], [torch.zeros(0, after[:, :few].shape[1], dtype=torch.float64)]
            if not wanted.shape[1]:  # nothing follows the last token of a longest sentence
                return parts[0].new_zeros(len(candidates), 0)
            for piece in candidates.split(self._rows) if len(candidates) else ():
                rows, words = piece // self.words, piece % self.words
                read = torch.cat([words[:, None], wanted[rows, :-1]], dim=1)
                log_p, _ = self.model.log_probs(self.model.ids[read], rows_of(cache, rows))
                parts.append(_chosen(log_p, wanted[rows]))
            return torch.cat(parts)

        return (prior + prefix)[:, None] + log_p[:, position, : self.words], log_rest

    def _targets(self, tokens: Int[Tensor, "batch length"]) -> Int[Tensor, "batch _target"]:
        """Columns of the words and, for sentences below `max_length`, of the end token."""
        end = tokens.new_full((len(tokens), int(tokens.shape[1] < self.max_length)), self.words)
        return torch.cat([tokens - 1, end], dim=1)

    def _after_starts(self, columns: Int[Tensor, "batch length"]) -> Int[Tensor, "_start_batch _read"]:
        """Token ids of every start token followed by every sentence, start by start."""
        starts = self.starts.repeat_interleave(len(columns))[:, None]
        return torch.cat([starts, self.model.ids[columns].repeat(len(self.starts), 1)], dim=1)

    def _with_any_word(
        self, sentences: Sentences, positions: Int[Tensor, " batch"]
    ) -> Int[Tensor, "batch seq"]:
        """Check sentences and positions, and put some word at the positions."""
        self._check(sentences)
        if ((positions < 0) | (positions >= sentences.lengths)).any():
            raise LanguageError("Positions must lie in 0..length - 1 of their sentences.")
        return sentences.tokens.scatter(1, positions[:, None], 1)

    def _check(self, sentences: Sentences) -> None:
        lengths = sentences.lengths
        if ((lengths < 1) | (lengths > self.max_length)).any():
            raise LanguageError(f"A sentence of this language has 1 to {self.max_length} tokens.")
        check_tokens(sentences.tokens[sentences.inside][None], self.words)


def _chosen(
    log_p: Float[Tensor, "row step _column"], columns: Int[Tensor, "row step"]
) -> Float[Tensor, "row step"]:
    """Select the log probabilities of the given columns."""
    return log_p.gather(2, columns[..., None]).squeeze(2)


def inverse(
    probabilities: Float[Tensor, "row _col"], uniform: Float[Tensor, "row 1"]
) -> Int[Tensor, "row 1"]:
    """Find the column at which each cumulative distribution function exceeds its uniform number."""
    cumulative = probabilities.cumsum(1)
    return torch.searchsorted(cumulative / cumulative[:, -1:], uniform.contiguous(), right=True)


STAND_IN_NOTE = (
    "The teacher is a stand-in for facebook/opt-125m: a small transformer of the same architecture "
    "with random weights; for a real one, give a model's name or folder in the parameter `opt`."
)
"""Printed by every page that shows results of the default teacher."""


@dataclass(frozen=True)
class TeacherSpec(LanguageSpec):
    """A small random transformer as a stand-in for facebook/opt-125m; part of a run's key.

    It has the architecture of OPT, but an untied output layer, random weights and one start token per topic.
    `scale` multiplies the usual standard deviation 1 / sqrt(fan-in) of the inner weights: above 1, words
    depend more sharply on their context. `logit_scale` is the standard deviation of the logits, in nats,
    which determines the entropy.
    """

    words: int = 16
    max_length: int = 8
    topics: int = 3
    d_model: int = 8
    layers: int = 1
    heads: int = 2
    scale: float = 2.0
    logit_scale: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_counts(self, "words", "max_length", "topics", "d_model", "layers", "heads")
        check_positive(self, "scale", "logit_scale")

    def build(self) -> AutoregressiveLanguage:
        """Draw float64 weights from `seed`; the global random state is left unchanged."""
        from transformers import OPTConfig, OPTForCausalLM

        config = OPTConfig(
            vocab_size=self.topics + 1 + self.words,
            hidden_size=self.d_model,
            word_embed_proj_dim=self.d_model,
            ffn_dim=4 * self.d_model,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            max_position_embeddings=self.max_length + 1,
            tie_word_embeddings=False,  # tied, a random model would repeat its last word
            bos_token_id=0,
            eos_token_id=self.topics,
            pad_token_id=None,
        )
        with torch.random.fork_rng(devices=[]):  # the constructor draws weights, which are replaced
            model = OPTForCausalLM(config).double()
        self._draw(model)
        first = self.topics + 1
        return AutoregressiveLanguage(
            model,
            allowed=range(first, first + self.words),
            starts=range(self.topics),
            prior=[1 / self.topics] * self.topics,
            end=self.topics,
            max_length=self.max_length,
        )

    @torch.no_grad()
    def _draw(self, model: nn.Module) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        for name, weight in model.named_parameters():
            if weight.ndim == 1:  # biases and layer norms
                weight.fill_(float("layer_norm.weight" in name))
                continue
            scale = self.logit_scale if name.startswith("lm_head") else self.scale
            deviation = 1.0 if "embed" in name else scale / math.sqrt(weight.shape[1])
            weight.copy_(deviation * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))
