"""Tables of languages: paper beside ours only where the shape is the paper's, and exact where claimed."""

import pytest

from sameloss.book.studies import open_page
from sameloss.languages.autoregressive.teacher import STAND_IN_NOTE
from sameloss.languages.paper import PAPER_HMM, PAPER_LANGUAGE
from sameloss.studies.same_loss.languages import measurements
from sameloss.studies.same_loss.tables import languages as language_tables


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("artifacts"))
    return open_page("a1_datasets", preset="smoke", sentences=60, artifacts=folder)


def test_published_entropies_stand_beside_the_papers_shapes_alone(page, opened):
    table = language_tables.entropy_table(page).set_index("language")
    published = table.published.dropna().to_dict()
    assert published == {"PCFG, paper's shape": 3.196, "HMM, paper's shape": 3.758}
    assert (table.low < table.entropy).all()
    assert (table["context tells"].drop("OPT stand-in") > 0).all()
    assert table["mean length"]["HMM, paper's shape"] == pytest.approx(16)
    assert language_tables.paper_kind(PAPER_LANGUAGE) == "PCFG"
    assert language_tables.paper_kind(PAPER_HMM) == "HMM"
    real = opened("a1_datasets", preset="paper", opt="facebook/opt-125m").config
    assert language_tables.paper_kind(real.domains["OPT"].language) == "OPT"
    assert language_tables.paper_kind(page.config.domains["OPT"].language) == ""
    assert language_tables.paper_kind(page.config.domains["PCFG"].language) == ""


def test_ceilings_are_per_cent_and_in_order(page):
    table = language_tables.ceiling_table(page)
    assert set(table.task) == {
        "root",
        "span2",
        "state2",
        "state3",
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
        language_tables.definition_and_pass(page, 5),
        language_tables.masks_summed_both_ways(page, 2, 5),
    ):
        assert (table.difference < 1e-12).all()
        assert table.language.nunique() >= 2


def test_entropy_by_masks_ends_at_the_blind_entropy(page):
    table = language_tables.entropy_by_masks(page, 50)
    blind = page.store.get(measurements(page.config)["HMM"]).blind
    assert table[table.language == "HMM"].entropy.iloc[-1] == pytest.approx(blind)


def test_zeros_are_named(page):
    table = language_tables.attainable(page).set_index("language")
    assert table.attainable.to_dict() == {
        "PCFG": "yes", "HMM": "yes", "PCFG, paper's shape": "no", "HMM, paper's shape": "no",
    }  # fmt: skip
    assert "has probability zero at position" in table.because["HMM, paper's shape"]


def test_the_corpus_holds_what_was_sampled_often(page):
    assert 0.9 < language_tables.corpus_overlap(page, 200) <= 1


def test_a_stand_in_says_so(page, capsys):
    table = language_tables.describe_opt(page)
    assert STAND_IN_NOTE in capsys.readouterr().out
    assert table.filter(like="topic").sum(axis=1).to_list() == pytest.approx([1] * 4)
