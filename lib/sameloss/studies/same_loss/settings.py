"""The presets of this study: from a smoke test to the paper's protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sameloss.measures.downstream.adamw_probe import AdamWProbe
from sameloss.measures.downstream.finetune import FinetuneSettings
from sameloss.measures.downstream.optimal_probe import OptimalProbe
from sameloss.runs.sampling import Downstream
from sameloss.studies.config import Config
from sameloss.studies.same_loss import domains
from sameloss.studies.same_loss.domains import Domain
from sameloss.training.algorithms import Length, label
from sameloss.training.execution import PLAIN, Execution
from sameloss.training.loop import Optimisation

SATURATED_SHARE = 0.03
"""A checkpoint counts as saturated from this share of the context information downwards: its KL over all
there is to learn (`languages.entropy.context_information`). The paper's models end below 1 %."""

GLUE = "nyu-mll/glue"
"""Where QNLI and SST-2 come from."""


@dataclass(frozen=True)
class Cooling:
    """How models that were treated differently are brought to one loss."""

    steps: int  # at most
    target_share: float  # of the KL of the untreated model, at which it ends
    sentences: int  # on which that KL is looked at
    lr: float = 1e-3
    look_every: int = 20  # steps


@dataclass(frozen=True)
class Training:
    """How models are pre-trained."""

    corpus_sentences: int | None  # None: sampled without end
    optimisation: Optimisation
    compared_steps: int  # steps where algorithms are compared
    lengths: Mapping[Length, float]  # of trainings that are not the ordinary ones, over theirs
    checkpoints: tuple[float, ...]  # shares of the steps after which one is kept
    micro_batch: int  # sentences that go through the model at once
    resume_every: int  # steps
    seeds: int
    cooling: Cooling
    rate_width: int | None = None  # d_model that the learning rate is for; it falls as 1 / width. None: any
    execution: Execution = PLAIN  # of ordinary training
    rates_tried: tuple[float, ...] = ()  # multiples of that rate, see `rate_search`
    left_out: frozenset[str] = frozenset()  # what no comparison trains, see `Arm.left_out`


@dataclass(frozen=True)
class Flatness:
    """On how much flatness is measured."""

    trace_sentences: int
    trace_labels: int
    gap_sentences: int  # on which the Hessian is told from the Fisher information
    gap_batch: int
    comparison_sentences: int  # on which estimators of the trace are compared
    measure_sentences: int  # on which all measures are
    chain_steps: int  # of Langevin dynamics, for the learning coefficient


@dataclass(frozen=True)
class Evaluation:
    """How languages and models are measured, and what counts as the same."""

    language_sentences: int  # on which a language's statistics are taken
    saturation_sentences: int
    downstream: Downstream  # without tasks: they are the domain's
    adamw_probe: AdamWProbe  # the paper's protocol
    optimal_probe: OptimalProbe
    projection: int  # dimensions of projected probes
    finetune: FinetuneSettings
    finetune_sentences: int  # of each probe seed
    flatness: Flatness
    saturated_share: float = SATURATED_SHARE
    tolerance: float | None = None  # of all verdicts; None: each claim's own
    glue: str = GLUE  # name or folder of the GLUE data
    raw_probes: bool = True  # whether the paper's probe is tried on raw features, too


@dataclass(frozen=True)
class Shown:
    """What a page shows of all there is; None stands for all of it."""

    domain: str = "PCFG"
    size: str | None = None
    task: str | None = None
    algorithm: str = "adamw"
    strength: float | None = None


@dataclass(frozen=True)
class Settings(Config):
    """Everything that decides the runs of a page."""

    domains: Mapping[str, Domain] = field(default_factory=dict)
    training: Training = field(kw_only=True)
    evaluation: Evaluation = field(kw_only=True)
    shown: Shown = Shown()

    @property
    def domain(self) -> Domain:
        """Return the domain that the page shows."""
        return self.domains[self.shown.domain]


RECORDED_TREATMENTS = ("penalty-after", "sam-after", "noise-rate", "noise-batch")
"""Of the causal experiment: what the laptop leaves to the recorded run."""

_LONG = Settings(
    name="laptop-long",
    domains=domains.LAPTOP_LONG,
    training=Training(
        corpus_sentences=1 << 20,
        optimisation=Optimisation(steps=3200, batch=256, lr=5e-3),
        compared_steps=3200,
        lengths={"saturating": 1.5, "treated": 0.75},
        checkpoints=(1 / 8, 1 / 4, 1 / 2, 1.0),
        micro_batch=256,
        resume_every=500,
        seeds=5,
        cooling=Cooling(steps=2400, target_share=1.0, sentences=2000, lr=2e-4),
        rate_width=32,
    ),
    evaluation=Evaluation(
        language_sentences=20_000,
        saturation_sentences=4000,
        downstream=Downstream(
            tasks=(), label_kind="likelihood", train=2000, test=4000, probe_seeds=3, seed=0
        ),
        adamw_probe=AdamWProbe(),
        optimal_probe=OptimalProbe(),
        projection=128,  # the features of the smallest size
        finetune=FinetuneSettings(lr=1e-3, warmup_steps=20),
        finetune_sentences=500,
        flatness=Flatness(
            trace_sentences=2500,
            trace_labels=1,
            gap_sentences=512,
            gap_batch=64,
            comparison_sentences=8192,
            measure_sentences=150,
            chain_steps=60,
        ),
    ),
)
"""Five seeds and all algorithms, for hours of a laptop: what `results/` records."""

_LAPTOP = replace(
    _LONG,
    name="laptop",
    domains=domains.LAPTOP,
    training=replace(
        _LONG.training,
        corpus_sentences=1 << 19,
        optimisation=replace(_LONG.training.optimisation, steps=1600),
        compared_steps=1600,
        lengths={"treated": 0.75},
        checkpoints=(1 / 4, 1 / 2, 1.0),
        seeds=3,
        left_out=frozenset(
            {
                *(label("adversarial", strength) for strength in (0.003, 0.006, 0.012)),
                label("sgd-noise", 0.5),
                *map(
                    label, ("sgd", "sgd-after", "dropout", "weight-decay", "trace-penalty", "sam", "post-ln")
                ),
                label("sgd-noise", 0.5, cooled=True),
                *(label(name, cooled=True) for name in ("sharpen-after", *RECORDED_TREATMENTS)),
            }
        ),
    ),
    evaluation=replace(
        _LONG.evaluation,
        language_sentences=10_000,
        saturation_sentences=1000,
        downstream=replace(_LONG.evaluation.downstream, train=1000, probe_seeds=2),
        optimal_probe=OptimalProbe(ridges=(1e-3, 1e-2, 1e-1)),
        raw_probes=False,
        projection=256,  # the features of the smallest size
        flatness=replace(
            _LONG.evaluation.flatness, comparison_sentences=4096, measure_sentences=50, chain_steps=30
        ),
    ),
)
"""The same at the smallest scale that shows it: half as many steps, three seeds, few algorithms.

Chosen by KL alone: with batches of 128 or 192, or in 1,200 steps, not every seed comes below 3 % unlearnt.
Probes of 1,000 sentences read the same to 0.1 points without the smallest ridge, at a third of the work.
"""

_WORKSTATION = replace(
    _LONG,
    name="workstation",
    domains=domains.WORKSTATION,
    training=replace(
        _LONG.training,
        rates_tried=(0.5, 1.0, 2.0),
        left_out=frozenset(
            {
                *(label("adversarial", strength) for strength in (0.003, 0.006, 0.012)),
                *map(label, ("soft", "sgd", "sgd-after", "dropout", "weight-decay", "mask-rate")),
                *map(label, ("trace-penalty", "sam", "post-ln")),
                *(label(name, cooled=True) for name in ("sharpen-after", *RECORDED_TREATMENTS)),
            }
        ),
    ),
    evaluation=replace(_LONG.evaluation, projection=64),  # the features of the smallest size
)
"""A ladder of sizes, the HMM with LSTMs, the paper's own languages, and label noise at a second size: a day
of one core."""

MANY_CHECKPOINTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0)

_SMOKE = replace(
    _LONG,
    name="smoke",
    domains=domains.SMOKE,
    training=replace(
        _LONG.training,
        corpus_sentences=20_000,
        optimisation=Optimisation(steps=160, batch=64, lr=1e-2),
        compared_steps=160,
        checkpoints=MANY_CHECKPOINTS,
        resume_every=50,
        seeds=3,
        lengths={"treated": 2.0},
        micro_batch=128,
        cooling=Cooling(steps=40, target_share=1.0, sentences=100, look_every=10),
        rate_width=None,
    ),
    evaluation=replace(
        _LONG.evaluation,
        language_sentences=500,
        saturation_sentences=500,
        downstream=replace(_LONG.evaluation.downstream, train=400, test=400),
        adamw_probe=AdamWProbe(epochs=20, batch=64),
        saturated_share=0.3,
        projection=16,
        finetune=FinetuneSettings(epochs=2, lr=1e-3, warmup_steps=2),
        finetune_sentences=400,
        flatness=Flatness(
            trace_sentences=200,
            trace_labels=1,
            gap_sentences=64,
            gap_batch=16,
            comparison_sentences=1024,
            measure_sentences=50,
            chain_steps=10,
        ),
    ),
)

_PAPER = replace(
    _LONG,
    name="paper",
    domains=domains.PAPER,
    training=replace(
        _LONG.training,
        corpus_sentences=20_000_000,
        optimisation=Optimisation(steps=30_000, batch=4096, lr=1e-3),
        compared_steps=30_000,
        execution=Execution(autocast=True, compiled=True, by_length=True),
        checkpoints=MANY_CHECKPOINTS,
        micro_batch=512,
        resume_every=2500,  # a saved state costs as much as some tens of steps
        seeds=1,
        lengths={"treated": 2.0},
        cooling=Cooling(steps=10_000, target_share=1.0, sentences=2000, lr=1e-3, look_every=100),
        rate_width=None,
    ),
    evaluation=replace(
        _LONG.evaluation,
        language_sentences=100_000,
        saturation_sentences=20_000,
        downstream=replace(
            _LONG.evaluation.downstream,
            train=20_000,  # a probe holds the features of all its sentences in memory
            test=10_000,
            probe_seeds=5,
        ),
        projection=512,
        finetune=FinetuneSettings(),
        finetune_sentences=20_000,
        flatness=replace(
            _LONG.evaluation.flatness,
            trace_sentences=10_000,
            trace_labels=50,
            gap_sentences=1024,
            measure_sentences=300,
            chain_steps=120,
        ),
    ),
)

_GPU = replace(
    _PAPER,
    name="gpu",
    domains=domains.GPU,
    training=replace(
        _PAPER.training,
        corpus_sentences=4_000_000,
        optimisation=Optimisation(steps=10_000, batch=1024, lr=1e-3),
        compared_steps=10_000,
        resume_every=5000,
        micro_batch=1024,
        seeds=3,
    ),
    evaluation=replace(
        _PAPER.evaluation,
        downstream=replace(_PAPER.evaluation.downstream, probe_seeds=3),
        flatness=replace(_PAPER.evaluation.flatness, trace_labels=1),
    ),
)

PRESETS = {settings.name: settings for settings in (_SMOKE, _LAPTOP, _LONG, _WORKSTATION, _GPU, _PAPER)}
