"""OPT from the hub or local folders, and GLUE tasks in its words, with tiny local stand-ins."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import OPTConfig, OPTForCausalLM, PreTrainedTokenizerFast

from sameloss import hub
from sameloss.book.pages import open_page
from sameloss.errors import LanguageError
from sameloss.languages import LanguageSpec, Sentences
from sameloss.languages.autoregressive import STAND_IN_NOTE
from sameloss.languages.pretrained import HubTeacherSpec, glue_task
from sameloss.studies.same_loss.languages import describe_opt, measurements

VOCABULARY = ["<s>", "<pad>", "</s>", "<unk>", "is", "a", "the", "cat", "dog", "mat", "?", "who"]
CORPUS = "the cat is the cat\na dog\na a a cat </s>\nwho is a mat\nunheard\n"


@pytest.fixture(autouse=True)
def no_network(tmp_path, monkeypatch):
    """Whatever the machine's network and caches, nothing is reached and nothing is left behind."""
    monkeypatch.setattr(hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def spec(tmp_path):
    """A tiny OPT, its tokenizer and a few lines of text in local folders."""
    tokenizer().save_pretrained(tmp_path / "model")
    config = OPTConfig(
        vocab_size=14,  # like OPT's, larger than its tokenizer's
        hidden_size=8,
        word_embed_proj_dim=8,
        ffn_dim=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=8,
    )
    OPTForCausalLM(config).half().save_pretrained(tmp_path / "model")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "lines.txt").write_text(CORPUS)
    return HubTeacherSpec(str(tmp_path / "model"), 4, 5, corpus=str(tmp_path / "text"))


def tokenizer():
    model = Tokenizer(WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="<unk>"))
    model.pre_tokenizer = Whitespace()
    special = {"bos_token": "</s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=model, **special)


def words_of(language):
    return [VOCABULARY[i] for i in language.allowed]


def test_a_local_model_becomes_a_language_of_its_most_frequent_tokens(spec):
    language = spec.build()
    # a 5, cat 3, is 2, the 2 (equal: the lower id first), dog 1, mat 1, who 1; specials not counted
    assert words_of(language) == ["a", "cat", "is", "the"]
    assert language.coverage == pytest.approx(12 / 15)
    assert (language.words, language.max_length, language.tasks) == (4, 5, ())
    assert isinstance(spec, LanguageSpec)


def test_its_probabilities_are_those_of_the_model(spec):
    """Both start and end are </s>; half-precision weights are read as float32."""
    language = spec.build()
    model = OPTForCausalLM.from_pretrained(spec.model, dtype=torch.float32)
    sentences = Sentences(torch.tensor([[2, 3]]), torch.tensor([2]))
    with torch.no_grad():
        logits = model(torch.tensor([[2, 7, 4]])).logits[0]
    first, *rest = (logits[i, [5, 7, 4, 6] + [2] * (i > 0)].log_softmax(0) for i in range(3))
    expected = first[1] + rest[0][2] + rest[1][4]
    assert language.log_prob(sentences).item() == pytest.approx(expected.item(), abs=1e-5)
    drawn = language.sample(20, torch.Generator().manual_seed(0))
    assert language.conditionals(drawn).sum(-1).max() == pytest.approx(1)


def test_too_little_text_is_refused(spec):
    with pytest.raises(LanguageError, match="7 different tokens, fewer than the 8 wanted"):
        replace(spec, words=8).build()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "no-such/model"}, "Cannot load the model 'no-such/model' .*parameter `opt`"),
        ({"model": "/no/folder"}, "Cannot load the model '/no/folder' .*parameter `opt`"),
        ({"corpus": "no-such/corpus"}, "Cannot load the text 'no-such/corpus' .*parameter `opt_corpus`"),
        ({"corpus_column": "words"}, "parameter `opt_corpus`"),
    ],
)
def test_what_cannot_be_reached_is_named(spec, changes, message):
    with pytest.raises(LanguageError, match=message):
        replace(spec, **changes).build()
    assert hub.constants.HF_HUB_OFFLINE is False


def write_jsonl(path, **columns):
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


ALLOWED = (5, 7, 4, 6)  # a cat is the


def test_qnli_joins_question_and_sentence_drops_and_cuts(tmp_path):
    questions = ["who is the cat ?", "who ?", "a cat"]
    answers = ["the cat is a dog", "dog mat", "is a"]
    write_jsonl(tmp_path / "qnli_train.jsonl", question=questions, sentence=answers, label=[0, 1, 1])
    write_jsonl(tmp_path / "qnli_validation.jsonl", question=["a"], sentence=["cat"], label=[1])
    write_jsonl(tmp_path / "sst2_train.jsonl", sentence=["not read"], label=[1])
    train, validation = glue_task("qnli", tokenizer(), ALLOWED, 4, str(tmp_path)).values()
    assert train.sentences.tokens.tolist() == [[3, 4, 2, 4], [1, 2, 3, 1]]
    assert train.sentences.lengths.tolist() == [4, 4]
    assert train.labels.tolist() == [0, 1]
    assert train.tokens_known == pytest.approx(11 / 18)
    assert train.tokens_kept == pytest.approx(8 / 18)
    assert (train.kept_whole, train.empty) == pytest.approx((1 / 3, 1 / 3))
    assert validation.sentences.tokens.tolist() == [[1, 2, 0, 0]]
    assert validation[2:] == (1, 1, 1, 0)


def test_sst2_from_csv(tmp_path):
    for split in ("train", "validation"):
        (tmp_path / f"sst2_{split}.csv").write_text("sentence,label\nthe cat,1\na dog,0\n")
    train = glue_task("sst2", tokenizer(), ALLOWED, 4, str(tmp_path))["train"]
    assert train.sentences.tokens.tolist() == [[4, 2, 0, 0], [1, 0, 0, 0]]
    assert train.labels.tolist() == [1, 0]


def test_glue_says_what_is_missing(tmp_path):
    with pytest.raises(LanguageError, match="choose one of qnli, sst2"):
        glue_task("cola", tokenizer(), ALLOWED, 4, str(tmp_path))
    for source in (str(tmp_path), "no-such/glue"):
        with pytest.raises(LanguageError, match=r"Cannot load the GLUE task qnli from .*parameter `glue`"):
            glue_task("qnli", tokenizer(), ALLOWED, 4, source)


def test_the_chapter_measures_and_describes_a_real_model(spec, tmp_path, capsys):
    for split in ("train", "validation"):
        texts, labels = ["the cat is", "a dog"], [0, 1]
        write_jsonl(tmp_path / f"qnli_{split}.jsonl", question=texts, sentence=texts, label=labels)
        write_jsonl(tmp_path / f"sst2_{split}.jsonl", sentence=texts, label=labels)
    given = {"sentences": 30, "artifacts": str(tmp_path / "artifacts")}
    page = open_page("a1_datasets", preset="smoke", **given)
    setups = [s._replace(language=spec, tasks=()) if s.name == "opt" else s for s in page.config.setups]
    page.config = replace(page.config, setups=tuple(setups), glue=str(tmp_path))
    table = describe_opt(page.config)
    assert len(table) == 4
    assert set(" ".join(table.sentence).split()) <= {"a", "cat", "is", "the"}
    printed = capsys.readouterr().out
    assert "4 tokens cover 80.0% of" in printed
    assert STAND_IN_NOTE not in printed
    found = page.store.get(measurements(page.config)[spec.model])
    assert 0 < found.entropy.mean < 1.4
    assert found.ceilings.empty


def test_what_is_fetched_is_of_one_commit_that_is_in_the_key(monkeypatch):
    monkeypatch.setattr(
        hub.huggingface_hub, "get_session", lambda: SimpleNamespace(head=lambda address, timeout: None)
    )
    commits = {"facebook/opt-125m": "a1", "Salesforce/wikitext": "b2"}
    info = lambda self, name, repo_type: SimpleNamespace(sha=commits[name])  # noqa: E731
    monkeypatch.setattr(hub.huggingface_hub.HfApi, "repo_info", info)
    spec = HubTeacherSpec.of("facebook/opt-125m", None)
    assert (spec.model_commit, spec.corpus_commit) == ("a1", "b2")
    options = {}
    monkeypatch.setattr(
        transformers.AutoTokenizer, "from_pretrained", lambda name, **given: options.update({name: given})
    )
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", lambda name, **given: 1 / 0)
    with pytest.raises(LanguageError, match="Cannot load the model"):
        spec.build()
    assert options["facebook/opt-125m"]["revision"] == "a1"


def test_a_folder_that_is_not_there_is_told_when_it_is_loaded(tmp_path):
    with pytest.raises(LanguageError, match=r"Cannot load the model .*give a local folder in the parameter"):
        HubTeacherSpec.of(str(tmp_path / "none"), None).build()


def test_the_content_of_local_folders_is_in_the_key(spec):
    first = HubTeacherSpec.of(spec.model, spec.corpus)
    assert HubTeacherSpec.of(spec.model, spec.corpus) == first
    (Path(spec.corpus) / "lines.txt").write_text(CORPUS + "more\n")
    assert HubTeacherSpec.of(spec.model, spec.corpus).fingerprint != first.fingerprint
    assert HubTeacherSpec.of("facebook/opt-125m", None) == HubTeacherSpec()


def test_a_folder_without_a_model_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "large").write_bytes(b"0")
    with pytest.raises(LanguageError, match=r"^The folder .* holds no model: it has no config\.json\.$"):
        HubTeacherSpec.of(str(tmp_path), None)
