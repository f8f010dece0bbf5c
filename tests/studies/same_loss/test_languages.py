"""What is measured of languages, under honest names, and tables of it."""

from dataclasses import replace

import pytest

from sameloss.book.pages import open_page
from sameloss.languages.autoregressive import STAND_IN_NOTE
from sameloss.languages.paper import PAPER_HMM, PAPER_HMM_SHAPE, PAPER_SHAPE
from sameloss.studies.same_loss import languages
from sameloss.studies.same_loss.experiment import PRESETS
from sameloss.studies.same_loss.languages import ENTROPY, calibrations, language_runs, measurements


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("artifacts"))
    return open_page("a1_datasets", preset="smoke", sentences=60, artifacts=folder)


def test_published_entropies_stand_beside_the_papers_shapes_alone(page):
    table = languages.entropy_table(page.config, page.store).set_index("language")
    published = table.published.dropna().to_dict()
    assert published == {"grammar, paper's shape": 3.196, "HMM, paper's shape": 3.758}
    assert (table.low < table.entropy).all()
    assert (table["context tells"].drop("OPT stand-in") > 0).all()
    assert table["mean length"]["HMM, paper's shape"] == pytest.approx(16)


def test_ceilings_are_per_cent_and_in_order(page):
    table = languages.ceiling_table(page.config, page.store)
    assert set(table.task) == {
        "root",
        "span2",
        "state3",
        "state5",
        "topic",
        "span16",
        "span8",
        "state6",
        "state10",
    }
    assert (table.bayes >= table["hidden majority"] - 1e-9).all()
    assert (table.bayes >= table["likelihood accuracy"] - 1e-9).all()
    assert table.bayes.max() <= 100 + 1e-9
    assert table.bayes.min() > 100 / table.classes.max()


def test_both_ways_agree(page):
    for table in (
        languages.definition_and_pass(page.config, 5),
        languages.masks_summed_both_ways(page.config, 2, 5),
    ):
        assert (table.difference < 1e-12).all()
        assert table.language.nunique() >= 2


def test_entropy_by_masks_ends_at_the_blind_entropy(page):
    table = languages.entropy_by_masks(page.config, 50)
    blind = page.store.get(measurements(page.config)["HMM"]).blind
    assert table[table.language == "HMM"].entropy.iloc[-1] == pytest.approx(blind)


def test_zeros_are_named(page):
    table = languages.attainable(page.config).set_index("language")
    assert table.attainable.to_dict() == {
        "grammar": "no", "HMM": "yes", "grammar, paper's shape": "no", "HMM, paper's shape": "no",
    }  # fmt: skip
    assert "has probability zero at position" in table.because["HMM, paper's shape"]


def test_a_stand_in_says_so(page, capsys):
    table = languages.describe_opt(page.config)
    assert STAND_IN_NOTE in capsys.readouterr().out
    assert table.filter(like="topic").sum(axis=1).to_list() == pytest.approx([1] * 4)


def test_languages_are_named_honestly(opened):
    plain = opened("a1_datasets", preset="laptop").config
    names = ["grammar", "HMM", "OPT stand-in", "grammar, paper's shape", "HMM, paper's shape"]
    assert list(measurements(plain)) == names
    real = opened("a1_datasets", preset="paper", opt="facebook/opt-125m").config
    assert list(measurements(real)) == ["grammar", "HMM", "facebook/opt-125m"]


def test_every_language_is_measured_with_its_tasks(opened):
    experiment = opened("a1_datasets", sentences=70).config
    own = {s.name: s for s in experiment.setups}
    found = measurements(experiment)
    assert {run.sentences for run in found.values()} == {70}
    assert found["grammar"].tasks == own["grammar"].tasks
    assert found["grammar"].language == experiment.replicate(own["grammar"]).language
    assert found["HMM, paper's shape"].language == PAPER_HMM


def test_a_real_opt_is_measured_on_few_sentences(opened):
    real = opened("a1_datasets", preset="paper", opt="facebook/opt-125m").config
    assert {name: run.sentences for name, run in measurements(real).items()} == {
        "grammar": 100_000, "HMM": 100_000, "facebook/opt-125m": 100,
    }  # fmt: skip
    few = measurements(replace(real, language_sentences=30))
    assert few["facebook/opt-125m"].sentences == 30


def test_calibrations_begin_with_the_papers_shapes_and_aim_at_its_entropies():
    found = calibrations(PRESETS["smoke"])
    assert [run.shape for run in found.values()] == [PAPER_SHAPE, PAPER_HMM_SHAPE]
    assert {name: run.entropy for name, run in found.items()} == {
        "grammar": ENTROPY["grammar"],
        "HMM": ENTROPY["hmm"],
    }
    assert {run.sentences for run in found.values()} == {500}
    assert {run.sentences for run in calibrations(PRESETS["paper"]).values()} == {5000}


def test_all_of_them():
    settings = PRESETS["laptop"]
    assert language_runs(settings) == [*measurements(settings).values(), *calibrations(settings).values()]
