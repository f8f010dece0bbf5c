"""A page's parameters become settings, or one clear sentence."""

import pytest

from sameloss.errors import LanguageError, ParameterError
from sameloss.studies.same_loss.pages import STUDY
from sameloss.studies.same_loss.settings import PARAMETERS, PRESETS, finished, preset_of


@pytest.fixture(autouse=True)
def elsewhere(home):
    (home / "empty.txt").touch()


def open_settings(page="02_existence", **given):
    return STUDY.open(page, given).config


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": "28K"}, r"Unknown size '28K'; choose one of all, 1K, 3K, .*10K, .*235M"),
        ({"size": "28K", "preset": "smoke"}, r"Unknown size '28K'; choose one of all, 1K, 3K, .*10K, .*235M"),
        ({"preset": "desktop"}, "Unknown preset 'desktop'; choose one of auto, smoke, laptop, laptop-long,"),
        (
            {"szie": "10K"},
            "Unknown parameter 'szie'; valid here are preset, size, task, language, algorithm, ",
        ),
        (
            {"task": "span64"},
            r"Unknown task 'span64' for preset laptop; choose one of all, root, span4\.",
        ),
        (
            {"task": "root", "language": "HMM"},
            "Unknown task 'root' for preset laptop; choose one of all, state3, state5",
        ),
        (
            {"language": "HMM", "size": "155K"},
            "Size 155K is not on HMM at preset laptop; choose one of all, 10K, 40K, L4K",
        ),
        ({"language": "Dutch"}, r"Unknown language 'Dutch'; choose one of PCFG, HMM, OPT\."),
        ({"algorithm": "adam"}, "Unknown algorithm 'adam'; choose one of adamw, sgd, adversarial"),
        ({"algorithm": "soft", "strength": 1.0}, "Algorithm soft has no strength; those that have are sgd"),
        ({"strength": 1.0}, "Algorithm adamw has no strength; those that have are sgd"),
        ({"labels": "true"}, r"Unknown labels 'true'; choose one of likelihood, posterior\."),
        ({"steps": 0}, r"steps must be positive; got 0\."),
        ({"max_hours": "1h"}, r"max_hours must be a number; got '1h'\."),
        ({"corpus": "huge"}, "Unknown corpus 'huge'; choose one of fixed, endless"),
        ({"test_sentences": "new"}, "Unknown test_sentences 'new'; choose one of fresh, unseen"),
        ({"test_sentences": "unseen", "corpus": "endless"}, "test_sentences = unseen needs corpus = fixed"),
        ({"length_limit": 512, "grammar": "x"}, r"^length_limit is at most 128; got 512\.$"),
        ({"length_limit": 9}, "length_limit has an effect only together with grammar; give both or none"),
        ({"grammar": "nowhere.txt"}, r"The grammar file nowhere.txt cannot be read"),
        (
            {"grammar": "/dev/zero"},
            r"^/dev/zero is no file of a grammar, which is text of 1 to 10,000,000 bytes",
        ),
        ({"grammar": "/dev/null"}, r"^/dev/null is no file of a grammar"),
        ({"grammar": "empty.txt"}, r"^empty.txt is no file of a grammar"),
        ({"grammar": "/"}, r"^/ is no file of a grammar"),
        ({"grammar": ""}, r"^grammar is empty; leave it out"),
        (
            {"grammar": "my.txt", "language": "HMM"},
            "^grammar stands in the place of the PCFG, and language = HMM",
        ),
        ({"algorithm": "dropout", "strength": 1.5}, r"^A dropout rate lies in \[0, 1\); got 1\.5\.$"),
        ({"workers": 10**9}, r"^workers is at most [\d,]+; got 1e\+09\.$"),
        ({"seeds": 10**9}, r"^seeds is at most 300; got 1e\+09\.$"),
        (
            {"preset": "laptop", "size": "235M"},
            "Size 235M does not belong to preset laptop, whose sizes are 40K, .*goes with preset paper",
        ),
        ({"preset": "paper", "size": "10K"}, "goes with preset laptop or laptop-long"),
        ({"processes": 0}, "processes must be positive; got 0"),
        ({"processes": 10**5}, r"^processes is at most [\d,]+; got 100000\.$"),
        ({"tolerance": 1e9}, r"^tolerance is at most 10; got 1e\+09\.$"),
        ({"saturated_share": 20.0}, r"^saturated_share is at most 10; got 20\.$"),
    ],
)
def test_bad_parameters_say_what_is_valid(given, message):
    with pytest.raises(ParameterError, match=message) as refused:
        open_settings(**given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"glue": "folder"}, "glue has an effect only together with opt"),
        ({"opt_corpus": "folder"}, "opt_corpus has an effect only together with opt"),
        ({"sentences": 10**9}, r"^sentences is at most 1,000,000; got 1e\+09\.$"),
        ({"sentences": 1}, r"^sentences is at least 2; got 1\.$"),
        ({"trace_sentences": 9}, "Unknown parameter 'trace_sentences'; valid here are preset, sentences, "),
    ],
)
def test_those_of_the_page_on_data_sets_too(given, message):
    with pytest.raises(ParameterError, match=message):
        open_settings("a1_datasets", **given)


@pytest.mark.parametrize(
    ("size", "preset"),
    [
        ("all", "laptop"),
        ("1K", "smoke"),
        ("40K", "laptop"),
        ("L4K", "laptop"),
        ("41M", "gpu"),
        ("235M", "paper"),
        ("730M", "paper"),
    ],
)
def test_the_preset_follows_the_size(size, preset):
    assert preset_of({"size": size}) == preset
    settings = open_settings(size=size, language="HMM" if size == "L4K" else "PCFG")
    assert settings.name == preset
    assert settings.shown.size == (None if size == "all" else size)


def test_every_value_reaches_its_place():
    given = {
        "steps": 1e3,
        "seeds": 2,
        "probe_seeds": 1,
        "labels": "posterior",
        "saturated_share": 0.1,
        "tolerance": 0.5,
        "micro_batch": 16,
        "max_hours": 7,
        "workers": 3,
        "task": "span4",
        "language": "PCFG",
        "algorithm": "adversarial",
        "strength": 0.1,
    }
    s = open_settings(**given)
    training, evaluation = s.training, s.evaluation
    assert (training.optimisation.steps, training.compared_steps, training.seeds) == (1000, 1000, 2)
    assert (evaluation.downstream.probe_seeds, evaluation.downstream.label_kind) == (1, "posterior")
    assert (evaluation.saturated_share, evaluation.tolerance, training.micro_batch) == (0.1, 0.5, 16)
    assert (s.max_hours, s.workers) == (7, 3)
    assert (s.shown.task, s.shown.algorithm, s.shown.strength) == ("span4", "adversarial", 0.1)
    with pytest.raises(ParameterError, match=r"^trace_sentences is at least 2; got 1\.$"):
        open_settings("04_flatness", trace_sentences=1)
    assert open_settings("04_flatness", trace_sentences=50).evaluation.flatness.trace_sentences == 50
    assert open_settings("a2_conditionals").evaluation.language_sentences == 2000  # this page's default


def test_what_is_not_asked_for_is_the_presets():
    """The settings of a plain page are the preset itself, but for what None cannot say."""
    assert open_settings() == PRESETS["laptop"]
    assert finished(PRESETS["paper"], {}) == PRESETS["paper"]


def test_a_strength_may_be_zero():
    assert open_settings(algorithm="sgd-noise", strength=0).shown.strength == 0
    with pytest.raises(ParameterError, match=r"strength must be positive; got -1\."):
        open_settings(algorithm="sgd-noise", strength=-1)


def test_processes_share_the_cores_that_workers_would_have(monkeypatch):
    monkeypatch.setattr("sameloss.studies.same_loss.settings.usable_workers", lambda: 8)
    assert open_settings(processes=3).workers == 2
    assert open_settings(processes=16).workers == 1
    assert open_settings(processes=3, workers=5).workers == 5
    assert open_settings().workers is None


def test_an_endless_corpus_and_unseen_tests():
    assert open_settings(corpus="endless").training.corpus_sentences is None
    assert open_settings(test_sentences="unseen").evaluation.downstream.unseen_test
    assert not open_settings().evaluation.downstream.unseen_test


def test_a_readers_grammar_takes_the_language_s_place(tmp_path):
    (tmp_path / "mine.txt").write_text("R A 0.5\nR B 0.5\nA A B 0.4\nA x 0.6\nB y 1")
    own = open_settings(grammar="mine.txt", length_limit=5)
    assert own.domain.language.max_length == 5
    assert own.domain.tasks == ("root",)
    assert own.domains["HMM"] == PRESETS["laptop"].domains["HMM"]
    with pytest.raises(LanguageError, match="recursive, so no sentence is the longest; give length_limit"):
        open_settings(grammar="mine.txt")


def test_a_real_opt_takes_the_stand_ins_place():
    """It is not loaded before it is needed."""
    real = open_settings("a1_datasets", opt="x", opt_corpus="texts", glue="elsewhere")
    assert (real.domains["OPT"].language.model, real.domains["OPT"].language.corpus) == ("x", "texts")
    assert real.domains["OPT"].tasks == ()
    assert real.evaluation.glue == "elsewhere"


def test_every_parameter_is_one_of_some_page():
    everywhere = {"max_hours", "workers", "device", "artifacts"}
    named = {name for plan in STUDY.plans.values() for name in plan.parameters.split()}
    assert named == set(PARAMETERS) | everywhere
