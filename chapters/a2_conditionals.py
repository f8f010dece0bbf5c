# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A.2 The true conditionals
#
# **Question.** The lowest possible loss of a masked language model follows from the true probabilities of a masked word. What do they cost? According to
# [Liu et al., 2023](bibliography.md) (Appendices A.2 and E), one joint probability for every word of the vocabulary, and with several masks exponentially many. Is there no
# cheaper way?
#
# **Idea.** In a grammar or a hidden Markov model (HMM), the probability of a sentence is linear in the score of each of its words. So its gradient has the
# probabilities of all words at all positions, and to sum over a masked word one adds up its scores.
#
# **By hand.** $S$ becomes $A\,B$ with probability 0.6 and $B\,A$ with 0.4. $A$ emits *one* with 0.9 and *two* with 0.1; $B$ emits *one* with 0.3 and *two* with 0.7. What is
# the first word of "? two"? Pr(one two) = 0.6 · 0.9 · 0.7 + 0.4 · 0.3 · 0.1 = 0.390, and Pr(two two) = 0.6 · 0.1 · 0.7 + 0.4 · 0.7 · 0.1 = 0.070. So it is *one*
# with probability 0.390/0.460 = 0.848. And in "? ?"? Whatever emits the second word, its scores add up to 1: 0.6 · 0.9 · 1 + 0.4 · 0.3 · 1 = 0.66, without writing out any second word.
#
# **Prediction.** One pass gives the same numbers as the definition, in a time that does not depend on the number of masks.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation, pretrained, gpu-hour, gpu, paper
sentences: int = 2000  # sentences that statistics of languages are taken on
grammar: str = None  # file with a grammar of yours, NLTK's notation or lines `LHS RHS... p`
length_limit: int = None  # longest sentence (tokens) of it; a recursive grammar needs it
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% mystnb={"code_prompt_show": "Start of this page"} tags=["experiment", "hide-input"]
from sameloss.book.cells import begin
from sameloss.studies.same_loss.experiment import PRESETS
from sameloss.studies.same_loss.parameters import BOUNDS, chosen, preset_of

presets = {name: {"experiment": experiment} for name, experiment in PRESETS.items()}
page = begin(globals(), "a2_conditionals", presets, BOUNDS, auto=preset_of)
experiment = chosen(page.values)

# %% mystnb={"code_prompt_show": "Imports"} tags=["hide-input"]
import time
from itertools import product
from math import prod

import numpy as np
import pandas as pd
import torch

from sameloss.book.chapter import finding, render, say, scientific, show_source
from sameloss.languages import PCFG, Sentences, TeacherSpec, substituted_conditionals
from sameloss.languages.autoregressive import FILLINGS, fillings, sum_of_fillings
from sameloss.languages.grammars.formats import read_grammar
from sameloss.languages.language import MASK
from sameloss.languages.paper import PAPER_HMM, PAPER_LANGUAGE
from sameloss.seeds import generator_for
from sameloss.studies import drawing
from sameloss.studies.same_loss import languages

# %% mystnb={"code_prompt_show": "Languages and times"} tags=["hide-input"]
setups = languages.setups(experiment)
summable = {name: setups[key].language.build() for key, name in languages.LANGUAGES.items()}
opt = languages.opt_language(experiment)
teachers = {languages.opt_name(opt): opt.build()} if isinstance(opt, TeacherSpec) else {}


def timed(compute, *arguments):
    """Return a result and the least milliseconds of three times: the first also plans the computation."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        result = compute(*arguments)
        seconds.append(time.perf_counter() - started)
    return result, 1000 * min(seconds)


# %% mystnb={"code_prompt_show": "The definition and the pass"} tags=["hide-input"]
rows = []
for name, language in {**summable, **teachers}.items():
    sample = language.sample(20, torch.Generator().manual_seed(0))
    by_word, definition_ms = timed(substituted_conditionals, language, sample)
    at_once, pass_ms = timed(language.conditionals, sample)
    row = {"language": name, "passes": int(sample.lengths.max()) * language.words}
    row |= {"definition_ms": definition_ms, "pass_ms": pass_ms, "times faster": definition_ms / pass_ms}
    rows.append(row | {"difference": (by_word - at_once).abs().max().item()})
compared = pd.DataFrame(rows)


# %% mystnb={"code_prompt_show": "Filling masks and the pass"} tags=["hide-input"]
def mask_some(sentences, masks, generator):
    """Mask so many random positions of each sentence, or all positions of a shorter one."""
    order = torch.rand(sentences.tokens.shape, generator=generator)
    positions = order.masked_fill(~sentences.inside, 2.0).argsort(1)[:, :masks]
    return Sentences(sentences.tokens.scatter(1, positions, MASK), sentences.lengths)


def by_filling(language, masked):
    """Log probability of the visible words: the joint probabilities of all ways to fill the masks, added up."""
    filled, owners = fillings(masked, language.words)
    return sum_of_fillings(language.log_prob(filled)[:, None], owners, len(masked.lengths)).squeeze(1)


rows = []
for name, language in summable.items():
    generator = torch.Generator().manual_seed(0)
    sample = language.sample(20, generator)
    for masks in range(1, language.max_length + 1):
        masked = mask_some(sample, masks, generator)
        at_once, pass_ms = timed(language.log_prob, masked)
        row = {"language": name, "masks": masks, "fillings": float(language.words**masks), "pass_ms": pass_ms}
        if language.words**masks <= FILLINGS:
            one_by_one, filling_ms = timed(by_filling, language, masked)
            row |= {"filling_ms": filling_ms, "difference": (one_by_one - at_once).abs().max().item()}
        rows.append(row)
by_masks = pd.DataFrame(rows)
several = by_masks.dropna()

# %% mystnb={"figure": {"caption": "Time for the probability of the visible words of twenty sentences, by the number of masks: adding up the joint probabilities of all fillings (dashed, up to 10,000 of them), or one pass that sums over the masked words (solid). The least of three times.", "name": "fig-mask-times"}, "image": {"alt": "On a logarithmic axis the dashed lines of all fillings climb by more than a factor of ten for each mask and end after two or three; the solid lines of the pass stay flat up to all words masked."}}
slowest = several.loc[several.filling_ms.idxmax()]
finding(
    f"Filling {slowest.masks} masks of the {slowest.language} in every way takes about {float(f'{slowest.filling_ms / slowest.pass_ms:.0g}'):,.0f} times as long as "
    f"one pass, whose time hardly depends on the number of masks."
)
(ax,) = drawing.panels(1, width=7.6)
for at, (name, part) in enumerate(by_masks.groupby("language", sort=False)):
    for ms, way, style in (("filling_ms", "\nall fillings", "--"), ("pass_ms", " one pass", "-")):
        line = part.dropna(subset=ms)
        ax.plot(line.masks, line[ms], style, marker=drawing.MARKERS[at], color=f"C{at}")
        end = (line.masks.iloc[-1], line[ms].iloc[-1])
        left = at == 0 and style == "--"  # where no other line passes
        label = {"color": drawing.readable(f"C{at}"), "va": "center", "ha": "right" if left else "left"}
        at_end = (-8 if left else 8, 0)
        ax.annotate(f"{name},{way}", end, at_end, textcoords="offset points", **label)
ax.set(yscale="log", xlabel="masked words of each sentence", ylabel="milliseconds for 20 sentences")
ax.yaxis.set_major_formatter("{x:g}")

# %%
say(f"""
**What we find.** There is a cheaper way. For the grammar and the HMM, one pass gives the probabilities of all words at all positions, equal to the definition up to {compared.difference.max():.0e}, and it sums over
masked words as fast as it reads visible ones, equal to all fillings up to {several.difference.max():.0e}. So such languages have exact targets at any mask rate. For an autoregressive teacher like OPT
we know no such pass. There several masks take all fillings, as Appendix E says.
""")

# %% [markdown]
# **What limits this.** Times are those of one machine and of small languages. That the work does not depend on the number of masks follows from the algorithm; the comparison
# on twenty sentences checks its code.
#
# ## The numbers by hand, and by brute force
#
# The example above, computed by the library:

# %%
tiny = PCFG(
    read_grammar("""
S -> A B [0.6] | B A [0.4]
A -> 'one' [0.9] | 'two' [0.1]
B -> 'one' [0.3] | 'two' [0.7]
""")
)
masked = Sentences(torch.tensor([[0, 2]]), torch.tensor([2]))
tiny.conditionals(masked)[0, 0]

# %% [markdown]
# **In plain Python.** Where a sentence has several derivations, we write them all out and add up the probabilities of those that agree with the visible words. Here
# two of three words are masked:

# %%
rules = {
    "S": {"A A": 0.5, "B A": 0.5},
    "A": {"B B": 0.6, "two": 0.4},
    "B": {"one": 0.3, "two": 0.7},
}


def derivations(symbol):
    """Yield the words and the probability of every derivation from a symbol."""
    if symbol not in rules:
        yield (symbol,), 1.0  # a word
    for right, probability in rules.get(symbol, {}).items():
        for parts in product(*map(derivations, right.split())):
            words, probabilities = zip(*parts, strict=True)
            yield sum(words, ()), probability * prod(probabilities)


seen = [(words, p) for words, p in derivations("S") if len(words) == 3 and words[2] == "two"]
plain = sum(p for words, p in seen if words[0] == "one") / sum(p for _, p in seen)
lines = "\n".join(f"{left} {right} {p}" for left, options in rules.items() for right, p in options.items())
two_masked = Sentences(torch.tensor([[0, 0, 2]]), torch.tensor([3]))
library = PCFG(read_grammar(lines)).conditionals(two_masked)[0, 0, 0].item()
print(
    f"{len(seen)} derivations of ? ? two; Pr(one) of its first word: plain {plain:.6f}, library {library:.6f}"
)

# %% [markdown]
# ## All words and positions at once
#
# The library's *definition* takes one joint probability for each word and position:

# %%
show_source(substituted_conditionals)

# %% [markdown]
# But $\Pr(x)$ is linear in the scores $e_t(s) = \Pr(s \to x_t)$ of the symbols at one position $t$,
#
# $$ \Pr(x_t = w, x_{-t}) = \sum_s O_t(s)\,\Pr(s \to w), \qquad
#    O_t(s) = \frac{\partial \Pr(x)}{\partial e_t(s)} , $$
#
# so one inside pass [Lari and Young, 1990](bibliography.md) and its gradient, the outside pass, give the outside scores
# $O_t$ of all positions, and one matrix product gives all words. The same holds for an HMM with its forward and backward
# messages. (The paper names the Viterbi algorithm here. It finds the best path, while a probability needs the
# sum over paths.)
#
# The inside score $I_s(i, j)$ is the probability that symbol $s$ derives the words from $i$ up to $j$:
#
# $$ I_s(i,j) = \sum_{s \to l\,r} \Pr(s \to l\,r) \sum_k I_l(i,k)\, I_r(k,j) $$

# %%
from sameloss.languages.grammars.pcfg import inside, outside

show_source(inside)

# %%
show_source(outside)

# %% [markdown]
# The table compares the definition with the pass on the same sentences. `passes` is the number of joint probabilities
# that the definition takes. The autoregressive language has no such pass; it scores the rest of the sentence for every
# word, after a shared prefix.

# %%
render(scientific(compared, "difference"), decimals=1)

# %% [markdown]
# ## Several masks
#
# With $k$ masks, writing out $\Pr(x_t = c, x_{t'} = c', \dots)$ takes $|W|^k$ joint probabilities, as
# Appendix E says. The loss, however, needs only each masked token's *marginal* given the visible tokens, and the
# sums over the other masked tokens move inside the dynamic programme: a masked leaf scores
# $\sum_w \Pr(s\to w)$ instead of $\Pr(s\to x_t)$. The work does not depend on $k$. In numbers:

# %%
faster = several.assign(**{"times faster": several.filling_ms / several.pass_ms})
render(scientific(faster, "difference"), decimals=1)

# %% [markdown]
# ## What a mask hides
#
# How much harder does prediction become? Each further mask removes a word that carries information about the others,
# until only the length of the sentence is visible.

# %% mystnb={"figure": {"caption": "Exact entropy of one masked token, averaged over sentences, against the number of masks (95 % intervals over sentences; dotted, the logarithm of the vocabulary). One mask is the paper's setting.", "name": "fig-masks"}, "image": {"alt": "Entropy rises with the number of masked tokens in the grammar and in the HMM, where it jumps at the last mask, and ends below the dotted lines."}}
from sameloss.statistics.intervals import Estimate


def entropy_under_masks(language, masked):
    """Entropy of one masked token given the visible ones (nats); the sentence is the unit of the error."""
    hidden = (masked.tokens == MASK) & masked.inside
    entropy = torch.special.entr(language.conditionals(masked)).sum(2)
    return Estimate.of((entropy * hidden).sum(1) / hidden.sum(1))


rows = []
for name, language in summable.items():
    generator = generator_for("masks", 0)
    sample = language.sample(experiment.language_sentences, generator)
    for masks in range(1, language.max_length + 1):
        mean, error, _ = entropy_under_masks(language, mask_some(sample, masks, generator))
        row = {"language": name, "words": language.words, "masks": masks}
        rows.append(row | {"entropy": mean, "standard_error": error})
table = pd.DataFrame(rows)
entropies = table.groupby("language", sort=False).entropy
gains = (entropies.last() - entropies.first()).items()
changes = " and ".join(f"{gain:.2f} nats ({name})" for name, gain in gains)
finding(f"Masking all tokens instead of one raises the entropy of a masked token, by {changes}.")
(ax,) = drawing.panels(1, width=5)
for i, (name, part) in enumerate(table.groupby("language", sort=False)):
    style = {"color": f"C{i}", "marker": drawing.MARKERS[i], "capsize": 2}
    ax.errorbar(part.masks, part.entropy, 1.96 * part.standard_error, **style)[0].set_label(name)
    ax.axhline(np.log(part.words.iloc[0]), color=f"C{i}", ls=":", lw=1)
ax.set(xlabel="masked tokens of the sentence", ylabel="entropy of one of them (nats)")
drawing.label_ends(ax)

# %% [markdown]
# Every point is the exact best possible loss, averaged over sentences with masks at random positions. With all words masked,
# a curve ends below its dotted line if position and length alone carry information.
#
# ## Zeros
#
# A softmax gives every word a positive probability. Where a true conditional is zero, the best possible
# loss is approached but never attained: the set of minimisers, which Assumption 3.1 takes for a manifold, is
# empty. Block-diagonal HMMs and grammars whose symbols emit only some of the words have
# such zeros. This book's small HMM is mixed with a little of the uniform distribution and has none. Its small grammar
# smooths the emissions of the last level only, so words of branches that stop early keep their zeros, as in the paper's
# shape. `zeros (%)` is the share of zeros among the conditionals of 200 sentences.

# %%
shapes = {"grammar, paper's shape": PAPER_LANGUAGE.build(), "HMM, paper's shape": PAPER_HMM.build()}
rows = []
for name, language in {**summable, **shapes}.items():
    sample = language.sample(200, torch.Generator().manual_seed(0))
    zeros = 100 * (language.conditionals(sample)[sample.inside] == 0).double().mean().item()
    rows.append({"language": name, "zeros (%)": zeros, "loss attainable": "no" if zeros else "yes"})
render(pd.DataFrame(rows))

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
print("the pass agrees with all derivations written out:", abs(plain - library) < 1e-12)
print("the pass agrees with the definition:", bool((compared.difference < 1e-12).all()))
print("masks summed inside the pass agree with filling them:", bool((several.difference < 1e-12).all()))
print(
    "no mask more makes prediction easier:",
    bool((table.groupby("language").entropy.diff().dropna() > -0.01).all()),
)

# %% [markdown]
# ## Errata
#
# - "The time complexity of computing the true MLM conditional probability is exponential in the
#   number of masks" (Appendix E) holds for the definition and for an autoregressive teacher; for the
#   PCFG and the HMM the exact marginals cost one pass, whatever the number of masks.
# - Assumption 3.1 excludes languages with zeros among their conditionals.
#
# ## Exercises
#
# 1. Use a grammar of your own: `-p grammar my_grammar.txt`.
# 2. Why does the HMM's curve jump at the last mask? (What does a single visible word reveal?)
# 3. With 15 % of 32 tokens masked, about five, how far is the best possible loss from that of one mask?
#    `-p preset paper` (no model is trained; the definition, word by word, takes minutes).
#
# ```{admonition} Answers
# :class: dropdown
#
# 1. Write a line `LHS RHS... p` for each rule, and give `-p length_limit` if the grammar is recursive.
# 2. Each sentence of the HMM keeps to one of two blocks, which have half of the words each. A single visible word nearly tells which block; without any, nothing
#    does.
# 3. Read it off the curve at five masks. Each target is then still exact, and costs no more than with one mask.
# ```

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, table)
