"""The real OPT and the real tasks: what is fetched from the Hugging Face hub, or read from local folders."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import torch
from jaxtyping import Int
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from sameloss.device import best_device
from sameloss.errors import LanguageError
from sameloss.hub import commit_of, fetched, fingerprint_of
from sameloss.languages.autoregressive.autoregressive import AutoregressiveLanguage
from sameloss.languages.language import Sentences

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
        given = {"local_files_only": Path(self.model).is_dir(), "revision": self.model_commit or "main"}
        what = (f"the model {self.model!r}", "opt", self.model)
        tokenizer = fetched(*what, lambda: AutoTokenizer.from_pretrained(self.model, **given))
        model = fetched(
            *what,
            lambda: AutoModelForCausalLM.from_pretrained(
                self.model, dtype=torch.float32, attn_implementation="sdpa", **given
            ),
        )
        counts = token_counts(tokenizer, self._texts(), model.config.vocab_size)
        counts[tokenizer.all_special_ids] = 0
        model = model.to(best_device())
        return HubTeacher(model, tokenizer, counts, self.words, self.max_length)

    def _texts(self) -> Sequence[str]:
        config = None if Path(self.corpus).is_dir() else self.corpus_config
        return fetched(
            f"the text {self.corpus!r} on which token frequencies are counted",
            "opt_corpus",
            self.corpus,
            lambda: datasets.load_dataset(
                self.corpus, config, split=self.corpus_split, revision=self.corpus_commit
            )[self.corpus_column],
        )


class HubTeacher(AutoregressiveLanguage):
    """A pre-trained model that starts and ends its sentences with its own tokens for that.

    Its `tokenizer` turns text into the model's tokens, of which `allowed` are the words of the
    language; `coverage` is their share of the frequency text.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
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


def token_counts(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], size: int
) -> Int[Tensor, " token"]:
    """Count each token of the model in texts, special tokens not added."""
    counts = torch.zeros(size, dtype=torch.long)
    for first in range(0, len(texts), TEXTS):
        for ids in _tokenised(tokenizer, texts[first : first + TEXTS]):
            counts += torch.bincount(ids, minlength=size)
    return counts


def _tokenised(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[Tensor]:
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
    tokenizer: PreTrainedTokenizerBase,
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
    if name not in GLUE_COLUMNS:
        raise LanguageError(f"Unknown GLUE task {name!r}; choose one of {', '.join(GLUE_COLUMNS)}.")
    files = {split: f"{name}_{split}.*" for split in GlueTask._fields}
    how = {"data_files": files} if Path(source).is_dir() else {"name": name}
    data = fetched(f"the GLUE task {name} from {source!r}", "glue", source, lambda: _glue(source, name, how))
    return GlueTask(*(_labelled(texts, labels, tokenizer, allowed, max_length) for texts, labels in data))


def _glue(source: str, name: str, how: dict[str, Any]) -> list[tuple[list[str], list[int]]]:
    data = datasets.load_dataset(source, **how)
    parts = (data[split] for split in GlueTask._fields)
    return [
        (
            [" ".join(texts) for texts in zip(*(part[c] for c in GLUE_COLUMNS[name]), strict=True)],
            part["label"][:],
        )
        for part in parts
    ]


def _labelled(
    texts: list[str],
    labels: list[int],
    tokenizer: PreTrainedTokenizerBase,
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
