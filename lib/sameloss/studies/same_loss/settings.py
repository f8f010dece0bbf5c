"""The presets: from a smoke test to the paper's protocol."""

from dataclasses import dataclass, replace
from importlib.resources import files

from sameloss.languages import HMMSpec, LanguageSpec, PCFGSpec, TeacherSpec
from sameloss.languages.grammars.formats import GrammarText
from sameloss.measures.downstream.finetune import FinetuneSettings
from sameloss.measures.downstream.probe import ProbeSettings
from sameloss.models.encoder import EncoderShape
from sameloss.models.shape import Shape
from sameloss.models.sizes import LSTM_SIZES, SIZES
from sameloss.runs.sampling import Downstream
from sameloss.studies.dyck.settings import SMOKE_DYCK, DyckSettings
from sameloss.studies.manifold_flow.settings import SMOKE_FLOW, FlowSettings
from sameloss.training.algorithms import label
from sameloss.training.execution import PLAIN, Execution
from sameloss.training.loop import Optimisation

SATURATED_KL = 0.02
"""A checkpoint counts as saturated from this KL (nats a masked token) downwards."""


@dataclass(frozen=True)
class Preset:
    """Everything a chapter needs to know but its own parameters."""

    name: str
    sizes: dict[str, Shape]
    language: LanguageSpec  # the PCFG, which models are trained on
    hmm: LanguageSpec
    hmm_tasks: tuple[str, ...]
    hmm_sizes: dict[str, Shape]
    lstm_sizes: dict[str, Shape]  # to be asked for by name
    opt: LanguageSpec
    opt_sizes: dict[str, Shape]
    language_sentences: int  # on which a language's statistics are taken
    corpus_sentences: int | None  # None: sampled without end
    optimisation: Optimisation
    study_size: str  # of the comparisons of algorithms
    hmm_study_size: str  # of those on the HMM
    study_steps: int  # of those
    noise_length: int  # times as many steps of SGD with scaled label noise
    checkpoints: tuple[float, ...]  # shares of the steps after which one is kept
    micro_batch: int
    resume_every: int
    seeds: int
    downstream: Downstream
    probe: ProbeSettings
    projection: int  # dimensions of the projected probe
    finetune: FinetuneSettings
    finetune_sentences: int  # of each probe seed
    saturation_sentences: int
    trace_sentences: int
    trace_labels: int
    gap_sentences: int  # on which the Hessian is told from the Fisher information
    gap_batch: int
    comparison_sentences: int  # on which estimators of the trace are compared
    measure_sentences: int  # on which all measures of flatness are
    chain_steps: int  # of Langevin dynamics, for the learning coefficient
    dyck: DyckSettings  # the bracket language of Section 5
    flow: FlowSettings  # SGD and Adam along the minimisers, Section 3
    max_hours: float
    execution: Execution = PLAIN  # of ordinary training
    left_out: frozenset[str] = frozenset()  # algorithms, by label, that no comparison trains
    workers: int | None = None  # processes; None: the number of cores
    saturated_kl: float = SATURATED_KL
    tolerance: float | None = None  # of all verdicts; None: each claim's own

    @property
    def shapes(self) -> dict[str, Shape]:
        """Return all shapes by name."""
        return {**self.sizes, **self.hmm_sizes, **self.lstm_sizes}

    @property
    def opt_tasks(self) -> tuple[str, ...]:
        """Return the tasks of the stand-in; a real OPT is tested on GLUE."""
        return ("topic",) if isinstance(self.opt, TeacherSpec) else ()

    def with_steps(self, steps: int) -> "Preset":
        """Return the preset with another length of training."""
        return replace(self, optimisation=replace(self.optimisation, steps=steps))

    def parameter_count(self, size: str) -> int:
        """Return the number of parameters of a size, as this book builds it."""
        return self.shapes[size].parameter_count(self.language.words, self.language.max_length)


LAPTOP_LANGUAGE = GrammarText(files("sameloss.languages.grammars").joinpath("laptop.txt").read_text())
"""Kept as a file, so that a reader can open it, and a change of the generator leaves it as it is."""

LAPTOP_HMM = HMMSpec(
    states=16,
    words=16,
    length=8,
    blocks=2,
    transition_concentration=0.15,
    emission_concentration=1.0,
    smoothing=0.1,
)
"""Chosen by how close models come to it, and by its states being hard to tell: of a few candidates the one
with the smallest KL, and smoother still. Even the best guess of a hidden state is right half of the time.
"""

LAPTOP_TEACHER = TeacherSpec(scale=0.5, logit_scale=0.7)
"""Sharper ones are too hard: even of this one the smallest model stays 0.03 nats away."""

SMOKE_LANGUAGE = PCFGSpec(
    levels=2,
    start_symbols=3,
    symbols=3,
    start_rules=3,
    rules=3,
    words=6,
    words_per_symbol=3,
    rule_concentration=0.7,
    emission_concentration=0.7,
    smoothing=0.03,
    seed=1,
)

TINY_LANGUAGE = replace(
    SMOKE_LANGUAGE,
    start_symbols=2,
    symbols=2,
    start_rules=2,
    words=3,
    words_per_symbol=2,
    rule_concentration=1.0,
    emission_concentration=1.0,
    smoothing=0.1,
    seed=3,
)
"""Four tokens of three words: everything it can mask, 108 sentences, is a population."""

TINY_SHAPE = EncoderShape(d_model=8, heads=2, layers=1, d_inter=16)
"""A model whose dense Hessian takes seconds."""

SMOKE_HMM = replace(LAPTOP_HMM, states=4, words=6, length=4)

SMOKE_TEACHER = TeacherSpec(words=6, max_length=4, topics=2, d_model=4)

PAPER_SHAPE = PCFGSpec(
    levels=5,
    start_symbols=9,
    symbols=8,
    start_rules=1,
    rules=20,
    words=200,
    words_per_symbol=100,
    rule_concentration=1.0,
    emission_concentration=1.0,
    seed=1,
)
"""Words, symbols (50 with the start) and length as in App. A.1; levels, rules, words a symbol and early
stop as in the released grammar. The seed is the first from 0 on whose calibrated grammar uses all words.
"""

PAPER_HMM_SHAPE = HMMSpec(
    states=100, words=200, length=16, blocks=4, transition_concentration=1.0, emission_concentration=1.0
)
"""Words, states and length as in App. A.1. The number of blocks is not published: five equal ones could
not have the published entropy (ln 40 = 3.689), so these are the most there can be.
"""

PAPER_LANGUAGE = replace(
    PAPER_SHAPE,
    rule_concentration=0.1493,
    emission_concentration=0.1493,
    early_stop=(0.104477, 0.261193),
)
"""Calibrated: its masked entropy is the published 3.196 nats, its mean length 17 tokens.

The last spec of `calibrate(pcfg_family(PAPER_SHAPE, 17.0), 3.196, (0.1, 0.25), sentences=20_000)`, its
concentration rounded to four digits.
"""

PAPER_HMM = replace(PAPER_HMM_SHAPE, transition_concentration=0.2642, emission_concentration=0.2642)
"""Calibrated: its masked entropy is the published 3.758 nats.

The last spec of `calibrate(hmm_family(PAPER_HMM_SHAPE), 3.758, (0.1, 1.0), sentences=20_000,
tolerance=0.001)`, its concentration rounded to four digits.
"""

_LAPTOP = Preset(
    name="laptop",
    sizes=SIZES["laptop"],
    language=LAPTOP_LANGUAGE,
    hmm=LAPTOP_HMM,
    hmm_tasks=("state3", "state5"),
    hmm_sizes={name: SIZES["laptop"][name] for name in ("7K", "27K")},
    lstm_sizes=LSTM_SIZES["laptop"],
    opt=LAPTOP_TEACHER,
    opt_sizes={name: SIZES["laptop"][name] for name in ("7K", "27K")},
    language_sentences=20_000,
    corpus_sentences=1 << 20,
    optimisation=Optimisation(steps=2000, batch=128, lr=3e-3),
    study_size="27K",
    hmm_study_size="27K",
    study_steps=2000,
    noise_length=1,
    checkpoints=(1 / 8, 1 / 4, 1 / 2, 1.0),
    micro_batch=128,
    resume_every=500,
    seeds=3,
    downstream=Downstream(
        tasks=("root", "span4", "span2"),
        label_kind="likelihood",
        train=2000,
        test=4000,
        probe_seeds=3,
        seed=0,
    ),
    probe=ProbeSettings(),
    projection=128,  # the features of the smallest size
    finetune=FinetuneSettings(lr=1e-3, warmup_steps=20),
    finetune_sentences=500,
    saturation_sentences=4000,
    trace_sentences=2500,
    trace_labels=1,
    gap_sentences=512,
    gap_batch=64,
    comparison_sentences=8192,
    measure_sentences=150,
    chain_steps=60,
    dyck=DyckSettings(),
    flow=FlowSettings(),
    max_hours=1.0,
    left_out=frozenset(
        {
            label("adversarial", 0.003),
            label("adversarial", 0.012),
            label("sgd-noise", 0.5),
            *map(label, ("sgd", "dropout", "weight-decay", "trace-penalty")),
        }
    ),
)

_LONG = replace(
    _LAPTOP,
    name="laptop-long",
    optimisation=replace(_LAPTOP.optimisation, steps=4000),
    noise_length=2,
    checkpoints=(1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0),
    seeds=5,
    downstream=replace(_LAPTOP.downstream, train=3000),
    finetune_sentences=1000,
    saturation_sentences=8000,
    trace_sentences=5000,
    gap_sentences=1024,
    measure_sentences=300,
    chain_steps=120,
    max_hours=4.0,
    left_out=frozenset(),
)
"""The laptop's languages and models with more steps, seeds and algorithms: what `results/` records."""

_SMOKE = replace(
    _LAPTOP,
    name="smoke",
    sizes=SIZES["smoke"],
    language=SMOKE_LANGUAGE,
    hmm=SMOKE_HMM,
    hmm_tasks=("state2", "state3"),
    hmm_sizes=SIZES["smoke"],
    lstm_sizes=LSTM_SIZES["smoke"],
    opt=SMOKE_TEACHER,
    opt_sizes=SIZES["smoke"],
    language_sentences=500,
    corpus_sentences=20_000,
    optimisation=Optimisation(steps=160, batch=64, lr=1e-2),
    study_size="3K",
    hmm_study_size="3K",
    study_steps=160,
    noise_length=2,
    checkpoints=_LONG.checkpoints,
    resume_every=50,
    downstream=replace(_LAPTOP.downstream, tasks=("root", "span2"), train=400, test=400),
    probe=ProbeSettings(epochs=20, batch=64),
    projection=16,
    finetune=FinetuneSettings(epochs=2, lr=1e-3, warmup_steps=2),
    finetune_sentences=400,
    saturation_sentences=500,
    trace_sentences=200,
    gap_sentences=64,
    gap_batch=16,
    comparison_sentences=1024,
    measure_sentences=50,
    chain_steps=10,
    dyck=SMOKE_DYCK,
    flow=SMOKE_FLOW,
    max_hours=0.1,
    left_out=frozenset(),
)

_PAPER = replace(
    _LONG,
    name="paper",
    sizes=SIZES["paper"],
    language=PAPER_LANGUAGE,
    hmm=PAPER_HMM,
    hmm_tasks=("state6", "state10"),
    hmm_sizes=LSTM_SIZES["paper"],
    opt_sizes=SIZES["paper"],
    lstm_sizes=LSTM_SIZES["paper"],
    language_sentences=100_000,
    corpus_sentences=20_000_000,
    optimisation=Optimisation(steps=30_000, batch=4096, lr=1e-3),
    study_size="235M",
    hmm_study_size="67M",
    study_steps=30_000,
    execution=Execution(autocast=True, compiled=True, by_length=True),
    micro_batch=512,
    resume_every=2500,  # a saved state costs as much as some tens of steps
    seeds=1,
    probe=ProbeSettings(),
    projection=512,
    finetune=FinetuneSettings(),
    finetune_sentences=20_000,
    downstream=replace(
        _LAPTOP.downstream,
        tasks=("root", "span16", "span8"),
        train=20_000,  # a probe holds the features of all its sentences in memory
        test=10_000,
        probe_seeds=5,
    ),
    saturation_sentences=20_000,
    trace_sentences=10_000,
    trace_labels=50,
    max_hours=24.0,
    workers=1,
)

_GPU_SIZES = {name: SIZES["paper"][name] for name in ("2M", "5M", "9M", "13M", "41M")}

_GPU = replace(
    _PAPER,
    name="gpu",
    sizes=_GPU_SIZES,
    hmm_sizes=_GPU_SIZES,
    lstm_sizes={},
    opt_sizes=_GPU_SIZES,
    corpus_sentences=4_000_000,
    optimisation=Optimisation(steps=10_000, batch=1024, lr=1e-3),
    study_size="9M",
    hmm_study_size="9M",
    study_steps=10_000,
    resume_every=5000,
    micro_batch=1024,
    seeds=3,
    downstream=replace(_PAPER.downstream, probe_seeds=3),
    trace_labels=1,
    max_hours=2.0,
)

PRESETS = {preset.name: preset for preset in (_SMOKE, _LAPTOP, _LONG, _GPU, _PAPER)}
