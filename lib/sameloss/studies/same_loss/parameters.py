"""From a chapter's parameters to a setting, or one clear sentence."""

import types
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

from sameloss.device import DEVICES, use_device
from sameloss.errors import ParameterError
from sameloss.languages import LanguageSpec
from sameloss.store.location import default_artifacts
from sameloss.store.pool import usable_workers
from sameloss.store.store import Store
from sameloss.studies.same_loss.groups import GLUE, LANGUAGES, STAND_IN, Setting
from sameloss.studies.same_loss.settings import PRESETS, Preset
from sameloss.training.algorithms import check_algorithm


@dataclass(frozen=True)
class Parameters:
    """What the `parameters` cell of a chapter may set; None means the preset's value."""

    preset: str = "auto"
    size: str = "all"
    task: str = "all"
    language: str = "PCFG"
    algorithm: str = "adamw"
    strength: float | None = None
    labels: str | None = None
    steps: int | None = None
    seeds: int | None = None
    probe_seeds: int | None = None
    trace_sentences: int | None = None
    sentences: int | None = None
    grammar: str | None = None
    length_limit: int | None = None
    opt: str = STAND_IN
    opt_corpus: str | None = None
    glue: str | None = None
    corpus: str = "fixed"
    test_sentences: str = "fresh"
    saturated_kl: float | None = None
    tolerance: float | None = None
    sentence_length: int | None = None
    width: int | None = None
    learning_rate: float | None = None
    replicas: int | None = None
    max_hours: float | None = None
    workers: int | None = None
    device: str = "auto"
    processes: int | None = None
    micro_batch: int | None = None
    artifacts: str | None = None


MAY_BE_ZERO = {"strength"}
"""A strength of zero switches something off; every other number is a number of something."""

IPYTHON_NAMES = {"In", "Out", "exit", "quit", "open", "get_ipython"}


def parameters_of(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the parameters from a notebook's namespace, before anything else was assigned."""
    ignored = (types.ModuleType, types.FunctionType, types.MethodType, type)
    return {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_") and name not in IPYTHON_NAMES and not isinstance(value, ignored)
    }


def resolve(given: Mapping[str, Any]) -> Setting:
    """Check a chapter's parameters, choose the device, and turn the rest into a setting.

    Args:
        given: the parameters by name.

    Raises:
        ParameterError: in one sentence, with what is valid.
        StoreError: where the artifacts folder cannot be written.

    """
    parameters = _typed(given)
    use_device(_choice(parameters, "device", DEVICES))
    check_algorithm(parameters.algorithm, parameters.strength)
    preset = _with_overrides(_choose_preset(parameters), parameters)
    setting = Setting(preset, Store(parameters.artifacts or default_artifacts()), parameters.glue or GLUE)
    _choice(parameters, "language", (*LANGUAGES, "OPT"))
    setting = setting.on(parameters.language).by(parameters.algorithm, parameters.strength)
    return _narrowed(setting, parameters)


def _narrowed(setting: Setting, parameters: Parameters) -> Setting:
    """Keep one size and one task, where the parameters name one."""
    sizes = setting.sizes if parameters.size == "all" else (parameters.size,)
    if sizes[0] not in setting.preset.shapes:
        raise ParameterError(
            f"Size {sizes[0]} is not on {parameters.language} at preset {setting.preset.name}; choose one of "
            f"all, {', '.join(setting.preset.shapes)}."
        )
    tasks = setting.tasks if parameters.task == "all" else (parameters.task,)
    if tasks[0] not in setting.tasks:
        raise ParameterError(
            f"Unknown task {tasks[0]!r} for preset {setting.preset.name}; choose one of all, "
            f"{', '.join(setting.tasks)}."
        )
    return replace(setting, sizes=sizes, tasks=tasks)


def _typed(given: Mapping[str, Any]) -> Parameters:
    known = {field.name: field for field in fields(Parameters)}
    for name in given:
        if name not in known:
            raise ParameterError(f"Unknown parameter {name!r}; valid are {', '.join(known)}.")
    return Parameters(**{name: _converted(known[name], value) for name, value in given.items()})


def _converted(field: Field, value: Any) -> Any:
    """Accept `1e4` for an integer (papermill reads it as a float), refuse what is not one."""
    wanted, *optional = get_args(field.type) or (field.type,)
    if (value is None and optional) or (wanted is str and isinstance(value, str)):
        return value
    if wanted is not str and isinstance(value, int | float) and not isinstance(value, bool):
        if not (value > 0 or (value == 0 and field.name in MAY_BE_ZERO)):
            raise ParameterError(f"{field.name} must be positive; got {value}.")
        if wanted is float or float(value).is_integer():
            return wanted(value)
    kinds = {str: "a name", int: "a whole number", float: "a number"}
    raise ParameterError(f"{field.name} must be {kinds[wanted]}; got {value!r}.")


def _choose_preset(parameters: Parameters) -> Preset:
    """Let the preset follow the size, or check that the two go together."""
    name, size = parameters.preset, parameters.size
    if name not in ("auto", *PRESETS):
        raise ParameterError(f"Unknown preset {name!r}; choose one of auto, {', '.join(PRESETS)}.")
    holders = [p for p in PRESETS.values() if size in p.shapes]
    if size != "all" and not holders:
        names = dict.fromkeys(s for p in PRESETS.values() for s in p.shapes)
        raise ParameterError(f"Unknown size {size!r}; choose one of all, {', '.join(names)}.")
    if name == "auto":
        return holders[0] if holders else PRESETS["laptop"]
    if holders and PRESETS[name] not in holders:
        raise ParameterError(
            f"Size {size} does not belong to preset {name}, whose sizes are "
            f"{', '.join(PRESETS[name].shapes)}; size {size} goes with preset "
            f"{' or '.join(p.name for p in holders)}."
        )
    return PRESETS[name]


def _with_overrides(preset: Preset, parameters: Parameters) -> Preset:
    simple = ("seeds", "trace_sentences", "saturated_kl", "tolerance", "max_hours", "workers")
    given = {name: value for name in simple if (value := getattr(parameters, name))}
    if parameters.steps:
        given["optimisation"] = replace(preset.optimisation, steps=parameters.steps)
        given["study_steps"] = parameters.steps
    if parameters.micro_batch:
        given["micro_batch"] = parameters.micro_batch
    if parameters.processes:
        given["execution"] = replace(preset.execution, processes=parameters.processes)
        given.setdefault("workers", max(1, usable_workers() // parameters.processes))
    if parameters.sentences:
        given["language_sentences"] = parameters.sentences
    dyck = {"length": parameters.sentence_length, "width": parameters.width}
    dyck["training_steps"] = parameters.steps
    given["dyck"] = replace(preset.dyck, **{name: value for name, value in dyck.items() if value})
    flow = {"learning_rate": parameters.learning_rate, "replicas": parameters.replicas}
    given["flow"] = replace(preset.flow, **{name: value for name, value in flow.items() if value})
    return _with_data(_with_languages(replace(preset, **given), parameters), parameters)


def _with_languages(preset: Preset, parameters: Parameters) -> Preset:
    """Put a reader's grammar and a real OPT in the place of the preset's."""
    pairs = {"length_limit": parameters.grammar, "opt_corpus": parameters.opt, "glue": parameters.opt}
    for name, needed in pairs.items():
        if getattr(parameters, name) is not None and needed in (None, STAND_IN):
            other = "opt" if needed else "grammar"
            raise ParameterError(f"{name} has an effect only together with {other}; give both or none.")
    if parameters.opt != STAND_IN:
        preset = replace(preset, opt=_hub_teacher(parameters))
    if parameters.grammar:
        language = _own_grammar(parameters)
        downstream = replace(preset.downstream, tasks=language.build().tasks)
        preset = replace(preset, language=language, downstream=downstream)
    return preset


def _with_data(preset: Preset, parameters: Parameters) -> Preset:
    endless = _choice(parameters, "corpus", ("fixed", "endless")) == "endless"
    unseen = _choice(parameters, "test_sentences", ("fresh", "unseen")) == "unseen"
    if unseen and endless:
        raise ParameterError("test_sentences = unseen needs corpus = fixed: an endless one holds everything.")
    seeds = parameters.probe_seeds or preset.downstream.probe_seeds
    kind = preset.downstream.label_kind
    if parameters.labels is not None:
        kind = _choice(parameters, "labels", ("likelihood", "posterior"))
    downstream = replace(preset.downstream, probe_seeds=seeds, unseen_test=unseen, label_kind=kind)
    sentences = None if endless else preset.corpus_sentences
    return replace(preset, downstream=downstream, corpus_sentences=sentences)


def _hub_teacher(parameters: Parameters) -> LanguageSpec:
    from sameloss.languages.autoregressive.hub import HubTeacherSpec  # transformers takes seconds

    return HubTeacherSpec.of(parameters.opt, parameters.opt_corpus)


def _own_grammar(parameters: Parameters) -> LanguageSpec:
    from sameloss.languages.grammars.formats import GrammarText  # nltk takes seconds

    try:
        text = Path(parameters.grammar).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"The grammar file {parameters.grammar} cannot be read ({error}).") from None
    spec = GrammarText(text, parameters.length_limit)
    spec.build()  # what is wrong with it is said here
    return spec


def _choice(parameters: Parameters, name: str, choices: tuple[str, ...]) -> str:
    value = getattr(parameters, name)
    if value not in choices:
        raise ParameterError(f"Unknown {name} {value!r}; choose one of {', '.join(choices)}.")
    return value
