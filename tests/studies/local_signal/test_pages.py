"""The page on training: which runs it reads, and what its parameters change."""

from sameloss.studies.local_signal.pages import STUDY
from sameloss.studies.local_signal.statements import STATEMENTS


def open_page(**given):
    return STUDY.open("ii3_local_signal", {"preset": "smoke", **given}).config


def test_all_that_it_reads_is_among_its_runs(page, found):
    assert not found.flow.empty
    assert all(page.store.has(run) for run in page.runs())


def test_runs_have_their_own_keys():
    keys = [run.key for run in open_page().runs()]
    assert len(set(keys)) == len(keys)


def test_a_parameter_changes_what_it_is_about():
    first, other = open_page(), open_page(batch=7)
    assert first.descents[0].key != other.descents[0].key
    assert first.flow.key == other.flow.key
    assert open_page(noise=300).flow.key != first.flow.key
    assert open_page(multiplier=2).patches.sigma == 2 * first.patches.sigma
    assert len(open_page(seeds=4).descents) == open_page(seeds=4).seeds == 4


def test_the_statements_are_judged_from_its_runs(page):
    table = page.statements()
    assert table.id.tolist() == list(STATEMENTS)
    assert not page.tangent.empty
