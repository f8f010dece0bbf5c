"""What runs on a GPU mixes no devices and computes what the CPU computes; the GPU is an emulated one."""

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from emulated_device import DEVICE, emulate
from quick_workers import FORKING

from sameloss.languages import HMMSpec, PCFGSpec, TeacherSpec
from sameloss.languages.masking import mask_batch
from sameloss.measures.downstream import (
    FinetuneSettings,
    OptimalProbe,
    contextual_features,
    finetune,
    one_hot_features,
)
from sameloss.measures.flatness import hessian, trace
from sameloss.measures.flatness.sharpness import local_learning_coefficient
from sameloss.measures.saturation import divergences
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.runs.measurements import flatness_measures, predictions
from sameloss.studies.same_loss.estimators import _forms, _three_traces
from sameloss.training.corpus import Corpus, write_corpus
from sameloss.training.objectives import (
    Adversary,
    Objective,
    TaskExamples,
    TracePenalty,
    loss_of,
)

LANGUAGES = {
    "PCFG": PCFGSpec(2, 2, 2, 2, 3, 4, 2, 1.0, 1.0, early_stop=(0.3, 0.4), smoothing=0.1, seed=3),
    "HMM": HMMSpec(4, 4, 4, 2, 1.0, 1.0, 0.1),
    "OPT": TeacherSpec(words=4, max_length=4),
}
OBJECTIVES = {
    "sampled labels": Objective(),
    "scaled noise": Objective(label_noise=0.5),
    "penalty": Objective(trace_penalty=TracePenalty(0.1)),
    "adversary": Objective(adversary=Adversary(0.1, sentences=8)),
}


class Data:
    """A model on the device; sentences of a language, masked ones and their conditionals on the CPU."""

    def __init__(self, device, language="PCFG"):
        self.device, self.language = device, LANGUAGES[language].build()
        self.model = Encoder(EncoderShape(4, 2, 1, 8), 4, 4, seed=0).double().to(device).eval()
        self.sentences = self.language.sample(40, seeded())
        positions = (torch.rand(40, generator=seeded()) * self.sentences.lengths).long()
        self.masked = mask_batch(self.sentences, positions)
        self.truth = self.language.conditionals(self.sentences)[torch.arange(40), positions]
        self.labels = torch.arange(40)[:, None] % 2


def seeded():
    return torch.Generator().manual_seed(0)


def conditionals(device, language):
    data = Data(device, language)
    sentences = data.sentences.to(device)
    task = data.language.tasks[0]
    found = [data.language.conditionals(sentences), data.language.log_prob(sentences)]
    found += [getattr(data.language, kind)(sentences, task) for kind in ("likelihood", "posterior")]
    assert {values.device.type for values in found} == {device}
    return [*found, divergences(data.model, sentences, found[0])]


def loss(device, language, objective):
    data = Data(device, language)
    examples = TaskExamples.labelled(data.sentences, data.labels, (2,))
    loss = loss_of(OBJECTIVES[objective], seeded(), data.language, examples)
    loss(data.model, data.masked.to(device)).total.backward()
    optimiser = torch.optim.AdamW(data.model.parameters(), fused=True)
    optimiser.step()
    return list(data.model.parameters())


def corpus(device):
    with TemporaryDirectory() as folder:
        write_corpus(Data(device).language, 100, 0, Path(folder))
        kept = Corpus(Path(folder)).on(device)
        return [*kept.batch(0, 0, 16), *kept.batch(0, 1, 16, 0.3)]


def traces(device):
    d = Data(device)
    about, drawn = (d.model, d.masked), {"generator": seeded(), "batch": 20}
    found = [trace.fisher_trace(*about, estimator=name, generator=seeded()) for name in trace.ESTIMATORS]
    found += [trace.minibatch_trace(*about, **drawn), hessian.fisher_gap(*about, d.truth, **drawn)]
    found += [hessian.hutchinson_trace(*about, d.truth, rank=1, **drawn)]
    return [estimated.total for estimated in found]


def measures(device):
    d = Data(device)
    chains = {"chains": 2, "steps": 2, "batch": 4, "lr": 1e-4, "localisation": 1.0, "generator": seeded()}
    found = dict(flatness_measures(d.model, d.masked, d.truth, seeded))
    return [*found.values(), local_learning_coefficient(d.model, d.masked, d.truth, **chains)]


def three_traces(device):
    d = Data(device)
    return list(_three_traces(d.model, d.masked.rows(slice(8)), d.truth[:8]).values())


def forms(device):
    d = Data(device)
    return [predictions(form, d.masked) for _, form in _forms(d.model, seeded())]


def probes(device):
    d = Data(device)
    contextual = contextual_features(d.model, d.sentences).double()
    for features in (contextual.to(device), one_hot_features(d.language, d.sentences.to(device))):
        own = features.unflatten(0, (2, 20)), d.labels.unflatten(0, (2, 20)), [2]
        solved = OptimalProbe(projection=3).fit(*own, seed=0)
    read = [solved.weight, solved.correct(features, d.labels)]
    return [contextual, *read]


def finetuning(device):
    d = Data(device)
    labels = d.labels[:, 0]
    tuned = finetune(d.model, d.sentences, labels, 2, FinetuneSettings(epochs=1, batch=8), 0)
    return [tuned.weight, tuned.correct(d.sentences, labels)]


PIECES = {f"conditionals, {name}": partial(conditionals, language=name) for name in LANGUAGES}
PIECES |= {f"loss, {name}": partial(loss, language="PCFG", objective=name) for name in OBJECTIVES}
PIECES["loss, noise, OPT"] = partial(loss, language="OPT", objective="scaled noise")
PIECES |= {f.__name__: f for f in (corpus, traces, measures, three_traces, forms, probes, finetuning)}


def computed(piece, device):
    found = PIECES[piece](device)
    return [value.detach().cpu() if isinstance(value, torch.Tensor) else value for value in found]


@pytest.fixture(scope="module")
def accelerator():
    """A process of its own: a device cannot be taken back."""
    with ProcessPoolExecutor(1, FORKING, initializer=emulate) as pool:
        yield pool


@pytest.mark.parametrize("piece", PIECES)
def test_a_device_computes_what_the_cpu_does(piece, accelerator):
    there = accelerator.submit(computed, piece, DEVICE).result()
    torch.testing.assert_close(there, computed(piece, "cpu"), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("wrong", ["sum", "index", "draw"])
def test_the_emulated_device_refuses_to_mix(wrong, accelerator):
    """Else the test above would find nothing."""
    with pytest.raises((RuntimeError, AssertionError)):
        accelerator.submit(mixed, wrong).result()


def mixed(wrong):
    there = torch.ones(3, device=DEVICE)
    if wrong == "sum":
        return float((there + torch.ones(3)).sum())
    if wrong == "index":
        return float(there.index_select(0, torch.arange(2)).sum())
    return float(there.normal_(generator=seeded()).sum())
