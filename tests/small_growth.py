"""How models are grown in tests, whatever the presets say: from two layers to four, six operators."""

from dataclasses import replace

from sameloss.models.encoder import EncoderShape
from sameloss.studies.growing.experiment import PRESETS, Operator

_SMOKE = PRESETS["smoke"]

SMALL = replace(
    _SMOKE.growing,
    shape=EncoderShape(8, 2, 2, 16),
    added=2,
    steps=40,
    lag=10,
    optimisation=replace(_SMOKE.growing.optimisation, steps=60),
    preserving=(Operator(0, 1, "silent"), Operator(0, 2, "muted")),
    looks=8,
    measured=32,
)

SMALL_STAGES = replace(
    _SMOKE.stacking,
    shape=EncoderShape(8, 2, 1, 16),
    optimisation=SMALL.optimisation.lasting(30),
    steps=30,
    last_steps=60,
    lag=5,
    looked=4,
)

SMALL_PAGE = replace(
    _SMOKE, growing=SMALL, stacking=SMALL_STAGES, downstream=replace(_SMOKE.downstream, train=100, test=100)
)
