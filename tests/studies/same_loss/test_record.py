"""What the record answers follows from its one table, by a few lines of another hand."""

import numpy as np
import pandas as pd
import pytest

from sameloss.store.location import results_folder
from sameloss.studies.same_loss.pages import recorded_answers

TABLE = results_folder() / "workstation" / "measurements.csv"
MAIN_LR = {"grammar": 0.005, "hmm": 0.00125}


def by_hand(language, quantity, change):
    """Interpolate both sizes' complete trainings in log KL to the smallest one that both reach."""
    found, table = [], pd.read_csv(TABLE)
    rows = table[(table.language == language) & (table.stage == "descent") & (table.lr == MAIN_LR[language])]
    for _, own in rows.groupby("replicate"):
        read = own[(own.quantity == quantity) & own.reading.isin(["expanded", np.nan])]
        value = change(read.groupby(["steps", "model"]).value.mean().unstack())[::-1]
        kl = np.log(own[own.quantity == "kl"].pivot(index="steps", columns="model", values="value"))[::-1]
        target = max(kl.d24.min(), kl.d96.min())
        small, large = (np.interp(target, kl[m].cummax(), value[m]) for m in ("d24", "d96"))
        found.append(large - small)
    return np.mean(found)


@pytest.fixture(scope="module")
def answers():
    found = recorded_answers()
    return found[found.row == "main"].set_index(["question", "language"])


def test_the_gain_of_size(answers):
    ours = by_hand("grammar", "accuracy", lambda accuracy: accuracy)
    assert ours == pytest.approx(answers.loc[("size", "grammar")]["mean"], abs=1e-6)


def test_the_ratio_of_traces(answers):
    ours = np.exp(-by_hand("grammar", "trace", np.log))
    assert ours == pytest.approx(answers.loc[("flatness by size", "grammar")]["mean"], rel=1e-6)


def test_the_change_along_the_plateau(answers):
    table = pd.read_csv(TABLE)
    rows = table[(table.language == "grammar") & (table.stage == "plateau")]
    read = rows[(rows.quantity == "accuracy") & (rows.reading == "expanded")]
    mean = read.groupby("steps").value.mean()
    assert mean[7500] - mean[1250] == pytest.approx(answers.loc[("steps", "grammar")]["mean"], abs=1e-6)


def test_the_gain_over_the_lookup_table(answers):
    table = pd.read_csv(TABLE).query("language == 'grammar' and quantity == 'accuracy'")
    lookup = table[table.reading == "lookup, expanded"].value.mean()
    ends = table[(table.stage == "descent") & (table.lr == 0.005) & (table.steps == 2500)]
    worst = ends[ends.reading == "expanded"].groupby("model").value.mean().min()
    assert worst - lookup == pytest.approx(answers.loc[("lookup", "grammar")]["mean"], abs=1e-6)
