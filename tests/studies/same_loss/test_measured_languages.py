"""The runs that measure languages: which, on how many sentences, and under honest names."""

from sameloss.languages.paper import PAPER_HMM_SHAPE, PAPER_SHAPE
from sameloss.studies.config import replaced
from sameloss.studies.same_loss.languages import ENTROPY, calibrations, language_runs, measurements, opt_name
from sameloss.studies.same_loss.settings import PAPER, PRESETS


def test_languages_are_named_honestly(opened):
    plain = opened("a1_datasets", preset="laptop").config
    names = ["PCFG", "HMM", "OPT stand-in", "PCFG, paper's shape", "HMM, paper's shape"]
    assert list(measurements(plain)) == names
    real = opened("a1_datasets", preset="paper", opt="facebook/opt-125m").config
    assert list(measurements(real)) == ["PCFG", "HMM", "facebook/opt-125m"]
    assert opt_name(real) == "facebook/opt-125m"


def test_every_language_is_measured_with_its_tasks(opened):
    settings = opened("a1_datasets", sentences=70).config
    for name, run in measurements(settings).items():
        kind = name.split(",")[0].split()[0]
        domain = (PAPER if "paper" in name else settings.domains)[kind]
        assert (run.language, run.tasks, run.sentences) == (domain.language, domain.tasks, 70)


def test_a_real_opt_is_measured_on_few_sentences(opened):
    real = opened("a1_datasets", preset="paper", opt="facebook/opt-125m").config
    assert {name: run.sentences for name, run in measurements(real).items()} == {
        "PCFG": 100_000, "HMM": 100_000, "facebook/opt-125m": 100,
    }  # fmt: skip
    few = measurements(replaced(real, "evaluation.language_sentences", 30))
    assert few["facebook/opt-125m"].sentences == 30


def test_calibrations_begin_with_the_papers_shapes_and_aim_at_its_entropies():
    found = calibrations(PRESETS["smoke"])
    assert [run.shape for run in found.values()] == [PAPER_SHAPE, PAPER_HMM_SHAPE]
    assert {name: run.entropy for name, run in found.items()} == {
        name: ENTROPY[name] for name in ("PCFG", "HMM")
    }
    assert {run.sentences for run in found.values()} == {500}
    assert {run.sentences for run in calibrations(PRESETS["paper"]).values()} == {5000}


def test_all_of_them():
    settings = PRESETS["laptop"]
    assert language_runs(settings) == [*measurements(settings).values(), *calibrations(settings).values()]
