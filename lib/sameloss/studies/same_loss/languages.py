"""The languages of a preset, and what is measured of them (Appendices A.1 and A.2)."""

from sameloss.languages import LanguageSpec, TeacherSpec
from sameloss.runs.measurements import LanguageMeasurement
from sameloss.studies.same_loss.experiment import PAPER, STAND_IN, Experiment, Replicate, Setup

ENTROPY = {"grammar": 3.196, "hmm": 3.758, "OPT": 1.865}
"""Masked entropy of the paper's languages, nats per token: the best possible loss (Section 2.3)."""

MEAN_LENGTH = {"grammar": 17.0, "hmm": 16.0, "OPT": 16.0}
"""Mean sentence length (tokens), from the numbers of tokens and sentences (App. A.1).

For the HMM the paper prints 1.6e7 tokens in 1e7 sentences of 16 tokens: a slip for 1.6e8.
"""

LANGUAGES = {"grammar": "grammar", "hmm": "HMM"}
"""Names in tables of the languages that can sum over all words."""


def setups(experiment: Experiment) -> dict[str, Setup]:
    """Return the languages of a preset by name, with the seed of their first replicate."""
    first = (Replicate(experiment, setup, setup.seeds[0]) for setup in experiment.setups)
    return {r.setup.name: r.setup._replace(language=r.language) for r in first}


def opt_language(experiment: Experiment) -> LanguageSpec:
    """Return the autoregressive language of a preset; the stand-in where it has none."""
    return setups(experiment)["opt"].language if "opt" in setups(experiment) else STAND_IN


def measurements(experiment: Experiment) -> dict[str, LanguageMeasurement]:
    """Return the measurements of the preset's languages and of the calibrated ones, by name."""
    own = setups(experiment)
    names = {
        name: opt_name(own[name].language) if name == "opt" else LANGUAGES.get(name, name) for name in own
    }
    chosen = {names[name]: setup for name, setup in own.items()}
    for setup in PAPER.setups:
        if setup.name in LANGUAGES and setup.language != own[setup.name].language:
            chosen[f"{LANGUAGES[setup.name]}, paper's shape"] = setup
    return {
        name: LanguageMeasurement(s.language, s.tasks, _sentences(experiment, s.language), 0)
        for name, s in chosen.items()
    }


def opt_name(spec: LanguageSpec) -> str:
    """Return the name of an autoregressive language, which says whether it is a stand-in."""
    return "OPT stand-in" if isinstance(spec, TeacherSpec) else str(getattr(spec, "model", "OPT"))


def _sentences(experiment: Experiment, spec: LanguageSpec) -> int:
    most = experiment.teacher.held_out if spec.pretrained else experiment.language_sentences
    return min(experiment.language_sentences, most)


def published(spec: LanguageSpec) -> str | None:
    """Name in `ENTROPY` of the paper's language that a spec reproduces: a calibrated one, or OPT-125M."""
    if str(getattr(spec, "model", "")).endswith("opt-125m") and (spec.words, spec.max_length) == (2000, 24):
        return "OPT"
    return next((s.name for s in PAPER.setups if s.name in LANGUAGES and s.language == spec), None)
