"""Causal language models as languages, with exact conditionals by enumeration (Section 2.2, App. A.1-A.2).

transformers and datasets take seconds to import, so they are imported where they are used.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sameloss.checks import check_count, check_counts, check_positive
from sameloss.device import best_device
from sameloss.errors import LanguageError
from sameloss.hub import commit_of, fetched, fingerprint_of
from sameloss.languages.language import MASK, Sentences, check_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Sums over masked words, one by one: all that a language without a dynamic programme can do.

FILLINGS = 10_000
"""Ways of filling the masks of one sentence, at most."""


def fillings(sentences: Sentences, words: int) -> tuple[Sentences, Int[Tensor, " filling"]]:
    """Fill every masked place of a sentence with every word.

    Args:
        sentences: tokens in 0..words, of which MASK is to be filled.
        words: vocabulary size c.

    Returns:
        The fillings, and for each the number of its sentence. A sentence without masks is its own filling.

    Raises:
        LanguageError: where a sentence has more than FILLINGS of them.

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
    """Compute the logarithm of the sum of the exponentials over the fillings of each sentence."""
    index = owners[:, None].expand_as(logs)
    most = logs.new_full((sentences, logs.shape[1]), -torch.inf).scatter_reduce(0, index, logs, "amax")
    total = torch.zeros_like(most).index_add(0, owners, (logs - most[owners]).exp())
    return most + total.log()


# A causal language model of `transformers` that may write only some of its tokens.


class RestrictedModel:
    """The next-token distribution over the allowed tokens and the end token: its columns.

    Column w - 1 is word w; the last column is the end. Only the rows of the output layer that are
    needed are multiplied. Tokens and results are on the CPU, wherever the model is. Float64 models
    need an attention that computes in float64: `sdpa`, the default of `transformers`, does; `eager`
    rounds its softmax to float32.
    """

    def __init__(self, model: "PreTrainedModel", allowed: Sequence[int], end: int) -> None:
        """Take a causal language model whose logits are linear in its last hidden state.

        Raises:
            LanguageError: for token ids the model does not have, or another output layer.

        """
        self.model, self.ids = model.eval(), torch.tensor([*allowed, end])
        if len(self.ids.unique()) < len(self.ids):
            raise LanguageError("The allowed tokens and the end token are different tokens.")
        self.check_ids(self.ids)
        head = model.get_output_embeddings()
        self.weight = head.weight.detach()[self.ids]
        self.bias = None if head.bias is None else head.bias.detach()[self.ids]
        few = self.ids[None, :2]
        with torch.no_grad():
            expected = model(few.to(self.weight.device)).logits[0, -1].cpu()[self.ids].log_softmax(-1)
            ours = self.log_probs(few, None)[0][0, -1].to(expected)
        if not torch.allclose(ours, expected, rtol=1e-2, atol=1e-2):
            raise LanguageError("The model's logits must be a linear map of its last hidden state.")

    def check_ids(self, ids: Int[Tensor, " token"]) -> None:
        """Refuse token ids that the model does not have.

        Raises:
            LanguageError: naming some of them.

        """
        size = self.model.config.vocab_size
        if not len(ids) or int(ids.min()) < 0 or int(ids.max()) >= size:
            raise LanguageError(f"Token ids of this model lie in 0..{size - 1}; got {ids.tolist()[:5]}...")

    @property
    def numbers_per_token(self) -> int:
        """Return roughly how many numbers a forward pass holds for each token it reads."""
        config = self.model.config
        return (2 * config.num_hidden_layers + 8) * config.hidden_size + len(self.ids)

    def log_probs(
        self, tokens: Int[Tensor, "row step"], cache: Any
    ) -> tuple[Float[Tensor, "row step _column"], Any]:
        """Read token ids after what is cached, and predict what follows each.

        Args:
            tokens: token ids of the model.
            cache: keys and values of the tokens before, which it takes over; None at the start.

        Returns:
            The log probability of each column after each token (float64, nats), and the longer cache.
            At the beginning of a sentence the end has -inf: no sentence is empty.

        """
        device = self.weight.device
        output = self.model.base_model(input_ids=tokens.to(device), past_key_values=cache, use_cache=True)
        logits = nn.functional.linear(output.last_hidden_state, self.weight, self.bias).double()
        if cache is None:
            logits[:, 0, -1] = -torch.inf
        return logits.log_softmax(-1).cpu(), output.past_key_values


# Sentences written by an autoregressive transformer, with exact conditionals (Section 2.2, App. A.1-A.2).
#
# The paper samples from facebook/opt-125m, its output restricted to 2,000 tokens. Any causal language
# model of `transformers` is such a language here. Its masked-language-model conditionals follow from
# the joint probability, which costs one pass over the rest of the sentence for every candidate word.

NUMBERS = 1 << 24
"""Numbers one forward pass may hold in its caches, activations and outputs; bounds its memory."""


class AutoregressiveLanguage:
    r"""Sentences of a causal language model restricted to some of its tokens.

    A sentence begins after a start token z, which is no part of it, and ends before an end token or
    at `max_length` tokens without one:

    $$\Pr(x) = \sum_z \pi(z) \prod_{t=1}^n p(x_t \mid z, x_{<t}) \; p(\text{end} \mid z, x)^{[n < N]}.$$

    Here p is the model's softmax at temperature 1 over the allowed tokens and the end token; the
    end token is not allowed first, so no sentence is empty. With several start tokens, which of
    them it was is the downstream task `topic`. Sums are taken on the CPU, wherever the model is; results
    are on the device of the tokens.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        allowed: Sequence[int],
        starts: Sequence[int],
        prior: Sequence[float],
        end: int,
        max_length: int,
    ) -> None:
        """Take the model and its tokens.

        Args:
            model: a causal language model whose logits are linear in its last hidden state.
            allowed: token ids of the model; word w of the language is allowed[w - 1].
            starts: token ids of the model, one for each topic.
            prior: Pr(z) of each start token.
            end: token id that ends a sentence; may be a start token, not an allowed one.
            max_length: length of the longest sentence, in tokens, the start not counted.

        Raises:
            LanguageError: for tokens the model does not have or a prior that is none.

        """
        self.model, self.max_length = RestrictedModel(model, allowed, end), max_length
        self.starts, self.prior = torch.tensor(starts), torch.tensor(prior, dtype=torch.float64)
        self.model.check_ids(self.starts)
        proper = self.prior.shape == self.starts.shape and (self.prior > 0).all()
        if not proper or not math.isclose(self.prior.sum(), 1):
            raise LanguageError("The prior gives each start token a positive probability; they sum to 1.")
        if max_length < 1:
            raise LanguageError(f"max_length is at least 1; got {max_length}.")

    @property
    def words(self) -> int:
        """The number of words c of the vocabulary; [MASK] is not counted."""
        return len(self.model.ids) - 1

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks: `topic`, where there is more than one start token."""
        return ("topic",) if len(self.starts) > 1 else ()

    def classes(self, task: str) -> int:
        """Return the number of classes of a task, which are the start tokens."""
        self._check_task(task)
        return len(self.starts)

    def _check_task(self, task: str) -> None:
        if task not in self.tasks:
            choice = "choose topic" if self.tasks else "a language with one start token has no task"
            raise LanguageError(f"Unknown task {task!r}; {choice}.")

    @property
    def _rows(self) -> int:
        """Return how many sentences one forward pass may read."""
        return max(1, NUMBERS // (self.model.numbers_per_token * (self.max_length + 1)))

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw independent sentences; tokens after a sentence's end are zero."""
        check_count("count", count, least=0)
        uniform = torch.rand(count, 1 + self.max_length, dtype=torch.float64, generator=generator)
        tokens = torch.zeros(count, self.max_length, dtype=torch.long)
        for rows in torch.arange(count).split(self._rows):
            if len(rows):
                tokens[rows] = self._draw(uniform[rows])
        return Sentences(tokens, (tokens != MASK).sum(1))

    def _draw(self, uniform: Float[Tensor, "batch _draw"]) -> Int[Tensor, "batch _seq"]:
        """Invert the distribution function of the start and of each token in turn."""
        start, *draws = uniform.split(1, dim=1)
        ids, cache = self.starts[_invert(self.prior.expand(len(uniform), -1), start)], None
        alive, tokens = torch.ones_like(ids, dtype=torch.bool), []
        for draw in draws:
            log_p, cache = self.model.log_probs(ids, cache)
            columns = _invert(log_p[:, -1].exp(), draw)
            alive = alive & (columns < self.words)
            tokens.append((columns + 1).where(alive, MASK))
            ids = self.model.ids[columns]
        return torch.cat(tokens, dim=1)

    @torch.no_grad()
    def log_prob(self, sentences: Sentences) -> Float[Tensor, " batch"]:
        """Compute log Pr(x) in nats, float64; a masked token is summed out.

        Raises:
            LanguageError: for token ids, lengths or numbers of masks that are out of range.

        """
        scores = self._given_starts(sentences) + self.prior.log()
        return scores.logsumexp(1).to(sentences.tokens.device)

    @torch.no_grad()
    def likelihood(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Compute Pr(x | z) for each start token z, scaled so that the likeliest has 1."""
        self._check_task(task)
        scores = self._given_starts(sentences)
        return (scores - scores.amax(1, keepdim=True)).exp().to(sentences.tokens.device)

    @torch.no_grad()
    def posterior(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Compute Pr(z | x) for each start token z."""
        self._check_task(task)
        scores = self._given_starts(sentences) + self.prior.log()
        return scores.softmax(1).to(sentences.tokens.device)

    def _given_starts(self, sentences: Sentences) -> Float[Tensor, "batch start"]:
        """Return log Pr(x | z), on the CPU."""
        sentences = sentences.to("cpu")
        self._check(sentences)
        filled, owners = fillings(sentences, self.words)
        result = torch.empty(len(owners), len(self.starts), dtype=torch.float64)
        for rows, tokens in filled.chunks(max(1, self._rows // len(self.starts))):
            targets = self._targets(tokens)
            log_p, _ = self.model.log_probs(self._after_starts(targets[:, :-1]), None)
            result[rows] = _picked(log_p, targets.repeat(len(self.starts), 1)).view(-1, len(tokens)).T
        return sum_of_fillings(result, owners, len(sentences.lengths))

    def conditionals(self, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
        """Compute Pr(x_t = word + 1 | x_-t) for every position; places after a sentence's end hold zeros.

        Raises:
            LanguageError: for token ids, lengths or numbers of masks that are out of range.

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

        The model reads what comes before t once for all v and what comes after t once for each.

        Args:
            sentences: the token at the position is not read; other masked tokens are summed out.
            positions: t, counted from 0, below the sentence's length.

        Returns:
            float64 probabilities; rows sum to one.

        Raises:
            LanguageError: for token ids, lengths, positions or numbers of masks out of range.

        """
        device, sentences, positions = sentences.tokens.device, sentences.to("cpu"), positions.cpu()
        self._check(sentences)
        if ((positions < 0) | (positions >= sentences.lengths)).any():
            raise LanguageError("A position lies in 0..length - 1 of its sentence.")
        any_word = sentences.tokens.scatter(1, positions[:, None], 1)
        filled, owners = fillings(Sentences(any_word, sentences.lengths), self.words)
        result = torch.empty(len(owners), self.words, dtype=torch.float64)
        for position in positions.unique().tolist():
            here = (positions[owners] == position).nonzero().squeeze(1)
            for rows, tokens in filled.rows(here).chunks(self._sentences):
                result[here[rows]] = self._log_joint(tokens, position).logsumexp(0)
        return sum_of_fillings(result, owners, len(positions)).softmax(1).to(device)

    @property
    def _sentences(self) -> int:
        """Return how many sentences one forward pass may read with all their candidates."""
        return max(1, self._rows // (len(self.starts) * self.words))

    def _log_joint(
        self, tokens: Int[Tensor, "batch length"], position: int
    ) -> Float[Tensor, "_start batch word"]:
        """Return log Pr(z, x with x_t = word + 1) for every start and word."""
        starts, targets = len(self.starts), self._targets(tokens)
        before, after = targets[:, :position], targets[:, position + 1 :].repeat(starts, 1)
        log_p, cache = self.model.log_probs(self._after_starts(before), None)
        prefix = _picked(log_p[:, :position], before.repeat(starts, 1)).view(starts, -1, 1)
        here = log_p[:, position, : self.words].view(starts, -1, self.words)
        rest = torch.zeros_like(here)
        if after.shape[1]:  # at the last place of a longest sentence nothing follows
            pieces = torch.arange(self.words).split(max(1, self._rows // len(after)))
            rest = torch.cat([self._log_rest(cache, after, p) for p in pieces], dim=1).view_as(here)
        return self.prior.log()[:, None, None] + prefix + here + rest

    def _log_rest(
        self, cache: Any, after: Int[Tensor, "row target"], words: Int[Tensor, " word"]
    ) -> Float[Tensor, "row word"]:
        """Return the log probability of what comes after each candidate, given the cached prefix."""
        cache = copy.deepcopy(cache)  # the model appends to it
        cache.batch_repeat_interleave(len(words))
        after_each = after.repeat_interleave(len(words), 0)
        read = torch.cat([words.repeat(len(after))[:, None], after_each[:, :-1]], dim=1)
        log_p, _ = self.model.log_probs(self.model.ids[read], cache)
        return _picked(log_p, after_each).view(len(after), -1)

    def _targets(self, tokens: Int[Tensor, "batch length"]) -> Int[Tensor, "batch _target"]:
        """Return the columns the model must write: the words and, below `max_length`, the end."""
        end = tokens.new_full((len(tokens), int(tokens.shape[1] < self.max_length)), self.words)
        return torch.cat([tokens - 1, end], dim=1)

    def _after_starts(self, columns: Int[Tensor, "batch length"]) -> Int[Tensor, "_start_batch _read"]:
        """Return the ids of every start token followed by every sentence, start by start."""
        starts = self.starts.repeat_interleave(len(columns))[:, None]
        return torch.cat([starts, self.model.ids[columns].repeat(len(self.starts), 1)], dim=1)

    def _check(self, sentences: Sentences) -> None:
        """Refuse lengths and token ids the language does not have."""
        lengths = sentences.lengths
        if ((lengths < 1) | (lengths > self.max_length)).any():
            raise LanguageError(f"A sentence of this language has 1 to {self.max_length} tokens.")
        check_tokens(sentences.tokens[sentences.inside][None], self.words)


def _picked(
    log_p: Float[Tensor, "row step _column"], columns: Int[Tensor, "row step"]
) -> Float[Tensor, " row"]:
    """Return the log probability of the columns that were written."""
    return log_p.gather(2, columns[..., None]).squeeze(2).sum(1)


def _invert(
    probabilities: Float[Tensor, "row _col"], uniform: Float[Tensor, "row 1"]
) -> Int[Tensor, "row 1"]:
    """Return the column at which each distribution function passes its uniform number."""
    steps = probabilities.cumsum(1)
    return torch.searchsorted(steps / steps[:, -1:], uniform.contiguous(), right=True)


# The default teacher of the OPT chapters: a small stand-in for facebook/opt-125m.

STAND_IN_NOTE = (
    "The teacher is a stand-in for facebook/opt-125m: a small transformer of the same architecture "
    "with random weights; to use the real one, give its name or its folder in the parameter `opt`."
)
"""What a page says wherever it shows results of the default teacher."""


@dataclass(frozen=True)
class TeacherSpec:
    """A small random transformer: a stand-in for facebook/opt-125m; part of a run's key.

    It has the architecture of OPT with an output layer of its own, random weights, and start
    tokens that name a topic. `scale` multiplies the usual 1 / sqrt(fan-in) deviation of the inner
    weights: above 1, words depend on their context more sharply. `logit_scale` is the standard
    deviation of the logits, in nats: it sets the entropy.
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
        """Refuse what is no transformer."""
        check_counts(self, "words", "max_length", "topics", "d_model", "layers", "heads")
        check_positive(self, "scale", "logit_scale")

    def build(self) -> AutoregressiveLanguage:
        """Draw the weights, in float64; the global random state stays as it is."""
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
        with torch.random.fork_rng(devices=[]):  # the constructor draws weights we replace
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
            deviation = self.scale / math.sqrt(weight.shape[1])
            if "embed" in name:
                deviation = 1.0
            if name.startswith("lm_head"):
                deviation = self.logit_scale / math.sqrt(self.d_model)
            weight.copy_(deviation * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))


# The real OPT and the real tasks: what is fetched from the Hugging Face hub, or read from local folders.

GLUE_COLUMNS = {"qnli": ("question", "sentence"), "sst2": ("sentence",)}
"""The columns that are joined into one text."""

TEXTS = 1000
"""Texts tokenised at once."""


@dataclass(frozen=True)
class HubTeacherSpec:
    """OPT restricted to its most frequent tokens, as in the paper (App. A.1); part of a run's key.

    The paper does not say on which text it counted frequencies; the default is a public one.
    `model` and `corpus` are names on the hub or local folders: a saved model with its tokenizer,
    and text files.
    """

    model: str = "facebook/opt-125m"
    words: int = 2000
    max_length: int = 24
    corpus: str = "Salesforce/wikitext"
    corpus_config: str = "wikitext-2-raw-v1"
    corpus_split: str = "train"
    corpus_column: str = "text"
    fingerprint: str | None = None  # of local folders: their content belongs to a run's key
    model_commit: str | None = None  # on the hub, where another upload would be another model
    corpus_commit: str | None = None

    @classmethod
    def of(cls, model: str, corpus: str | None) -> "HubTeacherSpec":
        """Name a model and a text (None: the default one) with what is in them, or their commit on the hub.

        Raises:
            LanguageError: for a local folder that holds no model.

        """
        if Path(model).is_dir() and not (Path(model) / "config.json").is_file():
            raise LanguageError(f"The folder {model} holds no model: it has no config.json.")
        folders = [Path(name) for name in (model, corpus) if name and Path(name).is_dir()]
        corpus = corpus or cls.corpus
        return cls(
            model,
            corpus=corpus,
            fingerprint=fingerprint_of(folders),
            model_commit=commit_of(model, "model"),
            corpus_commit=commit_of(corpus, "dataset"),
        )

    def build(self) -> "HubTeacher":
        """Load model and tokenizer, count tokens, keep the most frequent.

        Raises:
            LanguageError: where something cannot be fetched or the text has too few tokens.

        """
        import datasets
        from transformers import AutoModelForCausalLM, AutoTokenizer

        given = {"local_files_only": Path(self.model).is_dir(), "revision": self.model_commit or "main"}
        precise = given | {"dtype": torch.float32, "attn_implementation": "sdpa"}
        what = (f"the model {self.model!r}", "opt", self.model)
        tokenizer = fetched(*what, lambda: AutoTokenizer.from_pretrained(self.model, **given))
        model = fetched(*what, lambda: AutoModelForCausalLM.from_pretrained(self.model, **precise))
        config = None if Path(self.corpus).is_dir() else self.corpus_config
        text = {"split": self.corpus_split, "revision": self.corpus_commit}
        texts = fetched(
            f"the text {self.corpus!r} on which token frequencies are counted",
            "opt_corpus",
            self.corpus,
            lambda: datasets.load_dataset(self.corpus, config, **text)[self.corpus_column],
        )
        counts = token_counts(tokenizer, texts, model.config.vocab_size)
        counts[tokenizer.all_special_ids] = 0
        return HubTeacher(model.to(best_device()), tokenizer, counts, self.words, self.max_length)


class HubTeacher(AutoregressiveLanguage):
    """A pre-trained model that starts and ends its sentences with its own tokens for that.

    Its `tokenizer` turns text into the model's tokens, of which `allowed` are the words of the
    language; `coverage` is their share of the frequency text.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: Any,
        counts: Int[Tensor, " token"],
        words: int,
        max_length: int,
    ) -> None:
        """Take the model, its tokenizer and how often each token occurs; keep the most frequent."""
        start, end = tokenizer.bos_token_id, tokenizer.eos_token_id
        allowed = most_frequent(counts, words)
        super().__init__(model, allowed.tolist(), (start,), (1.0,), end, max_length)
        self.tokenizer, self.allowed = tokenizer, allowed.tolist()
        self.coverage = float(counts[allowed].sum() / counts.sum())


def token_counts(tokenizer: Any, texts: Sequence[str], size: int) -> Int[Tensor, " token"]:
    """Count each token of the model in texts, special tokens not added."""
    counts = torch.zeros(size, dtype=torch.long)
    for first in range(0, len(texts), TEXTS):
        for ids in _tokenised(tokenizer, texts[first : first + TEXTS]):
            counts += torch.bincount(ids, minlength=size)
    return counts


def _tokenised(tokenizer: Any, texts: Sequence[str]) -> list[Tensor]:
    ids = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    return [torch.tensor(row, dtype=torch.long) for row in ids]


def most_frequent(counts: Int[Tensor, " token"], words: int) -> Int[Tensor, " word"]:
    """Return the ids of the most frequent tokens, most frequent first; the lower id where equal.

    >>> most_frequent(torch.tensor([1, 3, 0, 3]), 3)
    tensor([1, 3, 0])
    """
    different = int((counts > 0).sum())
    if different < words:
        raise LanguageError(
            f"The frequency text has {different} different tokens, fewer than the {words} wanted; "
            "give more text in the parameter `opt_corpus`."
        )
    return counts.sort(descending=True, stable=True).indices[:words]


class LabelledText(NamedTuple):
    """Sentences of a language made from text, with labels, and what was lost on the way."""

    sentences: Sentences
    labels: Int[Tensor, " batch"]
    tokens_known: float  # share of the text's tokens that are words
    tokens_kept: float  # the same after cutting to the longest sentence
    kept_whole: float  # share of the examples that lost nothing
    empty: float  # share of the examples that lost every token and were left out


class GlueTask(NamedTuple):
    """The labelled parts of a GLUE task."""

    train: LabelledText
    validation: LabelledText


def glue_task(
    name: str,
    tokenizer: Any,
    allowed: Sequence[int],
    max_length: int,
    source: str = "nyu-mll/glue",
) -> GlueTask:
    """Turn a GLUE task into sentences of a restricted language (Section 2.2).

    The paper does not say what happens to other tokens. Here they are dropped, then the text is cut
    to `max_length` tokens, and an example left without any token is left out. For QNLI the text is
    the question, then the sentence.

    Args:
        name: qnli or sst2.
        tokenizer: the model's tokenizer.
        allowed: token ids of the model; word w is allowed[w - 1].
        max_length: in tokens.
        source: the name of GLUE on the hub, or a folder with <name>_train.jsonl and
            <name>_validation.jsonl (or .csv, .parquet) with GLUE's columns.

    Raises:
        LanguageError: for another task, or where the task cannot be fetched.

    """
    import datasets

    if name not in GLUE_COLUMNS:
        raise LanguageError(f"Unknown GLUE task {name!r}; choose one of {', '.join(GLUE_COLUMNS)}.")
    files = {split: f"{name}_{split}.*" for split in GlueTask._fields}
    how: dict[str, Any] = {"data_files": files} if Path(source).is_dir() else {"name": name}

    def load() -> list[tuple[list[str], list[int]]]:
        data = datasets.load_dataset(source, **how)
        parts = [data[split] for split in GlueTask._fields]
        columns = [zip(*(part[c] for c in GLUE_COLUMNS[name]), strict=True) for part in parts]
        return [
            ([" ".join(texts) for texts in rows], part["label"][:])
            for rows, part in zip(columns, parts, strict=True)
        ]

    data = fetched(f"the GLUE task {name} from {source!r}", "glue", source, load)
    return GlueTask(*(_labelled(texts, labels, tokenizer, allowed, max_length) for texts, labels in data))


def _labelled(
    texts: list[str],
    labels: list[int],
    tokenizer: Any,
    allowed: Sequence[int],
    max_length: int,
) -> LabelledText:
    word = torch.zeros(len(tokenizer), dtype=torch.long)
    word[torch.tensor(allowed)] = torch.arange(1, len(allowed) + 1)
    ids = _tokenised(tokenizer, texts)
    known = [words[words > 0] for words in (word[row] for row in ids)]
    kept = [words[:max_length] for words in known]
    lengths, before = torch.tensor([len(k) for k in kept]), torch.tensor([len(row) for row in ids])
    tokens = torch.nn.utils.rnn.pad_sequence([*kept, word.new_zeros(max_length)], batch_first=True)[:-1]
    some = lengths > 0
    return LabelledText(
        Sentences(tokens[some], lengths[some]),
        torch.tensor(labels)[some],
        tokens_known=float(sum(map(len, known)) / before.sum()),
        tokens_kept=float(lengths.sum() / before.sum()),
        kept_whole=float((lengths == before).double().mean()),
        empty=float((~some).double().mean()),
    )
