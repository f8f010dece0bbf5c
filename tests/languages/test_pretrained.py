"""OPT from the hub or local folders, and GLUE tasks in its words, with tiny local stand-ins."""

import copy
import json
from dataclasses import replace
from math import log
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
import torch
import transformers
from cells import computed, definitions
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedTokenizerFast,
)

from sameloss import hub
from sameloss.book.pages import open_page
from sameloss.errors import LanguageError
from sameloss.languages import LanguageSpec, Sentences, pretrained
from sameloss.languages.autoregressive import STAND_IN_NOTE
from sameloss.languages.pretrained import OWN, OWN_TEXTS, HubTeacherSpec, glue_task, own_counts
from sameloss.runs.sampling import CorpusSampling, HeldOutConditionals
from sameloss.store.store import with_ancestors
from sameloss.studies.same_loss.claims import answers
from sameloss.studies.same_loss.experiment import PRESETS, STAND_IN
from sameloss.studies.same_loss.languages import measurements, opt_language
from sameloss.studies.same_loss.parameters import chosen

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


def tokenizer(words=VOCABULARY, **changes):
    model = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    model.pre_tokenizer = Whitespace()
    special = {"bos_token": "</s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=model, **special | changes)


SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 20}
CONFIGS = {
    "OPT": OPTConfig(**SIZES, word_embed_proj_dim=8, ffn_dim=16, max_position_embeddings=16),
    "GPT-2": GPT2Config(n_embd=8, n_layer=2, n_head=2, n_positions=16, vocab_size=20),
    "Llama": LlamaConfig(**SIZES, intermediate_size=16, num_key_value_heads=1),
}


def saved(folder, kind, **special):
    """A folder with a random model and its tokenizer."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(CONFIGS[kind]).save_pretrained(folder)
    tokenizer([*VOCABULARY, *"bcdefg"], **special).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("kind", CONFIGS)
def test_trainings_on_a_pretrained_models_language(tmp_path, kind):
    """From the parameters of a page to its table of measurements, without any text."""
    given = {"opt": saved(tmp_path / "model", kind), "artifacts": str(tmp_path / "artifacts")}
    page = open_page("02_existence", preset="smoke", language="opt", seeds=1, **given)
    experiment = chosen(page.values)
    (setup,) = (s for s in experiment.setups if s.name == "opt")
    assert (setup.language.corpus, setup.language.words, setup.tasks) == (OWN, 12, ("next",))
    assert "14 of 14 runs to compute" in page.announce()
    few = replace(PRESETS["smoke"], descent_steps=(2,), test=50, batch=16)
    about = {"language": "opt", "seeds": 1, "opt": given["opt"]}
    found = computed("04_flatness", page.store, about, experiment=few, continued=(), controls=False)
    table = found.page.results.table
    assert set(table.language) == {"pretrained"}
    assert set(table.task) == {"", "next"}
    assert table[table.quantity == "kl"].value.between(0, 5).all()
    assert not table.reading.str.contains("lookup").any()
    (entropy,) = table[table.quantity == "entropy"].value
    assert 0 < entropy < log(12)
    answers(table)  # of which none is about the lookup table


def test_runs_are_priced_by_what_a_token_costs(tmp_path):
    spec = HubTeacherSpec.of(saved(tmp_path, "OPT"), None, words=8, max_length=4)
    model = spec.build().model.model
    tables = model.get_input_embeddings().weight.numel()  # tied to the output layer
    assert spec.token_flops == 2 * (sum(p.numel() for p in model.parameters()) - tables)
    assert CorpusSampling(spec, 1000, 0).work == 4000 * spec.token_flops
    candidates = 5 * 8 * (4 + 3 + 2 + 1)  # of all words, at all positions
    assert HeldOutConditionals(spec, 5, 0).work == pytest.approx((20 + candidates) * spec.token_flops)
    assert CorpusSampling(replace(spec, model="not there"), None, 0).work == 0  # without reading the model
    assert HeldOutConditionals(STAND_IN, 5, 0).work == 0


def test_the_model_itself_tells_which_tokens_are_frequent(tmp_path, monkeypatch):
    """After one step the counts are its first predictions."""
    folder = saved(tmp_path, "GPT-2")
    model = GPT2LMHeadModel.from_pretrained(folder)
    ordinary = range(4, 12)
    with monkeypatch.context() as patch:
        patch.setattr(pretrained, "OWN_STEPS", 1)
        found = own_counts(model, tokenizer(), ordinary)
    with torch.no_grad():
        p = model.double()(torch.tensor([[2]])).logits[0, -1, 4:12].softmax(0)
    torch.testing.assert_close(found[4:12], OWN_TEXTS * p)
    assert found.sum() == pytest.approx(OWN_TEXTS)
    language = HubTeacherSpec.of(folder, None, words=3, max_length=4).build()
    assert set(language.allowed) <= {0, *range(4, 18)}  # not special, and known to the tokenizer
    assert language.allowed == HubTeacherSpec.of(folder, None, words=3, max_length=3).build().allowed


@pytest.mark.parametrize(
    ("special", "start", "end"),
    [
        ({"bos_token": "<s>"}, 0, 2),
        ({"bos_token": None}, 2, 2),  # as in Qwen
        ({"bos_token": "<s>", "eos_token": None}, 0, 0),
    ],
)
def test_a_missing_start_or_end_is_replaced_by_the_other(tmp_path, special, start, end):
    language = HubTeacherSpec.of(saved(tmp_path, "Llama", **special), None, words=3, max_length=4).build()
    assert (int(language.starts), int(language.model.ids[-1])) == (start, end)
    assert language.about == f"sentences begin with {VOCABULARY[start]} and end with {VOCABULARY[end]}"
    assert language.sample(5, torch.Generator()).lengths.min() >= 1


def test_a_tokenizer_without_start_and_end_is_refused(tmp_path):
    folder = saved(tmp_path, "Llama", bos_token=None, eos_token=None)
    with pytest.raises(LanguageError, match="neither a BOS nor an EOS token"):
        HubTeacherSpec.of(folder, None).build()


def test_an_encoder_is_refused_before_its_weights_are_read(tmp_path, monkeypatch):
    config = BertConfig(**SIZES, intermediate_size=16)
    BertForMaskedLM(config).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", lambda name, **given: 1 / 0)
    spec = HubTeacherSpec.of(str(tmp_path), None)
    for use in (spec.build, lambda: spec.token_flops):
        with pytest.raises(LanguageError, match="holds a BertForMaskedLM, which does not predict the next"):
            use()


# Saved models that are not whole


def build(folder, **given):
    return HubTeacherSpec.of(str(folder), None, **{"words": 8, "max_length": 8} | given).build()


def rewrite(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def reweigh(folder, change):
    """Change the saved weights; None removes one."""
    path = Path(folder) / "model.safetensors"
    weights = {**(old := load_file(path)), **change(old)}
    save_file({k: v for k, v in weights.items() if v is not None}, path, metadata={"format": "pt"})


INNER = {  # an inner weight of each kind
    "OPT": "model.decoder.layers.1.fc1.weight",
    "GPT-2": "transformer.h.1.mlp.c_fc.weight",
    "Llama": "model.layers.1.mlp.up_proj.weight",
}


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: None, "lack {0}; save"),
        (lambda w: w[:4].clone(), r"have {0} of shape \(4, .*\) instead of \(\d+, \d+\); save"),
        (lambda w: w.clone().fill_(torch.nan), "hold values in {0} that are not finite; save"),
        (lambda w: w.double() * 1e300, "hold values in {0} that are not finite; save"),
    ],
)
def test_weights_that_are_missing_or_no_numbers_are_named(tmp_path, kind, change, message):
    """transformers draws them at random, other ones in every process."""
    folder, name = saved(tmp_path, kind), INNER[kind]
    reweigh(folder, lambda weights: {name: change(weights[name])})
    wanted = rf"^The weights in {folder} {message.format(name)} the whole model again\.$"
    with pytest.raises(LanguageError, match=wanted):
        build(folder)


def test_weights_whose_products_overflow_do_not_read_ahead(tmp_path):
    folder, name = saved(tmp_path, "GPT-2"), INNER["GPT-2"]
    reweigh(folder, lambda weights: {name: weights[name].clone().fill_(3e38)})
    with pytest.raises(LanguageError, match=r"^The model's predictions are not finite"):
        build(folder)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", CONFIGS)
def test_only_an_output_layer_of_its_own_can_be_missing(tmp_path, kind, tied):
    config = copy.deepcopy(CONFIGS[kind])
    config.tie_word_embeddings = tied
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    tokenizer([*VOCABULARY, *"bcdefg"]).save_pretrained(tmp_path)
    build(tmp_path)
    reweigh(tmp_path, lambda weights: {"lm_head.weight": None})
    HubTeacherSpec.build.cache_clear()
    if tied:
        build(tmp_path)
    else:
        with pytest.raises(LanguageError, match=r" lack lm_head\.weight;"):
            build(tmp_path)


@pytest.mark.parametrize(("kind", "field"), [("OPT", "max_position_embeddings"), ("GPT-2", "n_positions")])
def test_sentences_longer_than_the_positions_of_a_model_are_refused(tmp_path, kind, field):
    folder = saved(tmp_path, kind)
    build(folder, max_length=15).log_prob(Sentences(torch.ones(1, 15, dtype=torch.long), torch.tensor([15])))
    message = "^The model has 16 positions; sentences have up to 16 tokens and a start: give another model"
    with pytest.raises(LanguageError, match=message):
        build(folder, max_length=16)


def test_own_sentences_are_no_longer_than_the_positions_of_a_model(tmp_path):
    folder = saved(tmp_path, "GPT-2")
    GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=2, n_head=2, n_positions=4, vocab_size=20)).save_pretrained(
        folder
    )
    assert build(folder, max_length=3).words == 8


def test_a_price_is_refused_as_the_model_is(tmp_path):
    rewrite(Path(saved(tmp_path, "GPT-2")) / "config.json", n_head=3)
    message = r"^Cannot load config\.json in .* must be divisible by num_heads .* the parameter `opt`\.$"
    with pytest.raises(LanguageError, match=message):
        _ = HubTeacherSpec.of(str(tmp_path), None, max_length=3).token_flops


TEXTS = {
    "a.txt": (b"\xff\xfe", "UnicodeDecodeError: 'utf-8' codec can't decode byte"),
    "a.jsonl": (b"{junk", "JSON"),
    "a.parquet": (b"junk", "Parquet file size is 4 bytes"),
    "a.csv": (b"text\n5\n", "holds other values than text"),
    "text.py": (b"raise SystemExit", "Dataset scripts are no longer supported"),
    "a.pkl": (b"cos\nsystem\n", "No (supported) data files found"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_cannot_be_read_is_one_sentence_with_the_reason(spec, name):
    content, reason = TEXTS[name]
    (Path(spec.corpus) / "lines.txt").unlink()
    (Path(spec.corpus) / name).write_bytes(content)
    with pytest.raises(LanguageError) as seen:
        spec.build()
    said = str(seen.value)
    assert said.startswith(f"Cannot load the text '{spec.corpus}' on which token frequencies are counted (")
    assert reason in said
    assert said.endswith("); put that right, or change the parameter `opt_corpus`.")
    assert "\n" not in said


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_folder_without_a_tokenizer_is_refused(tmp_path, kind):
    (Path(saved(tmp_path, kind)) / "tokenizer.json").unlink()
    with pytest.raises(LanguageError, match=r"has no tokenizer\.json; save the tokenizer with its model\.$"):
        build(tmp_path)


def test_a_vocabulary_that_is_too_small_is_no_fault_of_a_text(tmp_path):
    message = (
        "^Of the 20 tokens of .*, 15 are in its tokenizer and not special; 16 are wanted, besides a start"
    )
    folder = saved(tmp_path, "Llama")
    assert build(folder, words=15).words == 15
    with pytest.raises(LanguageError, match=message):
        build(folder, words=16)


def test_a_start_that_the_model_does_not_know_is_refused(tmp_path):
    folder = saved(tmp_path, "Llama")
    tokenizer([*VOCABULARY, *"bcdefghijklmnop", "<z>"], eos_token="<z>").save_pretrained(folder)
    with pytest.raises(LanguageError, match=r"^Of the 20 tokens of .* besides a start and an end"):
        build(folder)


DAMAGE = [
    ("config.json", "{", "cannot be read (JSONDecodeError"),
    ("config.json", "[]", "Cannot load config.json in"),
    ("config.json", '{"model_type": "unheard"}', "model type `unheard` but Transformers does not recognize"),
    ("config.json", '{"model_type": "llama", "vocab_size": "x"}', "Cannot load config.json in"),
    ("config.json", '{"model_type": "llama", "hidden_size": 7}', None),
    ("config.json", '{"model_type": "vit", "architectures": [null]}', None),
    ("config.json", '{"model_type": "gemma3"}', None),
    ("tokenizer.json", "{", "cannot be read (JSONDecodeError"),
    ("tokenizer.json", "[" * 100_000, "cannot be read (RecursionError"),
    ("tokenizer.json", "{}", "Cannot load the tokenizer in"),
    ("tokenizer_config.json", "\x00", "cannot be read (JSONDecodeError"),
    ("model.safetensors", "x" * 99, "cannot be read (SafetensorError"),
    ("model.safetensors", "", "cannot be read (SafetensorError"),
    ("model.safetensors.index.json", "{", "cannot be read (JSONDecodeError"),
    ("model.safetensors", None, "Cannot load the weights in"),
]


@pytest.mark.parametrize(("name", "content", "message"), DAMAGE)
def test_a_damaged_folder_is_one_sentence_with_file_and_reason(tmp_path, name, content, message):
    path = Path(saved(tmp_path, "Llama")) / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(LanguageError) as seen:
        build(tmp_path)
    said = str(seen.value)
    assert str(path if "cannot be read" in said else tmp_path) in said
    assert (message or "") in said
    assert "give a local folder" not in said
    assert "\n" not in said
    assert len(said) < 300 + 2 * len(str(tmp_path))


def test_a_file_that_is_too_large_is_not_parsed(tmp_path):
    with (Path(saved(tmp_path, "Llama")) / "tokenizer.json").open("ab") as file:
        file.truncate(pretrained.LARGEST_FILE + 1)  # sparse
    with pytest.raises(LanguageError, match=r"tokenizer\.json is larger than 100 MB; give another model\.$"):
        build(tmp_path)


@pytest.mark.parametrize(
    ("text", "patience", "message"),
    [
        ("a" * 40 + "!", 60, r"cannot read the text \(PanicException: Onig: Regex search error: retry-limit"),
        (
            "\n".join(["a" * 24 + "!"] * 8),  # the thread that reads them goes on
            0.01,
            "is too slow: it reads fewer than 10,000 characters a second",
        ),
    ],
)
def test_a_regular_expression_that_does_not_end_is_one_sentence(spec, monkeypatch, text, patience, message):
    """The first ends the library's patience, and would end in a panic; the others each stay below it."""
    monkeypatch.setattr(pretrained, "PATIENCE", patience)
    bomb = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    rewrite(Path(spec.model) / "tokenizer.json", pre_tokenizer=bomb)
    (Path(spec.corpus) / "lines.txt").write_text(text)
    with pytest.raises(LanguageError, match=rf"^The tokenizer in {spec.model} {message}"):
        spec.build()


def words_of(language):
    return [VOCABULARY[i] for i in language.allowed]


def test_a_local_model_becomes_a_language_of_its_most_frequent_tokens(spec):
    language = spec.build()
    # a 5, cat 3, is 2, the 2 (equal: the lower id first), dog 1, mat 1, who 1; specials not counted
    assert words_of(language) == ["a", "cat", "is", "the"]
    assert language.coverage == pytest.approx(12 / 15)
    assert (language.words, language.max_length, language.tasks) == (4, 5, ("next",))
    assert language is spec.build()
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
    plain, chapter = chosen(page.values), definitions("a1_datasets")
    setups = [s._replace(language=spec, tasks=()) if s.name == "opt" else s for s in plain.setups]
    experiment = replace(plain, setups=tuple(setups))
    assert opt_language(experiment) == spec
    table = chapter.drawn_sentences(spec)
    assert len(table) == 4
    assert set(" ".join(table.sentence).split()) <= {"a", "cat", "is", "the"}
    printed = capsys.readouterr().out
    assert "4 tokens cover 80.0% of" in printed
    assert STAND_IN_NOTE not in printed
    coverage = chapter.glue_coverage(spec, str(tmp_path)).set_index(["task", "split"])
    assert coverage.examples.to_list() == [2, 2, 2, 2]
    assert coverage.kept_whole["sst2", "train"] == 0.5  # of "the cat is" and "a dog"
    found = page.store.get(measurements(experiment)[spec.model])
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
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda name, **given: OPTConfig())
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


def test_files_that_are_not_those_of_the_key_are_refused(spec):
    wanted = HubTeacherSpec.of(spec.model, spec.corpus, words=4, max_length=5)
    wanted.build()
    (Path(spec.corpus) / "lines.txt").write_text(CORPUS + "more\n")
    changed = replace(wanted, tolerance=0.5)  # not built yet
    with pytest.raises(LanguageError, match=r"are not those of fingerprint [0-9a-f]{16}; name the folder"):
        changed.build()


def test_a_folder_without_a_model_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "large").write_bytes(b"0")
    with pytest.raises(LanguageError, match=r"^The folder .* holds no model: it has no config\.json\.$"):
        HubTeacherSpec.of(str(tmp_path), None)


def test_without_the_hub_the_papers_teacher_asks_for_a_folder():
    """By the first run of a page, though its price needs no download."""
    first, *_ = with_ancestors(open_page("02_existence", preset="gpu", language="opt").runs())
    assert first.effort > 3600
    message = r"^Cannot load the model 'facebook/opt-125m' .*; give a local folder in the parameter `opt`\.$"
    with pytest.raises(LanguageError, match=message):
        first.language.build()
