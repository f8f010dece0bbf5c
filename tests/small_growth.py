"""How tests grow models, whatever the presets say: two layers to four, by six operators."""

from dataclasses import replace

from sameloss.models.encoder import EncoderShape
from sameloss.studies.growing.experiment import PRESETS, Operator

SMALL = replace(
    PRESETS["smoke"],
    shape=EncoderShape(8, 2, 2, 16),
    base_steps=60,
    train_sentences=100,
    test_sentences=100,
    added=2,
    steps=40,
    lag=10,
    preserving=(Operator(0, 1, "silent"), Operator(0, 2, "muted")),
    evaluations=8,
    stage_steps=30,
    last_steps=60,
    stage_lag=5,
    stage_evaluations=4,
)
