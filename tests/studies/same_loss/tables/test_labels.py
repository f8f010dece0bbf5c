"""Tables by the number of labels, on made-up results whose answer is known."""

from dataclasses import replace

import numpy as np
import pytest
from made_up import changed

from sameloss.studies.same_loss.results import NO_SIZE
from sameloss.studies.same_loss.tables import labels


@pytest.fixture
def read(results):
    """With few labels width alone is worth 10 points, with all of them training too."""
    rng = np.random.default_rng(1)

    def right(share):
        return rng.random((3, 400, 2)) < share

    def models(shares, one_hot):
        both = {key: [right(share)[None] for share in shares[key[0]]] for key in results.probes}
        baselines = {"lookup table": right(0.5)[None], "one-hot tokens": right(one_hot)[None]}
        drawn, last = (
            replace(results, probes={key: pair[at] for key, pair in both.items()}, baselines=baselines)
            for at in (0, 1)
        )
        return replace(last, drawn=drawn)

    few, every = {"1K": (0.4, 0.5), "3K": (0.5, 0.6)}, {"1K": (0.6, 0.6), "3K": (0.6, 0.9)}
    return {count: models(few, 0.3) for count in (8, 16, 64)} | {400: models(every, 0.7)}


@pytest.fixture
def bits():
    """Codes of 500 bits; training saves the larger size 100, and of the second task costs it 100."""
    rng = np.random.default_rng(2)
    saved = {("1K", "untrained"): 0, ("1K", "trained"): 0, ("3K", "untrained"): 50, ("3K", "trained"): 150}
    seeds, tasks = rng.normal(0, 3, (3, 3, 1)), np.array([1, -1])
    pretrained = {key: 500 + seeds - tasks * bits for key, bits in saved.items()}
    return {**pretrained, (NO_SIZE, "one-hot tokens"): np.full((1, 3, 2), 600.0)}


def test_accuracies_of_all_representations_by_the_number_of_labels(read):
    table = labels.accuracy_by_labels(read, ["root"])
    assert list(table) == ["task", "sentences", "size", "models", "value", "low", "high"]
    assert len(table) == 4 * (2 * 2 + 2)
    assert ((table.low < table.value) & (table.value < table.high)).all()
    value = table.set_index(["sentences", "size", "models"]).value
    assert value[16, "3K", "untrained"] == pytest.approx(50, abs=3)
    assert value[400, "3K", "trained"] == pytest.approx(90, abs=3)
    assert value[8, NO_SIZE, "one-hot tokens"] == pytest.approx(30, abs=4)
    assert value[400, NO_SIZE, "one-hot tokens"] == pytest.approx(70, abs=4)


def test_codes_stand_beside_the_uniform_one(results, bits):
    table = labels.code_table(results, bits, ["root"]).set_index(["size", "models"])
    np.testing.assert_allclose(table.uniform, 400 * np.log2(3))  # of 400 sentences and three symbols
    np.testing.assert_allclose(table.share, 100 * table.bits / table.uniform)
    assert table.bits["3K", "trained"] == pytest.approx(350, abs=5)
    assert (table.low <= table.bits).all()
    assert (table.bits <= table.high).all()
    assert table.low[NO_SIZE, "one-hot tokens"] == table.high[NO_SIZE, "one-hot tokens"] == 600


def test_a_gain_with_labels_is_net_of_the_untrained_models(results, read, bits):
    control = labels.label_control(results, read, bits, ["root", "span2"])
    few, every, code, _, _, other = control.itertuples()
    assert [row.measure for row in (few, every, code)] == [
        "16 to 256 labels, points", "400 labels, points", labels.BITS_SHORTER,
    ]  # fmt: skip
    assert (few.untrained, few.trained, few.value) == pytest.approx((10, 10, 0), abs=4)
    assert few.low < 0 < few.high
    assert (every.untrained, every.trained, every.value) == pytest.approx((0, 30, 30), abs=4)
    assert every.low > 10
    assert (code.untrained, code.trained, code.value) == pytest.approx((50, 150, 100))
    assert (other.untrained, other.trained, other.value) == pytest.approx((-50, -150, -100))
    assert labels.codes_in_words(control) == (
        "task A +100 (100 to 100), shorter; span 2 -100 (-100 to -100), longer"
    )


def test_few_labels_are_the_mean_of_their_numbers_and_not_eight(results, read, bits):
    def few(own):
        return labels.label_control(results, own, bits, ["root"]).iloc[0]

    assert few({**read, 8: read[400]}).equals(few(read))
    own = few({64: read[64], 400: read[400]}).value, few({16: read[16], 400: read[400]}).value
    assert few(read).value == pytest.approx(np.mean(own))


def test_a_code_that_varies_with_the_seed_is_not_told_apart(results, read, bits):
    rng = np.random.default_rng(3)
    noisy = {**bits, ("3K", "trained"): bits["3K", "trained"] + rng.normal(0, 400, (3, 1, 2))}
    control = labels.label_control(results, read, noisy, ["root"])
    code = control.iloc[-1]
    assert code.low < 0 < code.high
    assert labels.codes_in_words(control).endswith("not told apart")


def test_without_two_saturated_sizes_nothing_is_tested(results, read, bits):
    far = changed(results, results.checkpoints.assign(saturated=False))
    control = labels.label_control(far, read, bits, ["root"])
    assert control.empty
    assert labels.codes_in_words(control).startswith("not testable here")
