"""The page on decision lists: which runs it reads, and what its parameters change."""

from dataclasses import replace

from sameloss.store.pool import compute_all
from sameloss.studies.decision_lists.experiment import PRESETS, TaskShape
from sameloss.studies.decision_lists.pages import STUDY
from sameloss.studies.decision_lists.statements import STATEMENTS
from sameloss.studies.decision_lists.tables import joint_by_vocabulary, joint_table


def open_page(**given):
    return STUDY.open("ii4_decision_lists", {"preset": "smoke", **given})


def test_all_that_its_tables_read_is_among_its_runs(page, tables):
    assert not tables.flows.empty
    assert all(page.store.has(run) for run in page.runs())


def test_runs_have_their_own_keys():
    keys = [run.key for run in open_page().runs()]
    assert len(set(keys)) == len(keys)


def test_both_matrices_are_trained_on_larger_tasks_where_a_preset_has_some(page):
    larger = TaskShape(20, 4, 3)
    own = replace(page.config, larger=(larger,))
    wider = replace(page, config=own)
    assert len(wider.runs()) == len(page.runs()) + own.seeds
    compute_all(wider.store, wider.runs(), 1)
    table = joint_by_vocabulary(wider.tables)
    assert table["vocabulary L"].tolist() == [own.task.words] * own.seeds + [20] * own.seeds
    assert table.drop(columns="vocabulary L")[: own.seeds].equals(joint_table(page.tables))
    last = wider.store.get(wider.both(100, larger)).accuracy.iloc[-1]
    assert table["accuracy at the end"].iloc[own.seeds] == last
    assert [task.words for task in PRESETS["gpu"].larger] == [400, 800]


def test_a_parameter_changes_what_it_is_about():
    first, other = open_page(), open_page(steps=50)
    assert first.both(100).key != other.both(100).key
    assert first.flows.key == other.flows.key
    assert first.alone(100, 0.3).key == other.alone(100, 0.3).key
    assert open_page(vocabulary=16).flows.key != first.flows.key
    assert open_page(readout=20).alone(100, 0.3).readout == 20
    assert 20 in open_page(readout=20).flows.readouts


def test_seeds_are_those_of_everything_drawn():
    page = open_page(seeds=3)
    assert page.seeds == 3
    assert len({run.seed for run in page.runs() if hasattr(run, "how") and hasattr(run, "looked")}) == 3


def test_the_statements_are_judged_from_its_runs(page):
    table = page.statements()
    assert table.id.tolist() == list(STATEMENTS)
    assert (table.checks > 0).all()
    assert page.verdicts().empty
