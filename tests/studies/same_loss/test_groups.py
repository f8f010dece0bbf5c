"""A group of pre-trainings: its runs are what its settings say, and what others have is shared."""

from dataclasses import replace

import pytest

from sameloss.errors import ParameterError
from sameloss.measures.downstream.adamw_probe import AdamWProbe
from sameloss.runs.cool_down import CoolDown
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.probing import BaselineProbing, Finetuning
from sameloss.studies.same_loss.groups import (
    BASELINES,
    COOLED,
    HMM,
    MEASUREMENTS,
    UNTREATED,
    protocol_runs,
    protocols,
    readings,
)
from sameloss.training.algorithms import recipe
from sameloss.training.execution import Execution
from sameloss.training.objectives import ORDINARY, Objective


@pytest.fixture
def group(opened):
    """Open a page and return its main group; `preset` is auto unless it is given."""
    return lambda page="04_flatness", **given: opened(page, **{"preset": "auto", **given}).group


def test_parameters_reach_the_runs(group):
    own = group(size="10K", steps=1e3, seeds=2, probe_seeds=1, trace_sentences=50, micro_batch=32)
    assert own.steps == (250, 500, 1000)
    assert set(own.pretrainings()) == {("10K", 0), ("10K", 1)}
    run = own.pretraining("10K", 1)
    assert (run.seed, run.optimisation.steps, run.checkpoints, run.micro_batch) == (1, 1000, own.steps, 32)
    assert run.shape == own.domain.shapes["10K"]
    assert own.labelled.downstream.probe_seeds == 1
    assert {m.sentences for m in own.measured("trace").values()} == {50}
    assert {probing.steps for probing in own.probings().values()} == {own.steps}


def test_labels_reach_the_probes_and_only_those(group):
    own = {kind: group("02_existence", labels=kind) for kind in ("likelihood", "posterior")}
    assert {kind: g.labelled.downstream.label_kind for kind, g in own.items()} == {k: k for k in own}
    assert len({g.probings()["40K", 0].key for g in own.values()}) == 2
    assert len({g.pretraining("40K", 0).key for g in own.values()}) == 1


def test_one_size_shares_its_runs_with_all_sizes(group):
    one, every = group(size="40K"), group()
    assert one.sizes == ("40K",)
    assert every.sizes == ("40K", "155K")
    for kind in set(MEASUREMENTS) - {"enlargement"}:  # to the width of the largest of the group
        assert one.measured(kind)["40K", 1].key == every.measured(kind)["40K", 1].key
    assert one.probings()["40K", 1].key == every.probings()["40K", 1].key
    assert (one.measured("enlargement")["40K", 1].width, every.measured("enlargement")["40K", 1].width) == (
        32,
        64,
    )


def test_pages_share_their_runs(group):
    a, b = group("02_existence"), group("04_flatness")
    assert [run.key for run in a.runs()] == [run.key for run in b.runs()]


def test_a_group_on_another_language_has_its_runs(group):
    """All of them: the corpus, the labels and the sentences that checkpoints are measured on."""
    own = group("02_existence", language="HMM")
    hmm = own.settings.domains["HMM"]
    assert own.sizes == ("10K", "40K")
    assert own.corpus.language == own.labelled.language == hmm.language
    assert own.tasks == own.labelled.downstream.tasks == ("state3", "state5")
    assert {m.held_out.language for m in own.measured("saturation").values()} == {hmm.language}
    beside = HMM.group(group("02_existence").settings)
    assert [run.key for run in own.runs()] == [run.key for run in beside.runs()]


def test_what_every_comparison_reads(group):
    own = group(preset="smoke", seeds=2)
    kinds = [run.kind for run in own.runs()]
    trained = len(own.sizes) * own.seeds
    assert kinds == [
        *trained * ["SaturationMeasurement"],
        *trained * ["TraceMeasurement"],
        *trained * ["Probing"],
        *trained * ["Probing"],  # of untrained models: sizes are compared net of them
        *len(BASELINES) * ["BaselineProbing"],
    ]
    probed = [run.steps for run in own.runs() if run.kind == "Probing"]
    assert probed == [*trained * [own.steps], *trained * [(0,)]]
    alone = group(preset="smoke", seeds=2, size="3K")
    assert {run.steps for run in alone.runs() if run.kind == "Probing"} == {alone.steps}
    assert set(own.baselines()) == set(BASELINES) == set(BaselineProbing.REPRESENTATIONS)


def test_every_measurement_is_of_its_pretraining(group):
    own = group(preset="smoke", seeds=1)
    for kind in MEASUREMENTS:
        for key, run in own.measured(kind).items():
            assert run.pretraining == own.pretraining(*key), kind
    tuned = own.measured("finetuning")["1K", 0]
    assert isinstance(tuned, Finetuning)
    assert tuned.labelled == own.labelled


def test_steps_are_shares_of_the_length_each_once(group):
    assert group(preset="smoke").steps == (10, 20, 40, 80, 120, 160)
    assert group(preset="smoke", steps=8).steps == (1, 2, 4, 6, 8)  # 1/16 and 1/8 are both the first
    assert group(preset="smoke", steps=1).steps == (1,)


def test_scaled_noise_goes_on_from_the_end_of_soft_labels_each_with_a_length_of_its_own(group):
    given = {"preset": "smoke", "algorithm": "sgd-noise", "strength": 0.5, "steps": 16}
    own = group("02_existence", **given)
    run = own.pretraining("3K", 2)
    assert (own.steps[-1], run.optimisation.steps, run.origin.optimisation.steps) == (32, 32, 16)
    assert run.objective == recipe("sgd-noise", 0.5).objective
    assert run.origin.objective == recipe("soft").objective
    assert (run.origin.seed, run.origin.origin) == (2, None)
    assert (
        group("02_existence", algorithm="soft", preset="smoke", steps=16).pretraining("3K", 2) == run.origin
    )
    longer = group("02_existence", preset="laptop-long", algorithm="soft", steps=16)
    assert longer.steps[-1] == 24


def test_the_first_steps_of_what_starts_from_nothing_have_exact_labels(group):
    def exact(algorithm):
        return group(preset="laptop", algorithm=algorithm).pretraining("40K", 0).objective.exact_steps

    assert exact("adamw") == exact("adversarial") == 1200
    assert exact("soft") == exact("sgd-noise") == 0
    assert group(preset="smoke").pretraining("3K", 0).objective == ORDINARY


def test_only_an_adversary_reads_the_tasks(group):
    assert group(preset="smoke").pretraining("3K", 0).downstream is None
    adversary = group(preset="smoke", algorithm="adversarial", strength=0.01)
    assert adversary.pretraining("3K", 0).downstream == adversary.labelled
    assert adversary.pretraining("3K", 0).objective == recipe("adversarial", 0.01).objective


def test_an_endless_corpus_and_unseen_tests_reach_the_runs(group):
    plain, unseen = group(), group(test_sentences="unseen")
    assert group(corpus="endless").corpus.sentences is None
    assert unseen.labelled.corpus == unseen.corpus == plain.corpus
    assert plain.labelled.corpus is None
    assert unseen.labelled.key != plain.labelled.key
    assert unseen.pretraining("10K", 0).key == plain.pretraining("10K", 0).key


def test_a_readers_grammar_is_what_is_trained_on(group, tmp_path):
    (tmp_path / "mine.txt").write_text("R A 0.5\nR B 0.5\nA A B 0.4\nA x 0.6\nB y 1")
    own = group(grammar=str(tmp_path / "mine.txt"), length_limit=5)
    assert own.corpus.language.max_length == 5
    assert own.labelled.downstream.tasks == ("root",)


def test_execution_options_reach_the_training(group):
    given = {"size": "2M", "preset": "gpu", "processes": 2, "micro_batch": 64}
    run = group(**given).pretraining("2M", 0)
    assert run.execution == Execution(autocast=True, compiled=True, by_length=True, processes=2)
    assert run.micro_batch == 64
    adversarial = group(**given, algorithm="adversarial").pretraining("2M", 0)
    assert adversarial.execution == Execution(autocast=True, by_length=True)
    recurrent = group(size="L4K", language="OPT", processes=2).pretraining("L4K", 0)
    assert recurrent.execution == Execution(processes=2)
    lstm = group(size="4M", language="HMM").pretraining("4M", 0)
    assert lstm.execution == Execution(by_length=True)
    with pytest.raises(ParameterError, match="1024 sentences cannot be shared equally by 3 processes"):
        group(**given | {"processes": 3}).pretraining("2M", 0)


def test_another_probe_is_another_run_on_the_same_sentences(group):
    own = group(preset="smoke")
    other = replace(own, probe=AdamWProbe(epochs=1, batch=64))
    assert other.labelled.key == own.labelled.key
    assert other.pretraining("1K", 0).key == own.pretraining("1K", 0).key
    assert other.probings()["1K", 0].key != own.probings()["1K", 0].key
    assert other.baselines()["lookup table"].key != own.baselines()["lookup table"].key


def test_protocols_differ_in_the_probe_alone(group):
    own = group(preset="smoke")
    others = protocols(own)
    adamw, solved = own.settings.evaluation.adamw_probe, own.settings.evaluation.optimal_probe
    assert own.probe == solved
    assert {name: other.probe for name, other in others.items()} == {
        "solved": solved,
        "solved, 16 dimensions": replace(solved, projection=16),
        "AdamW": adamw,
        "AdamW, 16 dimensions": replace(adamw, projection=16),
        "AdamW, raw features": replace(adamw, standardise=False),
        "AdamW, raw features, lr × 10": replace(adamw, standardise=False, lr=10 * adamw.lr),
    }
    assert list(others)[:3] == ["solved", "solved, 16 dimensions", "AdamW"] == list(readings(own))
    assert all(replace(other, probe=solved) == own for other in others.values())
    runs = protocol_runs(own)
    assert len({run.key for run in runs}) == len(others) * (2 * len(own.pretrainings()) + len(BASELINES))
    read = {name: {r.steps for r in protocol_runs(own, [name]) if r.kind == "Probing"} for name in others}
    assert read.pop("solved") == {(0,), own.steps}  # its comparisons read the last models already
    assert all(steps == {(0,), own.steps[-1:]} for steps in read.values())
    some = protocol_runs(own, ["AdamW"])
    assert {run.probe for run in some} == {adamw}
    assert {run.key for run in some} < {run.key for run in runs}


def test_a_rate_is_for_a_width_and_falls_as_models_grow_wider(group):
    own = group()
    assert own.settings.training.rate_width == own.domain.shapes["40K"].d_model == 32
    rates = {size: own.pretraining(size, 0).optimisation.lr for size in own.sizes}
    lr = own.settings.training.optimisation.lr
    assert rates == {"40K": lr, "155K": lr / 2}
    smoke = group(preset="smoke")
    assert {run.optimisation.lr for run in smoke.pretrainings().values()} == {1e-2}


def test_a_cooled_model_goes_on_from_the_treated_one_without_label_noise(opened):
    """On sentences of its own, which its KL is not reported on; nothing of the treatment goes on."""
    settings = opened("a4_algorithms").config
    cooling = settings.training.cooling
    own = next(arm for arm in COOLED if arm.algorithm == "sam-after").group(settings)
    treated = replace(own, cooled=False)
    assert own.steps == (cooling.steps,) != treated.steps
    run = own.pretraining("3K", 2)
    assert isinstance(run, CoolDown)
    assert run.origin == treated.pretraining("3K", 2)
    assert run.origin.origin == replace(treated, algorithm="soft", strength=None).pretraining("3K", 2)
    assert run.reference == UNTREATED.group(settings).pretraining("3K", 2).origin
    assert (run.seed, run.shape, run.corpus) == (2, own.domain.shapes["3K"], own.corpus)
    assert run.objective == Objective(label_noise=0.0)
    optimisation = settings.training.optimisation
    constant = {"warmup": 0.0, "schedule": "constant"}  # whoever stops earlier stops at the same rate
    assert run.optimisation == replace(optimisation, steps=cooling.steps, lr=cooling.lr, **constant)
    assert (run.target_share, run.look_every) == (cooling.target_share, cooling.look_every)
    (measured,) = {m.held_out for key, m in own.measured("saturation").items() if key == ("3K", 2)}
    assert run.held_out == HeldOutConditionals(own.domain.language, cooling.sentences, seed=1)
    assert measured.seed != run.held_out.seed
    assert {probing.steps for probing in own.probings().values()} == {own.steps}
