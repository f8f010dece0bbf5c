"""Tables of the chapter on the proofs, and what it shows in words."""

import numpy as np
import pandas as pd

from sameloss.studies.local_signal.proofs.bounds import erdos_bound, largest_mass, leading_bound, moments
from sameloss.studies.local_signal.proofs.statements import STATEMENTS, Proofs
from sameloss.studies.local_signal.tangent.runs import AT_SIGNAL, SOME_CLOSED
from sameloss.studies.local_signal.tangent.tables import filters_needed, rows_for_theorem
from sameloss.studies.statement import Judgement

SEEN_STATES = {
    "lemB5": "alpha",
    "lemB7": "loss",
    "lemB8": "within",
    "lemB9": "width",
    "lem31": "by_c",
    "lem33": "by_b",
    "noise-bound": "noise",
}
"""The number of a counter-example that its lemma is about."""

MEANINGS = {
    "alpha": "α, where 2√log k is said to be the most",
    "loss": "loss, which is said to bound c",
    "within": "P[|S| ≤ c + b + 10], at least 4/5",
    "width": "E|S|/√Var S, at least C k^-⅜",
    "by_c": "∂L/∂c, at most -A",
    "by_b": "∇_b, at least C",
    "noise": "noise's part over |c| log²k; printed bound 0.185",
}


def moment_table() -> pd.DataFrame:
    """Return (B.1) to (B.3) as printed beside what they are, by b/s."""
    rows = []
    for b in (-2.0, -1.0, 0.0, 1.0, 2.0):
        printed, true = moments(-abs(b), 1.0), moments(b, 1.0)
        row = {"b/s": b, "E/s, printed": printed.mean, "true": true.mean}
        rows.append({**row, "E of squares/s², printed": printed.second, "true ": true.second})
    return pd.DataFrame(rows)


def invariant_table(found: Proofs) -> pd.DataFrame:
    """Return what Lemmas B.5, B.6 and B.9 are about, at an error of 1 %, along k."""
    rows = found.rows
    return pd.DataFrame(
        {
            "k": rows.k.map("{:,.0f}".format),
            "α at an error of 1 %": rows.alpha,
            "2√log k": rows.limit,
            "error there": rows.error_at_limit.map(
                lambda error: "no signal" if np.isnan(error) else f"{error:.1e}"
            ),
            "k Var S/(c + b)²": rows.spread,
            "k^⅜ E|S|/√Var S": rows.width * rows.k**0.375,
            "log k E|S|/√Var S": rows.width * np.log(rows.k),
        }
    )


def bias_table(found: Proofs) -> pd.DataFrame:
    """Return ∇_b at an error of 1 % by k and c: Lemma 3.3 says that it is positive."""
    rows = found.rows
    names = {"by_b_1": "c = 1", "by_b_0.3": "c = 0.3", "by_b_0.03": "c = 0.03", "by_b_lowest": "c = 1/log⁴k"}
    return (
        rows[[*names]]
        .rename(columns=names)
        .set_axis(rows.k.map("{:,.0f}".format))
        .rename_axis("k")
        .reset_index()
    )


def example_table(found: Proofs) -> pd.DataFrame:
    """Return the states at which lemmas as printed are false, with the number that they are about."""
    rows = [
        {
            "place": STATEMENTS[of].place,
            "state": state["what"],
            "error": state["error"],
            "what": MEANINGS[SEEN_STATES[of]],
            "value": state[SEEN_STATES[of]],
        }
        for of, state in ((row["of"], row) for row in found.examples.to_dict("records"))
    ]
    return pd.DataFrame(rows)


def turn_table(found: Proofs) -> pd.DataFrame:
    """Return from which k on things are true; a step of a proof may begin later than its statement."""
    turns = found.turns
    return pd.DataFrame(
        {
            "place": [STATEMENTS[of].place for of in turns.of],
            "what": turns.step,
            "of": np.where(turns.exact, "the statement", "a step of its proof"),
            "from k": [rows_in_words(decades) for decades in turns.decades],
        }
    )


def rows_in_words(decades: float) -> str:
    """Write k by its decimal logarithm.

    >>> rows_in_words(2.896526), rows_in_words(17.3)
    ('788', '10^17.3')
    """
    return f"{10**decades:,.0f}" if decades < 7 else f"10^{decades:.1f}"


def small_ball_table() -> pd.DataFrame:
    """Return the largest mass of Σ ε_i in an interval of length 2, beside Lemma B.10's bound."""
    rows = []
    for n in (1, 2, 3, 5, 9, 12, 15):
        ones = np.ones(n)
        row = {
            "n": n,
            "Δ = 1, closed": largest_mass(ones, 1.0),
            "Δ just below 1": largest_mass(ones, 1 - 1e-9),
        }
        rows.append({**row, "Erdős, s = 1": erdos_bound(n, 1), "√(2/πn)": leading_bound(n, 1)})
    return pd.DataFrame(rows)


def several_table(found: Proofs) -> pd.DataFrame:
    """Return both sides of Lemma B.12 by the number of filters: q, and P over its bound."""
    own = found.several.assign(over=2 * found.several.heard / found.several.same)
    table = own.groupby("filters").agg(
        least=("same", "min"), median=("same", "median"), heard=("heard", "min"), over=("over", "min")
    )
    names = {"least": "least q", "median": "median q", "heard": "least P", "over": "least P/(q/2)"}
    return table.rename(columns=names).reset_index(names="m")


def judged_table(judged: pd.DataFrame, found: Proofs) -> pd.DataFrame:
    """Return the statements with their verdicts, what refutes them as printed, and from which k they hold."""
    turns = found.turns[found.turns.exact].groupby("of").decades.max()
    states = {*found.examples.of, "lemB6"}  # of Lemma B.6 it is Lemma B.5's state

    def refuted(row: pd.Series) -> str:
        if row.verdict == str(Judgement.HOLDS):
            return ""
        return "a state" if row.id in states else "an example"

    return pd.DataFrame(
        {
            "place": judged.place,
            "statement": judged.statement,
            "verdict": judged.verdict,
            "refuted by": judged.apply(refuted, axis=1),
            "from k": [rows_in_words(turns[of]) if of in turns.index else "" for of in judged.id],
            "correction": judged.correction,
        }
    )


def in_words(found: Proofs, judged: pd.DataFrame) -> str:
    """Return what the chapter shows in a few sentences, counter-findings first."""
    verdicts = judged.verdict.value_counts()
    counts = ", ".join(f"{verdict} ({count})" for verdict, count in verdicts.items())
    corrected = judged[judged.verdict == str(Judgement.CORRECTED)].place
    lowest = found.turns[found.turns.step.str.contains("c = 1/log")].decades.iloc[0]
    chain = found.turns[(found.turns.of == "lem33") & ~found.turns.exact].decades.iloc[0]
    at_signal, closed = (filters_needed(found.tangent, kind=kind) for kind in (AT_SIGNAL, SOME_CLOSED))
    parts = [
        f"Not as printed, but with one more hypothesis or another constant: {'; '.join(corrected)}.",
        f"At k = 1,000, that of Figure 3.3, Lemma 3.3's conclusion is false at an error of 1 % "
        f"(∇_b = {found.at(1000).by_b_1:.2f} at c = 1).",
        f"At its lowest c it begins at k = 10^{lowest:.1f}; the proof's own chain at 10^{chain:.1f}.",
        f"Theorem B.1's .999 begins at k = {rows_for_theorem():.1e}.",
        f"Half of the starts have a kernel with an error of at most 0.1 with {_in_filters(at_signal)}, "
        f"and with {_in_filters(closed)} if some thresholds are just above the signal.",
        f"The {len(judged)} statements, by verdict: {counts}.",
    ]
    return " ".join(parts)


def _in_filters(count: float) -> str:
    return "more filters than were tried" if np.isnan(count) else f"{count:.0f} filters"
