"""Trainings and measurements: protocol, presets, and the smoke preset from languages to answers."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from cells import definitions
from matplotlib import pyplot as plt
from quick_workers import quick_workers
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sameloss.book.pages import open_page as opened
from sameloss.languages import Sentences
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import (
    Downstream,
    HeldOutConditionals,
    LabelledSampling,
    LabelledSentences,
    held_out_masked,
)
from sameloss.runs.stage import stacked
from sameloss.seeds import generator_for
from sameloss.store.pool import compute_all
from sameloss.store.store import Store, with_ancestors
from sameloss.studies.same_loss import experiment, figures
from sameloss.studies.same_loss.claims import SLOPE, answers
from sameloss.studies.same_loss.experiment import HMM, PRESETS, SMOKE, WORKSTATION, Measures, tabled
from sameloss.studies.same_loss.parameters import chosen
from sameloss.studies.same_loss.tables import (
    PAGES,
    QUESTIONS,
    answer_table,
    control_table,
    findings,
    main_answer,
    row_name,
)
from sameloss.training.objectives import NO_TREATMENT

BRIEF = replace(
    SMOKE,
    setups=tuple(s if s.name == "grammar" else s._replace(seeds=s.seeds[:1]) for s in SMOKE.setups),
    descent_steps=(20, 40),
    probe_sets=1,
    test=100,
    trace_sentences=20,
    measured=Measures(features=128, width=16, train=50, few_labels=(32,), many_labels=256),
    flatness_sentences=20,
)
"""The models of the preset smoke, which `tests/book` executes, measured on less; other languages once."""


@pytest.fixture(scope="module")
def page(shared):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "smoke", BRIEF)
        page = opened("02_existence", preset="smoke", language="all", artifacts=str(shared / "same_loss"))
        with quick_workers():
            compute_all(page.store, page.runs(), 1)
        yield page


def keys(**given):
    return {run.key for run in with_ancestors(opened("04_flatness", preset="workstation", **given).runs())}


def test_a_replicate_draws_everything_anew():
    first, second = list(WORKSTATION.replicates())[:2]
    assert first.language != second.language
    one, two = keys(language="grammar", seeds=1), keys(language="grammar", seeds=2)
    assert one < two
    assert len(two) == 2 * len(one)


def test_the_record_is_the_protocols():
    grammar, hmm = WORKSTATION.setups
    assert (len(grammar.seeds), len(hmm.seeds)) == (8, 3)
    assert {replicate.setup.name for replicate in WORKSTATION.replicates()} == {"grammar", "hmm"}
    runs = opened("04_flatness", preset="workstation", language="grammar", seeds=1).runs()
    descents = [r for r in runs if r.kind == "ModelMeasurement" and r.step and r.training.origin is None]
    assert len(descents) == 5 * 2 * 4
    assert all(run.training.optimisation.steps == run.step for run in descents)  # each decays to zero
    assert {run.training.objective.label_noise for run in descents} == {0.0}


def test_parts_of_a_training_have_batches_of_their_own():
    replicate = next(WORKSTATION.replicates())
    main, plateau = replicate.longest_descent("d24"), replicate.plateau("d24")
    cooled, treated = replicate.cooled(plateau, 1250, "d24"), replicate.treated("d24", *NO_TREATMENT)
    assert len({run.seed for run in (main, plateau, cooled, treated)}) == 4
    assert (plateau.origin, cooled.origin, cooled.origin_step) == (main, plateau, 1250)
    assert replicate.cooled(treated, 2000, "d24", treated).reference == treated
    assert cooled.reference == main


def experiment_of(**given):
    return chosen(opened("02_existence", **given).values)


def test_a_reader_changes_the_runs():
    assert [replicate.seed for replicate in experiment_of(seeds=5).replicates()] == [4, 5, 6, 7, 8]
    assert experiment_of(steps=625).lengths == (156, 312, 625)
    replicate = next(experiment_of(labels="likelihood").replicates())
    assert replicate.labelled.downstream.label_kind == "likelihood"


def test_at_the_papers_scale_checkpoints_are_those_of_one_training():
    runs = opened("02_existence", size="235M").runs()
    (main,) = {run for run in with_ancestors(runs) if isinstance(run, Pretraining)}
    assert {run.training for run in runs if run.kind == "ModelMeasurement"} == {main}
    assert main.checkpoints == PRESETS["paper"].descent_steps
    assert main.execution.compiled


def test_the_lookup_table_holds_log_conditionals():
    language = replace(WORKSTATION.setups[0].language, seed=4).build()
    sentences = language.sample(5, experiment.torch.Generator().manual_seed(0))
    logs = experiment.log_conditionals(language, sentences).unflatten(1, (-1, language.words))
    sums = logs.double().exp().sum(-1)
    assert np.allclose(sums[sentences.inside], 1.0)
    assert (logs[~sentences.inside] == 0).all()


def test_one_hot_tokens_of_a_large_vocabulary_stay_as_they_are(tmp_path):
    """They can be more than the features of all models."""
    labelled = LabelledSampling(HMM, Downstream(("state3",), "posterior", 40, 40, 1, 0))
    measures = Measures(20, 4, train=20, probe_sets=2)
    run = experiment.language_baselines(labelled, HeldOutConditionals(HMM, 20, 0), measures)
    table = Store(tmp_path).get(run).set_index("reading").value
    assert HMM.words * HMM.max_length > 20
    assert table["tokens, expanded"] == table["tokens, features"]
    assert table["lookup, expanded"] == table["lookup, features"]


@pytest.mark.book
def test_from_languages_to_answers(page):
    """All kinds of runs of the experiment on all languages, and all figures and tables of its page."""
    table = page.results.table
    assert list(table.columns) == experiment.COLUMNS
    assert table.value.notna().all()
    stages = set(table[table.language == "grammar"].stage)
    assert stages == {"baseline", "untrained", "descent", "plateau", "cooled"}
    rows = answers(table)
    questions = {*PAGES["02_existence"], *PAGES["04_flatness"]} - {"flatness by rate"}
    assert set(rows[rows.language == "grammar"].question) == questions
    assert set(table[table.language == "opt"].stage) == {"baseline", "untrained", "descent", "plateau"}
    of_page = definitions("04_flatness")
    for draw in (of_page.trace_against_kl, of_page.accuracy_against_trace):
        figures.by_language(table, draw)
        titles = [ax.get_title() for ax in plt.gcf().axes]
        assert titles == ["grammar", "hidden Markov model, LSTMs", "OPT stand-in"]
        plt.close()
    figures.along_plateau(table[table.language == "grammar"], "kl", "KL", plt.gca())
    plt.close()
    of_size = rows[(rows.question == "size") & (rows.unit == "points")]
    figures.effects_by_language(of_size)
    first, *others = plt.gcf().axes
    names = [label.get_text() for label in first.get_yticklabels()]
    assert len(names) == len(set(names))
    assert set(names) == {row_name(row) for row in of_size.itertuples()}
    assert all(list(ax.get_yticks()) == list(first.get_yticks()) for ax in others)
    assert all(ax.get_ylim() == first.get_ylim() for ax in others)
    plt.close()
    assert len(answer_table(rows, QUESTIONS)) >= 6
    assert len(control_table(rows, "size")) >= 8


def cells_of(chapter, **known):
    """Functions of a chapter, which know what its cells would have set."""
    found = definitions(chapter)
    vars(found).update(known)
    return found


@pytest.mark.book
def test_from_algorithms_to_answers(page):
    """All treatments in the same store, and algorithms for every question, with figures and tables."""
    algorithms = [
        algorithm
        for chapter in ("d_practice", "e_mask_rate", "a3_models")
        for algorithm in definitions(chapter).PRESETS["workstation"]["algorithms"]
        if algorithm[0] not in ("trace-penalty", "weight-decay")  # regularisers as dropout is
    ]
    known = {"experiment": BRIEF, "model": "d8", "treated": ("d8",)}
    cause = cells_of("a4_algorithms", **known, page=SimpleNamespace(strengths=(0.003,)))
    others = cells_of("d_practice", **known, page=SimpleNamespace(algorithms=algorithms))
    parts = (cause.trained_on, cause.treated_on, others.measured_on)
    measurements = [m for replicate in BRIEF.replicates() for part in parts for m in part(replicate)]
    measurements = list({m.run.key: m for m in measurements}.values())
    with quick_workers():
        compute_all(page.store, [m.run for m in measurements], 1)
    table = tabled(measurements, stacked(page.store, [m.run for m in measurements]))
    rows = answers(table)
    pages = ("a4_algorithms", "d_practice", "e_mask_rate", "a3_models")
    assert {question for name in pages for question in PAGES[name]} <= set(rows.question)
    _, axes = plt.subplots(1, 2)
    figures.treatments(rows[rows.question == "flatness as a cause"], axes[0])
    figures.effects(rows[rows.question == "flatness by regularisers"], axes[1])
    plt.close()
    assert (
        others.ends_of(table[table.language == "grammar"]).variant.nunique() == 1 + 1 + len(algorithms) == 6
    )
    predictors = others.predictors(table[table.language == "grammar"])
    assert {"kl", "trace", "top eigenvalue", "relative trace", "adaptive sharpness"} <= set(predictors)
    assert all(-1 <= found.low <= found.value <= found.high <= 1 for found in predictors.values())
    assert main_answer(rows, "flatness as a cause").unit == SLOPE
    assert main_answer(rows[:0], "flatness as a cause") is None
    columns = ["question", "page", "language", "effect", "published", "direction", "size", "verdict"]
    assert list(findings(rows)) == columns


def test_an_algorithm_changes_what_its_recipe_says_and_keeps_the_exact_labels():
    replicate = next(SMOKE.replicates())
    adversary = replicate.descent("d8", 0.005, 10, ("adversarial", 0.1))
    assert (adversary.objective.label_noise, adversary.objective.adversary.weight) == (0.0, 0.1)
    assert adversary.downstream == replicate.labelled
    assert replicate.descent("d8", 0.005, 10, ("post-ln", None)).norm == "post"
    assert replicate.descent("d8", 0.005, 10, ("adamw", None)) == replicate.descent("d8", 0.005, 10)


def test_unseen_sentences_are_in_no_training_set():
    """Of two probes; the first half of the test sentences were the second one's."""
    draw = torch.Generator().manual_seed(0)
    tokens, lengths = torch.tensor([[n, 1] for n in range(1, 31)]), torch.full((30,), 2)
    y, features = torch.arange(30)[:, None] % 2, torch.randn(30, 3, generator=draw)
    parts = [
        LabelledSentences(Sentences(tokens[rows], lengths[rows]), y[rows])
        for rows in (slice(20), slice(10, 30))
    ]
    data = experiment.ProbeData(*parts, (2,), ("task",))
    rows = {
        row["reading"]: row["value"] for row in data.accuracies((features[:20], features[10:]), "own", 10, 2)
    }
    probes = experiment.PROBE.fit(features[:20].view(2, 10, 3), y[:20].view(2, 10, 1), (2,), 0)
    correct = 100 * probes.correct(features[10:], y[10:]).double()
    expected = {"own": float(correct.mean()), "own, unseen": float(correct[:, 10:].mean())}
    assert rows == pytest.approx(expected)
    assert expected["own"] != expected["own, unseen"]


# What a measurement says, beside independent code.


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A model of the grammar, its measurement, and what it was measured on."""
    store = Store(tmp_path_factory.mktemp("measured"))
    tiny = replace(SMOKE, test=400, held_out=60)
    replicate = next(tiny.replicates())
    training = replicate.descent("d8", 0.005, 10)
    measures = Measures(128, 16, train=100, probe_sets=2, few_labels=(), many_labels=100, trace_sentences=50)
    about = replicate.labelled, replicate.held_out, measures
    table = store.get(experiment.model_measurement(training, 10, *about, False))
    return store, replicate, store.get(training).model(10), table


def test_the_kl_of_a_measurement_is_two_loops(measured):
    store, replicate, model, table = measured
    sentences, conditionals = store.get(replicate.held_out)
    kls = []
    for tokens, length, truth in zip(*sentences, conditionals, strict=True):
        of_positions = []
        for t in range(int(length)):
            masked = tokens[None, :length].long().clone()
            masked[0, t] = 0
            log_f = model(masked, torch.tensor([t]), length[None]).double().log_softmax(-1)[0].detach()
            of_positions.append(float((truth[t] * (truth[t].log() - log_f)).nansum()))
        kls.append(np.mean(of_positions))
    (row,) = table[table.quantity == "kl"].itertuples()
    assert row.value == pytest.approx(np.mean(kls), rel=1e-5)
    assert row.standard_error == pytest.approx(np.std(kls, ddof=1) / len(kls) ** 0.5, rel=1e-4)


def test_the_trace_of_a_measurement_is_on_sentences_of_its_own(measured):
    """Other than those on which KL is reported, by name of their use."""
    _, replicate, model, table = measured
    language = replicate.language.build()
    masked = held_out_masked(language, 50, replicate.held_out.seed, "trace")
    norms = []
    generator = generator_for("trace labels", replicate.held_out.seed)
    trace = fisher_trace(model, masked, generator=generator)
    for row in range(len(masked.targets)):  # the exact expectation over labels
        one = masked.rows(slice(row, row + 1))
        log_f = model(one.masked, one.positions, one.lengths).log_softmax(-1)[0]
        for word in range(language.words):
            gradients = torch.autograd.grad(log_f[word], list(model.parameters()), retain_graph=True)
            norms.append(float(log_f[word].detach().exp() * sum((g**2).sum() for g in gradients)))
    exact = sum(norms) / len(masked.targets)
    (value,) = table[table.quantity == "trace"].value
    assert value == pytest.approx(trace.total.mean, rel=1e-5)
    assert value == pytest.approx(exact, abs=4 * trace.total.standard_error)


def test_the_accuracies_of_baselines_are_those_of_scikit_learn(measured):
    """The majority class by counting; a probe of one-hot tokens by logistic regression."""
    store, replicate, _, _ = measured
    measures = Measures(128, 16, train=100, probe_sets=1)
    run = experiment.language_baselines(replicate.labelled, replicate.held_out, measures)
    table = store.get(run).set_index(["reading", "task"]).value
    (training, test), language = store.get(replicate.labelled), replicate.language.build()
    for number, task in enumerate(replicate.setup.tasks):
        labels = test.labels[:, number].numpy()
        most = Counter(labels.tolist()).most_common(1)[0][1]
        assert table["majority", task] == pytest.approx(100 * most / len(labels))
        features = [
            experiment.one_hot_features(language, part.sentences).numpy() for part in (training, test)
        ]
        scale = StandardScaler().fit(features[0][:100])
        best = 0.0
        for ridge in (1e-3, 1e-2, 1e-1, 1.0):
            probe = LogisticRegression(C=1 / (100 * ridge), max_iter=2000)
            probe.fit(scale.transform(features[0][:100]), training.labels[:100, number].numpy())
            best = max(best, 100 * probe.score(scale.transform(features[1]), labels))
        assert table["tokens, features", task] == pytest.approx(best, abs=6)
