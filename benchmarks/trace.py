"""The trace of the Hessian beside its peers: the same work in one process on one CPU thread or one GPU.

Three contests: squared gradient norms of the same sentences and labels, pair by pair; the time to a
trace with a standard error of 2 %, whatever the estimator; and the peak of memory. How values are made
is told in `racing.py`, what peers can and cannot do in `gradient_norm_peers.py` and `hessian_peers.py`.
The script stops where answers do not agree. With a GPU everything runs there, larger, and is written
beside the CPU's results.

    pip install -r benchmarks/requirements.txt
    python benchmarks/trace.py
    python benchmarks/trace.py --paper-scale 60
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import NamedTuple

import pandas as pd
import torch
from gradient_norm_peers import (
    BackPack,
    Opacus,
    Perceptron,
    Untied,
    VmapGrad,
    by_pairs,
    naive,
    ours,
    without_norms,
)
from hessian_peers import Curvlinops, Hutchinson, Packed, PyHessian, packed
from racing import (
    NOBODY,
    Report,
    Timing,
    Work,
    conclude,
    difference,
    fastest,
    fresh_process,
    has,
    parser,
    peak,
    race,
    row,
    tells_memory,
)
from torch import Tensor, nn

from sameloss.languages import HierarchySpec, LanguageSpec
from sameloss.languages.masking import Batch
from sameloss.languages.paper import PAPER_LANGUAGE
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.sizes import SIZES
from sameloss.statistics.intervals import Estimate
from sameloss.training.corpus import EndlessCorpus
from sameloss.training.loop import Optimisation, make_optimiser, pretrain

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RECORD = "trace" if DEVICE == "cpu" else "trace_cuda"
"""The name of the results."""

PACKAGES = ("torch", "opacus", "backpack-for-pytorch", "pyhessian", "curvlinops-for-pytorch")
"""Whose versions are recorded."""

LAPTOP_LANGUAGE = HierarchySpec(levels=3, symbols=3, rules=2, smoothing=0.03, seed=9)
"""Eight tokens of three words."""

SHAPES: dict[str, EncoderShape] = {name: s for family in SIZES.values() for name, s in family.items()}

TOLERANCE = 1e-4
"""Largest relative difference of two squared norms, in float32."""

MOST_ERRORS = 4.0
"""Largest difference of two traces, in standard errors of that difference."""

TARGET = 0.02
"""The standard error to be reached, relative to the trace."""

NAIVE, VMAP, OPACUS, BACKPACK = (
    "naive loop",
    "torch.func.vmap(grad)",
    "Opacus ghost norms",
    "BackPACK BatchL2Grad",
)
HUTCHINSON = "Hutchinson in parameter space"
HESSIAN, GAUSS_NEWTON = "HessianLinearOperator", "GGNLinearOperator"
GOALS: dict[str, dict[str, float | None]] = {
    "cpu": {NAIVE: 5, VMAP: 2.5, OPACUS: 1.5, BACKPACK: None, HUTCHINSON: 200},
    "cuda": {NAIVE: 200, VMAP: 5, OPACUS: 1.5, BACKPACK: None, HUTCHINSON: 200},
}
"""Ratios to reach; a peer without one is there for comparison."""

Settings = tuple[tuple[int, int], ...]
"""Sentences of a batch, and products of its Hessian with a vector."""


class Case(NamedTuple):
    """A model and sentences whose gradients are measured, and how much of that each contestant does.

    Peers do part of the sentences, spread evenly over the lengths; the naive loop also part of the labels.
    """

    size: str
    language: LanguageSpec
    labels: int
    sentences: int
    few: int
    naive: tuple[int, int]  # sentences, labels
    chunks: tuple[int, ...]  # pairs at once, of vmap(grad)
    batches: tuple[int, ...]  # pairs at once, of Opacus and BackPACK


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    repetitions: int
    encoders: tuple[Case, ...]
    frozen: tuple[Case, ...]  # encoders whose LayerNorms are frozen
    perceptrons: tuple[Case, ...]
    perceptron_width: int
    size: str  # of the model whose trace is estimated
    steps: int  # of its training, 128 sentences each
    sentences: int  # ours a call
    draws: int  # of a peer a call; each is a batch of sentences
    hutchinson: Settings
    pyhessian: Settings
    curvlinops: dict[tuple[str, str], Settings]  # by operator and estimator
    memory_size: str
    memory_pairs: tuple[int, int]  # sentences, labels
    memory_chunks: tuple[int, ...]


FULL = Scale(
    repetitions=7,
    encoders=(
        Case("d64", LAPTOP_LANGUAGE, 1, 4096, 256, (32, 1), (16, 64, 256), (64, 256)),
        Case("d64", LAPTOP_LANGUAGE, 50, 128, 8, (4, 10), (64, 200), (200, 400)),
        Case("5M", PAPER_LANGUAGE, 1, 1024, 64, (16, 1), (16, 64), (16, 64)),
        Case("5M", PAPER_LANGUAGE, 50, 16, 4, (4, 5), (25, 100), (25, 100)),
    ),
    frozen=(Case("d64", LAPTOP_LANGUAGE, 1, 1024, 256, (1, 1), (), (32, 64, 256)),),
    perceptrons=(
        Case("", LAPTOP_LANGUAGE, 1, 4096, 4096, (1, 1), (), (256, 1024)),
        Case("", LAPTOP_LANGUAGE, 50, 256, 64, (1, 1), (), (256, 1024)),
    ),
    perceptron_width=32,
    size="d32",
    steps=300,
    sentences=4096,
    draws=12,
    hutchinson=((64, 1), (256, 1)),
    pyhessian=((64, 1), (64, 4), (256, 1)),
    curvlinops={
        (HESSIAN, "hutchinson_trace"): ((64, 1), (64, 4), (256, 1)),
        (HESSIAN, "hutchpp_trace"): ((64, 9),),
        (GAUSS_NEWTON, "hutchinson_trace"): ((64, 4), (64, 16)),
        (GAUSS_NEWTON, "hutchpp_trace"): ((64, 9), (64, 30)),
    },
    memory_size="41M",
    memory_pairs=(16, 2),
    memory_chunks=(1, 4),
)

FULL_CUDA = replace(
    FULL,
    encoders=(
        Case("d64", LAPTOP_LANGUAGE, 1, 10_000, 10_000, (32, 1), (512, 2048, 8192), (2048, 10_000)),
        Case("d64", LAPTOP_LANGUAGE, 50, 2000, 200, (4, 10), (512, 2048, 8192), (2048, 10_000)),
        Case("5M", PAPER_LANGUAGE, 1, 10_000, 2000, (16, 1), (64, 256, 1024), (256, 1024)),
        Case("5M", PAPER_LANGUAGE, 50, 1000, 40, (4, 10), (64, 256, 1024), (256, 1024)),
    ),
    frozen=(Case("d64", LAPTOP_LANGUAGE, 1, 10_000, 2000, (1, 1), (), (256, 2000)),),
    perceptrons=(Case("", LAPTOP_LANGUAGE, 50, 10_000, 1000, (1, 1), (), (1024, 8192)),),
    hutchinson=((64, 1), (256, 1), (1024, 1)),
    pyhessian=((64, 1), (256, 1), (1024, 1), (1024, 4)),
    curvlinops={
        (HESSIAN, "hutchinson_trace"): ((256, 1), (256, 4), (1024, 4)),
        (HESSIAN, "hutchpp_trace"): ((256, 9),),
        (GAUSS_NEWTON, "hutchinson_trace"): ((64, 16), (256, 16)),
        (GAUSS_NEWTON, "hutchpp_trace"): ((64, 30), (256, 30)),
    },
    memory_pairs=(256, 2),
    memory_chunks=(1, 16),
)

QUICK = Scale(
    repetitions=1,
    encoders=(
        Case("d16", LAPTOP_LANGUAGE, 1, 16, 8, (4, 1), (4, 8), (8,)),
        Case("d16", PAPER_LANGUAGE, 3, 8, 4, (2, 2), (12,), (5,)),
    ),
    frozen=(Case("d16", LAPTOP_LANGUAGE, 1, 16, 8, (1, 1), (), (8,)),),
    perceptrons=(Case("", LAPTOP_LANGUAGE, 2, 16, 8, (1, 1), (), (8,)),),
    perceptron_width=4,
    size="d16",
    steps=20,
    sentences=512,
    draws=8,
    hutchinson=((16, 1),),
    pyhessian=((16, 2),),
    curvlinops={
        (HESSIAN, "hutchinson_trace"): ((16, 2),),
        (HESSIAN, "hutchpp_trace"): ((16, 3),),
        (GAUSS_NEWTON, "hutchinson_trace"): ((16, 2),),
        (GAUSS_NEWTON, "hutchpp_trace"): ((16, 3),),
    },
    memory_size="d16",
    memory_pairs=(8, 2),
    memory_chunks=(4,),
)

# Squared gradient norms


class Entrant(NamedTuple):
    """Work whose call returns squared norms, and which of the pairs it does."""

    work: Work
    rows: Tensor
    labels: int


def spread(masked: Batch, count: int) -> Tensor:
    """Return the rows of `count` sentences, evenly spaced in the order of lengths."""
    order = torch.arange(len(masked.masked)) if masked.lengths is None else masked.lengths.cpu().argsort()
    return order[torch.linspace(0, len(order) - 1, count).long()].to(DEVICE)


class Contest:
    """Contestants for the same pairs of sentences and labels."""

    def __init__(self, case: Case, model: nn.Module) -> None:
        """Sample the sentences; labels are uniform, since any will do."""
        self.case, self.model = case, model.to(DEVICE)
        masked = EndlessCorpus(case.language.build(), seed=0).batch(0, 0, case.sentences)
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randint(case.language.words, (case.sentences, case.labels), generator=generator)
        self.masked, self.labels = masked.to(DEVICE), drawn.to(DEVICE)

    def entrant(self, name: str, setting: str, method: Callable, sentences: int, labels: int) -> Entrant:
        """Enter a method for some of the sentences and labels."""
        rows = spread(self.masked, sentences)
        some = self.labels[rows, :labels]
        call = partial(method, self.masked.rows(rows), some)
        return Entrant(Work(name, setting, some.numel(), call), rows, labels)

    def whole(self) -> Entrant:
        """Enter ours."""
        call = partial(ours, self.model, self.masked, self.labels)
        work = Work("Recording.squared_norms", "", self.labels.numel(), call)
        return Entrant(work, torch.arange(len(self.labels)), self.case.labels)

    def loop(self) -> Entrant:
        """Enter the naive loop."""
        return self.entrant(NAIVE, "", partial(naive, self.model), *self.case.naive)

    def peers(self, name: str, norms: Callable, sizes: Iterable[int], unit: str) -> Iterator[Entrant]:
        """Enter a peer that takes `sizes` pairs at once."""
        for size in sizes:
            method = partial(by_pairs, norms, size=size)
            yield self.entrant(name, f"{unit} of {size}", method, self.case.few, self.case.labels)


def norm_agreement(what: str, entrants: Sequence[Entrant]) -> dict[str, float]:
    """Compare everyone's answers with ours."""
    truth, found = entrants[0].work.call(), {}
    for work, rows, labels in entrants[1:]:
        ratio, key = work.call() / truth[rows, :labels], f"{what}, {work.name} (relative)"
        here = difference(key, ratio, torch.ones_like(ratio), TOLERANCE)
        found[key] = max(here[key], found.get(key, 0.0))
    return found


def norm_contest(what: str, entrants: Iterable[Entrant], repetitions: int) -> Report:
    """Compare answers, then race."""
    entrants = list(entrants)
    agreement = norm_agreement(what, entrants)
    first, *others = fastest(race([entrant.work for entrant in entrants], repetitions))
    return Report([row(what, "ms", first, peer, GOALS[DEVICE][peer.name]) for peer in others], agreement)


def labels_of(case: Case) -> str:
    """Say how many labels a sentence has."""
    return f"{case.labels} label{'s' if case.labels > 1 else ''} a sentence"


def encoder_entrants(case: Case, model: nn.Module, opacus: bool) -> Iterator[Entrant]:
    """Enter ours, the naive loop, vmap(grad) and, where it can, Opacus."""
    contest = Contest(case, model)
    yield contest.whole()
    yield contest.loop()
    yield from contest.peers(VMAP, VmapGrad(model), case.chunks, "chunks")
    if opacus:
        yield from contest.peers(OPACUS, Opacus(model), case.batches, "batches")


def encoder_reports(scale: Scale) -> Iterator[Report]:
    """Race on the encoder with its head untied, which all can see, and as it is."""
    opacus = has("opacus.grad_sample", "Opacus")
    for case in scale.encoders:
        for kind, head in ((Untied, "head untied"), (Encoder, "head tied")):
            model = kind(SHAPES[case.size], case.language.words, case.language.max_length, seed=0)
            what = f"squared gradient norms, {case.size} encoder, {head}, {labels_of(case)}"
            entrants = encoder_entrants(case, model, opacus and kind is Untied)
            yield norm_contest(what, entrants, scale.repetitions)


def backpack_reports(scale: Scale) -> Iterator[Report]:
    """Race on models that BackPACK can see."""
    if not has("backpack.extensions", "BackPACK"):
        return
    for case in scale.frozen:
        model = Untied(SHAPES[case.size], case.language.words, case.language.max_length, seed=0)
        name = f"{case.size} encoder, head untied, LayerNorms frozen"
        yield backpack_report(case, without_norms(model), name, scale.repetitions)
    for case in scale.perceptrons:
        model = Perceptron(scale.perceptron_width, case.language.words, case.language.max_length, seed=0)
        count = sum(parameter.numel() for parameter in model.parameters())
        yield backpack_report(case, model, f"perceptron of {count:,} parameters", scale.repetitions)


def backpack_report(case: Case, model: nn.Module, name: str, repetitions: int) -> Report:
    """Race ours with BackPACK."""
    contest = Contest(case, model)
    peers = contest.peers(BACKPACK, BackPack(model), case.batches, "batches")
    what = f"squared gradient norms, {name}, {labels_of(case)}"
    return norm_contest(what, [contest.whole(), *peers], repetitions)


# Time to an error


class Estimator:
    """One way to estimate the trace: keeps the independent draws of all its calls."""

    def __init__(self, name: str, setting: str, method: Callable, sources: Iterable, units: int) -> None:
        """Take a method that turns what the source gives into one draw, or several."""
        self.method, self.source, self.units, self.values = method, cycle(sources), units, []
        self.work = Work(name, setting, units, self)

    def __call__(self) -> None:
        """Draw `units` times or more."""
        before = len(self.values)
        while len(self.values) < before + self.units:
            self.values += self.method(*next(self.source)).flatten().tolist()

    @property
    def estimate(self) -> Estimate:
        """Return the trace with its standard error."""
        return Estimate.of(torch.tensor(self.values, dtype=torch.float64))


def trained(scale: Scale) -> nn.Module:
    """Train a laptop model for a few seconds, so that its trace is no longer an initial model's."""
    language = LAPTOP_LANGUAGE.build()
    model = Encoder(SHAPES[scale.size], language.words, language.max_length, seed=0)
    settings, corpus = Optimisation(scale.steps, batch=128, lr=3e-3), EndlessCorpus(language, seed=0)
    for _ in pretrain(model, make_optimiser(model, settings), lambda k: corpus.batch(0, k, 128), settings):
        pass
    return model.to(DEVICE)


@torch.no_grad()
def own_sentences(model: nn.Module, count: int) -> Batch:
    """Sample sentences whose labels the model itself draws.

    Then its population loss is as low as it can be, and the Hessian is the Fisher information in
    expectation (Lemma 3.2), so that traces of both can be compared.
    """
    masked = EndlessCorpus(LAPTOP_LANGUAGE.build(), seed=1).batch(0, 0, count).to(DEVICE)
    f = model(masked.masked, masked.positions, masked.lengths).softmax(-1).cpu()
    drawn = torch.multinomial(f, 1, generator=torch.Generator().manual_seed(0))
    return masked._replace(targets=drawn[:, 0].to(DEVICE))


def sentences_of_a_call(scale: Scale) -> int:
    """Return the most sentences that any estimator sees in a call, so that none sees one twice."""
    settings = scale.hutchinson, scale.pyhessian, *scale.curvlinops.values()
    return max(scale.sentences, scale.draws * max(batch for some in settings for batch, _ in some))


def in_batches(masked: Batch, size: int) -> list[tuple[Tensor, Tensor]]:
    """Cut sentences into batches for the peers."""
    return list(zip(*(part.split(size) for part in packed(masked)), strict=True))


def fisher_draws(model: nn.Module, generator: torch.Generator, masked: Batch) -> Tensor:
    """Return ours, a draw for each sentence."""
    return sum(fisher_trace(model, masked, generator=generator).draws.values())


def our_estimator(model: nn.Module, masked: Batch, scale: Scale) -> Estimator:
    """Enter ours as it is by default: one sampled label a sentence."""
    count = scale.sentences
    parts = [(masked.rows(slice(i, i + count)),) for i in range(0, len(masked.masked), count)]
    method = partial(fisher_draws, model, torch.Generator().manual_seed(0))
    return Estimator("fisher_trace", "1 sampled label", method, parts, count)


def trace_estimators(model: nn.Module, masked: Batch, scale: Scale) -> Iterator[Estimator]:
    """Enter ours, the released code's method, PyHessian and curvlinops."""
    yield our_estimator(model, masked, scale)
    model, generator = Packed(model), torch.Generator(DEVICE).manual_seed(0)
    for setting in scale.hutchinson:
        yield peer_estimator(HUTCHINSON, setting, Hutchinson(model, generator), masked, scale)
    if has("pyhessian", "PyHessian"):
        for setting in scale.pyhessian:
            yield peer_estimator("PyHessian", setting, PyHessian(model, setting[1]), masked, scale)
    if has("curvlinops", "curvlinops"):
        for (operator, estimator), settings in scale.curvlinops.items():
            name = f"curvlinops {operator}, {estimator}"
            for setting in settings:
                method = Curvlinops(model, operator, estimator, setting[1])
                yield peer_estimator(name, setting, method, masked, scale)


def peer_estimator(
    name: str, setting: tuple[int, int], method: Callable, masked: Batch, scale: Scale
) -> Estimator:
    """Enter a peer in one of its settings."""
    batch, products = setting
    title = f"batches of {batch}, {products} product{'s' if products > 1 else ''}"
    return Estimator(name, title, method, in_batches(masked, batch), scale.draws)


def to_error(timing: Timing, estimate: Estimate, trace: float) -> Timing:
    """Turn seconds a draw into seconds to the target: the error falls as the root of the draws."""
    draws = estimate.standard_error**2 * estimate.count / (TARGET * trace) ** 2
    return timing._replace(best=timing.best * draws, median=timing.median * draws)


def trace_agreement(entrants: Sequence[Estimator]) -> dict[str, float]:
    """Compare everyone's trace with ours, within the errors of both."""
    found, first = {}, entrants[0].estimate
    for entrant in entrants[1:]:
        theirs = entrant.estimate
        error = (first.standard_error**2 + theirs.standard_error**2) ** 0.5
        value = f"{theirs.mean:.2f} ± {theirs.standard_error:.2g}, ours {first.mean:.2f}"
        what = f"trace {value}, {entrant.work.name}, {entrant.work.setting} (standard errors)"
        off = torch.tensor((theirs.mean - first.mean) / error)
        found |= difference(what, off, torch.zeros_like(off), MOST_ERRORS)
    return found


def product_agreement(model: nn.Module, masked: Batch) -> dict[str, float]:
    """Compare a Hessian-vector product of curvlinops with the plain one, entry by entry."""
    model, (batch, *_) = Packed(model), in_batches(masked, 32)
    plain = Hutchinson(model, torch.Generator(DEVICE).manual_seed(1))
    vector = [torch.ones_like(parameter) for parameter in plain.parameters]
    right = plain.product(*batch, vector)
    theirs = Curvlinops(model, HESSIAN, "hutchinson_trace", 1).matrix(*batch) @ vector
    flat = [torch.cat([part.flatten() for part in parts]) for parts in (right, theirs)]
    scale = flat[0].abs().max()
    return difference("Hessian-vector product, curvlinops", flat[0] / scale, flat[1] / scale, TOLERANCE)


def error_report(scale: Scale) -> Report:
    """Measure the seconds that each estimator takes to a standard error of 2 %."""
    torch.manual_seed(0)  # the peers draw their vectors from torch's own generator
    model = trained(scale)
    masked = own_sentences(model, (scale.repetitions + 1) * sentences_of_a_call(scale))
    entrants = list(trace_estimators(model, masked, scale))
    timings = race([entrant.work for entrant in entrants], scale.repetitions)
    trace = entrants[0].estimate.mean  # ours for all of them, the one that is known best
    pairs = zip(timings, entrants, strict=True)
    first, *others = fastest(to_error(timing, entrant.estimate, trace) for timing, entrant in pairs)
    what = f"trace to a standard error of {TARGET:.0%}, {scale.size} encoder at saturation"
    rows = [row(what, "s", first, peer, GOALS[DEVICE].get(peer.name)) for peer in others]
    agreement = trace_agreement(entrants)
    if any("curvlinops" in entrant.work.name for entrant in entrants):
        agreement |= product_agreement(model, masked)
    return Report(rows, agreement)


# Memory


def memory_task(method: str, size: str, sentences: int, labels: int, chunk: int) -> Callable[[], Tensor]:
    """Return what is to be measured, for sentences of the paper's language."""
    model = Encoder(SHAPES[size], PAPER_LANGUAGE.words, PAPER_LANGUAGE.max_length, seed=0)
    contest = Contest(Case(size, PAPER_LANGUAGE, labels, sentences, 0, (0, 0), (), ()), model)
    if method == "ours":
        return partial(ours, model, contest.masked, contest.labels)
    return partial(by_pairs, VmapGrad(model), contest.masked, contest.labels, chunk)


def print_extra_memory(method: str, size: str, *numbers: str) -> None:
    """Print how many bytes a method takes at its peak beyond the model: for a fresh process."""
    memory_task(method, "d8", 2, 1, 2)()  # what a first call sets up
    used, _ = peak(memory_task(method, size, *map(int, numbers)), DEVICE)
    print(used)


def extra_memory(method: str, scale: Scale, chunk: int) -> float:
    """Return the peak in MiB; a fresh process, because memory once freed may be used again."""
    numbers = map(str, (*scale.memory_pairs, chunk))
    options = "--extra-memory", method, scale.memory_size, *numbers
    return int(fresh_process(__file__, *options)) / (1 << 20)


def memory_report(scale: Scale) -> Report:
    """Compare the peak of ours with that of vmap(grad) in small chunks."""
    if not tells_memory(DEVICE):
        return Report([], {})
    mine, (sentences, labels) = extra_memory("ours", scale, 0), scale.memory_pairs
    what = (
        f"peak memory beyond the model, {scale.memory_size} encoder, {sentences} sentences, {labels} labels"
    )
    line = {"what": what, "ours": "Recording.squared_norms", "unit": "MiB", "ours_value": mine}
    rows = []
    for chunk in scale.memory_chunks:
        theirs = extra_memory("vmap", scale, chunk)
        rows.append(
            line | {"peer": f"{VMAP}, chunks of {chunk}", "peer_value": theirs, "ratio": theirs / mine}
        )
    return Report(rows, {})


# The paper's scale


PAPER_SIZE, PAPER_SENTENCES, PAPER_LABELS, SLICE = "235M", 10_000, 50, 500


def paper_estimate(minutes: float) -> Estimate:
    """Estimate the trace with the paper's numbers of sentences and labels, all of it.

    Raises:
        SystemExit: once it has taken longer than `minutes`.

    """
    language, started = PAPER_LANGUAGE.build(), time.perf_counter()
    model = Encoder(SHAPES[PAPER_SIZE], language.words, language.max_length, seed=0).to(DEVICE)
    masked = EndlessCorpus(language, seed=0).batch(0, 0, PAPER_SENTENCES)
    generator, draws = torch.Generator().manual_seed(0), []
    for done in range(0, PAPER_SENTENCES, SLICE):
        if time.perf_counter() - started > 60 * minutes:
            raise SystemExit(f"After {minutes:g} minutes {done} of {PAPER_SENTENCES} sentences were done.")
        part = masked.rows(slice(done, done + SLICE))
        trace = fisher_trace(model, part, labels=PAPER_LABELS, generator=generator)
        draws.append(sum(trace.draws.values()))
    return Estimate.of(torch.cat(draws))


def paper_report(minutes: float) -> Report:
    """Measure the time and the memory of the paper's estimate, the model's own memory included."""
    started = time.perf_counter()
    used, trace = peak(partial(paper_estimate, minutes), DEVICE)
    taken = (time.perf_counter() - started) / 60
    print(f"Trace {trace.mean:.4g}, standard error {trace.standard_error:.2g}.")
    what = f"trace of the {PAPER_SIZE} encoder, {PAPER_SENTENCES} sentences, {PAPER_LABELS} labels each"
    line = {"what": what, "ours": "fisher_trace", "peer": NOBODY}
    return Report(
        [line | {"unit": u, "ours_value": v} for u, v in (("min", taken), ("MiB", used / 2**20))], {}
    )


# The table


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    line = parser(__doc__)
    text = "also make the paper's estimate for its 235M model, whole, within so many minutes; on a GPU only"
    line.add_argument("--paper-scale", type=float, metavar="MINUTES", help=text)
    line.add_argument("--extra-memory", nargs=5, help=argparse.SUPPRESS)  # of this script's own processes
    options = line.parse_args(argv)
    if options.paper_scale and DEVICE == "cpu":
        line.error("--paper-scale needs a GPU")
    return options


def main(argv: Sequence[str] | None = None) -> pd.DataFrame | None:
    """Print the table and return it; without --quick, write it into results/."""
    options = arguments(argv)
    torch.set_num_threads(1)
    if options.extra_memory:
        return print_extra_memory(*options.extra_memory)
    scale = QUICK if options.quick else FULL if DEVICE == "cpu" else FULL_CUDA
    reports = [*encoder_reports(scale), *backpack_reports(scale), error_report(scale), memory_report(scale)]
    if options.paper_scale:
        reports.append(paper_report(options.paper_scale))
    return conclude(RECORD, reports, PACKAGES, write=not options.quick, device=DEVICE)


if __name__ == "__main__":
    main()
