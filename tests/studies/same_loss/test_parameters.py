"""What a reader sets reaches the experiment, or one sentence says what is valid."""

from dataclasses import replace

import pytest

from sameloss import hub
from sameloss.book.pages import open_page as opened
from sameloss.errors import LanguageError, ParameterError
from sameloss.runs.pretraining import Pretraining
from sameloss.store.store import with_ancestors
from sameloss.studies.same_loss.experiment import PRESETS, SMOLLM2, STAND_IN
from sameloss.studies.same_loss.parameters import chosen, preset_of


@pytest.fixture(autouse=True)
def elsewhere(home):
    (home / "empty.txt").touch()


def experiment_of(page="02_existence", **given):
    return chosen(opened(page, **given).values)


def first(page="02_existence", **given):
    """The first replicate."""
    return next(experiment_of(page, **given).replicates())


def trainings(page, **given):
    """All trainings that a page reads."""
    return [run for run in with_ancestors(opened(page, **given).runs()) if isinstance(run, Pretraining)]


def measured(page, **given):
    """Measurements of models on a page."""
    return [run for run in opened(page, **given).runs() if run.kind == "ModelMeasurement"]


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
        ({"lr": "0.01, fast"}, "^lr must be a number; got 'fast'"),
        ({"layers": 0}, "^layers must be positive; got 0"),
        ({"batch": 1.5}, "^batch must be a whole number; got 1.5"),
    ],
)  # fmt: skip
def test_bad_parameters_say_what_is_valid(given, message):
    with pytest.raises(ParameterError, match=message) as refused:
        opened("02_existence", **given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", [f"S A {10_000 * '('} 1\nA x 1", "\n".join(["S x 0.5"] * 10_000)])
def test_a_sentence_on_a_grammar_is_short(text, tmp_path):
    (tmp_path / "my.txt").write_text(text)
    with pytest.raises(LanguageError, match=r"^In .*; they must|^In .*has no rules of its own") as refused:
        opened("02_existence", grammar=str(tmp_path / "my.txt"))
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
    assert opened("02_existence", size=size).preset == preset


def test_every_value_reaches_its_place():
    given = {"seeds": 2, "probe_seeds": 1, "labels": "likelihood", "micro_batch": 16, "trace_sentences": 50}
    e = experiment_of(**given, batch=32)
    assert (e.seeds, e.measures.probe_sets, e.measures.trace_sentences, e.micro_batch) == (2, 1, 50, 16)
    assert (e.labels, e.batch) == ("likelihood", 32)
    page = opened("02_existence", max_hours=7, workers=3)
    assert (page.max_hours, page.workers) == (7, 3)
    assert experiment_of("a2_conditionals").language_sentences == 2000  # this page's default


def test_peak_rates_layers_and_batches_are_a_readers():
    """The first rate is that of the main comparison, from which trainings go on."""
    given = {"preset": "smoke", "lr": "0.01, 0.002", "layers": 3, "batch": 16}
    runs = trainings("04_flatness", **given)
    descents = [run for run in runs if run.origin is None]
    assert {run.optimisation.lr for run in descents} == {0.01, 0.002}
    assert {run.shape.layers for run in runs} == {3}
    assert {run.optimisation.batch for run in runs} == {16}
    assert {run.origin.optimisation.lr for run in runs if run.origin in descents} == {0.01}
    plain = {
        (run.optimisation.lr, run.optimisation.batch) for run in trainings("04_flatness", preset="smoke")
    }
    assert plain == {(0.005, 64), (0.001, 64), (0.0005, 64)}  # of descents, plateaus, and cooling
    assert {run.key for run in trainings("02_existence", **given)} == {run.key for run in runs}


def test_strengths_of_an_adversary_are_a_readers():
    found = {
        run.objective.adversary for run in trainings("a4_algorithms", preset="smoke", strengths=[0.1, 1])
    }
    assert {adversary.weight for adversary in found if adversary} == {0.1, 1.0}


def test_pages_about_algorithms_train_one_size_by_theirs_alone():
    runs = measured("e_mask_rate")
    assert {run.training.shape.d_model for run in runs} == {24}
    assert {run.training.objective.mask_rate for run in runs} == {None, 0.15}
    larger = trainings("a4_algorithms", size="d96")
    assert {run.shape.d_model for run in larger} == {96}
    assert len([run for run in larger if run.origin and run.kind == "Pretraining"]) == 4  # treatments
    assert {run.objective.adversary for run in trainings("02_existence")} == {None}
    with pytest.raises(
        ParameterError, match=r"^d_practice compares algorithms at one size, and 235M is not on hmm"
    ):
        opened("d_practice", preset="paper", language="hmm")


def test_pages_share_the_runs_that_they_have_in_common():
    sizes = {run.key for run in opened("02_existence").runs()}
    assert {run.key for run in opened("04_flatness").runs()} == sizes
    descents = [run for run in measured("e_mask_rate") if run.training.objective.mask_rate is None]
    assert {run.key for run in descents} & sizes


def test_processes_share_the_cores_that_workers_would_have(monkeypatch):
    monkeypatch.setattr("sameloss.book.cells.usable_workers", lambda: 8)
    assert opened("02_existence", processes=4).workers == 2
    assert opened("02_existence", processes=16).workers == 1
    assert opened("02_existence", processes=4, workers=5).workers == 5
    assert opened("02_existence").workers is None


def test_a_readers_grammar_takes_the_languages_place(home):
    (home / "mine.txt").write_text("R A 0.5\nR B 0.5\nA A B 0.4\nA x 0.6\nB y 1")
    replicate = first(grammar="mine.txt", length_limit=5)
    assert replicate.language.max_length == 5
    assert replicate.setup.tasks == ("root",)
    assert replicate.longest_descent("d24").objective.label_noise == 1.0  # whose conditionals may take long
    with pytest.raises(LanguageError, match="recursive, so no sentence is the longest; give length_limit"):
        opened("02_existence", grammar="mine.txt")


@pytest.mark.parametrize("preset", ["gpu", "paper"])
def test_the_papers_teacher_is_the_default_where_the_papers_languages_are(preset, monkeypatch):
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    (replicate,) = experiment_of(preset=preset, language="opt").replicates()
    spec = replicate.language
    assert (spec.model, spec.words, spec.max_length) == ("facebook/opt-125m", 2000, 24)
    assert replicate.held_out.sentences < PRESETS[preset].held_out
    (replicate,) = experiment_of(preset=preset, language="opt", opt="stand-in").replicates()
    assert (replicate.language, replicate.setup.tasks) == (replace(STAND_IN, seed=1), ("topic",))


def test_the_model_of_the_record_is_the_default_where_it_is_recorded():
    """It is known by its contents, so no folder is looked into before it is needed."""
    assert first(preset="pretrained").language == SMOLLM2


def test_a_real_opt_takes_the_stand_ins_place():
    """It is not loaded before it is needed."""
    given = {"opt": "x", "opt_corpus": "texts", "glue": "elsewhere"}
    e = experiment_of("a1_datasets", **given)
    (real,) = (s for s in e.setups if s.name == "opt")
    assert (real.language.model, real.language.corpus, real.tasks) == ("x", "texts", ("next",))
    assert opened("a1_datasets", **given).glue == "elsewhere"
    assert (real.language.words, real.language.max_length, real.language.tolerance) == (48, 8, 0)
    assert PRESETS["laptop"].setups[-1].tasks == ("topic",)


def test_a_look_at_the_largest_model_is_said_to_be_unsaturated():
    page = opened("04_flatness", preset="gpu-hour", size="235M")
    assert page.about == "preset gpu-hour (too few steps to saturate), grammar: 235M"
    assert opened("04_flatness", preset="gpu", size="41M").about == "preset gpu, grammar: 41M"
