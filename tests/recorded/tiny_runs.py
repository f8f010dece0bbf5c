"""One or more tiny runs of every class of runs, whose results are recorded.

Trainings take a dozen steps, so that rounding, which differs between processors, has no time to grow;
fine-tuning is fast enough for its predictions to depend on every setting.
"""

from dataclasses import fields, replace

from small_growth import LANGUAGE, SMALL, TRAINING
from toy_runs import TINY

from sameloss.images import ImageSource
from sameloss.languages import HierarchySpec, HMMSpec, LanguageSpec, TeacherSpec
from sameloss.languages.grammars.formats import GrammarText
from sameloss.measures.downstream import OptimalProbe
from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.encoder import EncoderShape
from sameloss.runs.measurements import Calibration, LanguageMeasurement, Probing
from sameloss.runs.pretraining import CoolDown, Pretraining
from sameloss.runs.sampling import (
    CorpusSampling,
    Downstream,
    HeldOutConditionals,
    LabelledSampling,
)
from sameloss.store.store import Run
from sameloss.studies.decision_lists.experiment import (
    Steps,
    TaskShape,
    list_curves,
    list_descents,
    list_flows,
    list_proofs,
    list_sgd,
)
from sameloss.studies.dyck.experiment import (
    DyckSettings,
    dyck_features,
    dyck_minimisation,
    dyck_training,
    dyck_transfer,
)
from sameloss.studies.growing.experiment import Member, Operator, Stage, base_training
from sameloss.studies.local_signal.experiment import (
    FilterDescent,
    TangentStarts,
    proof_table,
    signal_flows,
    signal_sgd,
    tangent_rows,
)
from sameloss.studies.local_signal.theory import Patches
from sameloss.studies.local_signal_images.experiment import KernelFit, image_comparison, lazy_training
from sameloss.studies.local_signal_images.theory import LogisticDescent, PooledCNN, Scene
from sameloss.studies.manifold_flow.experiment import (
    FLOW_LANGUAGE,
    AdamDrift,
    FlowSettings,
    Landscape,
    SGDDrift,
)
from sameloss.studies.same_loss.estimators import (
    estimator_measurement,
    identity_measurement,
    reparametrisation_measurement,
)
from sameloss.studies.same_loss.experiment import (
    Measures,
    flatness_measurement,
    language_baselines,
    model_measurement,
)
from sameloss.studies.stability.experiment import TwinTraining
from sameloss.studies.stability.training import Descent, Perceptron, RandomFeatures, SmallCNN
from sameloss.training.loop import Execution, Optimisation
from sameloss.training.objectives import ALGORITHMS, EXACT, recipe

HMM = HMMSpec(
    states=4,
    words=6,
    length=4,
    blocks=2,
    transition_concentration=0.3,
    emission_concentration=1.0,
    smoothing=0.1,
)

TEACHER = TeacherSpec(words=4, max_length=3, topics=2, d_model=4)

RECURSIVE = GrammarText("S S A 0.4\nS x 0.4\nS y 0.2\nA x 0.3\nA z 0.7", length_limit=5)

HIERARCHY = HierarchySpec(levels=2, symbols=3, rules=2, smoothing=0.1)

LANGUAGES = {
    "PCFG": TINY,
    "hierarchy": HIERARCHY,
    "HMM": HMM,
    "OPT stand-in": TEACHER,
    "text": RECURSIVE,
}

CORPUS = CorpusSampling(TINY, 300, seed=0)

HMM_CORPUS = CorpusSampling(HMM, 200, seed=0)

FEW = CorpusSampling(TINY, 20, seed=0)

ENDLESS = CorpusSampling(HMM, None, seed=0)

ENDLESS_TEXT = CorpusSampling(RECURSIVE, None, seed=0)

SHAPE = EncoderShape(d_model=8, heads=2, layers=1, d_inter=16)

LABELLED = LabelledSampling(
    TINY, Downstream(("root", "span2"), "likelihood", train=130, test=200, probe_seeds=2, seed=0)
)


def trained(algorithm: str = "adamw", shape: EncoderShape | BiLSTMShape = SHAPE) -> Pretraining:
    """A training of a dozen steps."""
    changed = recipe(algorithm)
    return Pretraining(
        CORPUS,
        shape,
        replace(Optimisation(steps=12, batch=16, lr=1e-2), **changed.optimisation),
        seed=0,
        checkpoints=(6, 12),
        micro_batch=8,
        resume_every=6,
        objective=changed.objective,
        norm=changed.norm,
        dropout=changed.dropout,
        downstream=LABELLED if changed.objective.adversary else None,
        origin=exactly_trained() if algorithm in TREATMENTS else None,
    )


TREATMENTS = ("sgd-noise", "penalty-after", "sharpen-after")
"""Algorithms that start from a saturated model."""


def exactly_trained() -> Pretraining:
    """A training on exact labels."""
    return replace(trained(), objective=EXACT)


def cooled(target_share: float) -> CoolDown:
    """A cool-down after label noise, of at most a dozen steps."""
    run = replace(exactly_trained(), origin=trained("sgd-noise"), checkpoints=(12,))
    given = {field.name: getattr(run, field.name) for field in fields(run)}
    about = {"held_out": held_out(TINY), "reference": exactly_trained(), "look_every": 4}
    return CoolDown(**given, **about, target_share=target_share)


def held_out(language: LanguageSpec) -> HeldOutConditionals:
    """Sentences with their conditionals."""
    return HeldOutConditionals(language, 50, 0)


def sampled() -> dict[str, Run]:
    """Corpora, labelled sentences and conditionals."""
    posterior = replace(LABELLED.downstream, label_kind="posterior")
    return {
        **{f"corpus, {name}": CorpusSampling(spec, 200, 0) for name, spec in LANGUAGES.items()},
        "corpus, of the trainings": CORPUS,
        "corpus, few": FEW,
        "corpus, endless": ENDLESS,
        "corpus, endless text": ENDLESS_TEXT,
        "labelled, drawn": LABELLED,
        "labelled, posterior": replace(LABELLED, downstream=posterior),
        **{f"held out, {name}": held_out(spec) for name, spec in LANGUAGES.items()},
    }


def measured_languages() -> dict[str, Run]:
    """Measurements of languages."""
    tasks = {"PCFG": ("root", "span2"), "HMM": ("state2",), "OPT stand-in": ("topic",), "text": ()}
    return {
        **{f"language, {name}": LanguageMeasurement(LANGUAGES[name], tasks[name], 100, 0) for name in tasks},
        "calibration, PCFG": Calibration(TINY, 0.7, 3.9, (0.1, 2.0), 200, 0),
        "calibration, HMM": Calibration(HMM, 1.0, None, (0.1, 2.0), 200, 0),
    }


RENAMED = {
    "sgd-noise": "sgd-noise, lr 0.3",
    "penalty-after": "penalty-after, log",
    "sharpen-after": "sharpen-after, log",
}
"""Names under which the present recipes of some algorithms are recorded."""


def trainings() -> dict[str, Run]:
    """Trainings by every algorithm, and with other models, sentences and executions."""
    return {
        **{f"training, {RENAMED.get(name, name)}": trained(name) for name in ALGORITHMS},
        "training, exact labels": exactly_trained(),
        "training, cooled": cooled(1e-3),
        "training, cooled early": cooled(100.0),
        "training, LSTM": trained(shape=BiLSTMShape(d_model=8, layers=1)),
        "training, HMM": replace(trained(), corpus=HMM_CORPUS),
        "training, endless": replace(trained(), corpus=ENDLESS),
        "training, by length": replace(trained(), corpus=ENDLESS_TEXT, execution=Execution(by_length=True)),
    }


def measured() -> dict[str, Run]:
    """Measurements of one training."""
    model = trained()
    measures = Measures(64, 16, train=40, probe_sets=2, few_labels=(20,), many_labels=100, trace_sentences=40)
    return {
        "model, read in all ways": model_measurement(model, 12, LABELLED, held_out(TINY), measures, True),
        "baselines": language_baselines(LABELLED, held_out(TINY), measures),
        "probing, untrained and solved": Probing(model, (0, 12), LABELLED, OptimalProbe()),
        "flatness, all measures": flatness_measurement(model, 12, 24, 0),
        "estimators": estimator_measurement(model, 1024, 0),
        "reparametrisation": reparametrisation_measurement(model, 24, 0, 2),
        "identity": identity_measurement(TINY, SHAPE, (0, 12), 1e-2, 0),
    }


def dyck() -> dict[str, Run]:
    """The runs of the bracket language."""
    settings = DyckSettings(
        width=4,
        restarts=2,
        minimisation_steps=250,
        samples=(1, 5),
        repetitions=200,
        feature_widths=(16, 128),
        feature_seeds=2,
        seeds=2,
        training_steps=36,
    )
    return {
        "dyck, search, two neurons": dyck_minimisation(settings, 2),
        "dyck, search": dyck_minimisation(settings, 4),
        "dyck, transfer": dyck_transfer(settings),
        "dyck, features": dyck_features(settings),
        "dyck, training": dyck_training(settings),
    }


def flows() -> dict[str, Run]:
    """The runs along the minimisers."""
    settings = FlowSettings(
        halvings=1,
        batches=(1, 4),
        relative_rates=(1.0, 2.0),
        replicas=16,
        horizon=1.0,
        finite_batches=(1, 4),
        adam_rates=(0.02, 0.01),
        adam_replicas=8,
        adam_horizon=0.02,
        end_horizon=0.05,
        flat_horizon=0.5,
        landscape_steps=200,
    )
    instance = (FLOW_LANGUAGE, FLOW_LANGUAGE.words, 3.0, settings, 0)
    starts = ((0.45, 1.35), (1.4, 0.0))
    return {
        "flow, SGD": SGDDrift(*instance),
        "flow, Adam": AdamDrift(*instance),
        "flow, landscape": Landscape(0.7, starts, ("large", "small"), 0.04, 4, 200, 0),
    }


def growing() -> dict[str, Run]:
    """The runs of growing."""
    held_out = HeldOutConditionals(LANGUAGE, 16, 0)
    growth = replace(SMALL, steps=6, lag=2, evaluations=3, held_out=held_out)
    base = base_training(LANGUAGE, SMALL.shape, TRAINING.lasting(12), 0, label_noise=0.0)
    candidates, not_grown = growth.candidates(base, growth.operators), growth.candidates(base, ())
    return {
        "growing, corpus": base.corpus,
        "growing, held out": held_out,
        "growing, base": base,
        "growing, candidates": candidates,
        "growing, not grown": not_grown,
        "growing, member": Member(candidates, 1),
        **stages(held_out),
    }


def stages(held_out: HeldOutConditionals) -> dict[str, Run]:
    """The last stage of stacking by LAG, and its ancestors."""
    shape, copies = replace(SMALL.shape, layers=1), [Operator(index, 1, "duplicate") for index in range(2)]
    base = base_training(LANGUAGE, shape, TRAINING.lasting(6), 0, label_noise=0.0)
    first = Stage(base, (copies[0],), 1, 6, (6,), "mapped", held_out, 0, False)
    last = Stage(first, tuple(copies), 1, 8, (2, 4, 6, 8), "mapped", held_out, 1, True)
    return {"stacking, base": base, "stacking, first": first, "stacking, last": last}


def lists() -> dict[str, Run]:
    """The runs of decision lists."""
    task = TaskShape(9, 3, 3)
    return {
        "lists, flows": list_flows(task, (30.0,), (16,), 1e6),
        "lists, curves": list_curves(task, (30.0,), 1e6),
        "lists, descents": list_descents((task,)),
        "lists, proofs": list_proofs(2, 0),
        "lists, scores": list_sgd(task, 30.0, Steps(0.05, 8, 12, 3), 50, 0),
        "lists, both": list_sgd(task, None, Steps(1.0, 8, 12, 3), 50, 0),
    }


def stability() -> dict[str, Run]:
    """Twins of each network."""
    digits, descent = ImageSource(pool=60, tested=20), Descent(0.05, 4, 12, momentum=0.5)
    networks = {"perceptron": Perceptron((5,)), "CNN": SmallCNN((3,)), "features": RandomFeatures(9)}
    return {
        f"stability, {name}": TwinTraining(digits, network, descent, 8, 2, (0, 1), (6, 12), 1)
        for name, network in networks.items()
    }


def local_signal() -> dict[str, Run]:
    """Flows, descents and best filters, with few rows."""
    patches, descent = Patches(8), FilterDescent(0.2, 1e-3)
    return {
        "signal, flows": signal_flows((4, 8), (1.0,), descent, 20.0),
        "signal, descent": signal_sgd(patches, descent, 3, 4, 60, 0),
        "signal, tangent": tangent_rows(Patches(1000), TangentStarts((1, 2), 2, 1, 20), 0),
        **{f"signal, {part}": proof_table(part) for part in ("counter-examples", "turns")},
    }


def local_signal_images() -> dict[str, Run]:
    """A network compared with its kernel and its linearisation, and one in lazy training."""
    about = (
        ImageSource(pool=40, tested=20, halves=True),
        Scene("random place", 10, 0.5),
        PooledCNN((3,), (2,)),
    )
    descent, linear = LogisticDescent(0.01, 8, 6), LogisticDescent(0.001, 8, 6, "SGD")
    return {
        "images, kernel": image_comparison(*about, descent, 16, 0, KernelFit((0.01, 1.0))),
        "images, linearised": image_comparison(*about, descent, 16, 0, None, linear),
        "images, lazy": lazy_training(*about, linear, 16, 0, (1.0, 10.0)),
    }


def tiny_runs() -> dict[str, Run]:
    """All tiny runs by name."""
    own = (
        sampled,
        measured_languages,
        trainings,
        measured,
        dyck,
        flows,
        growing,
        lists,
        stability,
        local_signal,
        local_signal_images,
    )
    return {name: run for runs in own for name, run in runs().items()}
