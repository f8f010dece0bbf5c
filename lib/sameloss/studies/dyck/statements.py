"""Theorems 5.1 and F.6 and the lemmas of Appendix F as checks of their printed and corrected forms."""

from collections.abc import Iterator
from math import comb

import numpy as np
import pandas as pd
import torch
from scipy.linalg import circulant

from sameloss.studies.dyck import theory
from sameloss.studies.dyck.experiment import DyckSettings
from sameloss.studies.dyck.theory import ZERO_LOSS, Inputs, Transformer, lower_bound, run
from sameloss.studies.statement import Check, check_table, statements_of

STATEMENTS = statements_of("05_dyck")

EXACT = 1e-9
CLOSE = 1e-4  # relative distance from the bound at which a restart counts as having reached it
STRAIGHT = 0.02  # mean sine of the angle up to which neurons count as having the direction of the theory
SAMPLES = 5  # n at which probabilities are compared
DRAWS = 20_000  # Gaussian vectors in the check of Lemma F.7


def checks(
    settings: DyckSettings, searches: pd.DataFrame, transfer: pd.DataFrame, features: pd.DataFrame
) -> pd.DataFrame:
    """All checks of the statements.

    Args:
        settings: with T and m, and the seed of the few random models drawn here.
        searches: of all widths, from `dyck_minimisation`.
        transfer: from `dyck_transfer`.
        features: from `dyck_features`.

    """
    length, width, generator = settings.length, settings.width, settings.generator("checks")
    inputs, flattest = theory.pretraining_inputs(length), theory.transferable_solution(length, width)
    solved, fitting = searches[searches.loss <= ZERO_LOSS], features[features.loss <= ZERO_LOSS]
    # Solution (1) with Q = 0 and a random K, which still averages
    key = theory.random_start(length, 4, 1, generator, rank=1).key[0]
    uneven = theory.transferable_solution(length, 4)._replace(key=key)
    return check_table(
        [
            *_theorem(flattest, length, solved, transfer),
            *_bound(flattest, uneven, inputs, min(solved.ratio.min(), fitting.ratio.min())),
            *_neurons(flattest, inputs),
            *_hessian_and_rank(uneven, inputs),
            *_features(features, inputs),
            *_expectation(inputs, generator),
        ]
    )


def _theorem(
    flattest: Transformer, length: int, solved: pd.DataFrame, transfer: pd.DataFrame
) -> Iterator[Check]:
    """Theorem 5.1."""
    exact, printed = theory.missing_sign_probability(length, SAMPLES), 0.5**SAMPLES
    rows = transfer[(transfer.samples == SAMPLES) & (transfer.length == length)].set_index("solution")
    for name, row in rows.iterrows():
        text = f"failure at n = {SAMPLES} beyond 2⁻ⁿ, {name}"
        yield Check("thm51", text, max(0.0, row.exact - printed), 0.0, EXACT)
    row = rows.loc["solution (1)"]
    error = 4 * (exact * (1 - exact) / row.repetitions) ** 0.5
    yield Check("thm51", f"failures at n = {SAMPLES}, simulated", row.simulated, exact, error, printed=False)
    text = f"failures at n = {SAMPLES}, all spans counted"
    yield Check("thm51", text, row.exact, exact, 1e-6, printed=False)
    at_bound = solved[solved.ratio <= 1 + CLOSE]
    text = f"of {len(at_bound)} found at the bound, how many are not solution (1)"
    yield Check("thm51", text, int((at_bound.off_direction > STRAIGHT).sum()), 0, 0, printed=False)


def _bound(flattest: Transformer, uneven: Transformer, inputs: Inputs, smallest: float) -> Iterator[Check]:
    """Lemma F.1."""
    length, width = inputs.length, flattest.width
    trace, printed = float(theory.hessian_trace(flattest, inputs)), (4 / length) ** 0.5
    text = f"trace of a solution of {width} neurons, at least √(4/T)"
    yield Check("lemF1", text, min(trace, printed), printed, EXACT)
    residuals = theory.conditions(uneven, inputs)
    met = max(residual for name, residual in residuals.items() if name != "scores")
    ratio = float(theory.hessian_trace(uneven, inputs)) / lower_bound(length, 4)
    text = f"trace over its bound, Q = 0 and K random, (3) to (5) met to {met:.0e}"
    yield Check("lemF1", text, ratio, 1.0, EXACT)
    text = f"trace of solution (1) over 4/(m√T), m = {width}"
    yield Check("lemF1", text, trace / lower_bound(length, width), 1.0, EXACT, printed=False)
    residual = max(theory.conditions(flattest, inputs).values())
    text = "its largest residual of (3) to (5) and of Q, K"
    yield Check("lemF1", text, residual, 0.0, EXACT, printed=False)
    text = "smallest trace over 4/(m√T), found or of random features, at least 1"
    yield Check("lemF1", text, min(1.0, smallest), 1.0, EXACT, printed=False)


def _neurons(flattest: Transformer, inputs: Inputs) -> Iterator[Check]:
    """Fact F.2 and Lemma F.3."""
    length, target = inputs.length, inputs.target
    models = {"solution (1)": flattest, "kinked solution": theory.kinked_solution(length)}
    for name, model in models.items():
        wrong = (run(model, inputs).active > 0) & (target[:, None] * model.head <= 0)
        yield Check("factF2", f"activations of the wrong sign, {name}", int(wrong.sum()), 0, 0)
    rank = int(torch.linalg.matrix_rank(inputs.tokens.sum(1)))
    yield Check("factF2", "rank of all inputs stacked", rank, 2 * length, 0)
    values = run(flattest, inputs).preactivations[:, flattest.head < 0] * length**0.25
    unit = float(values[target < 0].mean())
    text = "V·h / c of neurons of negative u where g* = 1 (masked inputs)"
    yield Check("lemF3", text, float(values[target > 0].mean()) / unit, 1.0, EXACT)
    text = "least |V·h| / c of a neuron where it should be 0 (masked inputs)"
    yield Check("lemF3", text, float(values.abs().min()) / unit, 0.0, EXACT)
    downstream = theory.downstream_inputs(length)
    fraction = float((downstream.target.abs() == 1).double().mean())
    yield Check("lemF3", "share of downstream inputs with g* = ±1", fraction, 1.0, EXACT)
    counts = theory.allowed_neurons(6)
    text = "neurons that (3) and (4) allow, T = 6, and Lemma F.3 describes"
    yield Check("lemF3", text, counts.all, counts.described, 0)
    text = "neurons that they allow off the ReLU's kink, T = 6"
    yield Check("lemF3", text, counts.smooth, 1, 0, printed=False)
    signed = (downstream.target[:, None] * flattest.head.sign()).relu()
    expected = signed * flattest.value.abs().amax(1) / length
    off = float((run(flattest, downstream).features - expected).abs().max())
    yield Check("lemF3", "largest |σ(V·h)/c - max(0, ±g*)|", off, 0.0, EXACT, printed=False)


def _hessian_and_rank(uneven: Transformer, inputs: Inputs) -> Iterator[Check]:
    """Lemma F.4, for a model with a gradient by Q or K, and Lemma F.5."""
    ratio = 2 * theory.dense_hessian_trace(uneven, inputs) / float(theory.hessian_trace(uneven, inputs))
    yield Check("lemF4", "dense Hessian's trace over E‖∇f‖²", ratio, 1.0, EXACT)
    yield Check("lemF4", "dense Hessian's trace over 2 E‖∇f‖²", ratio / 2, 1.0, EXACT, printed=False)
    cyclic = {k: circulant([1] * (k + 1) + [-1] * k) for k in range(1, 13)}
    lost = sum(2 * k + 1 - np.linalg.matrix_rank(matrix) for k, matrix in cyclic.items())
    yield Check("lemF5", "what the ranks lack, k up to 12", int(lost), 0, 0)


def _features(features: pd.DataFrame, inputs: Inputs) -> Iterator[Check]:
    """Theorem F.6."""
    length, averages = inputs.length, inputs.tokens.mean(1)
    ratio = float((-inputs.target / averages[:, :length].sum(1)).mean())
    wrong, right = comb(length, length // 2 + 1), comb(length, length // 2)
    for text, value, printed, corrected in (
        ("‖h‖", float(averages.norm(dim=1).mean()), 1 / length, length**-0.5),
        ("y / -1ᵀh", ratio, length**0.5, length),
        ("inputs", len(averages.unique(dim=0)), (length // 2 - 1) * wrong, 2 * length * right),
    ):
        yield Check("thmF6", text, value, printed, EXACT)
        yield Check("thmF6", text, value, corrected, EXACT, printed=False)
    norms = features.groupby("width").least_norm.mean().tail(2)
    (wide, widest), growth = norms.index, norms.iloc[1] / norms.iloc[0]
    text = f"least ‖u‖² of a loss up to {theory.SMALL_LOSS}, m = {widest} over m = {wide}"
    yield Check("thmF6", text, growth, 1.0, 0.1)
    yield Check("thmF6", text, growth, widest / wide, 0.2, printed=False)
    losses = features.constructed_loss * features.width / theory.constructed_loss(length, 1)
    yield _mean("thmF6", "loss of the proof's head over (2T² + 3)/m", losses, 1.0, printed=False)
    squares = features.constructed_norm / (4 * features.width * length**2)
    yield _mean("thmF6", "‖u‖² of the proof's head over 4mT²", squares, 1.0, printed=False)
    enough = features[features.width >= theory.exact_width(inputs)]
    if len(enough):
        text = "largest loss of the best head at widths from T·C(T, T/2) + 2T"
        yield Check("thmF6", text, enough.loss.max(), 0.0, ZERO_LOSS, printed=False)


def _expectation(inputs: Inputs, generator: torch.Generator) -> Iterator[Check]:
    """Lemma F.7, with a(v) = -(2/√T)·⟨1, v^(c)⟩ from Stein's identity."""
    length, averages = inputs.length, inputs.tokens.mean(1)
    drawn = torch.randn(DRAWS, 2 * length, generator=generator, dtype=torch.float64) * length**0.5
    a = -2 / length**0.5 * drawn[:, :length].sum(1)
    values = ((drawn @ averages.T).relu() @ inputs.target) / len(averages) * a
    yield _mean("lemF7", "E[σ(v·h) a] over -√T·1ᵀh", pd.Series(values * length**0.5), 1.0)
    yield _mean("lemF7", "E[a²]/T, a constant", pd.Series(a.square() / length), 4.0)


def _mean(of: str, text: str, values: pd.Series, target: float, *, printed: bool = True) -> Check:
    """Check of a mean, within four standard errors."""
    return Check(of, text, values.mean(), target, 4 * values.std() / len(values) ** 0.5, printed)
