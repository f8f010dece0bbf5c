"""OPT as in the paper, or another causal model, from the Hugging Face hub or a local folder (App. A.1).

A folder is what `save_pretrained` of model and tokenizer writes. From a GGUF file, load both with
`from_pretrained(folder, gguf_file=name)` (packages gguf and accelerate), set the model's `hf_quantizer` to
None, delete its `config.quantization_config`, and save.

transformers and datasets take seconds to import, so they are imported where they are used.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import pandas as pd
import torch
from jaxtyping import Float, Int, Shaped
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sameloss.device import best_device
from sameloss.errors import LanguageError
from sameloss.hub import commit_of, explained, fingerprint_of, load_without_code, reason
from sameloss.languages.autoregressive import AutoregressiveLanguage, RestrictedModel, inverse
from sameloss.languages.language import LanguageSpec, Sentences

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TEXTS = 1000
"""Texts tokenised at once."""

READ = 0.3
"""Fraction of the candidates' tokens that are read if conditionals have a tolerance; measured: 0.2 to 0.5."""


@dataclass(frozen=True)
class HubTeacherSpec(LanguageSpec):
    """OPT restricted to its most frequent tokens, as in the paper (App. A.1); part of a run's key.

    The paper does not say on which text it counted frequencies; the default is a public one. `model` and
    `corpus` are names on the hub or local folders, of a saved model with its tokenizer and of text files;
    the corpus `OWN` stands for sentences of the model itself, which need no text.
    """

    model: str = "facebook/opt-125m"
    words: int = 2000
    max_length: int = 24
    corpus: str = "Salesforce/wikitext"
    fingerprint: str | None = None  # of local folders
    model_commit: str | None = None  # on the hub
    corpus_commit: str | None = None
    tolerance: float = 0.0  # of conditionals; 0: exact

    pretrained: ClassVar[bool] = True

    @classmethod
    def of(cls, model: str, corpus: str | None, **fields: Any) -> "HubTeacherSpec":
        """Identify a model and a text by their contents, or their commits on the hub.

        Args:
            model: name or folder.
            corpus: name or folder; None: the default, and `OWN` for a model in a folder.
            fields: others than those that identify.

        Raises:
            LanguageError: for a local folder without a model.

        """
        local = Path(model).is_dir()
        if local and not (Path(model) / "config.json").is_file():
            raise LanguageError(f"The folder {model} holds no model: it has no config.json.")
        corpus = corpus or (OWN if local else cls.corpus)
        return cls(
            model,
            corpus=corpus,
            fingerprint=fingerprint_of(_folders(model, corpus)),
            model_commit=commit_of(model, "model"),
            corpus_commit=None if corpus == OWN else commit_of(corpus, "dataset"),
            **fields,
        )

    @property
    @cache  # noqa: B019 - a few specs in a process
    def token_flops(self) -> float:
        """Floating-point operations per token: two for each weight but those of embeddings.

        The paper's model needs no download for that.

        Raises:
            LanguageError: as `build`.

        """
        from transformers import AutoModelForCausalLM, OPTConfig

        paper = self.model == HubTeacherSpec.model
        config = OPTConfig() if paper else self.config()
        with torch.device("meta"), explained(f"config.json in {self.model}", "opt", self.model):
            shapes = load_without_code(AutoModelForCausalLM.from_config, config)
        embeddings = (shapes.get_input_embeddings(), shapes.get_output_embeddings())
        tables = {id(part.weight): part.weight.numel() for part in embeddings}
        return 2.0 * (sum(weight.numel() for weight in shapes.parameters()) - sum(tables.values()))

    def reading_flops(self, sentences: float, conditionals: float = 0.0) -> float:
        conditionals *= self.words * (READ if self.tolerance else 1)
        tokens = sentences * self.max_length + conditionals * (self.max_length + 1) / 2
        return tokens and tokens * self.token_flops

    def config(self) -> Any:
        """Load the model's configuration, and require a causal model before any weights are read.

        Raises:
            LanguageError: for another model, or one with too few positions.

        """
        from transformers import AutoConfig
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

        for folder in _folders(self.model):
            check_files(folder)
        config = self._loaded("config.json", AutoConfig.from_pretrained)
        causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)
        kind = (config.architectures or [causal or config.model_type])[0]
        if causal is None or kind != causal or not hasattr(config, "vocab_size"):
            raise LanguageError(
                f"{self.model} holds a {kind}, which does not predict the next token; give a causal language "
                "model, such as an OPTForCausalLM or a LlamaForCausalLM, in the parameter `opt`."
            )
        positions = getattr(config, "max_position_embeddings", None)
        if positions is not None and positions <= self.max_length:
            raise LanguageError(
                f"The model has {positions} positions; sentences have up to {self.max_length} tokens and a "
                "start: give another model in the parameter `opt`."
            )
        return config

    def _loaded(self, part: str, load: Callable[..., Any], **options: Any) -> Any:
        local = Path(self.model).is_dir()
        what = f"{part} in {self.model}" if local else f"the model {self.model!r}"
        options |= {"local_files_only": local, "revision": self.model_commit or "main"}
        with explained(what, "opt", self.model):
            return load_without_code(load, self.model, **options)

    def drawn(self, seed: int) -> "HubTeacherSpec":
        return self

    @lru_cache(maxsize=2)  # noqa: B019 - loading takes seconds, and several runs of a process need it
    def build(self) -> "HubTeacher":
        """Load model and tokenizer, and count the tokens of the text; once in a process.

        Raises:
            LanguageError: if something cannot be loaded or has changed, the model is not causal or lacks
                weights, its tokenizer has neither BOS nor EOS, or there are too few different tokens.

        """
        from transformers import AutoTokenizer

        folders = _folders(self.model, self.corpus)
        if folders and self.fingerprint not in (None, fingerprint_of(folders)):
            raise LanguageError(
                f"The files in {' and '.join(map(str, folders))} are not those of fingerprint "
                f"{self.fingerprint}; name the folder in the parameter `opt` to use them as they are."
            )
        with explained(f"the model {self.model!r}", "opt", self.model):
            size = self.config().vocab_size
            tokenizer = self._loaded("the tokenizer", AutoTokenizer.from_pretrained)
            special = {*tokenizer.all_special_ids, *start_and_end(tokenizer)}
            ordinary = [token for token in range(min(size, len(tokenizer))) if token not in special]
            if len(ordinary) < self.words or max(start_and_end(tokenizer)) >= size:
                raise LanguageError(
                    f"Of the {size} tokens of {self.model}, {len(ordinary)} are in its tokenizer and not "
                    f"special; {self.words} are wanted, besides a start and an end: give another model in "
                    "the parameter `opt`."
                )
            model = self._weights()
            own = self.corpus == OWN
            counts = own_counts(model, tokenizer, ordinary) if own else self.counts(tokenizer, size)
            counts[sorted(set(range(size)) - set(ordinary))] = 0
            return HubTeacher(model, tokenizer, counts, self)

    def _weights(self) -> "PreTrainedModel":
        """Load the model, and require finite weights of which transformers draws none at random."""
        from transformers import AutoModelForCausalLM

        options = {"dtype": torch.float32, "output_loading_info": True, "ignore_mismatched_sizes": True}
        model, report = self._loaded("the weights", AutoModelForCausalLM.from_pretrained, **options)
        finite = {name: bool(weight.isfinite().all()) for name, weight in model.named_parameters()}
        wrong = [
            *(f"lack {name}" for name in sorted(report["missing_keys"])),
            *(
                f"have {name} of shape {tuple(saved)} instead of {tuple(wanted)}"
                for name, saved, wanted in sorted(report["mismatched_keys"])
            ),
            *(f"hold values in {name} that are not finite" for name in finite if not finite[name]),
        ]
        if wrong:
            more = f" (one of {len(wrong)} faults)" if len(wrong) > 1 else ""
            raise LanguageError(f"The weights in {self.model} {wrong[0]}{more}; save the whole model again.")
        return cast("PreTrainedModel", model.to(best_device()))

    def counts(self, tokenizer: Any, vocabulary: int) -> Int[Tensor, " token"]:
        """Count the tokens of the text."""
        import datasets

        config = None if Path(self.corpus).is_dir() else "wikitext-2-raw-v1"
        text = {"split": "train", "revision": self.corpus_commit}
        what = f"the text {self.corpus!r} on which token frequencies are counted"
        with explained(what, "opt_corpus", self.corpus):
            texts = load_without_code(datasets.load_dataset, self.corpus, config, **text)["text"]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError("the column `text` holds other values than text")
        counts = torch.zeros(vocabulary, dtype=torch.long)
        for first in range(0, len(texts), TEXTS):
            ids = torch.cat(_tokenised(tokenizer, texts[first : first + TEXTS]))
            counts += ids[ids < vocabulary].bincount(minlength=vocabulary)
        return counts


MODEL_FILES = ("*.safetensors", "*.safetensors.index.json", "*config.json", "tokenizer.json", "vocab.json")
TOKENIZER_FILES = ("tokenizer.json", "vocab*", "*.model", "*.tiktoken", "tekken.json")

LARGEST_FILE = 100_000_000
"""Bytes of a configuration or tokenizer; those of 250,000 tokens have 33 MB."""


def check_files(folder: Path) -> None:
    """Refuse a saved model without tokenizer, or with a file that cannot be parsed or is too large for that.

    Raises:
        LanguageError: with the file, which the libraries often do not name.

    """
    if not any(path for pattern in TOKENIZER_FILES for path in folder.glob(pattern)):
        raise LanguageError(f"The folder {folder} has no tokenizer.json; save the tokenizer with its model.")
    for path in sorted({path for pattern in MODEL_FILES + TOKENIZER_FILES for path in folder.glob(pattern)}):
        weights = path.suffix == ".safetensors"
        if not weights and path.stat().st_size > LARGEST_FILE:
            raise LanguageError(f"{path} is larger than {LARGEST_FILE // 10**6} MB; give another model.")
        try:
            if weights:
                safe_open(path, "pt")
            elif path.suffix == ".json":
                json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError, SafetensorError) as error:
            raise LanguageError(f"{path} cannot be read ({reason(error)}).") from None


def _folders(*names: str) -> list[Path]:
    return [path for path in map(Path, names) if path.is_dir()]


OWN = "own sentences"
"""Names the model's own sentences as the text on which frequencies are counted."""

OWN_TEXTS, OWN_STEPS = 32, 8
"""Sentences of the model, and their tokens, whose predictions are averaged into token frequencies."""


def start_and_end(tokenizer: Any) -> tuple[int, int]:
    """Tokens that begin and end a sentence: BOS and EOS, or the one of them that there is.

    Raises:
        LanguageError: for a tokenizer without either.

    """
    known = [token for token in (tokenizer.bos_token_id, tokenizer.eos_token_id) if token is not None]
    if not known:
        raise LanguageError("The tokenizer has neither a BOS nor an EOS token; set one and save it again.")
    return known[0], known[-1]


@torch.no_grad()
def own_counts(model: "PreTrainedModel", tokenizer: Any, ordinary: Sequence[int]) -> Float[Tensor, " token"]:
    """Expected counts of tokens in sentences of a model: its predictions, summed along sampled sentences.

    In float64, so that rounding, which differs between machines, does not change which tokens are frequent.
    """
    start, end = start_and_end(tokenizer)
    precise, generator = RestrictedModel(model.double(), ordinary, end), torch.Generator().manual_seed(0)
    counts = torch.zeros(model.config.vocab_size, dtype=torch.float64)
    ids, cache = torch.full((OWN_TEXTS, 1), start), None
    positions = getattr(model.config, "max_position_embeddings", None) or OWN_STEPS
    for _ in range(min(OWN_STEPS, positions)):
        log_p, cache = precise.log_probs(ids, cache)
        p = log_p[:, -1, :-1].softmax(1)
        counts[ordinary] += p.sum(0)
        ids = precise.ids[inverse(p, torch.rand(OWN_TEXTS, 1, dtype=torch.float64, generator=generator))]
    model.float()
    return counts


class HubTeacher(AutoregressiveLanguage):
    """A pre-trained model restricted to its most frequent tokens, with its own start and end tokens.

    Word w of the language is token `allowed[w - 1]` of the `tokenizer`; `coverage` is the fraction of the
    frequency text that these tokens make up.
    """

    def __init__(
        self, model: "PreTrainedModel", tokenizer: Any, counts: Shaped[Tensor, " token"], spec: HubTeacherSpec
    ) -> None:
        """Keep the `words` tokens with the largest counts; of equal ones, those with lower ids."""
        known, words = int((counts > 0).sum()), spec.words
        if known < words:
            raise LanguageError(
                f"The frequency text has {known} different tokens, fewer than the {words} wanted; "
                "give more text in the parameter `opt_corpus`."
            )
        allowed = counts.sort(descending=True, stable=True).indices[:words]
        start, end = start_and_end(tokenizer)
        super().__init__(model, allowed.tolist(), (start,), (1.0,), end, spec.max_length, spec.tolerance)
        self.tokenizer, self.allowed = tokenizer, allowed.tolist()
        self.coverage = float(counts[allowed].sum() / counts.sum())
        self.about = f"sentences begin with {tokenizer.decode(start)} and end with {tokenizer.decode(end)}"


PATIENCE, SLOWEST = 60, 10_000
"""Seconds for which any text may be tokenised, and characters a second for a long one; usual are 10^6."""


def _tokenised(tokenizer: Any, texts: Iterable[str]) -> list[Tensor]:
    """Tokenise in a thread, which can be left: some regular expressions never end."""
    texts, ids = list(texts), Future[list[list[int]]]()
    where = f"The tokenizer in {tokenizer.name_or_path}"

    def work() -> None:
        try:
            ids.set_result(tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"])
        except BaseException as error:  # a panic is no Exception
            ids.set_exception(LanguageError(f"{where} cannot read the text ({reason(error)})."))

    Thread(target=work, daemon=True).start()
    try:
        rows = ids.result(PATIENCE + sum(map(len, texts)) / SLOWEST)
    except TimeoutError:
        raise LanguageError(
            f"{where} is too slow: it reads fewer than {SLOWEST:,} characters a second."
        ) from None
    return [torch.tensor(row, dtype=torch.long) for row in rows]


GLUE_COLUMNS = {"qnli": ["question", "sentence"], "sst2": ["sentence"]}
"""Columns that are concatenated into one text."""

SPLITS = ("train", "validation")
"""The labelled parts of a GLUE task."""


class LabelledText(NamedTuple):
    """Sentences of a language made from text, with labels and the fractions that were lost."""

    sentences: Sentences
    labels: Int[Tensor, " batch"]
    tokens_known: float  # fraction of the text's tokens that are words of the language
    tokens_kept: float  # the same, after truncation
    kept_whole: float  # fraction of examples that lost nothing
    empty: float  # fraction of examples that lost every token, and are left out


def glue_task(
    name: str, tokenizer: Any, allowed: Sequence[int], max_length: int, source: str
) -> dict[str, LabelledText]:
    """Turn the splits of a GLUE task into sentences of a restricted language (Section 2.2).

    The paper does not say what happens to other tokens. Here they are dropped, then the text is truncated,
    and examples without any token left are dropped too. For QNLI the text is the question, then the sentence.

    Args:
        name: qnli or sst2.
        tokenizer: the model's tokenizer.
        allowed: token ids of the model; word w is allowed[w - 1].
        max_length: in tokens.
        source: the name of GLUE on the hub, or a folder with <name>_train.jsonl and
            <name>_validation.jsonl (or .csv, .parquet) with GLUE's columns.

    Raises:
        LanguageError: for another task, or if the task cannot be loaded.

    """
    import datasets

    if name not in GLUE_COLUMNS:
        raise LanguageError(f"Unknown GLUE task {name!r}; choose one of {', '.join(GLUE_COLUMNS)}.")
    files = {split: f"{name}_{split}.*" for split in SPLITS}
    options: dict[str, Any] = {"data_files": files} if Path(source).is_dir() else {"name": name}

    with explained(f"the GLUE task {name} from {source!r}", "glue", source):
        data = load_without_code(datasets.load_dataset, source, **options)
        tables = {split: data[split].to_pandas() for split in SPLITS}
        columns = GLUE_COLUMNS[name]
        tables = {
            k: v.assign(text=v[columns].agg(" ".join, axis=1))[["text", "label"]] for k, v in tables.items()
        }
    return {split: _labelled(table, tokenizer, allowed, max_length) for split, table in tables.items()}


def _labelled(table: pd.DataFrame, tokenizer: Any, allowed: Sequence[int], max_length: int) -> LabelledText:
    word = torch.zeros(len(tokenizer), dtype=torch.long)
    word[torch.tensor(allowed)] = torch.arange(1, len(allowed) + 1)
    ids = _tokenised(tokenizer, table.text)
    known = [words[words > 0] for words in (word[row] for row in ids)]
    truncated = [words[:max_length] for words in known]
    lengths, before = (torch.tensor([len(row) for row in rows]) for rows in (truncated, ids))
    tokens = pad_sequence([*truncated, word.new_zeros(max_length)], batch_first=True)[:-1]
    some = lengths > 0
    return LabelledText(
        Sentences(tokens[some], lengths[some]),
        torch.tensor(table.label.tolist())[some],
        tokens_known=float(sum(map(len, known)) / before.sum()),
        tokens_kept=float(lengths.sum() / before.sum()),
        kept_whole=float((lengths == before).double().mean()),
        empty=float((~some).double().mean()),
    )
