"""The pages of this study: their parameters, and the models they compare."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from sameloss.device import usable_workers
from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import LanguageSpec
from sameloss.languages.pretrained import HubTeacherSpec
from sameloss.store.provenance import origin_of
from sameloss.store.record import Record, kept_runs
from sameloss.store.store import Run
from sameloss.studies.page import LAST, Page, PageSpec, Study
from sameloss.studies.parameters import OF_EVERY_PAGE, Parameter
from sameloss.studies.same_loss.claims import answers
from sameloss.studies.same_loss.estimators import estimator_comparison, identity, reparametrisation
from sameloss.studies.same_loss.experiment import COLUMNS, PRESETS, STAND_IN, Experiment, Replicate
from sameloss.studies.same_loss.languages import language_runs
from sameloss.studies.same_loss.tables import PAGES

ALGORITHMS = {
    "a4_algorithms": ("adversarial",),
    "d_practice": ("sam", "trace-penalty", "dropout", "weight-decay"),
    "e_mask_rate": ("mask-rate",),
    "a3_models": ("post-ln",),
}
"""The algorithms that pages compare with AdamW; only a4_algorithms has treatments."""


@dataclass
class ExperimentPage(Page[Experiment]):
    """A page on models of the experiment, or on one of its languages."""

    def __post_init__(self) -> None:
        """Leave out what the page does not compare."""
        e = self.config
        if self.name in ALGORITHMS:
            size = e.algorithm_model if e.size == "all" else e.size
            treated = e.treated_models if self.name == "a4_algorithms" else ()
            treated = (size,) if treated and e.size != "all" else treated
            chosen = tuple(algorithm for algorithm in e.algorithms if algorithm[0] in ALGORITHMS[self.name])
            e = replace(e, algorithm_model=size, algorithms=chosen, treated_models=treated, plateau_steps=(),
                        peak_lrs=None, controls=False, descent_models=(size, *treated),
                        seeds=e.seeds or e.algorithm_seeds)  # fmt: skip
        elif self.name in PAGES:
            e = replace(e, algorithms=(), treated_models=())
        self.config = e
        for replicate in e.replicates():
            if not replicate.models:
                raise ParameterError(
                    f"{self.name} compares algorithms at one size, and {e.algorithm_model} is not on "
                    f"{replicate.setup.name}; choose a size of {', '.join(replicate.setup.models)}."
                )

    @property
    def replicate(self) -> Replicate:
        """The first replicate."""
        return next(self.config.replicates())

    def runs(self) -> list[Run]:
        if self.name in PAGES:
            return [run for replicate in self.config.replicates() for run in replicate.runs()]
        if self.name == "a1_datasets":
            return language_runs(self.config)
        if self.name == "b1_trace":
            return [identity(), estimator_comparison(self.replicate), reparametrisation(self.replicate)]
        if self.name == "b2_enlargement":
            return [self.replicate.longest_descent(self.replicate.models[0])]
        return []

    @cached_property
    def table(self) -> pd.DataFrame:
        """All measurements, see `experiment.COLUMNS`."""
        return self.config.table(self.store)

    @cached_property
    def answers(self) -> pd.DataFrame:
        """Answers to the page's questions from its own runs."""
        return answers(self.table, PAGES[self.name])

    @cached_property
    def _record(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        return recorded_measurements(), recorded_answers()

    @cached_property
    def shows_record(self) -> bool:
        """Whether figures show the record: it has the page's questions, and the runs are the default ones."""
        _, recorded = self._record
        asked = set(recorded[recorded.row == "main"].question)
        return set(PAGES[self.name]) <= asked and self.runs() == STUDY.open(self.name, {}, self.store).runs()

    @property
    def shown(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Measurements and answers in the figures: of the record, or of the runs that a reader chose."""
        return self._record if self.shows_record else (self.table, self.answers)

    @property
    def source(self) -> str:
        """Where `shown` comes from, in words."""
        runs = "recorded runs" if self.shows_record else f"this page's own runs ({self.about})"
        return f"Figures and answers below are those of {runs}."

    @property
    def provenance(self) -> str:
        """Provenance of `shown`, in words; `close` prints that of the page's own runs."""
        return records_in_words() if self.shows_record else f"Runs of this page: {self.about}."

    @property
    def about(self) -> str:
        models = {r.setup.name: ", ".join(r.models) for r in self.config.replicates()}
        preset = f"preset {self.config.name}" + (
            "" if self.config.saturates else " (too few steps to saturate)"
        )
        return ", ".join([preset, *(f"{name}: {models[name]}" for name in models)])


class RecordPage(ExperimentPage):
    """The record of Part I, in parts: a draw's main comparisons, then its treatments and algorithms."""

    def _draws(self) -> Iterator[tuple[Replicate, Replicate]]:
        """Yield each draw without and with treatments and other algorithms."""
        main = replace(self.config, algorithms=(), treated_models=())
        return zip(main.replicates(), self.config.replicates(), strict=True)

    @cached_property
    def finished(self) -> list[Replicate]:
        """What the store has of each draw: all, or the main comparisons, or nothing."""

        def stored(draw: Replicate) -> bool:
            return all(map(self.store.has, draw.runs()))

        largest = (next(filter(stored, (whole, main)), None) for main, whole in self._draws())
        return [draw for draw in largest if draw]

    def parts(self) -> dict[str, list[Run]]:
        first, last = {}, {}
        for main, whole in self._draws():
            name, runs = f"{main.setup.name}, draw {main.seed}", dict.fromkeys(main.runs())
            first[name] = list(runs)
            last[f"{name}: treatments and other algorithms"] = [r for r in whole.runs() if r not in runs]
        return first | {name: runs for name, runs in last.items() if runs}

    def runs(self) -> list[Run]:
        """Return the runs of finished parts."""
        return [run for replicate in self.finished for run in replicate.runs()]

    @property
    def seeds(self) -> int:
        """Number of draws whose main comparisons are finished."""
        return len(self.finished)

    @cached_property
    def table(self) -> pd.DataFrame:
        """All measurements of finished draws, see `experiment.COLUMNS`."""
        tables = [replicate.table(self.store) for replicate in self.finished]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)

    def records(self) -> dict[str, dict[str, Any]]:
        """Provenance of its finished runs."""
        if not (runs := self.runs()):
            return {}
        whole = [draw for draw in self.finished if draw.experiment == self.config]
        draws = len(list(self.config.replicates()))
        note = f" So far {len(whole)} of {draws} draws are finished." if len(whole) < draws else ""
        return {self.config.name: origin_of(self.store, runs) | {"seeds": self.seeds, "note": note}}


PRIMARY = {"workstation": 22, "pretrained": 4}
"""The records of Part I, with the number of primary rows when they are finished."""


@cache
def _records(folder: Path) -> dict[str, RecordPage]:
    """The records of Part I that a folder has, by preset."""
    pages = {preset: RecordPage("verdicts", PRESETS[preset], Record(folder)) for preset in PRIMARY}
    return {preset: page for preset, page in pages.items() if len(page.table)}


def recorded_measurements() -> pd.DataFrame:
    """Return the recorded measurements, see `experiment.COLUMNS`."""
    tables = [page.table for page in _records(kept_runs().root).values()]
    return pd.concat(tables or [pd.DataFrame(columns=COLUMNS)], ignore_index=True)


def recorded_answers() -> pd.DataFrame:
    """Return the answers computed from them; each record is a family of its own for Holm's correction."""
    return _answers_of_records(kept_runs().root)


@cache
def _answers_of_records(folder: Path) -> pd.DataFrame:
    tables = {preset: page.table for preset, page in _records(folder).items()}
    tables = tables or {"workstation": pd.DataFrame(columns=COLUMNS)}
    judged = [answers(table, planned=PRIMARY[preset]) for preset, table in tables.items()]
    return pd.concat(judged, ignore_index=True)


def records_in_words() -> str:
    """Provenance of the records of Part I, a paragraph each."""
    pages = _records(kept_runs().root).items()
    return "\n\n".join(page.record_in_words(preset) for preset, page in pages)


# Parameters of pages.


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


def apply_parameters(config: Experiment, values: Mapping[str, Any]) -> Experiment:
    """Put in a reader's languages, and refuse a language or size that the preset does not have."""
    if values.get("processes") and values.get("workers") is None:
        config = replace(config, workers=max(1, usable_workers() // values["processes"]))
    config = _with_languages(config, values)
    names = [setup.name for setup in config.setups]
    if config.language not in ("all", *names):
        raise ParameterError(
            f"Language {config.language} is not in preset {config.name}; choose all or {', '.join(names)}."
        )
    if not any(replicate.models for replicate in config.replicates()):
        has = [setup.name for setup in config.setups if config.size in setup.models]
        sizes = ", ".join(_sizes(PRESETS.values()))
        where = f"it goes with language {has[0]}" if has else f"choose one of all, {sizes}"
        raise ParameterError(
            f"Size {config.size} is not on {config.language} at preset {config.name}; {where}."
        )
    return config


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
        spec = _grammar(grammar, values.get("length_limit"))
        config = _replaced(config, "grammar", spec, spec.build().tasks)
    return config


def _with_teacher(config: Experiment, opt: str | None, corpus: str | None) -> Experiment:
    """Identify the model that the preset or a reader names; None: the preset's."""
    real, t = any(hasattr(setup.language, "corpus") for setup in config.setups), config.teacher
    if opt is None and not real:
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


def _grammar(path: str, length_limit: int | None) -> LanguageSpec:
    """Read a reader's grammar, and build it once to check it."""
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


PARAMETERS = {
    "preset": replace(
        OF_EVERY_PAGE["preset"], text=f"auto, {', '.join(PRESETS)}", choices=("auto", *PRESETS)
    ),
    "grammar": Parameter("file with a grammar of yours, NLTK's notation or lines `LHS RHS... p`", str | None),
    "length_limit": Parameter(  # charts of more than 128 tokens take minutes
        "longest sentence (tokens) of it; a recursive grammar needs it", int | None, most=128
    ),
    "opt": Parameter("stand-in, or a causal model's name or folder; None: the preset's", str | None),
    "opt_corpus": Parameter("text for token frequencies; None: WikiText-2; of a folder, none", str | None),
}

_GRAMMAR = "grammar length_limit"
_TRAINED = "micro_batch max_hours workers processes device artifacts"
_OPT = "opt opt_corpus"
_MODELS = f"preset language size seeds steps labels probe_seeds trace_sentences {_GRAMMAR} {_OPT} {_TRAINED}"
_ALGORITHMS = f"preset language size seeds steps probe_seeds {_OPT} {_TRAINED}"

SPECS: dict[str, PageSpec[Experiment]] = {
    "01_introduction": PageSpec(ExperimentPage, f"preset {LAST}"),
    "02_existence": PageSpec(ExperimentPage, _MODELS),
    "04_flatness": PageSpec(ExperimentPage, _MODELS),
    "a1_datasets": PageSpec(ExperimentPage, f"preset sentences {_GRAMMAR} {_OPT} glue {LAST}"),
    "a2_conditionals": PageSpec(ExperimentPage, f"preset sentences {_GRAMMAR} {LAST}", {"sentences": 2000}),
    "a3_models": PageSpec(ExperimentPage, f"preset size seeds steps {_TRAINED}"),
    "a4_algorithms": PageSpec(ExperimentPage, _ALGORITHMS),
    "b1_trace": PageSpec(ExperimentPage, f"preset size steps {_GRAMMAR} {_TRAINED}"),
    "b2_enlargement": PageSpec(ExperimentPage, f"preset size steps {_GRAMMAR} {_TRAINED}"),
    "d_practice": PageSpec(ExperimentPage, _ALGORITHMS),
    "e_mask_rate": PageSpec(ExperimentPage, _ALGORITHMS),
}

STUDY = Study(PRESETS, SPECS, preset_of, PARAMETERS, apply_parameters)
