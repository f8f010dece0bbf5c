"""The pages of this study: what each may set, and which models it compares."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from sameloss.device import usable_workers
from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import LanguageSpec
from sameloss.store.store import Run
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.parameters import OF_EVERY_PAGE, Parameter
from sameloss.studies.recorded import recorded
from sameloss.studies.same_loss.claims import answers
from sameloss.studies.same_loss.estimators import estimator_runs
from sameloss.studies.same_loss.experiment import PRESETS, Experiment, Replicate
from sameloss.studies.same_loss.languages import language_runs
from sameloss.studies.same_loss.tables import PAGES

RECORD = "workstation"
"""The preset whose measurements `results/` has."""

SIZES = {"algorithms": (), "treated_models": ()}
BY_ALGORITHM: dict[str, Any] = {
    "plateau_steps": (),
    "peak_lrs": None,
    "controls": False,
    "treated_models": (),
}
COMPARED: dict[str, dict[str, Any]] = {
    "02_existence": SIZES,
    "04_flatness": SIZES,
    "a4_algorithms": {k: v for k, v in BY_ALGORITHM.items() if k != "treated_models"},
    "d_practice": BY_ALGORITHM,
    "e_mask_rate": BY_ALGORITHM,
    "a3_models": BY_ALGORITHM,
}
"""What pages leave out of the experiment."""

ALGORITHMS = {
    "a4_algorithms": ("adversarial",),
    "d_practice": ("sam", "trace-penalty", "dropout", "weight-decay"),
    "e_mask_rate": ("mask-rate",),
    "a3_models": ("post-ln",),
}
"""Which algorithms pages compare with AdamW."""


@dataclass
class ExperimentPage(Page[Experiment]):
    """A page on models of the experiment, or on one of its languages."""

    def __post_init__(self) -> None:
        """Leave out what the page does not compare."""
        e = replace(self.config, **COMPARED.get(self.name, {}))
        if self.name in ALGORITHMS:
            size = e.algorithm_model if e.size == "all" else e.size
            treated = (size,) if e.treated_models and e.size != "all" else e.treated_models
            chosen = tuple(how for how in e.algorithms if how[0] in ALGORITHMS[self.name])
            e = replace(e, algorithm_model=size, algorithms=chosen, treated_models=treated,
                        descent_models=(size, *treated), seeds=e.seeds or e.algorithm_seeds)  # fmt: skip
        self.config = e
        for replicate in e.replicates():
            if not replicate.models:
                sizes = ", ".join(replicate.setup.models)
                raise ParameterError(
                    f"{self.name} compares algorithms at one size, and {e.algorithm_model} is not on "
                    f"{replicate.setup.name}; choose a size of {sizes}."
                )

    @property
    def replicate(self) -> Replicate:
        """Return the first replicate."""
        return next(self.config.replicates())

    def runs(self) -> list[Run]:
        """Return what the page reads."""
        if self.name in ("a1_datasets", "a2_conditionals"):
            return language_runs(self.config) if self.name == "a1_datasets" else []
        if self.name == "b1_trace":
            return estimator_runs(self.replicate)
        if self.name == "b2_enlargement":
            return [self.replicate.main(self.replicate.models[0])]
        if self.name not in COMPARED:
            return []
        return [run for replicate in self.config.replicates() for run in replicate.runs()]

    @cached_property
    def table(self) -> pd.DataFrame:
        """Return all measurements as one tidy table."""
        return self.config.table(self.store)

    @cached_property
    def answers(self) -> pd.DataFrame:
        """Return what the runs of this page answer."""
        return answers(self.table, PAGES[self.name])

    @property
    def about(self) -> str:
        """Return preset, languages and sizes."""
        shown = {r.setup.name: ", ".join(r.models) for r in self.config.replicates()}
        return f"preset {self.config.name}" + "".join(f", {name}: {models}" for name, models in shown.items())


class RecordPage(ExperimentPage):
    """The record of Part I: everything that is compared, replicate by replicate."""

    def finished(self) -> list[Replicate]:
        """Return the replicates of which every measurement is there."""
        return [r for r in self.config.replicates() if all(map(self.store.has, r.runs()))]

    def parts(self) -> dict[str, list[Run]]:
        """Return the runs of each replicate."""
        return {f"{r.setup.name}, draw {r.seed}": r.runs() for r in self.config.replicates()}

    def runs(self) -> list[Run]:
        """Return the runs of finished replicates."""
        return [run for replicate in self.finished() for run in replicate.runs()]

    @property
    def seeds(self) -> int:
        """Return the number of finished replicates."""
        return len(self.finished())

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the one table from which every answer follows."""
        tables = [replicate.table(self.store) for replicate in self.finished()]
        return {"measurements": pd.concat(tables, ignore_index=True)}


def recorded_measurements() -> pd.DataFrame:
    """Return the measurements of the record, see `experiment.COLUMNS`."""
    return recorded("measurements", RECORD).fillna({"task": "", "reading": ""})


def recorded_answers() -> pd.DataFrame:
    """Return what the record answers."""
    return answers(recorded_measurements())


# What a page may set.


def preset_of(values: Mapping[str, Any]) -> str:
    """Return the preset that a size brings along."""
    size = values.get("size") or "all"
    if size == "all":
        return "laptop"
    holders = [name for name, preset in PRESETS.items() if any(size in s.models for s in preset.setups)]
    if not holders:
        raise ParameterError(f"Unknown size {size!r}; choose one of all, {', '.join(_sizes())}.")
    order = ("laptop", "workstation", "paper", "gpu", "smoke")
    return min(holders, key=order.index)


def _sizes() -> dict[str, None]:
    return dict.fromkeys(
        name for preset in PRESETS.values() for setup in preset.setups for name in setup.models
    )


def finished(config: Experiment, values: Mapping[str, Any]) -> Experiment:
    """Put in a reader's languages, and refuse a language and a size that the preset does not have."""
    if values.get("processes") and values.get("workers") is None:
        config = replace(config, workers=max(1, usable_workers() // values["processes"]))
    config = _with_languages(config, values)
    names = [setup.name for setup in config.setups]
    if config.language not in ("all", *names):
        raise ParameterError(
            f"Language {config.language} is not in preset {config.name}; choose all or {', '.join(names)}."
        )
    shown = [name for replicate in config.replicates() for name in replicate.models]
    if not shown:
        has = [setup.name for setup in config.setups if config.size in setup.models]
        where = f"it goes with language {has[0]}" if has else f"choose one of all, {', '.join(_sizes())}"
        raise ParameterError(
            f"Size {config.size} is not on {config.language} at preset {config.name}; {where}."
        )
    return config


REAL_OPT = "stand-in"
"""The value of `opt` that asks for the small teacher made here."""

LONGEST_GRAMMAR = 10_000_000  # bytes


def _with_languages(config: Experiment, values: Mapping[str, Any]) -> Experiment:
    """Put a reader's grammar and a real OPT in the place of the preset's."""
    grammar, opt = values.get("grammar"), values.get("opt", REAL_OPT)
    for name, other in {"length_limit": "grammar", "opt_corpus": "opt", "glue": "opt"}.items():
        if values.get(name) is not None and values.get(other) in (None, REAL_OPT):
            raise ParameterError(f"{name} has an effect only together with {other}; give both or none.")
    if opt != REAL_OPT:
        from sameloss.languages.autoregressive import HubTeacherSpec  # transformers takes seconds

        config = _replaced(
            config, "opt", HubTeacherSpec.of(opt, values.get("opt_corpus")), ()
        )  # it is tested on GLUE
    if grammar and config.language not in ("grammar", "all"):
        raise ParameterError(
            f"grammar stands in the place of the preset's, and language = {config.language} shows another; "
            "leave one of them out."
        )
    if grammar:
        own = _own_grammar(grammar, values.get("length_limit"))
        config = _replaced(config, "grammar", own, own.build().tasks)
    return config


def _replaced(config: Experiment, name: str, language: LanguageSpec, tasks: tuple[str, ...]) -> Experiment:
    """Put another language in the place of one of the preset's; it is drawn once, and trained on samples."""
    setups = (
        s._replace(language=language, tasks=tasks, exact=False) if s.name == name else s
        for s in config.setups
    )
    return replace(config, setups=tuple(setups))


def _own_grammar(path: str, length_limit: int | None) -> LanguageSpec:
    from sameloss.languages.grammars.formats import GrammarText

    file = Path(path)
    if file.exists() and not (file.is_file() and 0 < file.stat().st_size <= LONGEST_GRAMMAR):
        raise ParameterError(  # in /proc there are files of 0 bytes whose end never comes
            f"{path} is no file of a grammar, which is text of 1 to {LONGEST_GRAMMAR:,} bytes."
        )
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"The grammar file {path} cannot be read as UTF-8 ({error}).") from None
    spec = GrammarText(text, length_limit)
    try:
        spec.build()
    except LanguageError as error:
        raise LanguageError(f"In {path}: {error}") from None
    return spec


PARAMETERS = {
    "preset": replace(
        OF_EVERY_PAGE["preset"], text=f"auto, {', '.join(PRESETS)}", choices=("auto", *PRESETS)
    ),
    "grammar": Parameter("file with a grammar of yours, NLTK's notation or lines `LHS RHS... p`", str | None),
    "length_limit": Parameter(
        "longest sentence (tokens) of it; a recursive grammar needs it",
        int | None,
        most=128,  # a chart of more takes minutes
    ),
    "opt": Parameter("stand-in, or facebook/opt-125m, or its folder: a GPU, or patience", default=REAL_OPT),
    "opt_corpus": Parameter("of a real OPT: text for token frequencies; None: WikiText-2", str | None),
}

_GRAMMAR, _HERE = "grammar length_limit", "max_hours workers device artifacts"
_TRAINED = "micro_batch max_hours workers processes device artifacts"
_MODELS = f"preset language size seeds steps labels probe_seeds trace_sentences {_GRAMMAR} {_TRAINED}"
_ALGORITHMS = f"preset language size seeds steps probe_seeds {_TRAINED}"

PLANS: dict[str, Plan[Experiment]] = {
    "01_introduction": Plan(ExperimentPage, f"preset {_HERE}"),
    "02_existence": Plan(ExperimentPage, _MODELS),
    "04_flatness": Plan(ExperimentPage, _MODELS),
    "a1_datasets": Plan(ExperimentPage, f"preset sentences {_GRAMMAR} opt opt_corpus glue {_HERE}"),
    "a2_conditionals": Plan(ExperimentPage, f"preset sentences {_GRAMMAR} {_HERE}", {"sentences": 2000}),
    "a3_models": Plan(ExperimentPage, f"preset size seeds steps {_TRAINED}"),
    "a4_algorithms": Plan(ExperimentPage, _ALGORITHMS),
    "b1_trace": Plan(ExperimentPage, f"preset size steps {_GRAMMAR} {_TRAINED}"),
    "b2_enlargement": Plan(ExperimentPage, f"preset size steps {_GRAMMAR} {_TRAINED}"),
    "d_practice": Plan(ExperimentPage, _ALGORITHMS),
    "e_mask_rate": Plan(ExperimentPage, _ALGORITHMS),
}

STUDY = Study(PRESETS, PLANS, preset_of, PARAMETERS, finished)
