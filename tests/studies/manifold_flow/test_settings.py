"""How much is run along the minimisers, and on which languages."""

import pytest
import torch

from sameloss.studies.manifold_flow.experiment import (
    FLOW_LANGUAGE,
    PRESETS,
    SMOOTH_LANGUAGE,
    ZEROS_LANGUAGE,
    FlowConfig,
)
from sameloss.studies.manifold_flow.theory import masked_population
from sameloss.studies.parameters import PRESETS as NAMES


def test_rates_are_halved_from_the_largest():
    settings = FlowConfig(learning_rate=0.4, halvings=2)
    assert settings.rates(1) == [0.4, 0.2, 0.1]
    assert settings.rates(4) == [0.8, 0.4, 0.2]  # the relative rate of batch 4 is 2
    with pytest.raises(ValueError, match="not in"):
        settings.rates(3)


def test_larger_batches_scatter_less_and_have_fewer_replicas():
    settings = FlowConfig(replicas=300)
    assert [settings.replicas_of(batch) for batch in (1, 4, 64)] == [300, 150, 37]
    assert FlowConfig(replicas=10).replicas_of(4) == 8


def test_every_preset_is_there_and_the_longer_ones_alike():
    assert list(PRESETS) == list(NAMES)
    assert {PRESETS[name] for name in NAMES[2:]} == {FlowConfig()}
    assert PRESETS["laptop"].rates(1) == FlowConfig().rates(1)[:-1]


def test_half_of_a_languages_conditionals_are_zero_and_of_its_twins_none():
    for spec, share in ((FLOW_LANGUAGE, 0), (SMOOTH_LANGUAGE, 0), (ZEROS_LANGUAGE, 0.5)):
        _, conditionals = masked_population(spec.build())
        assert float((conditionals == 0).double().mean()) == share
    _, rows = masked_population(FLOW_LANGUAGE.build())
    assert rows.shape == torch.Size([6, 3])  # six masked sentences of three words
