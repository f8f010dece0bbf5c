"""The pages of this study: what each may set, compares, reads and judges."""

import numpy as np
import pandas as pd
import pytest
from made_up import changed, fill, made_up

from sameloss.errors import ParameterError
from sameloss.studies.config import replaced
from sameloss.studies.evidence import Source
from sameloss.studies.same_loss.claims import CLAIMS
from sameloss.studies.same_loss.groups import (
    ARMS,
    EVERYTHING,
    HMM,
    MAIN,
    OPT,
    SAM,
    SGD_AFTER_ADAMW_HMM,
    protocol_runs,
    protocols,
    readings,
)
from sameloss.studies.same_loss.languages import CANDIDATES, search_runs
from sameloss.studies.same_loss.pages import BESIDE, PLANS, QUOTED, STUDY, WholeStudy
from sameloss.studies.same_loss.results import label_budget_runs
from sameloss.studies.same_loss.settings import LAPTOP_LANGUAGE, PRESETS, Shown
from sameloss.studies.verdict import COLUMNS


def ids(claims):
    return {claim.id for claim in claims}


def languages(claim):
    return {arm.of(Shown()).language for arm in claim.arms}


# What is judged


@pytest.mark.parametrize("name", sorted({claim.page for claim in CLAIMS}))
def test_by_default_every_claim_of_a_page_is_judged(name, filled):
    page = filled(name)
    assert ids(page.claims()) == {claim.id for claim in CLAIMS if claim.page == name}
    assert all(claim.page == name for claim in page.claims())


@pytest.mark.parametrize("name", ["02_existence", "04_flatness"])
def test_a_page_about_the_hmm_judges_no_claim_about_the_grammar(name, filled):
    """Its numbers are of another language than those of the paper that they would stand beside."""
    page = filled(name, language="HMM")
    assert page.group.language == "HMM"
    assert page.group.domain.language == page.config.domains["HMM"].language
    assert page.group.corpus.language == page.config.domains["HMM"].language
    of_the_page = [claim for claim in CLAIMS if claim.page == name]
    assert ids(page.claims()) == {claim.id for claim in of_the_page if "PCFG" not in languages(claim)}
    assert {claim.id for claim in of_the_page if languages(claim) == {"HMM"}} <= ids(page.claims())
    verdicts = page.verdicts()
    assert set(verdicts.id) == ids(page.claims())
    assert not verdicts.claim.str.contains("PCFG").any()
    assert not set(verdicts.task.dropna()) & {"root", "span2"}


def test_the_hmms_claims_are_judged_by_what_the_hmm_gave(filled):
    """Whatever the page's main language is."""
    page = filled("02_existence", language="HMM")
    hmm = page._found[HMM.of(page.config.shown)]
    rng = np.random.default_rng(1)
    equal = {key: rng.random((6, 3, 400, 2)) < 0.5 for key in hmm.probes}
    page._found[HMM.of(page.config.shown)] = changed(hmm, hmm.checkpoints, probes=equal)
    verdicts = page.verdicts().set_index("id")
    assert verdicts.verdict["fig9-hmm"] == "not decided"
    assert abs(verdicts.ours["fig9-hmm"]) < 2
    plain = filled("02_existence").verdicts().set_index("id")
    assert plain.ours["fig9-hmm"] == pytest.approx(20, abs=3)
    assert plain.task["fig9-hmm"] == verdicts.task["fig9-hmm"] == "state2"


@pytest.mark.parametrize("given", [{"algorithm": "adversarial"}, {"algorithm": "sam", "strength": 0.1}])
def test_a_page_about_another_algorithm_judges_no_claim_about_ordinary_training(given, filled):
    page = filled("02_existence", **given)
    assert page.group.algorithm == given["algorithm"]
    assert page.claims() == []
    assert page.verdicts().empty
    assert tuple(page.verdicts().columns) == COLUMNS
    flatness = filled("04_flatness", **given)
    assert not {MAIN, HMM, OPT} & {arm for claim in flatness.claims() for arm in claim.arms}


def test_ordinary_training_by_its_name_is_the_default(filled):
    given = {"algorithm": "adamw", "language": "PCFG"}
    assert ids(filled("02_existence", **given).claims()) == ids(filled("02_existence").claims())


def test_a_page_about_one_size_judges_its_own_claims_alone(filled):
    """Which need a second size are not testable; those about other groups are not there."""
    page = filled("04_flatness", size="3K")
    assert [arm.language for arm in page.arms] == ["PCFG"]
    verdicts = page.verdicts().set_index("id").verdict
    assert set(verdicts.index) == {
        claim.id for claim in CLAIMS if claim.page == "04_flatness" and claim.arms == (MAIN,)
    }
    assert (verdicts[["fig5-trace", "fig5-trace-matched"]] == "not testable here").all()
    assert verdicts["fig3-trace-adamw"] == "direction confirmed"


def test_a_row_says_what_was_claimed_and_what_was_found(filled):
    page = filled("02_existence")
    row = page.verdicts().set_index("id").loc["fig9"]
    effect = next(claim for claim in CLAIMS if claim.id == "fig9").compute([page.of(MAIN)])
    assert (row.ours, row.low, row.high) == effect
    assert (row.place, row.unit, row.task) == ("Fig. 9", "accuracy points", "root")
    assert row.verdict == "direction confirmed"
    assert pd.isna(row.paper)


def test_the_readers_tolerance_stands_for_all(filled):
    def verdict(**given):
        return filled("02_existence", **given).verdicts().set_index("id").verdict["fig2"]

    assert verdict() == "larger than published"  # 20 points where 6.9 are published
    assert verdict(tolerance=4) == "reproduced"


def test_models_that_are_not_saturated_make_no_claim_testable(opened):
    """Nor is any contradicted, however far they are from the entropy."""
    page = opened("02_existence")
    for arm in page.arms:
        found = made_up(arm.group(page.config), page.store)
        far = found.checkpoints.assign(kl_mean=100 * found.checkpoints.kl_mean, saturated=False)
        page._found[arm] = changed(found, far)
    assert set(page.verdicts().verdict) == {"not testable here"}


def test_a_page_may_quote_the_claims_of_others_that_are_about_what_it_compares(filled):
    page = filled("01_introduction")
    assert QUOTED["01_introduction"] == ("02_existence", "04_flatness", "a4_algorithms")
    quoted = [claim for claim in CLAIMS if claim.page in QUOTED["01_introduction"]]
    assert ids(page.claims()) == {claim.id for claim in quoted if set(page._meant(claim)) <= set(page.arms)}
    assert {"fig2", "fig2-hmm", "tab1-adversarial-A", "noise-trace"} <= ids(page.claims())
    assert "fig3-trace" not in ids(page.claims())  # of SGD after AdamW, which is not compared there
    assert page.verdicts().id.tolist() == [claim.id for claim in page.claims()]


def test_a_pages_own_verdicts_are_among_the_evidence(filled):
    page = filled("02_existence")
    verdicts = page.verdicts()
    evidence = page.evidence(verdicts)
    own = evidence[evidence.source == Source("smoke", page.config.training.seeds)]
    assert own.id.tolist() == verdicts.id.tolist()
    assert own.verdict.tolist() == verdicts.verdict.tolist()


def test_every_claim_belongs_to_a_question(filled):
    topics = filled("02_existence").topics
    assert [claim.id for topic in topics for claim in topic.claims] == [claim.id for claim in CLAIMS]
    assert len({topic.question for topic in topics}) == len(topics)
    assert all(topic.question.endswith("?") for topic in topics)


# What is compared


def test_the_page_on_existence_asks_for_all_that_its_controls_read(opened):
    page = opened("02_existence")
    groups = list(protocols(page.group).values())
    others = [arm.group(page.config) for arm in (HMM, OPT)]
    groups += [protocols(other)[name] for other in others for name in readings(other)]
    own = (page.group, *others)  # whose comparisons read the last models already
    read = [
        run
        for group in groups
        for steps in ((0,), None if group in own else group.steps[-1:])
        for run in group.probings(steps).values()
    ]
    assert {run.key for run in read} <= {run.key for run in page.runs()}


def test_and_for_the_search_that_found_its_language(opened):
    """Where there was one: of every language that it looked at, the sentences and the probe."""
    page = opened("02_existence", preset="laptop")
    searched = {run.key for run in search_runs(page.group)}
    assert searched <= {run.key for run in page.runs()}
    assert len(searched) == 2 * (1 + CANDIDATES.index(LAPTOP_LANGUAGE))
    assert search_runs(opened("02_existence").group) == []


def test_results_of_an_arm_are_gathered_once(opened, monkeypatch):
    gathered = []

    def collect(store, group):
        gathered.append(group.language)
        return made_up(group, store)

    monkeypatch.setattr("sameloss.studies.same_loss.pages.collect", collect)
    page = opened("02_existence")
    assert page.of(MAIN) is page.of(MAIN.of(page.config.shown))
    assert page.of(HMM) is page.of(HMM)
    assert gathered == ["PCFG", "HMM"]


def test_others_are_those_beside_the_main_one(opened):
    assert [arm.language for arm in opened("02_existence").others(MAIN, HMM, OPT)] == ["HMM", "OPT"]
    assert [arm.language for arm in opened("02_existence", language="HMM").others(MAIN, HMM, OPT)] == ["OPT"]
    assert opened("02_existence", size="1K").others(MAIN, HMM, OPT) == []
    assert opened("02_existence").others(SAM) == []  # which the page does not compare


def test_what_the_preset_leaves_out_is_not_compared(opened):
    page = opened("a4_algorithms", preset="laptop")
    left_out = page.config.training.left_out
    assert not {arm.label for arm in page.arms} & left_out
    flatness, own = opened("04_flatness", preset="laptop"), {"fig3-trace-hmm", "fig3-hmm", "fig10-hmm"}
    assert SGD_AFTER_ADAMW_HMM not in flatness.arms
    assert own <= {claim.id for claim in flatness.claims()}  # not testable here, yet recorded
    for other in (
        opened("01_introduction", preset="laptop"),
        opened("04_flatness", preset="laptop", size="40K"),
    ):
        assert not own & {claim.id for claim in other.claims()}
    for preset, meant in {"laptop": [], "laptop-long": [SGD_AFTER_ADAMW_HMM]}.items():
        asked = opened("04_flatness", preset=preset, language="HMM")
        judged = {claim.id: asked._meant(claim) for claim in asked.claims()}
        assert judged["fig3-hmm"] == meant
    assert {arm.label for arm in opened("a4_algorithms", preset="laptop-long").arms} > {
        arm.label for arm in page.arms
    }
    for preset, strengths in {"laptop": [None], "laptop-long": [None, 0.003, 0.006, 0.012]}.items():
        page = opened("a4_algorithms", preset=preset)
        judged = {claim.id: page._meant(claim) for claim in page.claims()}
        assert [arm.strength for arm in judged["tab1-adversarial-A"]] == strengths


@pytest.mark.parametrize("algorithm", ["adversarial", "sgd", "dropout"])
def test_what_was_asked_for_is_shown_though_the_preset_leaves_it_out(algorithm, opened):
    page = opened("02_existence", preset="laptop", algorithm=algorithm)
    assert MAIN.of(page.config.shown) in page.arms
    assert {run.key for run in page.group.runs()} <= {run.key for run in page.runs()}


def test_tasks_are_all_or_the_one_asked_for(opened):
    assert opened("02_existence").tasks == ("root", "span2")
    assert opened("02_existence", task="span2").tasks == ("span2",)
    assert opened("02_existence", language="HMM").tasks == ("state2", "state3")
    assert opened("02_existence", task="span2").group.tasks == ("root", "span2")  # all are measured


def test_a_page_says_what_it_is_about(opened):
    page = opened("02_existence", size="1K", saturated_share=0.5)
    assert page.about == "preset smoke, size 1K"
    assert page.group.settings.evaluation.saturated_share == 0.5


# What is read


@pytest.mark.parametrize("name", PLANS)
def test_a_page_reads_what_it_compares_and_what_stands_beside(name, opened):
    page = opened(name, seeds=1) if "seeds" in STUDY.table(name) else opened(name)
    keys = {run.key for run in page.runs()}
    for arm in page.arms:
        assert {run.key for run in arm.group(page.config).runs()} <= keys
    assert bool(keys) == (name in ARMS or name in BESIDE)


def test_runs_beside_the_comparisons(opened):
    def kinds(name):
        return {run.kind for run in opened(name).runs()}

    compared = {"SaturationMeasurement", "TraceMeasurement", "Probing", "BaselineProbing"}
    assert kinds("02_existence") - compared == {"Finetuning", "LabelBudget", "BaselineLabelBudget"}
    assert kinds("04_flatness") - compared == {"HessianGapMeasurement", "EnlargementMeasurement"}
    assert kinds("a1_datasets") == {"LanguageMeasurement", "Calibration", "CorpusSampling"}
    assert kinds("a2_conditionals") == set()
    assert kinds("b1_trace") == {
        "IdentityMeasurement", "EstimatorComparison", "ReparametrisationMeasurement",
    }  # fmt: skip
    assert kinds("b2_enlargement") - compared == {"EnlargementMeasurement"}
    few = {"LabelBudget", "BaselineLabelBudget"}
    assert kinds("a4_algorithms") - compared == {"FlatnessMeasurement", *few}
    assert kinds("d_practice") - compared == {"FlatnessMeasurement"}


def test_all_pages_read_what_the_whole_study_does(opened):
    """Its arms and their readings are theirs, so that its verdicts train nothing new."""
    some = opened("02_existence", seeds=1)
    whole = WholeStudy("verdicts", some.config, some.store)
    compared = {run.key for name in ARMS for arm in ARMS[name] for run in arm.group(some.config).runs()}
    sizes = [arm.group(some.config) for arm in (MAIN, HMM, OPT)]
    read = {run.key for group in sizes for run in protocol_runs(group, readings(group))}
    main = [*sizes[0].measured("enlargement").values(), *label_budget_runs(sizes[0])]
    keys = {run.key for run in whole.runs()}
    assert keys == compared | read | {run.key for run in main}
    assert keys <= {run.key for name in ARMS for run in opened(name, seeds=1).runs()}
    assert set(whole.arms) == {arm.of(Shown()) for arm in EVERYTHING}


# What may be set


@pytest.mark.parametrize(
    ("page", "given"),
    [
        ("02_existence", {"replicas": 5}),
        ("02_existence", {"width": 4}),
        ("02_existence", {"trace_sentences": 9}),
        ("04_flatness", {"labels": "posterior"}),
        ("a1_datasets", {"trace_sentences": 9}),
        ("a1_datasets", {"size": "10K"}),
        ("a3_models", {"language": "HMM"}),
        ("e_mask_rate", {"size": "10K"}),
    ],
)
def test_a_parameter_of_another_page_is_refused_with_this_pages_own(page, given, opened):
    (name,) = given
    with pytest.raises(ParameterError) as refused:
        opened(page, **given)
    valid = ", ".join(STUDY.table(page))
    assert str(refused.value) == f"Unknown parameter {name!r}; valid here are {valid}."


@pytest.mark.parametrize("page", ["b1_trace", "b2_enlargement"])
def test_a_page_about_maps_of_transformers_refuses_an_lstm_before_it_trains(page, opened):
    with pytest.raises(ParameterError, match=r"^Size L856 is an LSTM, .*; choose one of 1K, 3K\.$"):
        opened(page, size="L856")


def test_the_page_on_flatness_enlarges_transformers_and_leaves_lstms_as_they_are(opened):
    enlarged = [
        any(run.kind == "EnlargementMeasurement" for run in opened("04_flatness", size=size).runs())
        for size in ("3K", "L856")
    ]
    assert enlarged == [True, False]


def test_every_page_with_runs_has_a_plan():
    assert set(ARMS) | set(BESIDE) <= set(PLANS) == set(STUDY.plans)


# All claims at once


def test_the_whole_study_judges_every_claim(opened):
    some = opened("02_existence")
    whole = fill(WholeStudy("verdicts", some.config, some.store))
    assert whole.claims() == list(CLAIMS)
    on_the_hmm = replaced(some.config, "shown.domain", "HMM")
    assert "fig2" not in ids(WholeStudy("verdicts", on_the_hmm, some.store).claims())


def test_a_preset_that_leaves_out_an_arm_still_judges_every_claim(opened):
    some = opened("02_existence", preset="laptop")
    assert WholeStudy("verdicts", PRESETS["laptop"], some.store).claims() == list(CLAIMS)


@pytest.mark.book
def test_untrained_models_make_no_claim_testable(opened):
    """After eight steps nothing is saturated, and every verdict says so."""
    brief = opened("02_existence", steps=8, seeds=2)
    whole = WholeStudy("verdicts", brief.config, brief.store)
    table = whole.verdicts()
    assert table.id.tolist() == [claim.id for claim in CLAIMS]
    assert set(table.verdict) == {"not testable here"}
