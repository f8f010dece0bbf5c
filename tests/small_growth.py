"""How tests grow models, whatever the presets say: two layers to four, by six operators."""

from sameloss.languages import HierarchySpec
from sameloss.models.encoder import EncoderShape
from sameloss.runs.sampling import HeldOutConditionals
from sameloss.studies.growing.experiment import Growth, Operator
from sameloss.training.loop import Optimisation

LANGUAGE = HierarchySpec(levels=2, symbols=3, rules=2, smoothing=0.05)

TRAINING = Optimisation(60, 32, 1e-2, 0.03, schedule="constant")

SMALL = Growth(
    shape=EncoderShape(8, 2, 2, 16),
    seeds=(0, 1),
    added=2,
    steps=40,
    lag=10,
    evaluations=8,
    held_out=HeldOutConditionals(LANGUAGE, 64, 0),
    preserving=(Operator(0, 1, "silent"), Operator(0, 2, "muted")),
)
