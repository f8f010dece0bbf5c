"""The runs that measure the languages of this study themselves (Appendix A.1)."""

from sameloss.languages import LanguageSpec, TeacherSpec
from sameloss.languages.paper import PAPER_HMM_SHAPE, PAPER_SHAPE
from sameloss.runs.sampling import Calibration, LanguageMeasurement
from sameloss.store.store import Run
from sameloss.studies.same_loss.domains import PAPER
from sameloss.studies.same_loss.paper import ENTROPY, MEAN_LENGTH
from sameloss.studies.same_loss.settings import Settings

MOST_OF_A_REAL_OPT = 100
"""Sentences on which a real OPT is measured, at most: it scores 2,000 candidates for each."""

MOST_CALIBRATING = 5000
"""Sentences of each step of a calibration, at most."""


def opt_name(settings: Settings) -> str:
    """Return the honest name of the autoregressive language."""
    spec = settings.domains["OPT"].language
    return "OPT stand-in" if isinstance(spec, TeacherSpec) else str(getattr(spec, "model", "OPT"))


def measurements(settings: Settings) -> dict[str, LanguageMeasurement]:
    """Return the measurements of the preset's languages and of the calibrated ones, by name."""
    domains = settings.domains
    chosen = {"PCFG": domains["PCFG"], "HMM": domains["HMM"], opt_name(settings): domains["OPT"]}
    for name in ("PCFG", "HMM"):
        if domains[name].language != PAPER[name].language:
            chosen[f"{name}, paper's shape"] = PAPER[name]
    return {
        name: LanguageMeasurement(d.language, d.tasks, _sentences(settings, d.language), 0)
        for name, d in chosen.items()
    }


def _sentences(settings: Settings, language: LanguageSpec) -> int:
    """Return on how many sentences a language is measured: few where each costs a minute."""
    wanted = settings.evaluation.language_sentences
    real = language is settings.domains["OPT"].language and not isinstance(language, TeacherSpec)
    return min(wanted, MOST_OF_A_REAL_OPT) if real else wanted


def calibrations(settings: Settings) -> dict[str, Calibration]:
    """Return the searches that gave the paper's shapes their published entropy."""
    sentences = min(settings.evaluation.language_sentences, MOST_CALIBRATING)
    pcfg = (PAPER_SHAPE, ENTROPY["PCFG"], MEAN_LENGTH["PCFG"], (0.05, 1.0))
    hmm = (PAPER_HMM_SHAPE, ENTROPY["HMM"], None, (0.05, 1.0))
    return {"PCFG": Calibration(*pcfg, sentences, 0), "HMM": Calibration(*hmm, sentences, 0)}


def language_runs(settings: Settings) -> list[Run]:
    """Return what is measured of languages alone."""
    return [*measurements(settings).values(), *calibrations(settings).values()]
