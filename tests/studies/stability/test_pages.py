"""The page: its runs, its tables side by side, its verdicts."""

import pandas as pd
import pytest

from sameloss.studies.stability import pages
from sameloss.studies.stability.claims import TOPICS, judged
from sameloss.studies.stability.pages import STUDY, found_by_record
from sameloss.studies.verdict import verdict_table


def test_all_of_a_size_are_one_stack(page):
    s = page.config
    assert len(page.trainings) == len(s.kinds) * len(s.sizes)
    assert all(run.seeds == s.all_seeds and run.pairs == s.pairs for run in page.trainings.values())
    assert len(page.runs()) == len(page.trainings) + len(s.swap_sizes) + 1


def test_tables_of_all_runs_stand_below_each_other(page, found):
    about = found.table[["kind", "size", "seed", "pair", "step"]]
    assert not about.duplicated().any()
    s = page.config
    assert len(about) == len(s.kinds) * len(s.sizes) * s.seeds * s.pairs * 3
    assert set(page.paths.kind) == set(found.falls.kind) == {kind.name for kind in s.kinds}


def test_verdicts_and_statements(page):
    assert page.verdicts().id.tolist() == [claim.id for topic in TOPICS for claim in topic.claims]
    assert set(page.statements().verdict) == {"holds"}
    assert page.seeds == 2


@pytest.mark.parametrize("name", ["laptop", "gpu", "paper"])
def test_longer_presets_say_what_they_would_compute(tmp_path, name):
    page = STUDY.open("ii2_stability", {"preset": name, "artifacts": str(tmp_path)})
    assert sum(run.effort for run in page.runs()) > 100


def test_a_record_is_judged_as_the_page_is(page, monkeypatch):
    kept = page.record_tables()
    monkeypatch.setattr(pages, "recorded", lambda table, preset, of: kept[table])
    monkeypatch.setattr(pages, "PRESETS", {"laptop-long": page.config})
    found = verdict_table(judged(found_by_record("laptop-long")))
    pd.testing.assert_frame_equal(found, page.verdicts())


def test_a_network_that_an_older_record_has_not_is_not_judged(page, monkeypatch):
    kept = page.record_tables()
    first = kept["twins"].kind == page.config.kinds[2].name
    older = kept | {"twins": kept["twins"][~first]}
    monkeypatch.setattr(pages, "recorded", lambda table, preset, of: older[table])
    monkeypatch.setattr(pages, "PRESETS", {"laptop-long": page.config})
    found = verdict_table(judged(found_by_record("laptop-long"))).set_index("id").verdict
    assert found["stab-beta-plain"] == "not testable here"
    assert found["stab-beta-brier"] == "not testable here"  # of every network, and one is not there
    assert found["stab-beta-momentum"] != "not testable here"


def test_a_measure_that_an_older_record_has_not_is_not_judged(page, monkeypatch):
    kept = page.record_tables()
    older = kept | {"twins": kept["twins"].drop(columns="gap clipped")}
    monkeypatch.setattr(pages, "recorded", lambda table, preset, of: older[table])
    monkeypatch.setattr(pages, "PRESETS", {"laptop-long": page.config})
    found = verdict_table(judged(found_by_record("laptop-long"))).set_index("id").verdict
    assert found["stab-beta-clipped"] == "not testable here"
    assert found["stab-beta-brier"] != "not testable here"
