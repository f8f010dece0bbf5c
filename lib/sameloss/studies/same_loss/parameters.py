"""What a reader can set of the experiment of Part I."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import LanguageSpec
from sameloss.languages.language import LabelKind
from sameloss.languages.pretrained import HubTeacherSpec
from sameloss.measures.flatness.trace import ESTIMATORS
from sameloss.studies.parameters import MOST, MOST_SEEDS, choose
from sameloss.studies.same_loss.experiment import PRESETS, STAND_IN, Experiment, Setup

BOUNDS = {
    "probe_seeds": (1, MOST_SEEDS),
    "trace_sentences": (2, MOST),
    "sentences": (2, 1_000_000),
    "length_limit": (1, 128),  # charts of more tokens take minutes
}
"""Least and largest values of numbers."""

FIELDS = {"probe_seeds": "probe_sets", "sentences": "language_sentences"}
"""Fields of the experiment with other names than in notebooks."""


def chosen(values: Mapping[str, Any]) -> Experiment:
    """Put a chapter's parameters into its preset's experiment.

    Args:
        values: of the parameters, with the preset's `experiment`.

    Raises:
        ParameterError: for a language or size that the preset does not have, and what goes together with
            something else only.
        LanguageError: for a grammar or model that cannot be read.

    """
    given = {FIELDS.get(name, name): value for name, value in values.items() if value is not None}
    if "labels" in given:
        choose("labels", given["labels"], get_args(LabelKind))
    if "estimator" in given:
        choose("estimator", given["estimator"], ESTIMATORS)
    own = {field.name for field in fields(Experiment)} & given.keys()
    e: Experiment = replace(values["experiment"], **{name: given[name] for name in own})
    e = replace(e, setups=tuple(_changed(setup, given) for setup in e.setups))
    e = _with_languages(e, values)
    names = [setup.name for setup in e.setups]
    if e.language not in ("all", *names):
        raise ParameterError(
            f"Language {e.language} is not in preset {e.name}; choose all or {', '.join(names)}."
        )
    if not any(replicate.models for replicate in e.replicates()):
        has = [setup.name for setup in e.setups if e.size in setup.models]
        sizes = ", ".join(_sizes(PRESETS.values()))
        where = f"it goes with language {has[0]}" if has else f"choose one of all, {sizes}"
        raise ParameterError(f"Size {e.size} is not on {e.language} at preset {e.name}; {where}.")
    return e


def of_one_size(e: Experiment, chapter: str) -> Experiment:
    """Restrict an experiment to the size at which a chapter compares algorithms, and to the draws for that.

    Raises:
        ParameterError: if a chosen language does not have it.

    """
    size = e.algorithm_model if e.size == "all" else e.size
    e = replace(e, size=size, seeds=e.seeds or e.algorithm_seeds)
    for replicate in e.replicates():
        if not replicate.models:
            raise ParameterError(
                f"{chapter} compares algorithms at one size, and {size} is not on "
                f"{replicate.setup.name}; choose a size of {', '.join(replicate.setup.models)}."
            )
    return e


def _changed(setup: Setup, given: Mapping[str, Any]) -> Setup:
    """A setup at the first of a reader's peak rates, with models of as many layers as a reader wants."""
    layers = {"layers": given["layers"]} if "layers" in given else {}
    models = {name: replace(shape, **layers) for name, shape in setup.models.items()}  # type: ignore[type-var]
    rates = np.atleast_1d(given.get("lr", setup.lr))
    return setup._replace(lr=float(rates[0]), models=models)


def _sizes(presets: Iterable[Experiment]) -> list[str]:
    names = (name for preset in presets for setup in preset.setups for name in setup.models)
    return list(dict.fromkeys(names))


def preset_of(values: Mapping[str, Any]) -> str:
    """Return the preset that a size implies."""
    size = values.get("size") or "all"
    for preset in ("laptop", "workstation", "paper", "gpu", "smoke"):
        if size == "all" or size in _sizes([PRESETS[preset]]):
            return preset
    raise ParameterError(f"Unknown size {size!r}; choose one of all, {', '.join(_sizes(PRESETS.values()))}.")


CHOSEN_STAND_IN = "stand-in"
"""The value of `opt` that chooses the small teacher instead of a pre-trained model."""

LONGEST_GRAMMAR = 10_000_000  # bytes


def _with_languages(config: Experiment, values: Mapping[str, Any]) -> Experiment:
    """Replace the preset's grammar by a reader's, and its teacher by the one chosen."""
    grammar, opt = values.get("grammar"), values.get("opt")
    for name, other in {"length_limit": "grammar", "opt_corpus": "opt", "glue": "opt"}.items():
        if values.get(name) is not None and values.get(other) in (None, CHOSEN_STAND_IN):
            raise ParameterError(f"{name} has an effect only together with {other}; give both or none.")
    if opt and config.language not in ("opt", "all") and "language" in values:
        raise ParameterError(f"opt has an effect only with language = opt or all, not {config.language}.")
    if "opt" in values and (config.language in ("opt", "all") or "language" not in values):
        config = _with_teacher(config, opt, values.get("opt_corpus"))
    if grammar and config.language not in ("grammar", "all"):
        raise ParameterError(
            f"grammar replaces the preset's grammar, which language = {config.language} does not show; leave "
            "one of them out."
        )
    if grammar:
        spec = grammar_of(grammar, values.get("length_limit"))
        config = _replaced(config, "grammar", spec, spec.build().tasks)
    return config


def _with_teacher(config: Experiment, opt: str | None, corpus: str | None) -> Experiment:
    """Identify the model that the preset or a reader names; None: the preset's."""
    teachers = [s.language for s in config.setups if isinstance(s.language, HubTeacherSpec)]
    real, t = bool(teachers), config.teacher
    if opt is None and all(spec.fingerprint for spec in teachers):  # none, or one that is identified
        return config
    if opt == CHOSEN_STAND_IN:
        return _replaced(config, "opt", STAND_IN, ("topic",)) if real else config
    sizes = {"words": t.words, "max_length": t.max_length, "tolerance": t.tolerance}
    return _replaced(
        config, "opt", HubTeacherSpec.of(opt or HubTeacherSpec.model, corpus, **sizes), ("next",)
    )


def _replaced(config: Experiment, name: str, language: LanguageSpec, tasks: tuple[str, ...]) -> Experiment:
    """Replace one of the preset's languages; models are then trained on sampled labels."""
    setups = (
        s._replace(language=language, tasks=tasks, exact=False) if s.name == name else s
        for s in config.setups
    )
    return replace(config, setups=tuple(setups))


def grammar_of(path: str, length_limit: int | None) -> LanguageSpec:
    """Read a reader's grammar, and build it once to check it.

    Args:
        path: of its file, see `read_grammar`.
        length_limit: longest sentence (tokens); None: the grammar's own.

    Raises:
        ParameterError: if it is no readable text file.
        LanguageError: if it is no grammar.

    """
    from sameloss.languages.grammars.formats import GrammarText

    file = Path(path)
    if not file.exists():
        raise ParameterError(f"The grammar file {path} does not exist.")
    if not (file.is_file() and 0 < file.stat().st_size <= LONGEST_GRAMMAR):
        raise ParameterError(  # files of 0 bytes in /proc never end
            f"{path} is not a grammar file; give a text file of 1 to {LONGEST_GRAMMAR:,} bytes."
        )
    try:
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ParameterError(f"The grammar file {path} cannot be read as UTF-8.") from None
    except OSError as error:
        raise ParameterError(f"The grammar file {path} cannot be read ({error.strerror}).") from None
    spec = GrammarText(text, length_limit)
    try:
        spec.build()
    except LanguageError as error:
        said = str(error)
        short = (
            said if len(said) <= 500 else f"{said[:250]} ... {said[-200:]}"
        )  # it may name a symbol of any length
        raise LanguageError(f"In {path}: {short}") from None
    return spec
