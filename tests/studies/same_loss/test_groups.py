"""Parameters become a setting, or one clear sentence."""

import os
import types

import pytest

from sameloss.device import best_device
from sameloss.errors import LanguageError, ParameterError, StoreError
from sameloss.studies.same_loss.parameters import Parameters, parameters_of, resolve
from sameloss.studies.same_loss.settings import PAPER_HMM, PAPER_LANGUAGE, PRESETS
from sameloss.training.execution import Execution


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": "28K"}, r"Unknown size '28K'; choose one of all, 1K, 3K, .*7K, .*235M"),
        ({"preset": "desktop"}, "Unknown preset 'desktop'; choose one of auto, smoke, laptop, laptop-long,"),
        ({"szie": "7K"}, "Unknown parameter 'szie'; valid are preset, size, task, language"),
        (
            {"task": "span64"},
            "Unknown task 'span64' for preset laptop; choose one of all, root, span4, span2",
        ),
        (
            {"language": "HMM", "size": "106K"},
            "Size 106K is not on HMM at preset laptop; choose one of all, 7K, 27K, L4K",
        ),
        ({"steps": 0}, "steps must be positive; got 0"),
        ({"steps": -5}, "steps must be positive; got -5"),
        ({"steps": "many"}, "steps must be a whole number; got 'many'"),
        ({"steps": 1.5}, "steps must be a whole number; got 1.5"),
        ({"steps": True}, "steps must be a whole number; got True"),
        ({"seeds": float("nan")}, "seeds must be positive; got nan"),
        ({"seeds": float("inf")}, "seeds must be a whole number; got inf"),
        ({"max_hours": "1h"}, "max_hours must be a number; got '1h'"),
        ({"size": 235}, "size must be a name; got 235"),
        ({"size": None}, "size must be a name; got None"),
        ({"corpus": "huge"}, "Unknown corpus 'huge'; choose one of fixed, endless"),
        ({"test_sentences": "new"}, "Unknown test_sentences 'new'; choose one of fresh, unseen"),
        ({"test_sentences": "unseen", "corpus": "endless"}, "test_sentences = unseen needs corpus = fixed"),
        ({"length_limit": 9}, "length_limit has an effect only together with grammar"),
        ({"glue": "folder"}, "glue has an effect only together with opt"),
        ({"grammar": "nowhere.txt"}, r"The grammar file nowhere.txt cannot be read"),
        (
            {"preset": "laptop", "size": "235M"},
            "Size 235M does not belong to preset laptop.*goes with preset paper",
        ),
        ({"preset": "paper", "size": "7K"}, "goes with preset laptop"),
        ({"device": "gpu"}, "Unknown device 'gpu'; choose one of auto, cpu, cuda"),
        ({"processes": 0}, "processes must be positive; got 0"),
    ],
)
def test_bad_parameters_say_what_is_valid(given, message):
    with pytest.raises(ParameterError, match=message):
        resolve(given)


@pytest.mark.parametrize(
    ("size", "preset"),
    [
        ("all", "laptop"),
        ("1K", "smoke"),
        ("27K", "laptop"),
        ("41M", "gpu"),
        ("235M", "paper"),
        ("730M", "paper"),
    ],
)
def test_the_preset_follows_the_size(size, preset):
    setting = resolve({"size": size})
    assert setting.preset.name == preset
    assert setting.sizes == (tuple(PRESETS["laptop"].sizes) if size == "all" else (size,))


def test_overrides_reach_the_runs():
    setting = resolve({"size": "7K", "steps": 1e3, "seeds": 2, "probe_seeds": 1, "trace_sentences": 50})
    assert setting.preset.optimisation.steps == 1000
    assert len(setting.pretrainings()) == 2
    assert setting.labelled.downstream.probe_seeds == 1
    assert next(iter(setting.traces().values())).sentences == 50
    assert setting.steps[-1] == 1000


def test_one_size_shares_its_runs_with_all_sizes():
    one, every = resolve({"size": "27K"}), resolve({})
    assert one.pretraining("27K", 1).key == every.pretraining("27K", 1).key
    assert one.probings()["27K", 1].key == every.probings()["27K", 1].key


def test_paper_shapes_are_the_papers():
    shape = resolve({"size": "235M"}).preset.sizes["235M"]
    assert (shape.d_model, shape.heads, shape.layers, shape.d_inter) == (1024, 16, 16, 4096)


def test_only_parameters_are_picked_from_a_namespace():
    namespace = {
        "size": "7K",
        "__name__": "x",
        "_i": 1,
        "In": [],
        "torch": types,
        "begin": resolve,
        "P": Parameters,
    }
    assert parameters_of(namespace) == {"size": "7K"}


def test_artifacts_lie_beside_the_config(tmp_path, monkeypatch):
    (tmp_path / "_config.yml").touch()
    (tmp_path / "chapters").mkdir()
    monkeypatch.chdir(tmp_path / "chapters")
    assert resolve({}).store.root == tmp_path / "artifacts"


def test_an_unwritable_artifacts_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"):
        resolve({"artifacts": str(tmp_path / "file")})


def test_an_endless_corpus_and_unseen_tests_reach_the_runs():
    plain = resolve({})
    assert resolve({"corpus": "endless"}).corpus.sentences is None
    unseen = resolve({"test_sentences": "unseen"})
    assert unseen.labelled.corpus == unseen.corpus == plain.corpus
    assert plain.labelled.corpus is None
    assert unseen.labelled.key != plain.labelled.key


def test_a_readers_grammar_takes_the_language_s_place(tmp_path):
    (tmp_path / "mine.txt").write_text("R A 0.5\nR B 0.5\nA A B 0.4\nA x 0.6\nB y 1")
    setting = resolve({"grammar": "mine.txt", "length_limit": 5})
    assert setting.preset.language.max_length == 5
    assert setting.tasks == ("root",)
    with pytest.raises(LanguageError, match="recursive, so no sentence is the longest; give length_limit"):
        resolve({"grammar": "mine.txt"})


def test_languages_are_named_honestly():
    names = list(resolve({}).language_measurements())
    assert names == ["PCFG", "HMM", "OPT stand-in", "PCFG, paper's shape", "HMM, paper's shape"]
    real = resolve({"opt": "facebook/opt-125m", "preset": "paper"})
    assert list(real.language_measurements()) == ["PCFG", "HMM", "facebook/opt-125m"]
    assert resolve({"opt": "x", "opt_corpus": "texts"}).preset.opt.corpus == "texts"
    assert real.language_measurements()["facebook/opt-125m"].sentences == 100


def test_large_presets_use_the_calibrated_languages():
    for name in ("gpu", "paper"):
        assert PRESETS[name].language == PAPER_LANGUAGE
        assert PRESETS[name].hmm == PAPER_HMM


def test_cuda_is_refused_where_there_is_none(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(
        ParameterError, match="device = cuda was asked for, but PyTorch finds no CUDA device here"
    ):
        resolve({"device": "cuda"})


def test_the_device_asked_for_is_that_of_workers_too(monkeypatch):
    monkeypatch.setenv("SAMELOSS_DEVICE", "")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    for name, device in {"auto": "cuda", "cpu": "cpu", "cuda": "cuda"}.items():
        resolve({"device": name})
        assert best_device() == device
        assert os.environ["SAMELOSS_DEVICE"] == ("" if name == "auto" else name)  # which workers inherit


def test_execution_options_reach_the_training():
    given = {"size": "2M", "preset": "gpu", "processes": 2, "micro_batch": 64}
    run = resolve(given).pretraining("2M", 0)
    assert run.execution == Execution(autocast=True, compiled=True, by_length=True, processes=2)
    assert run.micro_batch == 64
    adversarial = resolve(given | {"algorithm": "adversarial"}).pretraining("2M", 0)
    assert adversarial.execution == Execution(autocast=True, by_length=True)
    recurrent = resolve({"size": "L4K", "language": "HMM", "processes": 2}).pretraining("L4K", 0)
    assert recurrent.execution == Execution(processes=2)
    lstm = resolve({"size": "4M", "language": "HMM"}).pretraining("4M", 0)
    assert lstm.execution == Execution(by_length=True)
    with pytest.raises(
        ParameterError, match="batch of 1024 sentences cannot be shared equally by 3 processes"
    ):
        resolve(given | {"processes": 3}).pretraining("2M", 0)
