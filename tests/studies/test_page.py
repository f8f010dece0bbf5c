"""A page as a study declares it, and at work."""

import os
from dataclasses import dataclass

import pytest

from sameloss.device import best_device
from sameloss.errors import ParameterError, StoreError
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.parameters import Config, Parameter, param


@dataclass(frozen=True)
class Toy(Config):
    """The configuration of a study with one number."""

    number: int = param("to square", 2)


PRESETS = {"laptop": Toy("laptop"), "paper": Toy("paper", number=3)}


def finished(config, values):
    if config.number == 13:
        raise ParameterError("number must not be 13; choose another.")
    return config


STUDY = Study(
    PRESETS,
    {
        "plain": Plan(Page, "preset number max_hours device artifacts"),
        "bare": Plan(Page, "number size", {"number": 5}),
        "whole": Plan(Page),
    },
    lambda values: "laptop" if values.get("size", "all") == "all" else "paper",
    {"size": Parameter("of all", default="all")},
    finished,
)


def test_a_page_has_the_settings_that_were_asked_for(home):
    page = STUDY.open("plain", {"number": 7.0, "max_hours": 3, "artifacts": str(home / "elsewhere")})
    assert (page.name, page.config) == ("plain", Toy("laptop", 3.0, number=7))
    assert (page.config.name, page.config.max_hours) == ("laptop", 3.0)
    assert page.store.root == home / "elsewhere"
    assert page.about == "preset laptop"


def test_a_page_of_its_own_has_nothing_to_compute_or_to_judge(home):
    page = STUDY.open("plain", {})
    assert page.runs() == []
    assert page.verdicts().empty
    assert page.topics == ()
    assert page.statements().empty


def test_a_page_has_only_the_parameters_it_declares(home):
    """Those of other pages are refused with this page's own."""
    with pytest.raises(ParameterError) as refused:
        STUDY.open("plain", {"size": "all"})
    sentence = "Unknown parameter 'size'; valid here are preset, number, max_hours, device, artifacts."
    assert str(refused.value) == sentence


def test_a_page_may_have_defaults_of_its_own(home):
    assert STUDY.table("plain")["number"].default is None
    assert STUDY.table("bare")["number"].default == 5
    assert list(STUDY.table("bare")) == ["number", "size"]
    assert list(STUDY.table("whole"))[:4] == ["preset", "number", "max_hours", "workers"]
    assert STUDY.open("bare", {}).config.number == 5
    assert STUDY.open("bare", {"number": 6}).config.number == 6


def test_the_preset_is_the_readers_or_follows_the_other_parameters(home):
    assert STUDY.open("plain", {"preset": "paper"}).config == PRESETS["paper"]
    assert STUDY.open("bare", {"size": "7B"}).config.name == "paper"
    assert STUDY.resolve({}) == PRESETS["laptop"]
    with pytest.raises(ParameterError, match="Unknown preset 'desktop'; choose one of auto, smoke, laptop, "):
        STUDY.open("plain", {"preset": "desktop"})
    with pytest.raises(ParameterError, match=r"Unknown preset 'smoke'; choose one of laptop, paper\."):
        STUDY.open("plain", {"preset": "smoke"})  # of the book's, but not this study's


def test_a_study_may_refuse_what_no_single_parameter_can(home):
    with pytest.raises(ParameterError, match="number must not be 13"):
        STUDY.open("plain", {"number": 13})


def test_artifacts_lie_beside_the_config(home, monkeypatch):
    monkeypatch.chdir(home / "chapters")
    assert STUDY.open("plain", {}).store.root == home / "artifacts"


def test_an_unwritable_artifacts_folder(home):
    (home / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"):
        STUDY.open("plain", {"artifacts": str(home / "file")})


def test_an_unknown_device_is_refused(home):
    with pytest.raises(ParameterError, match="Unknown device 'gpu'; choose one of auto, cpu, cuda"):
        STUDY.open("plain", {"device": "gpu"})


def test_cuda_is_refused_where_there_is_none(home, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(
        ParameterError, match="device = cuda was asked for, but PyTorch finds no CUDA device here"
    ):
        STUDY.open("plain", {"device": "cuda"})


def test_the_device_asked_for_is_that_of_workers_too(home, monkeypatch):
    monkeypatch.setenv("SAMELOSS_DEVICE", "")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    for name, device in {"auto": "cuda", "cpu": "cpu", "cuda": "cuda"}.items():
        STUDY.open("plain", {"device": name})
        assert best_device() == device
        assert os.environ["SAMELOSS_DEVICE"] == ("" if name == "auto" else name)  # which workers inherit
