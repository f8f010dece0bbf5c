"""The page: its runs, its tables side by side, its verdicts."""

from dataclasses import replace
from functools import partial

import pandas as pd
import pytest

from sameloss.images import ImageSource
from sameloss.store.pool import compute_all
from sameloss.studies.drawing import legend, panels
from sameloss.studies.local_signal_images import experiment as settings
from sameloss.studies.local_signal_images import figures, pages
from sameloss.studies.local_signal_images import tables as shown
from sameloss.studies.local_signal_images.backgrounds import ANY_CORNER
from sameloss.studies.local_signal_images.claims import TOPICS, judged
from sameloss.studies.local_signal_images.pages import STUDY, found_by_record
from sameloss.studies.local_signal_images.published import GAUSSIAN
from sameloss.studies.verdict import verdict_table


def test_every_scene_and_seed_is_a_run(page):
    s = page.config
    assert len(page.comparisons) == len(s.scenes) * s.seeds
    lazy, narrower = s.seeds, s.seeds * len(s.widths.divisors)
    assert len(page.runs()) == len(page.comparisons) + lazy + narrower
    assert len({run.key for run in page.runs()}) == len(page.runs())


def test_tables_of_all_runs_stand_below_each_other(page, found):
    about = found.table[["size", "placement", "noise", "seed", "measure", "of"]]
    assert not about.duplicated().any()
    assert set(found.table["size"]) == {"8-on-16", "4-on-8"}
    assert found.lazy[["seed", "scale"]].drop_duplicates().shape[0] == 2 * 2
    assert found.by_width("network").shape == found.by_width("NTK, GCV").shape == (2, 2)


def test_verdicts_and_statements(page):
    assert page.verdicts().id.tolist() == [claim.id for topic in TOPICS for claim in topic.claims]
    assert len(page.statements()) == 4
    assert page.seeds == 2


@pytest.mark.parametrize("name", ["laptop", "laptop-long", "gpu", "paper"])
def test_longer_presets_say_what_they_would_compute(tmp_path, name):
    page = STUDY.open("ii3_images", {"preset": name, "artifacts": str(tmp_path)})
    assert page.runs()[0].effort > 1
    assert page.topics == TOPICS


def test_a_record_is_judged_as_the_page_is(page, monkeypatch):
    kept = page.record_tables()
    monkeypatch.setattr(pages, "recorded", lambda table, preset, of: kept[table])
    found = verdict_table(judged(found_by_record("laptop-long")))
    pd.testing.assert_frame_equal(found, page.verdicts())


def test_vehicles_among_animals_have_a_page(page, monkeypatch):
    """The structure of the thesis' own settings, on digits: a network beside its linearisation."""
    few = ImageSource(pool=60, tested=40, only=(0, 1, 8, 9))
    animals = replace(few, only=(2, 3, 4))
    monkeypatch.setattr(settings, "CIFAR_VEHICLES", few)
    monkeypatch.setattr(settings, "CIFAR_ANIMALS", animals)
    monkeypatch.setattr(settings, "EPOCH", 2 * few.pool)
    brief = {"linear": page.config.descent, "kernel": None, "lazy": None, "widths": None}
    thesis = replace(page.config, theirs=GAUSSIAN, **brief)
    images = replace(settings._vehicles(thesis), examples=40)
    vehicles = replace(page, config=images)
    compute_all(vehicles.store, vehicles.runs(), 1)
    verdicts = vehicles.verdicts().set_index("id").verdict
    assert verdicts["img-own-wrn"] == "not testable here"
    drawn = panels(3)
    for draw in (figures.kept, figures.lazy, figures.width, partial(figures.accuracy, placement=ANY_CORNER)):
        draw(vehicles.found, ax=drawn[0])
    assert shown.in_words(vehicles.found)
    assert set(vehicles.found.at(ANY_CORNER).noise) == {0.0, 0.25, 0.5, 0.75, 1.0}


def test_a_preset_without_kernels_lazy_training_and_widths_has_a_page(page):
    """As `gpu` and `paper` are: the linearised network stands for the kernel."""
    changes = {"kernel": None, "lazy": None, "widths": None, "linear": page.config.descent}
    large = replace(page, config=replace(page.config, **changes))
    compute_all(large.store, large.runs(), 1)
    found = large.found
    (ax,) = panels(1)
    legend(figures.lazy(found, ax))
    legend(figures.width(found, ax))
    for draw in (figures.kept, partial(figures.accuracy, placement=found.placement)):
        draw(found, ax=ax)
    assert shown.lazy_table(found).empty
    assert shown.width_table(found).empty
    assert "linearised" in shown.accuracy_table(found).iloc[:, 0].str.cat()
    assert "lazy training the network" not in shown.in_words(found)
    verdicts = large.verdicts().set_index("id").verdict
    assert (verdicts[["img-lazy", "img-width"]] == "not testable here").all()
