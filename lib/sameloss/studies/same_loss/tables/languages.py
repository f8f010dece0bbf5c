"""Tidy tables of what languages are like, beside what the paper says of its own."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pandas as pd
import torch
from torch import Tensor

from sameloss.errors import LanguageError
from sameloss.languages import Language, LanguageSpec, Sentences, TeacherSpec, substituted_conditionals
from sameloss.languages.autoregressive.autoregressive import FILLINGS, fillings, sum_of_fillings
from sameloss.languages.autoregressive.teacher import STAND_IN_NOTE
from sameloss.languages.entropy import check_attainable, entropy_under_masks, mask_some
from sameloss.seeds import generator_for
from sameloss.studies.same_loss.groups import MAIN
from sameloss.studies.same_loss.languages import ENTROPY, MEAN_LENGTH, measurements, opt_name, repeated
from sameloss.studies.same_loss.pages import ComparisonPage
from sameloss.studies.same_loss.settings import PAPER, PRESETS
from sameloss.training.corpus import unseen

if TYPE_CHECKING:
    from sameloss.languages.autoregressive.hub import HubTeacher, HubTeacherSpec


def paper_kind(spec: LanguageSpec) -> str:
    """Return which of the paper's languages, if any, a language stands for: a calibrated one, or OPT-125M."""
    if isinstance(spec, TeacherSpec):
        return ""
    names = [name for name in ("PCFG", "HMM") if spec == PAPER[name].language]
    return names[0] if names else ("OPT" if str(getattr(spec, "model", "")).endswith("opt-125m") else "")


def entropy_table(page: ComparisonPage) -> pd.DataFrame:
    """Return entropy (nats a masked token) with its 95 % interval and mean length, paper beside ours.

    A language has a published number only where it has the paper's shape.
    """
    rows = []
    for name, run in measurements(page.config).items():
        found, kind = page.store.get(run), paper_kind(run.language)
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


def search_table(page: ComparisonPage) -> pd.DataFrame:
    """Return the search for the page's language, one row a language that was looked at: see `search`.

    It is that of the preset, whatever else the page was asked for; a language of a reader's own has no row.
    """
    own = MAIN.group(PRESETS[page.config.name])
    found = own.domain.language == page.config.domain.language
    table = repeated(page.store, own) if found else pd.DataFrame()
    names = [f"{s.symbols} symbols, {s.rules} rules, seed {s.seed}" for s in table.get("candidate", ())]
    return table.assign(candidate=names)


def ceiling_table(page: ComparisonPage) -> pd.DataFrame:
    """Return majority shares and ceilings of every task, in per cent; see `Ceilings`."""
    parts = [
        page.store.get(run).ceilings.assign(language=name)
        for name, run in measurements(page.config).items()
        if run.tasks
    ]
    table = pd.concat(parts, ignore_index=True)
    shares = [column for column in table if column not in ("language", "task", "classes")]
    table[shares] *= 100
    return table[["language", "task", "classes", *shares]].rename(columns=lambda name: name.replace("_", " "))


def corpus_overlap(page: ComparisonPage, sentences: int) -> float:
    """Return the share of new sentences that the pre-training corpus holds already."""
    generator = generator_for("overlap", 0)
    new = page.group.domain.language.build().sample(sentences, generator)
    return 1 - float(unseen(page.store.get(page.group.corpus), new).double().mean())


def describe_opt(page: ComparisonPage) -> pd.DataFrame:
    """Return a few sentences of the autoregressive language, and say where it is a stand-in.

    With a real OPT the sentences are text, and the coverage of its words and of GLUE is printed.
    """
    spec = page.config.domains["OPT"].language
    language, generator = spec.build(), torch.Generator().manual_seed(0)
    sentences = language.sample(4, generator)
    rows = [row[:length] for row, length in zip(*(x.tolist() for x in sentences), strict=True)]
    if not isinstance(spec, TeacherSpec):
        real, corpus = cast("HubTeacher", language), cast("HubTeacherSpec", spec).corpus
        texts = [real.tokenizer.decode([real.allowed[word - 1] for word in row]) for row in rows]
        print(f"{spec.words} tokens cover {real.coverage:.1%} of {corpus}")
        print(_glue_coverage(page.config.evaluation.glue, real).to_string(index=False))
        return pd.DataFrame({"sentence": texts})
    print(STAND_IN_NOTE)
    table = pd.DataFrame({"sentence": [" ".join(f"w{word}" for word in row) for row in rows]})
    posterior = language.posterior(sentences, "topic")
    for topic, column in enumerate(posterior.T.tolist()):
        table[f"Pr(topic {topic} | sentence)"] = column
    return table


def _glue_coverage(source: str, language: "HubTeacher") -> pd.DataFrame:
    from sameloss.languages.autoregressive.hub import glue_task  # transformers takes seconds

    rows = []
    for name in ("qnli", "sst2"):
        task = glue_task(name, language.tokenizer, language.allowed, language.max_length, source)
        for split, part in task._asdict().items():
            shares = {k: getattr(part, k) for k in ("tokens_known", "tokens_kept", "kept_whole", "empty")}
            rows.append({"task": name, "split": split, "examples": len(part.labels), **shares})
    return pd.DataFrame(rows)


def _languages(page: ComparisonPage) -> dict[str, Language]:
    return {name: page.config.domains[name].language.build() for name in ("PCFG", "HMM")}


def definition_and_pass(page: ComparisonPage, sentences: int) -> pd.DataFrame:
    """Compare conditionals by substitution with those of the one pass, and what both took."""
    languages, opt = _languages(page), page.config.domains["OPT"].language
    if isinstance(opt, TeacherSpec):
        languages[opt_name(page.config)] = opt.build()
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


def masks_summed_both_ways(page: ComparisonPage, most: int, sentences: int) -> pd.DataFrame:
    """Compare log Pr(visible tokens), in nats, with 1 to `most` masks: every filling, and inside the pass.

    Numbers of masks with more than `FILLINGS` fillings are left out.
    """
    rows = []
    for name, language in _languages(page).items():
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


def attainable(page: ComparisonPage) -> pd.DataFrame:
    """Say of the grammars and HMMs whether a model can attain the best possible loss, or why not."""
    chosen = {name: page.config.domains[name].language for name in ("PCFG", "HMM")}
    chosen |= {f"{name}, paper's shape": PAPER[name].language for name in ("PCFG", "HMM")}
    rows = []
    for name, spec in chosen.items():
        language = spec.build()
        try:
            check_attainable(language, language.sample(200, torch.Generator().manual_seed(0)))
            rows.append({"language": name, "attainable": "yes", "because": "no zero among 200 sentences"})
        except LanguageError as fault:
            rows.append({"language": name, "attainable": "no", "because": str(fault)})
    return pd.DataFrame(rows)


def entropy_by_masks(page: ComparisonPage, sentences: int) -> pd.DataFrame:
    """Return the exact entropy of a masked token (nats) for every number of masks."""
    rows = []
    for name, language in _languages(page).items():
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
