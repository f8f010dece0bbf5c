"""The comparison near the lowest loss, recomputed from the record without the library."""

import json
from collections import defaultdict
from io import StringIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sameloss.book.cells import opened
from sameloss.book.pages import open_page
from sameloss.errors import ParameterError
from sameloss.languages.grammars.formats import to_lines
from sameloss.store.location import HOME
from sameloss.store.record import kept_runs
from sameloss.store.store import Store
from sameloss.studies.same_loss.experiment import GRAMMAR
from sameloss.studies.same_loss.saturated import CAPACITY, LARGE, OWN, SMALL, TUNED, downstream, leads, line

ROOT = Path(__file__).parents[3]
RUNS = ROOT / "results" / "runs"
READINGS = {
    OWN: ["features"],
    CAPACITY: ["features", "expanded to 384", "expanded"],
    TUNED: ["fine-tuned, rate 0.001", "fine-tuned, rate 0.003"],
}


def recorded(kind):
    lines = [
        json.loads(line) for path in (RUNS / kind).glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    tables = [pd.read_csv(StringIO(line["files"].get("table.csv", "value\n"))) for line in lines]
    return [(line["key"], line["manifest"]["parameters"], t) for line, t in zip(lines, tables, strict=True)]


@pytest.fixture(scope="module")
def trainings():
    """By draw, arm and steps: KL in percent of the bag of words', trace and accuracies of each training.

    An arm of the confirmation is a width; one of the interventions, what `arm_of` returns.
    """
    models = {key: p for key, p, _ in recorded("Pretraining")}
    bags = {p["labelled"]["key"]: t.set_index("quantity").value for _, p, t in recorded("LanguageBaselines")}
    rows = defaultdict(list)
    for _, p, t in recorded("ModelMeasurement"):
        draw, tuned = p["labelled"]["key"], p["measures"].get("finetuning_lrs")
        if p["step"] and p["measures"].get("capacities"):
            model = models[p["training"]["key"]]
            arm = model["shape"]["d_model"] if tuned else arm_of(model)
            one = t.set_index("quantity").value
            accuracy = t[t.quantity == "accuracy"].set_index(["task", "reading"]).value
            kl = np.log(100 * one["kl"] / bags[draw]["bag-of-words kl"])
            rows[draw, arm, p["step"]].append((kl, np.log(one["trace"]), accuracy))
    return rows


def arm_of(training):
    """Width, rate, radius of SAM, whether the trace is penalised, and dropout."""
    how = training["optimisation"]
    others = f"{how['sam_radius']} {bool(training['objective']['trace_penalty'])} {training['dropout']}"
    return f"{training['shape']['d_model']} {how['lr']} {others}"


@pytest.fixture(scope="module")
def cells():
    """The library's cells of the same record."""
    return open_page("02_confirmation").recorded("workstation")[0]


@pytest.fixture(scope="module")
def interventions():
    """The library's lines of the same record."""
    table, arms = open_page("04_interventions").recorded("workstation")
    return {name: line(table, arm, len(arms)) for name, arm in arms.items()}


def at_three_percent(trainings, value):
    """By draw and width, what a function of the cell's accuracies and log trace is at 3 %."""
    curves = defaultdict(list)
    for (draw, width, steps), runs in sorted(trainings.items(), key=lambda item: item[0][2]):
        kls, traces, accuracies = zip(*runs, strict=True)
        curves[draw, width].append((np.mean(kls), value(sum(accuracies) / len(runs), np.mean(traces)), steps))
    found = {}
    for key, curve in curves.items():
        for (kl, v, _), (smaller, w, _) in pairwise(curve):
            if kl >= np.log(3) >= smaller:
                found[key] = v + (kl - np.log(3)) / (kl - smaller) * (w - v)
    return pd.Series(found).unstack()


ARMS = {
    "a quarter of the learning rate": "48 0.00125 0.0 False 0.0",
    "SAM": "48 0.005 0.05 False 0.0",
    "trace penalty": "48 0.005 0.0 True 0.0",
    "dropout": "48 0.005 0.0 False 0.1",
}
ADAMW = "48 0.005 0.0 False 0.0"


@pytest.mark.parametrize("name", ARMS)
def test_the_share_of_the_effect_of_size_that_flatness_carries(trainings, interventions, name):
    """And that Student's test rejects a slope outside of its interval, and no other."""
    own = at_three_percent(trainings, lambda accuracies, _: accuracies.unstack()["features"].mean())
    log_trace = at_three_percent(trainings, lambda _, trace: trace)
    gained = (own[ARMS[name]] - own[ADAMW]).dropna()
    flatter = (log_trace[ADAMW] - log_trace[ARMS[name]]).dropna()
    lead, ratio = (own[96] - own[24]).dropna(), (log_trace[24] - log_trace[96]).dropna()
    found = interventions[name]
    assert len(gained) == 8
    assert found.slope[0] == pytest.approx(gained.mean() / flatter.mean(), rel=1e-6)
    assert found.share[0] == pytest.approx(found.slope[0] * ratio.mean() / lead.mean(), rel=1e-6)
    assert found.gained == pytest.approx(student(gained), abs=1e-6)
    assert found.flatter == pytest.approx(student(flatter), abs=1e-6)
    for end in found.slope[1:]:
        assert stats.ttest_1samp(gained - end * flatter, 0.0).pvalue == pytest.approx(0.05 / 4, rel=1e-4)


def student(differences):
    mean, half = differences.mean(), stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    return mean, mean - half, mean + half


@pytest.mark.parametrize("question", READINGS)
def test_the_leads_of_the_larger_model(trainings, cells, question):
    def best(accuracies, _):
        return accuracies.unstack().reindex(columns=READINGS[question]).max(axis=1).mean()

    values = at_three_percent(trainings, best)
    found = {v.question: v for v in downstream(cells)}
    assert len(values) == 16
    assert found[question].effect == pytest.approx(student(values[96] - values[24]), abs=1e-6)


def test_the_ratio_of_traces(trainings, cells):
    values = at_three_percent(trainings, lambda _, trace: trace)
    library = leads(cells, SMALL, LARGE, "log trace").lead
    assert sorted(library) == pytest.approx(sorted(values[96] - values[24]), abs=1e-6)


def test_what_the_front_page_says_in_words_is_in_the_record():
    """Interventions move flatness further than size and gain less; at half its rate the larger is sharper."""
    cells, arms = open_page("04_interventions").recorded("workstation")
    sharper, lead = (leads(cells, SMALL, LARGE, of).lead.mean() for of in ("log trace", OWN))
    for arm in arms.values():
        found = line(cells, arm, len(arms))
        assert abs(found.flatter.value) > -sharper > 0
        assert found.gained.value < lead
    confirmed, _ = open_page("02_confirmation").recorded("workstation")
    slow = LARGE._replace(lr=LARGE.lr / 2)
    assert leads(confirmed, SMALL, slow, "log trace").lead.min() > 0
    assert leads(confirmed, SMALL, slow, OWN).lead.min() > 0


@pytest.mark.parametrize("page", ["02_confirmation", "04_interventions"])
def test_the_default_has_runs_of_the_record(tmp_path, page):
    listed = {run.key for run in opened(page, {"preset": "workstation"}, kept_runs()).runs()}
    default = opened(page, {}, Store(tmp_path)).runs()
    assert {run.key for run in default} <= listed


@pytest.mark.parametrize(
    ("given", "of_a_run"),
    [
        ({"lr": 0.0025}, lambda run: run.training.optimisation.lr == 0.0025),
        ({"layers": 1}, lambda run: run.training.shape.layers == 1),
        ({"batch": 64}, lambda run: run.training.optimisation.batch == 64),
        ({"sizes": "d48, d64"}, lambda run: run.training.shape.d_model in (48, 64)),
        ({"steps": "70"}, lambda run: run.step in (0, 70)),
        ({"labels": "likelihood"}, lambda run: run.labelled.downstream.label_kind == "likelihood"),
        ({"trace_sentences": 100}, lambda run: run.measures.trace_sentences == 100),
        ({"estimator": "exact"}, lambda run: run.measures.estimator == "exact"),
        ({"trace_labels": 50}, lambda run: run.measures.trace_labels == 50),
        ({"probe_seeds": 1}, lambda run: run.measures.probe_sets == 1),
    ],
)
@pytest.mark.parametrize("page", ["02_confirmation", "04_interventions"])
def test_every_argument_of_the_experiment_can_be_set(tmp_path, page, given, of_a_run):
    if page == "04_interventions":
        if "labels" in given:
            return  # it has none
        given = {"size": "d64"} if "sizes" in given else given
    runs = opened(page, given, Store(tmp_path)).runs()
    assert all(of_a_run(run) for run in runs if run.kind == "ModelMeasurement")


@pytest.fixture
def grammar_file(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("S -> A A [0.5] | 'x' [0.5]\nA -> 'x' [0.5] | 'y' [0.5]")
    return path


def test_a_grammar_of_ones_own_is_every_draw(tmp_path, grammar_file):
    grammar_file.write_text(to_lines(GRAMMAR.drawn(16).build().grammar))
    page = opened("02_confirmation", {"preset": "smoke", "grammar": str(grammar_file)}, Store(tmp_path))
    runs = [run for run in page.runs() if run.kind == "ModelMeasurement"]
    assert {run.training.corpus.language.text for run in runs} == {grammar_file.read_text()}
    assert {run.held_out.seed for run in runs} == {16, 17}


def test_what_cannot_be_compared_is_refused_in_one_sentence(tmp_path, grammar_file):
    for given, message in {
        ("sizes", "d24"): "^sizes are compared: give two of d8, ",
        ("sizes", "d24, d25"): "^Unknown size 'd25'",
        ("estimator", "hutchinson"): "^Unknown estimator 'hutchinson'; choose one of exact, sampled, ",
        ("grammar", str(grammar_file)): "^Every symbol that probes could read is the same in all sentences",
    }.items():
        with pytest.raises(ParameterError, match=message):
            opened("02_confirmation", dict([given]), Store(tmp_path))


def test_a_language_of_ones_own_leaves_the_record_as_it_is(tmp_path, monkeypatch):
    """The third exercise: who edits the cell gets new runs, and the figures of the record beside them."""
    (tmp_path / "chapters").mkdir()
    (tmp_path / "_config.yml").touch()
    (tmp_path / "results").symlink_to(ROOT / "results")
    twin = (ROOT / "chapters" / "02_confirmation.py").read_text("utf-8")
    edited = twin.replace("\nMINE = GRAMMAR ", "\nMINE = replace(GRAMMAR, words=64) ")
    assert edited != twin
    (tmp_path / "chapters" / "02_confirmation.py").write_text(edited, "utf-8")
    monkeypatch.setenv(HOME, str(tmp_path))
    own = opened("02_confirmation", {}, Store(tmp_path / "artifacts"))
    assert {run.training.corpus.language.words for run in own.runs() if run.kind == "ModelMeasurement"} == {
        64
    }
    assert len(own.recorded("workstation")[0].index.unique("replicate")) == 16
