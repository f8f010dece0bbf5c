"""Measurements of languages as runs: tables come back as they were made."""

import pytest

from sameloss.languages import HMMSpec, PCFGSpec, TeacherSpec
from sameloss.languages.entropy import blind_entropy
from sameloss.languages.grammars.formats import GrammarText
from sameloss.languages.language import ceilings
from sameloss.runs.sampling import Calibration, LanguageMeasurement
from sameloss.store.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_a_grammar_is_measured(store, tiny_spec):
    found = store.get(LanguageMeasurement(tiny_spec, ("root", "span2"), 300, 0))
    assert found.entropy.count == 300
    assert found.blind == pytest.approx(blind_entropy(tiny_spec.build()), rel=1e-12)
    assert found.lengths.probability.tolist() == pytest.approx([0, 0, 0, 1])
    assert found.mean_length == pytest.approx(4)
    assert found.words.share.sum() == pytest.approx(1)
    assert found.ceilings.task.tolist() == ["root", "span2"]
    assert set(found.ceilings) == {"task", *ceilings.__annotations__["return"]._fields}


def test_a_teacher_is_measured_as_far_as_it_can_be(store):
    spec = TeacherSpec(words=4, max_length=3, d_model=4)
    found = store.get(LanguageMeasurement(spec, ("topic",), 200, 0))
    assert found.entropy.mean < found.blind == pytest.approx(blind_entropy(spec.build()))
    assert found.mean_length < 3
    large = store.get(LanguageMeasurement(TeacherSpec(d_model=4), (), 20, 0))
    assert large.blind != large.blind
    assert large.lengths.probability.isna().all()
    assert 1 < large.mean_length <= 8
    assert large.ceilings.empty


def test_a_readers_grammar_is_its_text_in_the_key(store):
    run = LanguageMeasurement(GrammarText("S A A 1\nA x 0.5\nA y 0.5"), ("root",), 50, 0)
    assert store.get(run).blind == pytest.approx(0.693147, abs=1e-6)
    assert run.canonical()["language"]["text"].startswith("S A A")


@pytest.mark.parametrize(
    ("shape", "mean_length"),
    [(PCFGSpec(2, 2, 3, 2, 4, 8, 4, 1.0, 1.0), 3.5), (HMMSpec(4, 8, 4, 1, 1.0, 1.0), None)],
)
def test_a_calibration_is_a_table_of_what_was_tried(store, shape, mean_length):
    table = store.get(Calibration(shape, 1.4, mean_length, (0.01, 5.0), 300, 0))
    last = table.iloc[-1]
    assert abs(last["mean"] - 1.4) <= max(0.005, last.standard_error)
    assert len(table) >= 3
    assert (table["standard_error"] > 0).all()
