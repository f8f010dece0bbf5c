"""The Fisher trace of every family of language models in `transformers` that can be built small."""

import pandas as pd
import pytest
from trace_families import FAMILIES, FILE, answer

RECORDED = pd.read_csv(FILE)


def test_every_family_has_an_answer():
    assert list(zip(RECORDED["head"], RECORDED.family, strict=True)) == FAMILIES


def test_no_answer_is_wrong():
    """Squared norms agree with loops over gradients to 1e-8, or to 1e-4 where a model computes in float32."""
    assert set(RECORDED.outcome) == {"right", "refused", "not tried"}
    assert (RECORDED.outcome == "right").mean() > 0.75


@pytest.mark.book
@pytest.mark.parametrize(("head", "family"), FAMILIES)
def test_answers_are_those_recorded(head, family):
    (recorded,) = RECORDED[(RECORDED["head"] == head) & (RECORDED.family == family)].to_dict("records")
    assert answer(head, family) == recorded
