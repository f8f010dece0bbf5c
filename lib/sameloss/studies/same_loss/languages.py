"""What the languages are like, beside what the paper says of its own (Appendices A.1 and A.2)."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pandas as pd
import torch
from torch import Tensor

from sameloss.errors import LanguageError
from sameloss.languages import Language, LanguageSpec, Sentences, TeacherSpec, substituted_conditionals
from sameloss.languages.autoregressive import FILLINGS, STAND_IN_NOTE, fillings, sum_of_fillings
from sameloss.languages.entropy import check_attainable, entropy_under_masks, mask_some
from sameloss.languages.paper import PAPER_HMM_SHAPE, PAPER_SHAPE
from sameloss.runs.sampling import Calibration, LanguageMeasurement
from sameloss.seeds import generator_for
from sameloss.store.store import Run, Store
from sameloss.studies.same_loss.experiment import PAPER, Experiment, Setup

if TYPE_CHECKING:
    from sameloss.languages.autoregressive import HubTeacher, HubTeacherSpec

ENTROPY = {"grammar": 3.196, "hmm": 3.758, "OPT": 1.865}
"""Masked entropy of the paper's languages, nats a token: the best possible loss (Section 2.3)."""

MEAN_LENGTH = {"grammar": 17.0, "hmm": 16.0, "OPT": 16.0}
"""Mean tokens of a sentence, from the numbers of tokens and sentences (App. A.1).

For the HMM the paper prints 1.6e7 tokens in 1e7 sentences of 16 tokens: a slip for 1.6e8.
"""

LANGUAGES = {"grammar": "grammar", "hmm": "HMM"}
"""Languages that can sum over all words, as tables call them."""

MOST_OF_A_REAL_OPT = 100
"""Sentences on which a real OPT is measured, at most: it scores 2,000 candidates for each."""

MOST_CALIBRATING = 5000
"""Sentences of each step of a calibration, at most."""

# What is measured.


def setups(experiment: Experiment) -> dict[str, Setup]:
    """Return the languages of a preset by name, each as its first replicate has it."""
    return {s.name: s._replace(language=experiment.replicate(s).language) for s in experiment.setups}


def measurements(experiment: Experiment) -> dict[str, LanguageMeasurement]:
    """Return the measurements of the preset's languages and of the calibrated ones, by name."""
    own = setups(experiment)
    chosen = {LANGUAGES.get(name) or opt_name(setup.language): setup for name, setup in own.items()}
    chosen |= {
        f"{shown}, paper's shape": setup
        for name, shown in LANGUAGES.items()
        for setup in PAPER.setups
        if setup.name == name and setup.language != own[name].language
    }
    return {
        name: LanguageMeasurement(s.language, s.tasks, _sentences(experiment, s.language), 0)
        for name, s in chosen.items()
    }


def opt_name(spec: LanguageSpec) -> str:
    """Return the honest name of an autoregressive language."""
    return "OPT stand-in" if isinstance(spec, TeacherSpec) else str(getattr(spec, "model", "OPT"))


def _sentences(experiment: Experiment, spec: LanguageSpec) -> int:
    """Return on how many sentences a language is measured: few where each costs a minute."""
    most = MOST_OF_A_REAL_OPT if hasattr(spec, "corpus") else experiment.language_sentences
    return min(experiment.language_sentences, most)


def calibrations(experiment: Experiment) -> dict[str, Calibration]:
    """Return the searches that gave the paper's shapes their published entropy."""
    sentences = min(experiment.language_sentences, MOST_CALIBRATING)
    grammar = (PAPER_SHAPE, ENTROPY["grammar"], MEAN_LENGTH["grammar"], (0.05, 1.0))
    hmm = (PAPER_HMM_SHAPE, ENTROPY["hmm"], None, (0.05, 1.0))
    return {"grammar": Calibration(*grammar, sentences, 0), "HMM": Calibration(*hmm, sentences, 0)}


def language_runs(experiment: Experiment) -> list[Run]:
    """Return what is measured of languages alone."""
    return [*measurements(experiment).values(), *calibrations(experiment).values()]


# Tables of Appendix A.1.


def _published(spec: LanguageSpec) -> str:
    """Return which of the paper's languages, if any, a language stands for: a calibrated one, or OPT-125M."""
    names = [setup.name for setup in PAPER.setups if setup.name in LANGUAGES and spec == setup.language]
    return names[0] if names else ("OPT" if str(getattr(spec, "model", "")).endswith("opt-125m") else "")


def entropy_table(experiment: Experiment, store: Store) -> pd.DataFrame:
    """Return entropy (nats a masked token) with its 95 % interval and mean length, paper beside ours.

    A language has a published number only where it has the paper's shape.
    """
    rows = []
    for name, run in measurements(experiment).items():
        found, kind = store.get(run), _published(run.language)
        half = 1.96 * found.entropy.standard_error
        rows.append(
            {
                "language": name,
                "words": run.language.words,
                "published": ENTROPY.get(kind),
                "entropy": found.entropy.mean,
                "low": found.entropy.mean - half,
                "high": found.entropy.mean + half,
                "context tells": found.blind - found.entropy.mean,
                "published length": MEAN_LENGTH.get(kind),
                "mean length": found.mean_length,
            }
        )
    return pd.DataFrame(rows)


def ceiling_table(experiment: Experiment, store: Store) -> pd.DataFrame:
    """Return majority shares and ceilings of every task, in per cent; see `Ceilings`."""
    parts = [
        store.get(run).ceilings.assign(language=name)
        for name, run in measurements(experiment).items()
        if run.tasks
    ]
    table = pd.concat(parts, ignore_index=True)
    shares = [column for column in table if column not in ("language", "task", "classes")]
    table[shares] *= 100
    return table[["language", "task", "classes", *shares]].rename(columns=lambda name: name.replace("_", " "))


def describe_opt(experiment: Experiment) -> pd.DataFrame:
    """Return a few sentences of the autoregressive language, and say where it is a stand-in.

    With a real OPT the sentences are text, and the coverage of its words and of GLUE is printed.
    """
    spec = setups(experiment)["opt"].language
    language, generator = spec.build(), torch.Generator().manual_seed(0)
    sentences = language.sample(4, generator)
    rows = [row[:length] for row, length in zip(*(x.tolist() for x in sentences), strict=True)]
    if not isinstance(spec, TeacherSpec):
        real, corpus = cast("HubTeacher", language), cast("HubTeacherSpec", spec).corpus
        texts = [real.tokenizer.decode([real.allowed[word - 1] for word in row]) for row in rows]
        print(f"{spec.words} tokens cover {real.coverage:.1%} of {corpus}")
        print(_glue_coverage(experiment.glue, real).to_string(index=False))
        return pd.DataFrame({"sentence": texts})
    print(STAND_IN_NOTE)
    table = pd.DataFrame({"sentence": [" ".join(f"w{word}" for word in row) for row in rows]})
    posterior = language.posterior(sentences, "topic")
    for topic, column in enumerate(posterior.T.tolist()):
        table[f"Pr(topic {topic} | sentence)"] = column
    return table


def _glue_coverage(source: str, language: "HubTeacher") -> pd.DataFrame:
    from sameloss.languages.autoregressive import glue_task  # transformers takes seconds

    rows = []
    for name in ("qnli", "sst2"):
        task = glue_task(name, language.tokenizer, language.allowed, language.max_length, source)
        for split, part in task._asdict().items():
            shares = {k: getattr(part, k) for k in ("tokens_known", "tokens_kept", "kept_whole", "empty")}
            rows.append({"task": name, "split": split, "examples": len(part.labels), **shares})
    return pd.DataFrame(rows)


# Tables of Appendix A.2.


def _languages(experiment: Experiment) -> dict[str, Language]:
    own = setups(experiment)
    return {shown: own[name].language.build() for name, shown in LANGUAGES.items()}


def definition_and_pass(experiment: Experiment, sentences: int) -> pd.DataFrame:
    """Compare conditionals by substitution with those of the one pass, and what both took."""
    languages, opt = _languages(experiment), setups(experiment)["opt"].language
    if isinstance(opt, TeacherSpec):
        languages[opt_name(opt)] = opt.build()
    rows = []
    for name, language in languages.items():
        sample = language.sample(sentences, torch.Generator().manual_seed(0))
        by_definition, slow = _timed(lambda: substituted_conditionals(language, sample))  # noqa: B023
        by_pass, fast = _timed(lambda: language.conditionals(sample))  # noqa: B023
        difference = float((by_definition - by_pass).abs().max())
        passes = int(sample.lengths.max()) * language.words
        rows.append(
            {
                "language": name,
                "passes": passes,
                "definition_ms": slow,
                "pass_ms": fast,
                "times faster": slow / fast,
                "difference": difference,
            }
        )
    return pd.DataFrame(rows)


def masks_summed_both_ways(experiment: Experiment, most: int, sentences: int) -> pd.DataFrame:
    """Compare log Pr(visible tokens), in nats, with 1 to `most` masks: every filling, and inside the pass.

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
            filled, slow = _timed(lambda: _by_filling(language, masked))  # noqa: B023
            direct, fast = _timed(lambda: language.log_prob(masked))  # noqa: B023
            difference = float((filled - direct).abs().max())  # nats
            rows.append(
                {
                    "language": name,
                    "masks": masks,
                    "fillings": language.words**masks,
                    "filling_ms": slow,
                    "pass_ms": fast,
                    "times faster": slow / fast,
                    "difference": difference,
                }
            )
    return pd.DataFrame(rows)


def _by_filling(language: Language, masked: Sentences) -> Tensor:
    filled, owners = fillings(masked, language.words)
    return sum_of_fillings(language.log_prob(filled)[:, None], owners, len(masked.lengths)).squeeze(1)


def _timed(work: Callable[[], Tensor]) -> tuple[Tensor, float]:
    """Return a result with its milliseconds, the second time it is computed: the first plans."""
    work()
    started = time.perf_counter()
    return work(), 1000 * (time.perf_counter() - started)


def attainable(experiment: Experiment) -> pd.DataFrame:
    """Say of the grammars and HMMs whether a model can attain the best possible loss, or why not."""
    chosen = _languages(experiment)
    chosen |= {f"{name}, paper's shape": language for name, language in _languages(PAPER).items()}
    rows = []
    for name, language in chosen.items():
        try:
            check_attainable(language, language.sample(200, torch.Generator().manual_seed(0)))
            rows.append({"language": name, "attainable": "yes", "because": "no zero among 200 sentences"})
        except LanguageError as fault:
            rows.append({"language": name, "attainable": "no", "because": str(fault)})
    return pd.DataFrame(rows)


def entropy_by_masks(experiment: Experiment, sentences: int) -> pd.DataFrame:
    """Return the exact entropy of a masked token (nats) for every number of masks."""
    rows = []
    for name, language in _languages(experiment).items():
        generator = generator_for("masks", 0)
        sample = language.sample(sentences, generator)
        for masks in range(1, language.max_length + 1):
            found = entropy_under_masks(language, mask_some(sample, masks, generator))
            rows.append(
                {
                    "language": name,
                    "words": language.words,
                    "masks": masks,
                    "entropy": found.mean,
                    "standard_error": found.standard_error,
                }
            )
    return pd.DataFrame(rows)
