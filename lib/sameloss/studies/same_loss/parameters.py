"""What a page of this study may set, and what no single field of the settings can say."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from sameloss.device import usable_workers
from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import LanguageSpec
from sameloss.languages.labels import LabelKind
from sameloss.studies.config import placed, replaced
from sameloss.studies.parameters import MOST_SEEDS, MOST_WORKERS, Parameter
from sameloss.studies.same_loss.settings import GLUE, PRESETS, SATURATED_SHARE, Settings
from sameloss.training.algorithms import ALGORITHMS, check_algorithm

STAND_IN = "stand-in"
"""The value of `opt` that asks for the small teacher made here."""

MOST_SENTENCES = 1_000_000
"""Whose statistics a page takes in memory."""

LANGUAGES = ("PCFG", "HMM", "OPT")
"""What the main part of a page can be about; records have more."""

PARAMETERS: dict[str, Parameter] = {
    "preset": Parameter(f"auto, {', '.join(PRESETS)}", default="auto", choices=("auto", *PRESETS)),
    "size": Parameter(
        "all, or one: 10K, 40K, 155K; 2.8K to 615K; 2M to 730M (the paper's); LSTMs: L4K, 67M", default="all"
    ),
    "task": Parameter("all, or one downstream task to show: root, span4, span2", default="all"),
    "language": Parameter(
        "of the main part: PCFG, HMM or OPT",
        default="PCFG",
        choices=LANGUAGES,
    ),
    "algorithm": Parameter(
        "of the main part, as in a4_algorithms: adamw, sgd, adversarial, soft, sam, ...",
        default="adamw",
        choices=tuple(ALGORITHMS),
    ),
    "strength": Parameter(
        "the algorithm's number (lambda, radius, rate, ...); None: its own",
        float | None,
        may_be_zero=True,
    ),
    "labels": Parameter(
        "likelihood (as in the released code) or posterior; None: the preset's",
        str | None,
        choices=get_args(LabelKind),
    ),
    "steps": Parameter(
        "pre-training steps; None: the preset's",
        int | None,
    ),
    "seeds": Parameter(
        "pre-training seeds; None: the preset's",
        int | None,
        example="5",
        most=MOST_SEEDS,
    ),
    "probe_seeds": Parameter(
        "probe seeds, each with training sentences of its own; None: the preset's",
        int | None,
        most=MOST_SEEDS,
    ),
    "trace_sentences": Parameter(
        "masked sentences an estimate of the trace uses; None: the preset's",
        int | None,
        least=2,  # one has no standard error
    ),
    "sentences": Parameter(
        "sentences that statistics of languages are taken on; None: the preset's",
        int | None,
        example="5000",
        most=MOST_SENTENCES,
        least=2,  # one has no standard error, which says where a calibration may end
    ),
    "grammar": Parameter("file with a grammar of yours, NLTK's notation or lines `LHS RHS... p`", str | None),
    "length_limit": Parameter(
        "longest sentence (tokens) of it; a recursive grammar needs it",
        int | None,
        most=128,  # a chart of more takes minutes
    ),
    "opt": Parameter("stand-in, or facebook/opt-125m, or its folder: a GPU, or patience", default=STAND_IN),
    "opt_corpus": Parameter("of a real OPT: text for token frequencies; None: WikiText-2", str | None),
    "glue": Parameter(
        f"of a real OPT: folder of QNLI and SST-2; None: {GLUE}",
        str | None,
    ),
    "corpus": Parameter(
        "fixed, or endless: every batch is sampled afresh", default="fixed", choices=("fixed", "endless")
    ),
    "test_sentences": Parameter(
        "fresh, or unseen: distinct ones that the fixed corpus lacks",
        default="fresh",
        choices=("fresh", "unseen"),
    ),
    "saturated_share": Parameter(
        f"share of what context tells that a saturated model may miss; None: {SATURATED_SHARE}",
        float | None,
        most=10,  # tells of a mistake; a model may miss more than all there is
    ),
    "tolerance": Parameter(
        "relative, of all verdicts; None: each claim's own",
        float | None,
        example="0.1",
        most=10,  # nothing would be out of it
    ),
    "processes": Parameter(
        "that share one training, each on a core or GPU of its own; None: one",
        int | None,
        most=MOST_WORKERS,
    ),
    "micro_batch": Parameter(
        "sentences that go through the model at once; None: the preset's",
        int | None,
    ),
}


_PATHS = {
    "language": ("shown.domain",),
    "algorithm": ("shown.algorithm",),
    "strength": ("shown.strength",),
    "labels": ("evaluation.downstream.label_kind",),
    "steps": ("training.optimisation.steps", "training.compared_steps"),
    "seeds": ("training.seeds",),
    "probe_seeds": ("evaluation.downstream.probe_seeds",),
    "trace_sentences": ("evaluation.flatness.trace_sentences",),
    "sentences": ("evaluation.language_sentences",),
    "glue": ("evaluation.glue",),
    "saturated_share": ("evaluation.saturated_share",),
    "tolerance": ("evaluation.tolerance",),
    "processes": ("training.execution.processes",),
    "micro_batch": ("training.micro_batch",),
}
"""The fields of the settings that a value replaces."""


def preset_of(values: Mapping[str, Any]) -> str:
    """Return the preset that a size brings along."""
    size = values.get("size", "all")
    return "laptop" if size == "all" else _holders(size)[0]


def _holders(size: str) -> list[str]:
    """Return the presets that have a size."""
    shapes = {name: _shapes(settings) for name, settings in PRESETS.items()}
    holders = [name for name, own in shapes.items() if size in own]
    if not holders:
        names = dict.fromkeys(name for own in shapes.values() for name in own)
        raise ParameterError(f"Unknown size {size!r}; choose one of all, {', '.join(names)}.")
    return holders


def _shapes(settings: Settings) -> dict[str, Any]:
    """Return the shapes of all languages that a page can be about, by name."""
    shown = (settings.domains[language] for language in LANGUAGES)
    return {name: shape for domain in shown for name, shape in domain.shapes.items()}


def finished(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return the settings with everything that one path alone does not say.

    Args:
        settings: the preset's.
        values: the checked parameters of a page.

    Raises:
        ParameterError: in one sentence, with what is valid.

    """
    settings = placed(settings, _PATHS, values)
    check_algorithm(settings.shown.algorithm, settings.shown.strength)
    if values.get("processes") and values.get("workers") is None:
        settings = replace(settings, workers=max(1, usable_workers() // values["processes"]))
    settings = _with_data(_with_languages(settings, values), values)
    return _with_task(_with_size(settings, values.get("size", "all")), values.get("task", "all"))


def _with_size(settings: Settings, size: str) -> Settings:
    """Show one size, if it is one of the preset's on the page's language."""
    if size == "all":
        return settings
    holders = _holders(size)
    if settings.name not in holders:
        raise ParameterError(
            f"Size {size} does not belong to preset {settings.name}, whose sizes are "
            f"{', '.join(_shapes(settings))}; size {size} goes with preset {' or '.join(holders)}."
        )
    if size not in settings.domain.shapes:
        raise ParameterError(
            f"Size {size} is not on {settings.shown.domain} at preset {settings.name}; choose one of all, "
            f"{', '.join(settings.domain.shapes)}."
        )
    return replaced(settings, "shown.size", size)


def _with_task(settings: Settings, task: str) -> Settings:
    """Show one task, if it is one of the page's language."""
    tasks = settings.domain.tasks
    if task not in ("all", *tasks):
        raise ParameterError(
            f"Unknown task {task!r} for preset {settings.name}; choose one of all, {', '.join(tasks)}."
        )
    return settings if task == "all" else replaced(settings, "shown.task", task)


def _with_languages(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Put a reader's grammar and a real OPT in the place of the preset's."""
    grammar, opt = values.get("grammar"), values.get("opt", STAND_IN)
    for name, other in {"length_limit": "grammar", "opt_corpus": "opt", "glue": "opt"}.items():
        if values.get(name) is not None and values.get(other) in (None, STAND_IN):
            raise ParameterError(f"{name} has an effect only together with {other}; give both or none.")
    if opt != STAND_IN:
        from sameloss.languages.autoregressive.hub import HubTeacherSpec  # transformers takes seconds

        real = HubTeacherSpec.of(opt, values.get("opt_corpus"))
        settings = _with_domain(settings, "OPT", language=real, tasks=())  # it is tested on GLUE
    if grammar and settings.shown.domain != "PCFG":
        raise ParameterError(
            f"grammar stands in the place of the PCFG, and language = {settings.shown.domain} shows another; "
            "leave one of them out."
        )
    if grammar:
        own = _own_grammar(grammar, values.get("length_limit"))
        settings = _with_domain(settings, "PCFG", language=own, tasks=own.build().tasks, exact_share=0.0)
    if not settings.domain.tasks:
        raise ParameterError("A real OPT has no task of its own here; probe it on GLUE, see a1_datasets.")
    return settings


def _with_domain(settings: Settings, name: str, **changes: Any) -> Settings:
    changed = replace(settings.domains[name], **changes)
    return replace(settings, domains={**settings.domains, name: changed})


LONGEST_GRAMMAR = 10_000_000  # bytes


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


def _with_data(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Choose where training and test sentences come from."""
    endless, unseen = values.get("corpus") == "endless", values.get("test_sentences") == "unseen"
    if unseen and endless:
        raise ParameterError("test_sentences = unseen needs corpus = fixed: an endless one holds everything.")
    if endless:
        settings = replaced(settings, "training.corpus_sentences", None)
    return replaced(settings, "evaluation.downstream.unseen_test", unseen)
