"""What probes read."""

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.languages import Sentences
from sameloss.measures.downstream import (
    OptimalProbe,
    contextual_features,
    one_hot_features,
    random_expansion,
)

RAGGED = Sentences(torch.tensor([[1, 2, 3, 1], [3, 1, 2, 2]]), torch.tensor([4, 2]))


def test_contextual_features_concatenate_all_tokens(tiny_model):
    features = contextual_features(tiny_model, RAGGED).unflatten(1, (4, 4))
    with torch.no_grad():
        alone = tiny_model.features(RAGGED.tokens[1:, :2])[0].float()
    torch.testing.assert_close(features[1, :2], alone)
    assert (features[1, 2:] == 0).all()


@pytest.mark.parametrize("train", [8, 40])
def test_a_model_that_diverged_tells_a_probe_nothing(tiny_model, tiny_language, train):
    """With fewer sentences than features, and with more: two decompositions, both of which NaN would end."""
    for weights in tiny_model.parameters():
        weights.data.fill_(torch.nan)
    features = contextual_features(tiny_model, tiny_language.sample(train, torch.Generator().manual_seed(0)))
    assert (features == 0).all()
    labels = torch.tensor([0, 1, 1, 1] * (train // 4))[None, :, None]
    probes = OptimalProbe().fit(features[None], labels, [2], seed=0)
    assert (probes.logits(features[None])[0].argmax(-1) == 1).all()


def test_one_hot_features(tiny_language):
    features = one_hot_features(tiny_language, RAGGED).unflatten(1, (4, 3))
    assert features[0].argmax(-1).tolist() == [0, 1, 2, 0]
    assert features[1].tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_an_expansion_keeps_the_features_and_tells_a_linear_probe_what_they_did_not():
    """Exclusive or is no linear function of two features, but is one of random ReLU features of them."""
    corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]).repeat(5, 1)
    labels = (corners[:, 0] != corners[:, 1]).long()[:, None]
    wide = random_expansion(corners, 40)
    assert wide.shape == (20, 40)
    assert wide[:, :2].equal(corners)
    assert (wide[:, 2:] >= 0).all()
    right = [
        OptimalProbe().fit(read[None], labels[None], [2], seed=0).correct(read, labels).double().mean()
        for read in (corners, wide)
    ]
    assert right[0] < 0.8
    assert right[1] == 1
    assert random_expansion(corners, 40).equal(wide)
    with pytest.raises(ParameterError, match="2 features cannot be expanded to 1"):
        random_expansion(corners, 1)
