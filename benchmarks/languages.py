"""Exact conditionals and sampling beside their peers: the same work in one process on one CPU thread.

How values are made is told in `racing.py`. The script stops where answers do not agree.

    pip install -r benchmarks/requirements.txt
    python benchmarks/languages.py
"""

import argparse
import random
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import nltk
import numpy as np
import pandas as pd
import torch
from hmmlearn.hmm import CategoricalHMM
from jaxtyping import Float, Int
from nltk.grammar import is_terminal
from racing import (
    NOBODY,
    Report,
    Work,
    conclude,
    contest,
    difference,
    fresh_process,
    has,
    parser,
    peak,
    race,
    row,
    tells_memory,
)
from torch import Tensor

from sameloss.languages import PCFG, Language, Sentences
from sameloss.languages.grammars import pcfg
from sameloss.languages.grammars.formats import to_lines
from sameloss.languages.grammars.grammar import Grammar
from sameloss.languages.hmm import HMM
from sameloss.languages.paper import PAPER_HMM, PAPER_LANGUAGE
from sameloss.training.corpus import write_corpus

PACKAGES = ("torch", "numpy", "torch-struct", "hmmlearn", "nltk")
"""Whose versions are recorded."""

LENGTH = 15
"""Tokens of the sentences whose conditionals are computed, of the PCFG."""

TOLERANCE = 1e-12
"""Largest difference of two probabilities, or of two log probabilities in nats."""

MOST_ERRORS = 5.0
"""Largest difference between two samples' means, in standard errors, over some 200 means."""

LEAST_COUNT = 25
"""Words expected less often in the smaller sample are not compared: their counts are far from normal."""

LEAST_SCORE = 1e-100
"""What torch-struct takes for an impossible emission, so that its gradient can be divided by it. It works
with logarithms, so nothing underflows, and the share of derivations that use it is below rounding."""


@dataclass(frozen=True)
class Scale:
    """How much is measured: numbers of sentences of a call, of the slow peers fewer."""

    repetitions: int
    pcfg: int
    dense: int
    dense_batches: tuple[int, ...]
    torch_struct_batches: tuple[int, ...]
    hmm: int
    hmmlearn: int
    sampled: int
    nltk: int
    compared: int  # sampled sentences whose statistics are compared, of nltk
    corpus: int
    memory: tuple[tuple[int, int], ...]  # (sentences, bytes of a chunk)


FULL = Scale(
    repetitions=7,
    pcfg=1024,
    dense=256,
    dense_batches=(4, 8, 16, 32, 64),
    torch_struct_batches=(1, 4),
    hmm=4096,
    hmmlearn=512,
    sampled=1 << 18,
    nltk=4000,
    compared=40_000,
    corpus=1 << 20,
    memory=((4096, 1 << 21), (4096, 1 << 23), (4096, 1 << 25), (2048, 1 << 23), (8192, 1 << 23)),
)

QUICK = Scale(
    repetitions=1,
    pcfg=32,
    dense=32,
    dense_batches=(16,),
    torch_struct_batches=(1,),
    hmm=64,
    hmmlearn=16,
    sampled=4000,
    nltk=200,
    compared=1000,
    corpus=2000,
    memory=((256, 1 << 21),),
)


# Conditionals of the PCFG


def sentences_of(language: Language, length: int, count: int, seed: int = 0) -> Sentences:
    """Sample until there are `count` sentences of this length."""
    generator, found = torch.Generator().manual_seed(seed), torch.zeros(0, length, dtype=torch.long)
    while len(found) < count:
        tokens, lengths = language.sample(10_000, generator)
        found = torch.cat([found, tokens[lengths == length, :length]])
    return whole(found[:count])


def whole(tokens: Int[Tensor, "batch seq"]) -> Sentences:
    """Return sentences that fill their width."""
    return Sentences(tokens, torch.full(tokens.shape[:1], tokens.shape[1]))


def rule_table(grammar: Grammar) -> Float[Tensor, "parent left right"]:
    """Return Pr(parent -> left right) for all triples of symbols."""
    table = torch.zeros([len(grammar.symbols)] * 3, dtype=torch.float64)
    return table.index_put(tuple(grammar.rules.T), grammar.weights)


def normalised(joint: Float[Tensor, "batch seq word"]) -> Float[Tensor, "batch seq word"]:
    """Return conditionals from Pr(x_t = word + 1, x_-t), up to a factor for each position."""
    return joint / joint.sum(-1, keepdim=True)


class Dense:
    """The inside algorithm in probability space with all symbols in one group, batched (CKY).

    Sentences come first and symbols last: about three times as fast here as the other way round.
    """

    def __init__(self, grammar: Grammar) -> None:
        """Take the grammar's tables."""
        self.emission, self.roots = grammar.emission, grammar.roots
        self.rules = rule_table(grammar).flatten(1).T  # (left and right, parent)

    def probability(self, leaves: Float[Tensor, "batch seq symbol"]) -> Float[Tensor, " batch"]:
        """Fill the chart span by span; entry k - 1 has all spans of k tokens."""
        chart, length = [leaves], leaves.shape[1]
        for span in range(2, length + 1):
            starts, parts = length - span + 1, range(1, span)
            left = torch.stack([chart[part - 1][:, :starts] for part in parts], -1)
            right = torch.stack([chart[span - part - 1][:, part : part + starts] for part in parts], -2)
            pairs = left @ right  # outer products, summed over splits
            chart.append(pairs.flatten(2) @ self.rules)
        return chart[-1][:, 0] @ self.roots

    def conditionals(self, tokens: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq word"]:
        """Return all conditionals by the gradient with respect to the leaves, scaled by token."""
        leaves = self.emission.T[tokens - 1]
        leaves = (leaves / leaves.amax(-1, keepdim=True)).requires_grad_()
        (outside,) = torch.autograd.grad(self.probability(leaves).sum(), leaves)
        return normalised(outside @ self.emission)


class TorchStruct:
    """torch-struct's SentCFG: its log partition and the gradient of that.

    It tells symbols that branch from symbols that emit; a symbol that does both stands for itself
    once in either role.
    """

    def __init__(self, grammar: Grammar) -> None:
        """Write the grammar as potentials."""
        symbols = torch.eye(len(grammar.symbols), dtype=torch.float64)
        branches, emits = grammar.rules[:, 0].unique(), grammar.emission.sum(1).nonzero().squeeze(1)
        roles = torch.cat([symbols[branches], symbols[emits]])
        rules = torch.einsum("plr,xl,yr->pxy", rule_table(grammar), roles, roles)[branches]
        self.rules, self.roots = (table.log().clamp(min=-1e9) for table in (rules, grammar.roots[branches]))
        self.emission = grammar.emission[emits].clamp(min=LEAST_SCORE)

    def answers(self, tokens: Int[Tensor, "batch seq"]) -> tuple[Tensor, Tensor]:
        """Return log Pr(x), in nats, and all conditionals."""
        from torch_struct import SentCFG

        leaves = self.emission.T[tokens - 1].requires_grad_()
        rules, roots = (table.expand(len(tokens), *table.shape) for table in (self.rules, self.roots))
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # about arg_constraints
            log_prob = SentCFG((leaves.log(), rules, roots)).partition
        (outside,) = torch.autograd.grad(log_prob.sum(), leaves)
        return log_prob.detach(), normalised(outside @ self.emission)


def in_batches(function: Callable[[Tensor], Any], tokens: Tensor, size: int) -> list:
    """Call a function on `size` sentences at a time."""
    return [function(part) for part in tokens.split(size)]


def pcfg_agreement(language: PCFG, tokens: Tensor, slow: TorchStruct | None, few: int) -> dict[str, float]:
    """Compare conditionals of all the sentences with the dense ones, and of a few with torch-struct's."""
    ours = language.conditionals(whole(tokens))
    dense = torch.cat(in_batches(Dense(language.grammar).conditionals, tokens, 16))
    found = difference("PCFG conditionals, dense", ours, dense, TOLERANCE)
    if slow is None:
        return found
    log_prob, theirs = slow.answers(tokens[:few])
    found |= difference("PCFG conditionals, torch-struct", ours[:few], theirs, TOLERANCE)
    mine = language.log_prob(whole(tokens[:few]))
    return found | difference("PCFG log probability, torch-struct", mine, log_prob, TOLERANCE)


PCFG_GOALS = {"dense CKY in torch": 7, "torch-struct SentCFG": 3500}


def pcfg_works(
    language: PCFG, sentences: Sentences, slow: TorchStruct | None, scale: Scale
) -> Iterable[Work]:
    """Yield ours, the dense ones, then torch-struct's, if there."""
    dense_name, slow_name = PCFG_GOALS
    dense, tokens = Dense(language.grammar), sentences.tokens[: scale.dense]
    yield Work("PCFG.conditionals", "", len(sentences.tokens), partial(language.conditionals, sentences))
    for size in scale.dense_batches:
        call = partial(in_batches, dense.conditionals, tokens, size)
        yield Work(dense_name, f"batches of {size}", len(tokens), call)
    for size in scale.torch_struct_batches if slow else ():
        call = partial(slow.answers, sentences.tokens[:size])
        yield Work(slow_name, f"batches of {size}", size, call)


def pcfg_report(scale: Scale) -> Report:
    """Compare the conditionals of all positions of sentences of 15 tokens."""
    language = PAPER_LANGUAGE.build()
    sentences = sentences_of(language, LENGTH, scale.pcfg)
    slow = TorchStruct(language.grammar) if has("torch_struct", "torch-struct") else None
    few = max(scale.torch_struct_batches)
    agreement = pcfg_agreement(language, sentences.tokens[: scale.dense], slow, few)
    works = pcfg_works(language, sentences, slow, scale)
    what = f"PCFG conditionals, a sentence of {LENGTH} tokens"
    return Report(contest(what, "ms", works, PCFG_GOALS, scale.repetitions), agreement)


# The hidden Markov model


class Hmmlearn:
    """hmmlearn's model of the same probabilities."""

    def __init__(self, model: HMM, implementation: str) -> None:
        """Copy the probabilities."""
        self.emission, self.shape = model.emission, (-1, model.length, model.states)
        self.peer = CategoricalHMM(model.states, implementation=implementation)
        self.peer.n_features = model.words
        self.peer.startprob_ = model.initial.numpy()
        self.peer.transmat_ = model.transition.numpy()
        self.peer.emissionprob_ = model.emission.numpy()

    def state_posteriors(self, sentences: Sentences) -> Float[Tensor, "batch seq state"]:
        """Return Pr(z_t = s | x)."""
        words = (sentences.tokens - 1).reshape(-1, 1).numpy()
        return torch.from_numpy(self.peer.predict_proba(words, sentences.lengths.numpy())).view(self.shape)

    def conditionals(self, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
        """Return Pr(x_t | x_-t): posteriors less what a state says of its own word, then emissions.

        Right where every state that x_-t allows at t can emit x_t, as in the paper's model, whose
        blocks a sentence never leaves.
        """
        leaf = self.emission.T[sentences.tokens - 1]
        outside = (self.state_posteriors(sentences) / leaf).where(leaf > 0, 0.0)
        return normalised(outside @ self.emission)


def hmm_report(scale: Scale) -> Report:
    """Compare state posteriors and conditionals with hmmlearn's."""
    model = PAPER_HMM.build()
    peers = {name: Hmmlearn(model, name) for name in ("scaling", "log")}
    sentences = model.sample(scale.hmm, torch.Generator().manual_seed(0))
    few, rows, agreement = sentences.rows(slice(scale.hmmlearn)), [], {}
    for method in ("state_posteriors", "conditionals"):
        ours, theirs = getattr(model, method), {name: getattr(peer, method) for name, peer in peers.items()}
        quantity = method.replace("_", " ")
        for name, call in theirs.items():
            agreement |= difference(f"HMM {quantity}, hmmlearn {name}", ours(few), call(few), TOLERANCE)
        works = [Work(f"HMM.{method}", "", scale.hmm, partial(ours, sentences))]
        works += [Work("hmmlearn", name, scale.hmmlearn, partial(call, few)) for name, call in theirs.items()]
        what = f"HMM {quantity}, a sentence of {model.length} tokens"
        rows += contest(what, "ms", works, {"hmmlearn": 7}, scale.repetitions)
    return Report(rows, agreement)


# Sampling


class NltkSampler:
    """Top-down sampling from nltk's own grammar objects; nltk has no sampler for a PCFG."""

    def __init__(self, grammar: Grammar, seed: int = 0) -> None:
        """Let nltk read the grammar."""
        lines = [line.split() for line in to_lines(grammar).splitlines()]
        symbols = {parent: nltk.Nonterminal(parent) for parent, *_ in lines}
        productions = [
            nltk.ProbabilisticProduction(
                symbols[parent], [symbols.get(c, c) for c in children], prob=float(p)
            )
            for parent, *children, p in lines
        ]
        self.grammar = nltk.PCFG(symbols[lines[0][0]], productions)
        self.numbers = {word: number for number, word in enumerate(grammar.vocabulary, 1)}
        self.random = random.Random(seed)

    def production(self, symbol: nltk.Nonterminal) -> nltk.ProbabilisticProduction:
        """Draw one of a symbol's productions."""
        productions = self.grammar.productions(lhs=symbol)
        return self.random.choices(productions, [production.prob() for production in productions])[0]

    def expand(self, symbol: nltk.Nonterminal | str) -> list[str]:
        """Return the words below a symbol."""
        if is_terminal(symbol):
            return [symbol]
        return [word for child in self.production(symbol).rhs() for word in self.expand(child)]

    def sample(self, count: int) -> list[list[str]]:
        """Draw sentences."""
        return [self.expand(self.grammar.start()) for _ in range(count)]

    def sentences(self, count: int, width: int) -> Sentences:
        """Draw sentences and write them as ours are."""
        drawn = [[self.numbers[word] for word in sentence] for sentence in self.sample(count)]
        tokens = torch.tensor([numbers + [0] * (width - len(numbers)) for numbers in drawn])
        return Sentences(tokens, (tokens > 0).sum(1))


class PreparedNltkSampler(NltkSampler):
    """The same with every symbol's productions and their cumulative probabilities looked up before."""

    def __init__(self, grammar: Grammar, seed: int = 0) -> None:
        """Prepare `random.choices`."""
        super().__init__(grammar, seed)
        self.table = {}
        for symbol in {production.lhs() for production in self.grammar.productions()}:
            productions = self.grammar.productions(lhs=symbol)
            self.table[symbol] = (productions, list(accumulate(p.prob() for p in productions)))

    def production(self, symbol: nltk.Nonterminal) -> nltk.ProbabilisticProduction:
        """Draw one of a symbol's productions by bisection."""
        productions, cumulative = self.table[symbol]
        return self.random.choices(productions, cum_weights=cumulative)[0]


def word_counts(sentences: Sentences, words: int) -> Float[Tensor, "batch count"]:
    """Return each sentence's length, then how often it has each word."""
    counts = torch.zeros(len(sentences.tokens), words + 1, dtype=torch.float64)
    present = (sentences.tokens > 0).double()
    counts.scatter_add_(1, sentences.tokens, present)
    counts[:, 0] = sentences.lengths
    return counts


def apart(ours: Float[Tensor, "batch count"], theirs: Float[Tensor, "other count"]) -> Float[Tensor, " kept"]:
    """Return the differences of means in standard errors, of what occurs often enough.

    The error comes from our sample, the larger one, over sentences: words of a sentence depend on
    each other.
    """
    kept = ours.mean(0) * len(theirs) >= LEAST_COUNT
    error = (ours.var(0) * (1 / len(ours) + 1 / len(theirs))).sqrt()
    return ((ours.mean(0) - theirs.mean(0)) / error)[kept]


def sampling_agreement(language: PCFG, samplers: Iterable[NltkSampler], scale: Scale) -> dict[str, float]:
    """Compare mean length and unigram frequencies within the samples' error."""
    mine = word_counts(language.sample(scale.sampled, torch.Generator().manual_seed(1)), language.words)
    exact = language.grammar.mean_length
    off = (mine[:, 0].mean() - exact) / (mine[:, 0].std() / len(mine) ** 0.5)
    none = torch.zeros((), dtype=torch.float64)
    found = difference("mean length, exact (standard errors)", off, none, MOST_ERRORS)
    for sampler in samplers:
        theirs = word_counts(sampler.sentences(scale.compared, language.max_length), language.words)
        errors = apart(mine, theirs)
        what = f"mean length and {len(errors) - 1} words, {type(sampler).__name__} (standard errors)"
        found |= difference(what, errors, none, MOST_ERRORS)
    return found


def sampling_report(scale: Scale) -> Report:
    """Compare sampling with nltk's productions, and time a corpus on two threads."""
    language = PAPER_LANGUAGE.build()
    plain, prepared = NltkSampler(language.grammar, seed=0), PreparedNltkSampler(language.grammar, seed=1)
    goals = {"nltk productions, random.choices": 250, "the same, cumulative weights prepared": None}
    agreement = sampling_agreement(language, (plain, prepared), scale)
    call = partial(language.sample, scale.sampled, torch.Generator().manual_seed(0))
    works = [Work("PCFG.sample", "", scale.sampled, call)]
    for name, sampler in zip(goals, (plain, prepared), strict=True):
        works.append(Work(name, "", scale.nltk, partial(sampler.sample, scale.nltk)))
    rows = contest("PCFG sampling", "sentences/s", works, goals, scale.repetitions)
    return Report(rows + corpus_rows(language, scale), agreement)


def corpus_rows(language: PCFG, scale: Scale) -> list[dict[str, Any]]:
    """Time the writing of a corpus on two threads."""
    with tempfile.TemporaryDirectory() as folder:
        write = partial(write_corpus, language, scale.corpus, 0, Path(folder), workers=2)
        (timing,) = race([Work("write_corpus", "2 threads", scale.corpus, write)], min(3, scale.repetitions))
    sentences = row("PCFG corpus on disk", "sentences/s", timing)
    tokens = {name: language.grammar.mean_length * sentences[name] for name in ("ours_value", "ours_median")}
    return [sentences, sentences | tokens | {"unit": "tokens/s"}]


# Memory


def print_extra_memory(chunk_bytes: int, file: Path) -> None:
    """Print how many bytes conditionals take at their peak, beyond their result: for a fresh process."""
    pcfg.CHUNK_BYTES["cpu"] = chunk_bytes
    language, sentences = PAPER_LANGUAGE.build(), whole(torch.from_numpy(np.load(file)))
    language.conditionals(sentences.rows(slice(1)))  # what a first call sets up
    used, result = peak(partial(language.conditionals, sentences))
    print(used - result.nbytes)


def extra_memory(chunk_bytes: int, sentences: Sentences) -> int:
    """Return the peak in bytes; a fresh process, because memory once freed may be used again."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokens.npy"
        np.save(file, sentences.tokens.numpy())
        return int(fresh_process(__file__, "--extra-memory", str(chunk_bytes), str(file)))


def memory_report(scale: Scale) -> Report:
    """Measure memory for several sizes of a chunk and numbers of sentences."""
    if not tells_memory():
        return Report([], {})
    most = max(count for count, _ in scale.memory)
    sentences = sentences_of(PAPER_LANGUAGE.build(), LENGTH, most)
    rows = [memory_row(chunk, sentences.rows(slice(count))) for count, chunk in scale.memory]
    return Report(rows, {})


def memory_row(chunk_bytes: int, sentences: Sentences) -> dict[str, Any]:
    """Measure one size of a chunk on one set of sentences."""
    size = f"{len(sentences.tokens)} sentences of {LENGTH} tokens, chunks of {chunk_bytes >> 20} MiB"
    used = extra_memory(chunk_bytes, sentences) / (1 << 20)
    what = f"PCFG conditionals, peak memory beyond the result, {size}"
    return {"what": what, "ours": "PCFG.conditionals", "peer": NOBODY, "unit": "MiB", "ours_value": used}


# The table


def main(argv: Sequence[str] | None = None) -> pd.DataFrame | None:
    """Print the table and return it; without --quick, write it into results/."""
    line = parser(__doc__)
    line.add_argument("--extra-memory", nargs=2, help=argparse.SUPPRESS)  # of this script's own processes
    options = line.parse_args(argv)
    torch.set_num_threads(1)
    if options.extra_memory:
        return print_extra_memory(int(options.extra_memory[0]), Path(options.extra_memory[1]))
    scale = QUICK if options.quick else FULL
    reports = [part(scale) for part in (pcfg_report, hmm_report, sampling_report, memory_report)]
    return conclude("languages", reports, PACKAGES, write=not options.quick)


if __name__ == "__main__":
    main()
