"""Images on backgrounds, networks and their training, tangent kernels and ridge regression."""

import json
import math

import numpy as np
import pytest
import tangent_peer
import torch
from sklearn.kernel_ridge import KernelRidge
from torch import nn
from torch.func import functional_call, jacrev

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.images import Images
from sameloss.studies.local_signal_images import theory
from sameloss.studies.local_signal_images.theory import (
    ANY_CORNER,
    ANYWHERE,
    ONE_CORNER,
    LogisticDescent,
    PooledCNN,
    Scene,
    WideBlock,
    WideResNet,
    accuracy,
    active_fractions,
    batch_outputs,
    corners,
    cross_validation,
    draw_sample,
    fits,
    jacobian,
    mean_loss,
    network_size,
    outputs,
    placed,
    products,
    standardised,
    tangent_kernel,
    train,
)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


# Backgrounds: images are where they should be, noise is elsewhere, and what cannot be is refused.


def images(pool=30, tested=20, side=4):
    x = torch.rand(pool + tested, 2, side, side, generator=rng())
    return Images(x, torch.arange(pool + tested) % 2, pool, 2)


def test_an_image_is_where_it_should_be_and_the_background_elsewhere():
    x, at = images().x[:3], torch.tensor([[0, 0], [2, 5], [4, 1]])
    around = torch.full((3, 2, 9, 9), 7.0)
    actual = placed(x, at, around)
    for own, (row, column), whole in zip(x, at.tolist(), actual, strict=True):
        assert torch.equal(whole[:, row : row + 4, column : column + 4], own)
        whole[:, row : row + 4, column : column + 4] = 7.0
    assert (actual == 7.0).all()
    assert (around == 7.0).all()


def test_corners_are_those_of_the_placement():
    assert (corners(ONE_CORNER, 50, 8, rng(1)) == 0).all()
    any_corner = corners(ANY_CORNER, 200, 8, rng(1))
    assert set(map(tuple, any_corner.tolist())) == {(0, 0), (0, 8), (8, 0), (8, 8)}
    anywhere = corners(ANYWHERE, 2000, 8, rng(1))
    assert len(set(map(tuple, anywhere.tolist()))) == 81
    assert anywhere.double().mean() == pytest.approx(4, abs=0.2)
    assert (corners(ANYWHERE, 5, 0, rng(1)) == 0).all()


@pytest.mark.parametrize("noise", [0.0, 0.5, 2.0])
def test_the_background_has_the_noise_and_pixels_of_the_pool_have_one(noise):
    actual = draw_sample(images(), Scene(ONE_CORNER, 16, noise), 30, 0)
    beyond = torch.cat([actual.x, actual.x_test])[:, :, 4:, 4:]
    assert float(beyond.std()) == pytest.approx(noise, rel=0.05)
    assert set(actual.y.tolist()) == {-1.0, 1.0}
    assert actual.chance == 0.5
    x = standardised(images())[:30]
    assert (float(x.mean()), float(x.std())) == pytest.approx((0, 1), abs=1e-5)


def test_images_keep_their_labels_and_are_drawn_once():
    source = images()
    actual = draw_sample(source, Scene(ONE_CORNER, 6, 1.0), 30, 3)
    own = standardised(source)
    rows = [(own == image[:, :4, :4]).flatten(1).all(1).nonzero().item() for image in actual.x]
    assert sorted(rows) == list(range(30))
    assert torch.equal(actual.y, 2.0 * source.y[rows] - 1)
    assert torch.equal(actual.x_test[:, :, :4, :4], own[30:])


def test_backgrounds_differ_between_seeds_and_between_training_and_test():
    first, again, other = (draw_sample(images(), Scene(ANYWHERE, 8, 1.0), 20, seed) for seed in (0, 0, 1))
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.x_test, other.x_test)
    assert not torch.equal(first.x[:20], first.x_test[:20])


def test_shrunk_images_are_means_of_their_pixels():
    actual = draw_sample(images(), Scene(ONE_CORNER, 4, 0.0, shrunk=2), 5, 0)
    expected = standardised(images())[30:].unfold(2, 2, 2).unfold(3, 2, 2).mean((-2, -1))
    torch.testing.assert_close(actual.x_test[:, :, :2, :2], expected)


def test_images_of_one_class_are_refused():
    alike = images()._replace(y=torch.ones(50, dtype=torch.long))
    with pytest.raises(ParameterError, match="these images have one"):
        draw_sample(alike, Scene(ANYWHERE, 8, 1.0), 5, 0)


# Networks by their parameters, their first values, and what they can be called with.


def test_sizes():
    assert network_size(PooledCNN(), 1, 8)[0] == 160 + 16 * 32 * 9 + 32 + 32 * 32 * 9 + 32 + 33
    assert network_size(WideResNet(10), 3, 8)[0] == pytest.approx(7.43e6, rel=2e-3)  # 7.4 million
    assert network_size(PooledCNN((3,), (1,)), 2, 4)[1] == 16 * 9 * 2 * 3 + 3


def test_the_small_network_is_convolutions_relus_a_mean_and_a_map():
    """By hand, from its parameters."""
    network = PooledCNN((3,), (2,))
    weights, x = network.initial_weights(1, 0), torch.rand(4, 1, 6, 6)
    h = torch.nn.functional.conv2d(x, weights["0.weight"], weights["0.bias"], 2, 1).relu().mean((-2, -1))
    expected = h @ weights["4.weight"][0] + weights["4.bias"]
    torch.testing.assert_close(functional_call(network.build(1), weights, (x,)), expected)


def test_first_parameters_are_hes_and_the_seeds_own():
    drawn = PooledCNN((40, 400), (1, 1)).initial_weights(1, 3)
    assert drawn["2.weight"].std() == pytest.approx((2 / 360) ** 0.5, rel=0.02)
    assert drawn["6.weight"].std() == pytest.approx(1 / 400**0.5, rel=0.1)
    assert (drawn["0.bias"] == 0).all()
    assert not torch.equal(drawn["0.weight"], PooledCNN((40, 400), (1, 1)).initial_weights(1, 4)["0.weight"])


def test_seven_convolutions_of_three_by_three_and_three_ways_around():
    network = WideResNet(2)
    model = network.build(3)
    sizes = [layer.kernel_size for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    assert (sizes.count((3, 3)), sizes.count((1, 1))) == (7, 3)
    assert not list(model.buffers())  # nothing is kept between batches
    assert functional_call(model, network.initial_weights(3, 0), (torch.rand(5, 3, 8, 8),)).shape == (5,)


def test_a_block_adds_what_goes_around_and_normalises_by_the_batch():
    block, x = WideBlock(4, 4, 1), torch.rand(3, 4, 5, 5)
    with pytest.raises(AssertionError):  # an output depends on what else is in the batch
        torch.testing.assert_close(block(x)[:2], block(x[:2]))
    nn.init.zeros_(block.second.weight)
    torch.testing.assert_close(block(x), block.ready(x))
    assert WideBlock(4, 8, 2)(x).shape == (3, 8, 3, 3)


# Training: rates, orders, scales, and what diverges.

LINEAR = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Flatten(0))

X, Y = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]]), torch.tensor([1.0, -1.0, -1.0])

START, ZERO = {"0.weight": torch.tensor([[0.1, 0.2]])}, {"0.weight": torch.zeros(1, 2)}


def trained(start, descent, **how):
    return train(LINEAR, start, X, Y, descent, rng(), **how)["0.weight"]


def test_the_loss_and_the_accuracy():
    logits = torch.tensor([0.0, 2.0, -1.0])
    expected = (math.log(2) + math.log1p(math.exp(2)) + math.log1p(math.exp(-1))) / 3
    assert float(mean_loss(logits, Y)) == pytest.approx(expected)
    assert accuracy(logits, Y) == pytest.approx(1 / 3)  # no logit is no answer


@pytest.mark.parametrize("optimiser", ["Adam", "SGD"])
def test_a_step_is_that_of_the_gradient(optimiser):
    actual = trained(START, LogisticDescent(0.1, 3, 1, optimiser))
    pull = -(Y * torch.sigmoid(-Y * (X @ START["0.weight"][0]))) @ X / 3
    step = pull if optimiser == "SGD" else pull.sign()
    torch.testing.assert_close(actual[0], START["0.weight"][0] - 0.1 * step, atol=1e-4, rtol=0)
    assert torch.equal(START["0.weight"], torch.tensor([[0.1, 0.2]]))


def test_a_linear_model_is_the_same_at_every_scale():
    """α(f - f₀) with the rate lr/α² moves its output alike, from zero; what is linear is lazy already."""
    descent = LogisticDescent(0.1, 3, 20, "SGD")
    plain, scaled = trained(ZERO, descent), trained(ZERO, descent, scale=100.0)
    torch.testing.assert_close(100 * scaled, plain, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(trained(ZERO, descent, linear=True), plain)
    torch.testing.assert_close(trained(START, descent, scale=1.0, linear=True), plain)


def test_the_first_output_is_taken_off():
    """From anywhere the first step of a scaled training is that from output zero."""
    descent = LogisticDescent(0.1, 3, 1, "SGD")
    torch.testing.assert_close(trained(START, descent, scale=1.0) - START["0.weight"], trained(ZERO, descent))


def test_outputs_of_all_images_are_those_of_each():
    x = torch.rand(600, 2, generator=rng())
    torch.testing.assert_close(outputs(LINEAR, START, x), x @ START["0.weight"][0])


def test_a_diverged_training_is_one_sentence():
    with pytest.raises(
        NonFiniteLoss, match=r"^Training diverged at the learning rate 0\.1; choose a smaller"
    ):
        trained({"0.weight": torch.full((1, 2), torch.nan)}, LogisticDescent(0.1, 3, 1))


def test_units_that_fire_for_some_images_count_in_part():
    model = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1), nn.ReLU(), nn.Flatten(0))
    weights = {
        "0.weight": torch.tensor([[1.0], [-1.0], [0.0], [0.0]]),
        "0.bias": torch.tensor([0.0, 0.0, 1.0, -1.0]),  # one fires always, one never
        "2.weight": torch.zeros(1, 4),
        "2.bias": torch.tensor([0.5]),
    }
    x = torch.tensor([[1.0], [2.0], [3.0], [-1.0]])
    assert active_fractions(model, weights, x) == [(3 + 1 + 4 + 0) / 16, 1.0]


def test_pixels_count_each_and_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.Identity(), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(0))
    x = torch.tensor([[[[1.0, -1.0], [0.0, 2.0]]]]).expand(300, 1, 2, 2)
    assert active_fractions(model, {}, x) == [0.5]
    assert not any(layer._forward_hooks for layer in model.modules())


# Kernel ridge regression against scikit-learn, and cross-validation against examples that are left out.

SIZE = 12


@pytest.fixture
def kernel():
    features = torch.randn(20, 30, dtype=torch.float64, generator=rng())
    return features @ features[:SIZE].T


@pytest.fixture
def y():
    return torch.sign(torch.randn(SIZE, generator=rng(1))).double()


def test_predictions_are_scikit_learns(kernel, y):
    first = torch.linspace(-1, 1, 20, dtype=torch.float64)
    actual = fits(kernel, first, y, (0.01, 1.0))
    unit = float(torch.trace(kernel[:SIZE])) / SIZE
    for own, ridge in zip(actual, (0.01, 1.0), strict=True):
        peer = KernelRidge(alpha=ridge * unit, kernel="precomputed")
        peer.fit(kernel[:SIZE].numpy(), (y - first[:SIZE]).numpy())
        expected = first[SIZE:].numpy() + peer.predict(kernel[SIZE:].numpy())
        np.testing.assert_allclose(own.outputs.numpy(), expected, rtol=1e-9)
        assert own.ridge == pytest.approx(ridge)


def score(kernel, y, ridge):
    values, vectors = torch.linalg.eigh(kernel)
    return cross_validation(values, vectors.T @ y, ridge)


def test_cross_validation_is_the_formula(kernel, y):
    own = kernel[:SIZE]
    left = torch.eye(SIZE) - own @ torch.linalg.inv(own + 3.0 * torch.eye(SIZE))
    expected = SIZE * float((left @ y).square().sum()) / float(torch.trace(left)) ** 2
    assert score(own, y, 3.0) == pytest.approx(expected)
    ridge = 3.0 * SIZE / float(torch.trace(own))
    assert fits(kernel, torch.zeros(20), y, (ridge,))[0].score == pytest.approx(expected)


def test_with_equal_leverages_it_is_the_leave_one_out_error(y):
    """A circulant kernel: every example has the same leverage, and the score is exactly that of refitting."""
    row = torch.exp(-torch.minimum(torch.arange(SIZE), SIZE - torch.arange(SIZE)).double())
    own = torch.stack([row.roll(shift) for shift in range(SIZE)])
    errors = []
    for out in range(SIZE):
        rest = [at for at in range(SIZE) if at != out]
        solved = torch.linalg.solve(own[rest][:, rest] + 0.3 * torch.eye(SIZE - 1), y[rest])
        errors.append(float(y[out] - own[out, rest] @ solved) ** 2)
    assert score(own, y, 0.3) == pytest.approx(np.mean(errors))


# The tangent kernel against brute force, finite differences and a model whose kernel is known.

NETWORK = PooledCNN((3, 4), (1, 2))


@pytest.fixture(scope="module")
def model():
    return NETWORK.build(1).double()


@pytest.fixture(scope="module")
def weights():
    return {name: own.double() for name, own in NETWORK.initial_weights(1, 0).items()}


@pytest.fixture(scope="module")
def x():
    return torch.randn(8, 1, 6, 6, dtype=torch.float64, generator=rng())


def shifted(weights, size=1.0):
    draw = rng(1)
    return {name: size * torch.randn(own.shape, generator=draw).double() for name, own in weights.items()}


def test_gradients_are_those_of_jacrev(model, weights, x):
    actual = jacrev(lambda own: functional_call(model, own, (x,)))(weights)
    expected = torch.cat([own.flatten(1) for own in actual.values()], 1)
    for chunk in (1, 3, 50):
        torch.testing.assert_close(jacobian(model, weights, x, chunk), expected, rtol=1e-10, atol=1e-12)
    kernel = tangent_kernel(model, weights, x, 5, 2)
    torch.testing.assert_close(kernel, expected @ expected[:5].T, rtol=1e-10, atol=1e-12)


def test_gradients_are_finite_differences(model, weights, x):
    along = shifted(weights)

    def moved(step):
        return functional_call(model, {n: own + step * along[n] for n, own in weights.items()}, (x,))

    slope = (moved(1e-6) - moved(-1e-6)) / 2e-6
    direction = torch.cat([own.flatten() for own in along.values()])
    torch.testing.assert_close(jacobian(model, weights, x, 4) @ direction, slope, rtol=1e-5, atol=1e-7)


RECORDED = json.loads(tangent_peer.FILE.read_text())["kernels"]


def of_peer(name):
    """A network and its images as the peer had them."""
    shape = tangent_peer.SHAPES[name]
    network = PooledCNN(shape.channels, shape.strides).build(shape.planes).double()
    names = [name for name, _ in network.named_parameters()]
    drawn = dict(zip(names, map(torch.from_numpy, tangent_peer.parameters(shape)), strict=True))
    return network, drawn, torch.from_numpy(tangent_peer.images(shape))


@pytest.mark.parametrize("name", tangent_peer.SHAPES)
def test_kernels_are_those_that_neural_tangents_had(name):
    """Recorded by `tangent_peer.py` from neural-tangents 0.6.5, in double precision."""
    network, drawn, x = of_peer(name)
    recorded = torch.tensor(RECORDED[name], dtype=torch.float64)
    torch.testing.assert_close(tangent_kernel(network, drawn, x, len(x), 3), recorded, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("changed", ["0.bias", "2.weight", "6.weight"])
def test_every_parameter_counts_in_what_was_recorded(changed):
    network, drawn, x = of_peer("two layers")
    other = drawn | {changed: drawn[changed] + 0.1}
    recorded = torch.tensor(RECORDED["two layers"], dtype=torch.float64)
    assert float((tangent_kernel(network, other, x, len(x), 3) - recorded).abs().max()) > 1e-4


def test_a_linear_models_kernel_is_that_of_its_inputs():
    model, x = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), torch.rand(5, 3)
    weights = {name: own.detach() for name, own in model.named_parameters()}
    torch.testing.assert_close(tangent_kernel(model, weights, x, 5, 2), (x @ x.T + 1).double())


def test_sums_are_in_double_precision(monkeypatch):
    monkeypatch.setattr(theory, "PARAMETERS_AT_ONCE", 16)
    rows = torch.randn(6, 100_000, generator=rng())  # in single precision the diagonal's last digit is 0.008
    actual, exact = products(rows, rows[:4]), rows.double() @ rows[:4].double().T
    assert actual.dtype == torch.float64
    assert float((actual - exact).abs().max()) < 1e-3


# The linearised network: Taylor's first order, and in training the solution of its kernel.


def test_it_is_the_first_order_of_taylor(model, weights, x):
    change = shifted(weights)
    direction = torch.cat([own.flatten() for own in change.values()])
    expected = functional_call(model, weights, (x,)) + jacobian(model, weights, x, 3) @ direction
    torch.testing.assert_close(batch_outputs(model, change, x, weights), expected)
    torch.testing.assert_close(outputs(model, change, x, weights), expected)


def test_what_is_left_out_is_of_second_order(model, weights, x):
    def left(size):
        change = shifted(weights, size)
        exact = functional_call(model, {name: own + change[name] for name, own in weights.items()}, (x,))
        return float((exact - batch_outputs(model, change, x, weights)).norm())

    assert left(1e-4) / left(2e-4) == pytest.approx(0.25, rel=0.1)


def test_descent_of_the_squared_loss_ends_at_the_kernels_solution(model, weights, x):
    """From δ = 0, along the gradient of ½‖f - y‖² + ½λ‖δ‖², to convergence; the last three are predicted."""
    y, ridge = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0], dtype=torch.float64), 0.5
    rows, first = jacobian(model, weights, x, 8), functional_call(model, weights, (x,))
    seen, kernel = rows[:5], products(rows, rows[:5])
    delta = torch.zeros(rows.shape[1], dtype=torch.float64)
    rate = 1 / float(torch.linalg.eigvalsh(kernel[:5])[-1] + ridge)
    for _ in range(3000):
        delta = delta - rate * (seen.T @ (first[:5] + seen @ delta - y) + ridge * delta)
    (solved,) = fits(kernel, first, y, (ridge * 5 / float(torch.trace(kernel[:5])),))
    parts = delta.split([own.numel() for own in weights.values()])
    change = {name: own.view_as(weights[name]) for name, own in zip(weights, parts, strict=True)}
    descended = batch_outputs(model, change, x[5:], weights)
    torch.testing.assert_close(descended, solved.outputs, rtol=1e-8, atol=1e-8)


def test_training_learns_by_the_kernel_alone(model, weights, x):
    """Its gradient is that of the logistic loss times the rows of the Jacobian: SGD stays in their span."""
    y = torch.tensor([1.0, -1.0] * 4, dtype=torch.float64)
    change = train(model, weights, x, y, LogisticDescent(0.05, 8, 60, "SGD"), rng(), linear=True)
    delta = torch.cat([own.flatten() for own in change.values()])
    rows = jacobian(model, weights, x, 8)
    within = rows.T @ torch.linalg.lstsq(rows.T, delta[:, None]).solution
    torch.testing.assert_close(within[:, 0], delta, rtol=1e-6, atol=1e-8)
    assert accuracy(outputs(model, change, x, weights), y) == 1


def test_the_wide_network_can_be_linearised():
    """Its normalisation has forward derivatives, too."""
    network, x, y = WideResNet(1), torch.randn(6, 3, 8, 8), torch.tensor([1.0, -1.0] * 3)
    model, start = network.build(3), network.initial_weights(3, 0)
    change = train(model, start, x, y, LogisticDescent(1e-3, 3, 2), rng(), linear=True)
    assert torch.isfinite(outputs(model, change, x, start)).all()
    assert any(float(own.abs().max()) > 0 for own in change.values())
