"""Tables about the languages, with what the paper says of its own (Appendices A.1 and A.2)."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import torch
from torch import Tensor

from sameloss.languages import Language, LanguageSpec, Sentences, TeacherSpec, substituted_conditionals
from sameloss.languages.autoregressive import FILLINGS, STAND_IN_NOTE, fillings, sum_of_fillings
from sameloss.languages.entropy import entropy_under_masks, mask_some
from sameloss.languages.paper import PAPER_HMM_SHAPE, PAPER_SHAPE
from sameloss.runs.measurements import Calibration, LanguageMeasurement
from sameloss.seeds import generator_for
from sameloss.store.store import Run, Store
from sameloss.studies.names import display_name
from sameloss.studies.same_loss.experiment import PAPER, STAND_IN, Experiment, Replicate, Setup

if TYPE_CHECKING:
    from sameloss.languages.pretrained import HubTeacher, HubTeacherSpec

ENTROPY = {"grammar": 3.196, "hmm": 3.758, "OPT": 1.865}
"""Masked entropy of the paper's languages, nats per token: the best possible loss (Section 2.3)."""

MEAN_LENGTH = {"grammar": 17.0, "hmm": 16.0, "OPT": 16.0}
"""Mean sentence length (tokens), from the numbers of tokens and sentences (App. A.1).

For the HMM the paper prints 1.6e7 tokens in 1e7 sentences of 16 tokens: a slip for 1.6e8.
"""

LANGUAGES = {"grammar": "grammar", "hmm": "HMM"}
"""Names in tables of the languages that can sum over all words."""

MOST_CALIBRATING = 5000
"""Largest sample in each step of a calibration."""

# Measurements of languages.


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
    chosen = {LANGUAGES.get(name) or opt_name(setup.language): setup for name, setup in own.items()}
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
    most = experiment.teacher.held_out if hasattr(spec, "corpus") else experiment.language_sentences
    return min(experiment.language_sentences, most)


def calibrations(experiment: Experiment) -> dict[str, Calibration]:
    """Return the searches for the concentrations that give the paper's shapes their published entropy."""
    sentences = min(experiment.language_sentences, MOST_CALIBRATING)
    grammar = (PAPER_SHAPE, ENTROPY["grammar"], MEAN_LENGTH["grammar"], (0.05, 1.0))
    hmm = (PAPER_HMM_SHAPE, ENTROPY["hmm"], None, (0.05, 1.0))
    return {"grammar": Calibration(*grammar, sentences, 0), "HMM": Calibration(*hmm, sentences, 0)}


def language_runs(experiment: Experiment) -> list[Run]:
    """Return the measurements and calibrations of the page on languages."""
    return [*measurements(experiment).values(), *calibrations(experiment).values()]


# Tables of Appendix A.1.


def _published(spec: LanguageSpec) -> str:
    """The paper's language that a spec reproduces: a calibrated one, OPT-125M, or none."""
    names = [setup.name for setup in PAPER.setups if setup.name in LANGUAGES and spec == setup.language]
    opt = str(getattr(spec, "model", "")).endswith("opt-125m") and (spec.words, spec.max_length) == (2000, 24)
    return names[0] if names else ("OPT" if opt else "")


def entropy_table(experiment: Experiment, store: Store) -> pd.DataFrame:
    """Return entropy (nats per masked token) with its 95 % interval and mean length, paper beside ours.

    Only languages of the paper's shape have a published number.
    """
    rows = []
    for name, run in measurements(experiment).items():
        statistics, published = store.get(run), _published(run.language)
        entropy, error, _ = statistics.entropy
        row = {"language": name, "words": run.language.words, "published": ENTROPY.get(published)}
        row |= {"entropy": entropy, "low": entropy - 1.96 * error, "high": entropy + 1.96 * error}
        row |= {"context information": statistics.blind - entropy}
        row |= {"published length": MEAN_LENGTH.get(published), "mean length": statistics.mean_length}
        rows.append(row)
    return pd.DataFrame(rows)


def ceiling_table(experiment: Experiment, store: Store) -> pd.DataFrame:
    """Return the majority class and the ceilings of every task, in per cent; see `Ceilings`."""
    runs = {name: run for name, run in measurements(experiment).items() if run.tasks}
    table = pd.concat([store.get(run).ceilings.assign(language=name) for name, run in runs.items()])
    table = table.set_index(["language", "task", "classes"]) * 100
    return table.reset_index().rename(columns=lambda name: name.replace("_", " "))


def labels_in_words(ceilings: pd.DataFrame) -> str:
    """How often either label is the hidden symbol in the tasks of the paper's grammar, and what follows."""
    paper = ceilings[ceilings.task.isin(("span16", "span8"))]
    tasks, likelihood, posterior = (
        " and ".join(words)
        for words in (
            paper.task.map(display_name),
            paper["likelihood accuracy"].map("{:.0f} %".format),
            paper.bayes.map("{:.0f} %".format),
        )
    )
    found = (
        f"On the paper's calibrated grammar, in {tasks}, the likelihood label equals the hidden symbol in "
        f"{likelihood} of the sentences and the posterior label in {posterior}. "
    )
    return (
        f"{found if len(paper) else ''}This book therefore uses the posterior label, unless a reader sets "
        "`-p labels likelihood`."
    )


def conclusion(entropies: pd.DataFrame) -> str:
    """What the page on languages found, what it did not, and how sure it is, from `entropy_table`."""
    calibrated = entropies.dropna(subset="published")
    off, half = (calibrated.entropy - calibrated.published).abs(), calibrated.high - calibrated.entropy
    context = entropies["context information"]
    return f"""
**Found.** Every language of this page has a known best possible loss, and languages of the paper's shape
match the published entropies to within {off.max():.3f} nats. Where it can be computed, context carries
{context.min():.2f} to {context.max():.2f} nats per token: this is what a model can learn beyond positions
and lengths.

**Not found.** Entropy and length do not determine a language, so the paper's own grammar and HMM may differ
in all else.

**How sure.** The best possible loss is exact for each sentence; averaged over a sample, its 95 % interval is
at most ± {half.max():.3f} nats in the paper's shapes.
"""


def describe_opt(experiment: Experiment) -> pd.DataFrame:
    """Return a few sentences of the autoregressive language, and print whether it is a stand-in.

    The sentences of a real OPT are text; how much its vocabulary covers of the corpus and of GLUE is printed.
    """
    spec = opt_language(experiment)
    language, generator = spec.build(), torch.Generator().manual_seed(0)
    sentences = language.sample(4, generator)
    rows = [row[:length] for row, length in zip(*(x.tolist() for x in sentences), strict=True)]
    if not isinstance(spec, TeacherSpec):
        real, corpus = cast("HubTeacher", language), cast("HubTeacherSpec", spec).corpus
        texts = [real.tokenizer.decode([real.allowed[word - 1] for word in row]) for row in rows]
        print(f"{spec.words} tokens cover {real.coverage:.1%} of {corpus}; {real.about}")
        if experiment.glue:
            print(_glue_coverage(experiment.glue, real).to_string(index=False))
        return pd.DataFrame({"sentence": texts})
    print(STAND_IN_NOTE)
    table = pd.DataFrame({"sentence": [" ".join(f"w{word}" for word in row) for row in rows]})
    posterior = language.posterior(sentences, "topic")
    for topic, column in enumerate(posterior.T.tolist()):
        table[f"Pr(topic {topic} | sentence)"] = column
    return table


def _glue_coverage(source: str, language: "HubTeacher") -> pd.DataFrame:
    from sameloss.languages.pretrained import glue_task  # transformers takes seconds

    rows = []
    for name in ("qnli", "sst2"):
        task = glue_task(name, language.tokenizer, language.allowed, language.max_length, source)
        for split, part in task.items():
            coverage = {k: getattr(part, k) for k in ("tokens_known", "tokens_kept", "kept_whole", "empty")}
            rows.append({"task": name, "split": split, "examples": len(part.labels), **coverage})
    return pd.DataFrame(rows)


# Tables of Appendix A.2.


def _languages(experiment: Experiment) -> dict[str, Language]:
    specs = setups(experiment)
    return {shown: specs[name].language.build() for name, shown in LANGUAGES.items()}


def definition_and_pass(experiment: Experiment, sentences: int) -> pd.DataFrame:
    """Compare conditionals by substitution with those of the one pass, and the times of both."""
    languages, opt = _languages(experiment), opt_language(experiment)
    if isinstance(opt, TeacherSpec):
        languages[opt_name(opt)] = opt.build()
    rows = []
    for name, language in languages.items():
        sample = language.sample(sentences, torch.Generator().manual_seed(0))
        counts = {"language": name, "passes": int(sample.lengths.max()) * language.words}
        definition = partial(substituted_conditionals, language, sample)
        rows.append(counts | _both_ways("definition", definition, partial(language.conditionals, sample)))
    return pd.DataFrame(rows)


def masks_summed_both_ways(experiment: Experiment, most: int, sentences: int) -> pd.DataFrame:
    """Compare log Pr(visible tokens), in nats, with 1 to `most` masks: by every filling, and by the pass.

    Numbers of masks with more than `FILLINGS` fillings are left out.
    """
    rows = []
    for name, language in _languages(experiment).items():
        generator = torch.Generator().manual_seed(0)
        sample = language.sample(sentences, generator)
        for masks in range(1, most + 1):
            if language.words**masks > FILLINGS:
                break
            masked = mask_some(sample, masks, generator)
            counts = {"language": name, "masks": masks, "fillings": language.words**masks}
            filling = partial(_by_filling, language, masked)
            rows.append(counts | _both_ways("filling", filling, partial(language.log_prob, masked)))
    return pd.DataFrame(rows)


def _by_filling(language: Language, masked: Sentences) -> Tensor:
    filled, owners = fillings(masked, language.words)
    return sum_of_fillings(language.log_prob(filled)[:, None], owners, len(masked.lengths)).squeeze(1)


def _both_ways(name: str, compute: Callable[[], Tensor], one_pass: Callable[[], Tensor]) -> dict[str, Any]:
    """Time two computations of one result, each the second time it is computed, when all is planned."""
    results, milliseconds = [], []
    for way in (compute, one_pass):
        way()
        started = time.perf_counter()
        results.append(way())
        milliseconds.append(1000 * (time.perf_counter() - started))
    slow, fast = milliseconds
    difference = float((results[0] - results[1]).abs().max())
    return {f"{name}_ms": slow, "pass_ms": fast, "times faster": slow / fast, "difference": difference}


def attainable(experiment: Experiment) -> pd.DataFrame:
    """Return whether a model can attain the best possible loss on the grammars and HMMs, or why not.

    Assumption 3.1 and its consequences need models that attain it.
    """
    languages = _languages(experiment)
    languages |= {f"{name}, paper's shape": language for name, language in _languages(PAPER).items()}
    rows = []
    for name, language in languages.items():
        sentences = language.sample(200, torch.Generator().manual_seed(0))
        zeros = ((language.conditionals(sentences) == 0) & sentences.inside[..., None]).nonzero().tolist()
        because = "no zero among 200 sentences"
        if zeros:
            row, position, word = zeros[0]
            because = (
                f"Word {word + 1} has probability zero at position {position} of sentence {row}, so no "
                "softmax attains the best possible loss; a language with smoothing > 0 is needed."
            )
        rows.append({"language": name, "attainable": "no" if zeros else "yes", "because": because})
    return pd.DataFrame(rows)


def entropy_by_masks(experiment: Experiment, sentences: int) -> pd.DataFrame:
    """Return the exact entropy of a masked token (nats) for every number of masks."""
    rows = []
    for name, language in _languages(experiment).items():
        generator = generator_for("masks", 0)
        sample = language.sample(sentences, generator)
        for masks in range(1, language.max_length + 1):
            mean, error, _ = entropy_under_masks(language, mask_some(sample, masks, generator))
            row = {"language": name, "words": language.words, "masks": masks}
            rows.append(row | {"entropy": mean, "standard_error": error})
    return pd.DataFrame(rows)
