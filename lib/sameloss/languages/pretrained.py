"""OPT as in the paper, and its GLUE tasks, from the Hugging Face hub or local folders (App. A.1).

transformers and datasets take seconds to import, so they are imported where they are used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sameloss.device import best_device
from sameloss.errors import LanguageError
from sameloss.hub import commit_of, fingerprint_of, load_or_explain
from sameloss.languages.autoregressive import AutoregressiveLanguage
from sameloss.languages.language import Sentences

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TEXTS = 1000
"""Texts tokenised at once."""


@dataclass(frozen=True)
class HubTeacherSpec:
    """OPT restricted to its most frequent tokens, as in the paper (App. A.1); part of a run's key.

    The paper does not say on which text it counted frequencies; the default is a public one. `model` and
    `corpus` are names on the hub or local folders, of a saved model with its tokenizer and of text files.
    """

    model: str = "facebook/opt-125m"
    words: int = 2000
    max_length: int = 24
    corpus: str = "Salesforce/wikitext"
    corpus_config: str = "wikitext-2-raw-v1"
    corpus_split: str = "train"
    corpus_column: str = "text"
    fingerprint: str | None = None  # of local folders
    model_commit: str | None = None  # on the hub
    corpus_commit: str | None = None

    @classmethod
    def of(cls, model: str, corpus: str | None) -> "HubTeacherSpec":
        """Identify a model and a text (None: the default) by their contents, or their commits on the hub.

        Raises:
            LanguageError: for a local folder without a model.

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
        """Load model and tokenizer, and count the tokens of the text.

        Raises:
            LanguageError: if something cannot be loaded, or the text has too few different tokens.

        """
        import datasets
        from transformers import AutoModelForCausalLM, AutoTokenizer

        options = {"local_files_only": Path(self.model).is_dir(), "revision": self.model_commit or "main"}
        precise = options | {"dtype": torch.float32, "attn_implementation": "sdpa"}
        what = (f"the model {self.model!r}", "opt", self.model)
        tokenizer = load_or_explain(*what, lambda: AutoTokenizer.from_pretrained(self.model, **options))
        model = load_or_explain(*what, lambda: AutoModelForCausalLM.from_pretrained(self.model, **precise))
        config = None if Path(self.corpus).is_dir() else self.corpus_config
        text = {"split": self.corpus_split, "revision": self.corpus_commit}
        texts = load_or_explain(
            f"the text {self.corpus!r} on which token frequencies are counted",
            "opt_corpus",
            self.corpus,
            lambda: datasets.load_dataset(self.corpus, config, **text)[self.corpus_column],
        )
        counts = torch.zeros(model.config.vocab_size, dtype=torch.long)
        for first in range(0, len(texts), TEXTS):
            ids = torch.cat(_tokenised(tokenizer, texts[first : first + TEXTS]))
            counts += ids.bincount(minlength=len(counts))
        counts[tokenizer.all_special_ids] = 0
        return HubTeacher(model.to(best_device()), tokenizer, counts, self.words, self.max_length)


class HubTeacher(AutoregressiveLanguage):
    """A pre-trained model restricted to its most frequent tokens, with its own start and end tokens.

    Word w of the language is token `allowed[w - 1]` of the `tokenizer`; `coverage` is the fraction of the
    frequency text that these tokens make up.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: Any,
        counts: Int[Tensor, " token"],
        words: int,
        max_length: int,
    ) -> None:
        """Keep the `words` tokens with the largest counts; of equal ones, those with lower ids."""
        known = int((counts > 0).sum())
        if known < words:
            raise LanguageError(
                f"The frequency text has {known} different tokens, fewer than the {words} wanted; "
                "give more text in the parameter `opt_corpus`."
            )
        allowed = counts.sort(descending=True, stable=True).indices[:words]
        start, end = tokenizer.bos_token_id, tokenizer.eos_token_id
        super().__init__(model, allowed.tolist(), (start,), (1.0,), end, max_length)
        self.tokenizer, self.allowed = tokenizer, allowed.tolist()
        self.coverage = float(counts[allowed].sum() / counts.sum())


def _tokenised(tokenizer: Any, texts: Iterable[str]) -> list[Tensor]:
    ids = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    return [torch.tensor(row, dtype=torch.long) for row in ids]


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

    def load() -> dict[str, pd.DataFrame]:
        data = datasets.load_dataset(source, **options)
        tables = {split: data[split].to_pandas() for split in SPLITS}
        columns = GLUE_COLUMNS[name]
        return {
            k: v.assign(text=v[columns].agg(" ".join, axis=1))[["text", "label"]] for k, v in tables.items()
        }

    tables = load_or_explain(f"the GLUE task {name} from {source!r}", "glue", source, load)
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
