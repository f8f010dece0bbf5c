"""What is checked of training: it passes where all is right, and each statement can be refuted."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.local_signal import statements
from sameloss.studies.local_signal.experiment import PRESETS
from sameloss.studies.local_signal.statements import STATEMENTS, checks
from sameloss.studies.statement import statement_table

LAPTOP = PRESETS["laptop"]


def grown_flow(last=1e7):
    """A flow in which all grows, as slowly as that of Figure 3.3."""
    step = np.append(0, np.geomspace(1, last, 200))
    power = np.maximum(step, 1) ** 0.3
    accuracy = np.interp(
        np.log(np.maximum(step, 1)), np.log([1, 1e4, 2.5e6, 1e7]), [0.55, 0.7825, 0.99, 0.995]
    )
    return pd.DataFrame(
        {"step": step, "c": 0.1 * power, "v": 0.0, "b": -0.01 * power**1.5, "accuracy": accuracy}
    )


@pytest.fixture
def ideal(found):
    """Everything as it should be, at the settings of Figure 3.3."""
    flow = grown_flow()
    looks = flow[(flow.step >= 1) & (flow.step <= 3000)]
    seeds = [looks.assign(seed=seed, start=1e-7, v=0.01) for seed in (100, 101)]
    ends = [(-0.5, 2.0, True), (-0.5, 5.0, True), (-0.5, 9.0, False), (0.5, 2.0, False)]
    dead = pd.DataFrame(ends, columns=["start", "multiple", "dead"])
    return replace(found, settings=LAPTOP, flow=flow, sgd=pd.concat(seeds, ignore_index=True), dead=dead)


def verdicts(found):
    return statement_table(STATEMENTS, checks(found)).set_index("id").verdict


def test_all_holds_where_all_is_as_it_should_be(ideal):
    own = verdicts(ideal)
    assert own.pop("first-b") == own.pop("features") == "holds as corrected"
    assert set(own) == {"holds"}, own[own != "holds"]


def changed(table, column, change):
    return table.assign(**{column: change(table[column])})


@pytest.mark.parametrize(
    ("statement", "part", "column", "change"),
    [
        ("grows", "flow", "b", lambda b: -b),
        ("grows", "sgd", "accuracy", lambda a: 1 - a),
        ("sampled", "sgd", "c", lambda c: 1.2 * c),
        ("sampled", "sgd", "accuracy", lambda a: a + 0.03),
        ("across", "sgd", "v", lambda v: v + 1),
        ("reached", "flow", "accuracy", lambda a: a + 0.02),
        ("above-linear", "best", "network", lambda own: own - 0.5),
        ("dead", "dead", "dead", lambda dead: ~dead),
        ("alive", "dead", "dead", lambda dead: dead | True),
    ],
)
def test_each_can_be_refuted(ideal, statement, part, column, change):
    wrong = replace(ideal, **{part: changed(getattr(ideal, part), column, change)})
    assert verdicts(wrong)[statement] == "fails: counter-example"


def test_the_correction_for_several_features_can_be_refuted(ideal, monkeypatch):
    monkeypatch.setattr(statements, "filter_each", lambda patches, features: 0.9)
    assert verdicts(ideal)["features"] == "fails: counter-example"


def test_other_settings_say_nothing_of_the_figure(found):
    assert verdicts(found)["reached"] == verdicts(found)["sampled"] == "not testable here"
