"""Pages: their parameters become an experiment, or one sentence says what is valid."""

from dataclasses import replace
from functools import partial

import pandas as pd
import pytest

from sameloss import hub
from sameloss.errors import LanguageError, ParameterError
from sameloss.store.store import Store
from sameloss.studies.same_loss import pages
from sameloss.studies.same_loss.experiment import PRESETS, STAND_IN
from sameloss.studies.same_loss.pages import STUDY, RecordPage, preset_of
from sameloss.studies.same_loss.tables import PAGES


@pytest.fixture(autouse=True)
def elsewhere(home):
    (home / "empty.txt").touch()


def opened(page="02_existence", **given):
    return STUDY.open(page, given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": "28K"}, r"Unknown size '28K'; choose one of all, d8, d16, .*235M"),
        ({"size": "28K", "preset": "smoke"}, r"Size 28K is not on grammar at preset smoke; choose one of "),
        ({"preset": "desktop"}, "Unknown preset 'desktop'; choose one of auto, smoke, laptop, workstation,"),
        ({"szie": "d24"}, "Unknown parameter 'szie'; valid here are preset, language, size, seeds, "),
        ({"language": "hmm", "size": "d8"}, "Size d8 is not on hmm at preset smoke; it goes with language"),
        ({"language": "dutch"}, r"Language dutch is not in preset laptop; choose all or grammar, hmm, opt\."),
        ({"labels": "true"}, r"Unknown labels 'true'; choose one of likelihood, posterior\."),
        ({"steps": 0}, r"steps must be positive; got 0\."),
        ({"max_hours": "1h"}, r"max_hours must be a number; got '1h'\."),
        ({"trace_sentences": 1}, r"^trace_sentences is at least 2; got 1\.$"),
        ({"length_limit": 512, "grammar": "x"}, r"^length_limit is at most 128; got 512\.$"),
        ({"length_limit": 9}, "length_limit has an effect only together with grammar; give both or none"),
        ({"grammar": "nowhere.txt"}, r"^The grammar file nowhere.txt does not exist\.$"),
        ({"grammar": "/dev/zero"}, "^/dev/zero is not a grammar file; give a text file of 1 to 10,000,000"),
        ({"grammar": "empty.txt"}, "^empty.txt is not a grammar file"),
        ({"grammar": "/"}, "^/ is not a grammar file"),
        ({"grammar": "my.txt", "language": "hmm"}, "^grammar replaces the preset's grammar, which"),
        ({"workers": 10**9}, r"^workers is at most [\d,]+; got 1000000000\.$"),
        ({"seeds": 10**9}, r"^seeds is at most 300; got 1000000000\.$"),
        ({"preset": "laptop", "size": "235M"}, "Size 235M is not on grammar at preset laptop"),
        ({"processes": 0}, "processes must be positive; got 0"),
        ({"opt": "x"}, "^opt has an effect only with language = opt or all, not grammar"),
    ],
)  # fmt: skip
def test_bad_parameters_say_what_is_valid(given, message):
    with pytest.raises(ParameterError, match=message) as refused:
        opened(**given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", [f"S A {10_000 * '('} 1\nA x 1", "\n".join(["S x 0.5"] * 10_000)])
def test_a_sentence_on_a_grammar_is_short(text, tmp_path):
    (tmp_path / "my.txt").write_text(text)
    with pytest.raises(LanguageError, match=r"^In .*; they must|^In .*has no rules of its own") as refused:
        opened(grammar=str(tmp_path / "my.txt"))
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"glue": "folder"}, "glue has an effect only together with opt"),
        ({"opt_corpus": "folder"}, "opt_corpus has an effect only together with opt"),
        ({"sentences": 10**9}, r"^sentences is at most 1,000,000; got 1000000000\.$"),
        ({"sentences": 1}, r"^sentences is at least 2; got 1\.$"),
    ],
)
def test_those_of_the_page_on_data_sets_too(given, message):
    with pytest.raises(ParameterError, match=message):
        opened("a1_datasets", **given)


@pytest.mark.parametrize(
    ("size", "preset"),
    [("all", "laptop"), ("d8", "smoke"), ("d24", "laptop"), ("d48", "workstation"), ("235M", "paper")],
)
def test_the_preset_follows_the_size(size, preset):
    assert preset_of({"size": size}) == preset
    assert opened(size=size).config.name == preset


def test_every_value_reaches_its_place():
    given = {"seeds": 2, "probe_seeds": 1, "labels": "likelihood", "micro_batch": 16, "max_hours": 7}
    e = opened(**given, workers=3, trace_sentences=50).config
    assert (e.seeds, e.measures.probe_sets, e.measures.trace_sentences, e.micro_batch) == (2, 1, 50, 16)
    assert (e.labels, e.max_hours, e.workers) == ("likelihood", 7, 3)
    assert opened("a2_conditionals").config.language_sentences == 2000  # this page's default


def test_pages_about_algorithms_train_one_size_by_theirs_alone():
    page = opened("e_mask_rate")
    assert page.config.algorithms == (("mask-rate", 0.15),)
    assert {p.model for r in page.config.replicates() for p in r.points()} == {"d24"}
    larger = opened("a4_algorithms", size="d96").config
    assert (larger.algorithm_model, larger.treated_models) == ("d96", ("d96",))
    assert opened("02_existence").config.algorithms == ()


def test_pages_share_the_runs_that_they_have_in_common():
    sizes = {run.key for run in opened("02_existence").runs()}
    assert {run.key for run in opened("04_flatness").runs()} == sizes
    own = opened("e_mask_rate").replicate
    assert {run.key for point, run in own.measurements if point.stage == "descent"} & sizes


def test_processes_share_the_cores_that_workers_would_have(monkeypatch):
    monkeypatch.setattr("sameloss.studies.same_loss.pages.usable_workers", lambda: 8)
    assert opened(processes=3).config.workers == 2
    assert opened(processes=16).config.workers == 1
    assert opened(processes=3, workers=5).config.workers == 5
    assert opened().config.workers is None


def test_a_readers_grammar_takes_the_languages_place(home):
    (home / "mine.txt").write_text("R A 0.5\nR B 0.5\nA A B 0.4\nA x 0.6\nB y 1")
    replicate = opened(grammar="mine.txt", length_limit=5).replicate
    assert replicate.language.max_length == 5
    assert replicate.setup.tasks == ("root",)
    assert replicate.longest_descent("d24").objective.label_noise == 1.0  # whose conditionals may take long
    with pytest.raises(LanguageError, match="recursive, so no sentence is the longest; give length_limit"):
        opened(grammar="mine.txt")


@pytest.mark.parametrize("preset", ["gpu", "paper"])
def test_the_papers_teacher_is_the_default_where_the_papers_languages_are(preset, monkeypatch):
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    (replicate,) = opened(preset=preset, language="opt").config.replicates()
    spec = replicate.language
    assert (spec.model, spec.words, spec.max_length) == ("facebook/opt-125m", 2000, 24)
    assert replicate.held_out.sentences < PRESETS[preset].held_out
    (replicate,) = opened(preset=preset, language="opt", opt="stand-in").config.replicates()
    assert (replicate.language, replicate.setup.tasks) == (replace(STAND_IN, seed=1), ("topic",))


def test_a_real_opt_takes_the_stand_ins_place():
    """It is not loaded before it is needed."""
    e = opened("a1_datasets", opt="x", opt_corpus="texts", glue="elsewhere").config
    (real,) = (s for s in e.setups if s.name == "opt")
    assert (real.language.model, real.language.corpus, real.tasks) == ("x", "texts", ("next",))
    assert e.glue == "elsewhere"
    assert (real.language.words, real.language.max_length, real.language.tolerance) == (48, 8, 0)
    assert PRESETS["laptop"].setups[-1].tasks == ("topic",)


def test_a_look_at_the_largest_model_is_said_to_be_unsaturated():
    page = STUDY.open("04_flatness", {"preset": "gpu-hour", "size": "235M"})
    assert page.about == "preset gpu-hour (too few steps to saturate), grammar: 235M"
    assert STUDY.open("04_flatness", {"preset": "gpu", "size": "41M"}).about == "preset gpu, grammar: 41M"


def test_a_record_grows_by_main_comparisons_before_all_others(tmp_path, monkeypatch):
    opened = partial(RecordPage, "verdicts", PRESETS["workstation"], Store(tmp_path))
    page = opened()
    parts = page.parts()
    later = [name.endswith("treatments and other algorithms") for name in parts]
    assert later == sorted(later)
    runs = [run for part in parts.values() for run in part]
    assert len(runs) == len(set(runs))
    assert set(runs) == {run for draw in page.config.replicates() for run in draw.runs()}
    main, others = (parts[f"grammar, draw 4{more}"] for more in ("", ": treatments and other algorithms"))
    for done, expected, draws in (
        ([], [], 0),
        (main[1:], [], 0),
        (main, main, 1),
        (main + others[1:], main, 1),
        (main + others, main + others, 1),
    ):
        monkeypatch.setattr(Store, "has", lambda _, run, done=set(done): run in done)
        page = opened()
        assert set(page.runs()) == set(expected)
        assert page.seeds == draws


def test_figures_show_the_record_unless_a_reader_changes_the_runs(monkeypatch):
    """Or unless it lacks the main row of a question: a slope between sizes needs no treatment."""
    recorded = pd.DataFrame({"question": [*PAGES["04_flatness"], "flatness as a cause"], "row": "main"})
    recorded.loc[recorded.question == "flatness as a cause", "row"] = "between sizes"
    monkeypatch.setattr(pages, "recorded_answers", lambda: recorded)
    monkeypatch.setattr(pages, "recorded_measurements", lambda: recorded.assign(value=1.0))
    page = opened("04_flatness", workers=1, max_hours=30.0)
    assert page.shows_record
    assert page.shown[1] is recorded
    assert "of recorded runs." in page.source
    for given in ({"preset": "smoke"}, {"size": "d24"}, {"seeds": 3}, {"language": "hmm"}):
        page = opened("04_flatness", **given)
        assert not page.shows_record
        assert page.about in page.source
    assert not opened("a4_algorithms").shows_record


def test_a_book_without_records_shows_the_pages_own_runs():
    assert pages.recorded_answers().empty
    assert not opened("04_flatness").shows_record
