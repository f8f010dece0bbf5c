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
# # A.3 Models
#
# **The claim** (Appendix A.3, Table 3 of [Liu et al., 2023](bibliography.md); Table 4 of the ICML text): the grammar and OPT
# are learned by transformers like BERT in nine sizes, named 2M to 730M, and the HMM by PyTorch's LSTMs in five. How large are they, and are this book's models the same?
#
# **Idea.** A size is named by its number of parameters. But BERT's word embedding has a row for each of 30,522 words, and a grammar of 200 words uses 201 of them. So we count the parameters that are ever
# used. It matters: effects of size are compared per *doubling* of parameters.
#
# **By hand.** An encoder of width 4 with one block of inner width 8, for 3 words and 4 positions, has 40 parameters in its embeddings, 172 in the block, 8 in the last LayerNorm and 31 in the head: 251, counted
# below. With BERT's word embedding it would have $(30\,522 - 4)\cdot 4 = 122{,}072$ more.
#
# **Prediction.** If the names count parameters in use, the two points of each line in the figure coincide, and 2M and 730M are 8.5 doublings apart.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation, pretrained, gpu-hour, gpu, paper
size: str = None  # all, or one: d24 to d96 (the width); lstm16 to lstm64 on hmm; 2M to 730M: the paper's
seeds: int = None  # replicates, each with its own language, weights and batches; None: the preset's
steps: int = None  # steps of the longest descent; None: the preset's
micro_batch: int = None  # sentences that go through the model at once; None: the preset's
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
processes: int = None  # that share one training, each on a core or GPU of its own
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% mystnb={"code_prompt_show": "Parameters of the nine sizes, by part"} tags=["hide-input"]
from dataclasses import asdict

import numpy as np
import pandas as pd
import torch
from transformers import BertConfig, BertForPreTraining

from sameloss.languages.paper import PAPER_LANGUAGE as paper
from sameloss.models.sizes import SIZES


def millions(*modules):
    return sum(parameter.numel() for module in modules for parameter in module.parameters()) / 1e6


def as_bert(d_model, layers=1, heads=1, d_inter=1):
    """Millions of parameters of a BERT by part; its output shares the matrix of the word embedding."""
    shape = {"num_attention_heads": heads, "num_hidden_layers": layers, "intermediate_size": d_inter}
    with torch.device("meta"):
        model = BertForPreTraining(BertConfig(hidden_size=d_model, **shape))
    bert, head = model.bert, model.cls.predictions
    words = millions(bert.embeddings.word_embeddings)
    return {
        "word embedding": words,
        "positions, types": millions(bert.embeddings) - words,
        "blocks": millions(bert.encoder),
        "pooler": millions(bert.pooler),
        "head": millions(head.transform) + head.bias.numel() / 1e6,
    }


# %% mystnb={"code_prompt_show": "Their numbers"} tags=["hide-input"]
from sameloss.studies import drawing

drawing.use_style()
listed = [{"size": name, **asdict(s), **as_bert(**asdict(s))} for name, s in SIZES["paper"].items()]
sizes = pd.DataFrame(listed)
sizes["as BERT"] = sizes.loc[:, "word embedding":"head"].sum(axis=1)
sizes["here"] = [s.parameter_count(paper.words, paper.max_length) / 1e6 for s in SIZES["paper"].values()]
named = sizes["size"].str.removesuffix("M").astype(float)
sizes["off"] = 100 * (named / sizes["as BERT"] - 1)
smallest, largest = sizes.iloc[0], sizes.iloc[-1]
doublings = {of: np.log2(largest[of] / smallest[of]) for of in ("as BERT", "here")}

# %% mystnb={"figure": {"caption": "The paper's nine sizes. Left: the parameters that a size's name counts, and those in use for a language of 200 words and sentences of at most 32. Right: the parts of a model as HuggingFace's BERT has them; all but 201 of 30,522 rows of the word embedding are never used; grey: the rest.", "name": "fig-sizes"}, "image": {"alt": "For the largest sizes the named and the used numbers of parameters agree; the smaller a model, the farther they are apart, up to a factor of thirty. The word embedding fills nearly all of the smallest model and almost nothing of the largest."}}
from sameloss.book.chapter import finding

finding(
    f"Of the {smallest['size']} model's parameters {smallest.here:.2f} million are ever used, of the {largest['size']} model's {largest.here:.0f}: "
    f"{doublings['here']:.0f} doublings, where BERT's count has {doublings['as BERT']:.1f}."
)
left, right = drawing.panels(2, width=4.4)
y, seen = -np.arange(len(sizes)), 0
left.hlines(y, sizes.here, named, color="0.75", lw=1.5, zorder=0)
left.plot(named, y, "o", color="0.35", label="as named")
left.plot(sizes.here, y, "s", color="C0", label="in use")
left.set(xscale="log", xlabel="parameters (millions)")
left.legend(loc="lower left", fontsize="small")
left.xaxis.set_major_formatter("{x:g}")
others = sizes[["positions, types", "pooler", "head"]].sum(axis=1)
for part, colour in ((sizes.blocks, "C0"), (others, "0.6"), (sizes["word embedding"], "C1")):
    share = 100 * part / sizes["as BERT"]
    right.barh(y, share, left=seen, color=colour)
    seen = seen + share
right.set(xlabel="share of BERT's parameters (%)", xlim=(0, 100))
right.text(60, y[0], "word embedding", ha="center", va="center", fontsize="small")
right.text(50, y[-1], "blocks", ha="center", va="center", fontsize="small", color="white")
for ax in (left, right):
    ax.set_yticks(y, sizes["size"])
    ax.grid(axis="y", visible=False)

# %%
from sameloss.book.chapter import say
from sameloss.book.part_one import recorded_answers
from sameloss.statistics.intervals import Interval

norms = recorded_answers().query("question == 'post-LN'").set_index(["language", "unit"])
post = {key: Interval(row["mean"], row.low, row.high) for key, row in norms.iterrows()}
gain, flatter = (post["grammar", unit] for unit in ("points", "ratio"))
used = sizes.set_index("size").here
say(f"""
**What we find.** The names count BERT's embedding: all are within {sizes.off.abs().max():.0f} % of a BERT of that shape. In use are {100 * smallest.here / smallest["as BERT"]:.0f} % of its parameters in {smallest["size"]} and {100 * largest.here / largest["as BERT"]:.0f} % in {largest["size"]}, so the
largest is {largest.here / smallest.here:,.0f} times the smallest, not {largest["as BERT"] / smallest["as BERT"]:,.0f} times. Between 9M and 730M, whose difference is the paper's effect of size, lie {np.log2(used["730M"] / used["9M"]):.0f} doublings; all published effects in this book are
scaled by them. *Where LayerNorm stands*, on which text and released code differ: at equal KL post-LN changes accuracy by {gain.value:+.1f} points ({gain.low:.1f} to {gain.high:.1f}) on the grammar, and pre-LN's trace is {flatter.value:.2f} times
post-LN's ({flatter.low:.2f} to {flatter.high:.2f}). `transformers` computes the same logits from our models, as shown below.
""")

# %% [markdown]
# **What limits this.** Counts are exact, but that the paper's LSTMs have two directions is an inference from their names. Pre-LN and post-LN are compared at one size, *d* = 48, on
# eight draws of the grammar and three of the hidden Markov model.
#
# ## The blocks
#
# Each token enters as the sum of a word embedding and a position embedding, $h_t = \mathrm{LN}(E_{x_t} + P_t)$; row 0
# of $E$ belongs to `[MASK]`. Then come $L$ blocks. In each, attention mixes the positions, an MLP transforms every
# position separately, and both results are added to their input:
#
# $$
# \begin{aligned}
# \text{pre-LN:}\quad & v = h + \mathrm{Attn}(\mathrm{LN}\,h), & h' &= v + \mathrm{MLP}(\mathrm{LN}\,v), \\
# \text{post-LN:}\quad & v = \mathrm{LN}(h + \mathrm{Attn}\,h), & h' &= \mathrm{LN}(v + \mathrm{MLP}\,v).
# \end{aligned}
# $$
#
# Both blocks have the same parameters and differ only in where they apply LayerNorm. In pre-LN, only additions separate
# the embedding from the last block's sum, and one more LayerNorm ends the stack; in post-LN every sum is normalised.
# Appendix B.1 of the paper writes post-LN. Its released code trains pre-LN with a LayerNorm after the embedding, and so
# does this book unless it says otherwise. (In the code, `bias` hides padding, and `at` selects one position per
# sentence: training needs no other position of the last block.)

# %%
from sameloss.book.chapter import show_source
from sameloss.models.encoder import Attention, Block, PostBlock

show_source(Block.forward)

# %%
show_source(PostBlock.forward)

# %% [markdown]
# Queries $q = W_q h + b_q$, and likewise keys $k$ and values $v$, are split into heads $a$ of width
# $d/n_\text{head}$. With an MLP of inner width $d_\text{inter}$,
#
# $$
# \begin{aligned}
# \mathrm{Attn}(h)_t &= b_o + \sum_a W_o^a \sum_s \mathrm{softmax}_s\Bigl(\frac{q_t^a\cdot k_s^a}{\sqrt{d/n_\text{head}}}\Bigr)\, v_s^a, \\
# \mathrm{MLP}(h) &= W_2\,\mathrm{GELU}(W_1 h + b_1) + b_2 .
# \end{aligned}
# $$

# %%
show_source(Attention.forward)

# %% [markdown]
# An **LSTM** block has two LSTMs of half the width, one of which reads the sentence backwards. As in the released
# code, their output is normalised and added:
#
# $$ h' = h + \mathrm{LN}\bigl[\overrightarrow{\mathrm{LSTM}}(h);\ \overleftarrow{\mathrm{LSTM}}(h)\bigr] . $$

# %%
from sameloss.models.bilstm import BiLSTMBlock

show_source(BiLSTMBlock.forward)

# %% [markdown]
# All models share one kind of **head**. It transforms $h$ once more and takes inner products with the words' rows of
# $E$, which is therefore both the first and the last matrix (it is *tied*). `[MASK]` is never predicted:
#
# $$ f_\theta(x_{-t}) = \mathrm{softmax}\bigl(E_{1..c}\,\mathrm{LN}(\mathrm{GELU}(W h_t + b)) + \beta\bigr) . $$

# %%
from sameloss.models.masked_model import MaskedLanguageModel

show_source(MaskedLanguageModel.head)

# %% [markdown]
# ## Counting an encoder
#
# Width $d = 4$, one block, $d_\text{inter} = 8$, $c = 3$ words and $n = 4$ positions; the number of heads does not matter:
#
# | part | formula | |
# |---|---|---|
# | words, `[MASK]`, positions; LayerNorm | $(c + 1 + n)\,d + 2d$ | 40 |
# | a block: attention, MLP, two LayerNorms | $(4d^2 + 4d) + (2 d\,d_\text{inter} + d_\text{inter} + d) + 4d$ | 172 |
# | final LayerNorm (pre-LN only) | $2d$ | 8 |
# | head: matrix and bias, LayerNorm, $\beta$ | $(d^2 + d) + 2d + c$ | 31 |
#
# The formula and the model itself:

# %%
from sameloss.models.encoder import Encoder, EncoderShape


def encoder_parameters(shape, words, max_length, norm="pre"):
    d, inner = shape.d_model, shape.d_inter
    embeddings = (words + 1 + max_length) * d + 2 * d
    block = (4 * d**2 + 4 * d) + (2 * d * inner + inner + d) + 4 * d
    final_norm = 2 * d if norm == "pre" else 0
    head = (d**2 + d) + 2 * d + words
    return embeddings + shape.layers * block + final_norm + head


tiny = EncoderShape(d_model=4, heads=2, layers=1, d_inter=8)
counted = Encoder(tiny, words=3, max_length=4).parameter_count
encoder_parameters(tiny, words=3, max_length=4), counted

# %% [markdown]
# ## What a size's name counts (Table 3)
#
# In millions, as HuggingFace's `transformers` builds BERT: `as BERT` is the sum of the parts, `here` the count of this book's model of the
# same shape, and `name off (%)` the percentage by which the paper's name exceeds that sum.

# %%
from sameloss.book.chapter import render

render(sizes.rename(columns={"off": "name off (%)"}))

# %%
bert = BertConfig()
farthest = sizes.loc[sizes.off.abs().idxmax()]
share = 100 * sizes["word embedding"] / sizes["as BERT"]
say(f"""
- **Word embedding**: {bert.vocab_size:,} rows, of which a language of {paper.words} words uses {100 * (paper.words + 1) / bert.vocab_size:.1f} %. They make up {share.iloc[0]:.0f} % of {smallest["size"]} and {share.iloc[-1]:.0f} % of {largest["size"]}.
- **Positions, types**: {bert.max_position_embeddings} and {bert.type_vocab_size} rows, and the LayerNorm after them. Sentences have at most {paper.max_length} tokens, and a single type.
- **Blocks**: as above, without a final LayerNorm. Apart from that LayerNorm, this is the only part that is the same here.
- **Pooler**: a layer that reads BERT's first token. Masked-language modelling does not train it.
- **Head**: as above, with an output bias for each of the {bert.vocab_size:,} ids.

The names are rounded up or down; {farthest["size"]} deviates most, by {farthest.off:+.1f} %.
""")

# %% [markdown]
# ## A ladder into one width (Table 4)
#
# The ICML text compares traces after embedding every size in one large model. Its width must be a common multiple of all
# widths, so that text has another table of sizes. A model of width $d$ enters as $k$ copies of itself, and its MLP
# must grow $k$ times as well ([B.1 Enlargement](b2_enlargement.ipynb)). Appendix B states $d_\text{inter} = 4d$, the
# column `d_inter`; Table 4 prints other numbers.

# %%
from sameloss.models.sizes import LADDER, PRINTED_D_INTER

ladder = pd.DataFrame({"size": name, **asdict(shape)} for name, shape in LADDER.items())
ladder["printed d_inter"] = PRINTED_D_INTER
ladder["copies k"] = np.lcm.reduce(ladder.d_model) // ladder.d_model
embeds = ladder["copies k"] * ladder["printed d_inter"] == PRINTED_D_INTER[-1]
ladder["printed embeds"] = embeds.map({True: "yes", False: "no"})
render(ladder)

# %%
as_stated = ladder["printed d_inter"] == ladder.d_inter
say(
    f"With the printed widths, {', '.join(ladder['size'][~embeds])} cannot be embedded in the largest model, because $k$ "
    f"times their width is not {ladder['printed d_inter'].iloc[-1]}. The printed width equals $4d$ only for "
    f"{', '.join(ladder['size'][as_stated])}: the column is that of Table 3, whose models have other widths."
)

# %% [markdown]
# ## Which LSTM
#
# Appendix A.3 lists widths and depths, which we read in pairs, and cites "the implementation of PyTorch". The text
# names 4M, 10M, 67M and 135M; 29M is our name for the fifth. Two kinds of LSTM have an output of width $d$: two
# directions of $d/2$ each, as in the block above, or one direction of $d$. The table counts both in millions, with
# BERT's other parts; `here` is what this book builds for the paper's HMM.

# %%
from torch import nn

from sameloss.languages.paper import PAPER_HMM
from sameloss.models.sizes import LSTM_SIZES

rows = []
for name, shape in LSTM_SIZES["paper"].items():
    with torch.device("meta"):
        model = shape.build(PAPER_HMM.words, PAPER_HMM.max_length)
        plain = nn.LSTM(shape.d_model, shape.d_model, shape.layers)
    parts = as_bert(shape.d_model)
    others = sum(parts.values()) - parts["blocks"]
    row = {"two directions": others + millions(model.blocks), "one direction": others + millions(plain)}
    rows.append({"size": name, **asdict(shape), **row, "here": millions(model)})
lstms = pd.DataFrame(rows)
of_name = lstms["size"].str.removesuffix("M").astype(float).where(lstms["size"] != "29M")  # 29M is our name
lstms["off"] = 100 * (of_name / lstms["two directions"] - 1)
lstms["off, one direction"] = 100 * (of_name / lstms["one direction"] - 1)
render(lstms.rename(columns={"off": "name off (%)", "off, one direction": "off (%), one direction"}))

# %%
two_largest, small = lstms[lstms["size"].isin(["67M", "135M"])], lstms.iloc[0]
say(
    f"The two largest names settle the question: they are within {two_largest.off.abs().max():.1f} % of the count for two "
    f"directions, and at least {two_largest['off, one direction'].abs().min():.0f} % from the count for one. The smallest name "
    f"cannot distinguish {small['two directions']:.1f} from {small['one direction']:.1f} million, since most of its "
    "parameters are the word embedding. The task needs two directions as well: an LSTM that only reads forwards never "
    "sees the tokens after the mask."
)

# %% [markdown]
# ## The same function in `transformers`
#
# `RobertaPreLayerNormForMaskedLM` computes our pre-LN model and `BertForMaskedLM` our post-LN model. `export_model`
# writes an encoder to a folder in their format. To test it, we export encoders whose parameters are all random, gains
# and biases included, and open them again; `difference` is the largest deviation of any logit, over sentences of all
# lengths.

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

import transformers

from sameloss.models.export import HuggingFaceModel, export_model

transformers.utils.logging.disable_progress_bar()


def random_encoder(shape, words, max_length, norm, generator):
    """An encoder in double precision with no parameter at its initial value."""
    model = Encoder(shape, words, max_length, seed=0, norm=norm).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def reopened(model):
    """What `transformers` opens after the export of a model."""
    with TemporaryDirectory() as folder:
        export_model(model, Path(folder))
        return transformers.AutoModelForMaskedLM.from_pretrained(folder, trust_remote_code=False)


# %%
from sameloss.book.chapter import scientific

words, generator = 16, torch.Generator().manual_seed(0)
lengths = torch.arange(8).repeat(8) + 1
tokens = torch.randint(1, words + 1, (len(lengths), 8), generator=generator)
positions = (torch.rand(len(lengths), generator=generator) * lengths).long()
tokens[torch.arange(len(lengths)), positions] = 0  # [MASK]
rows = []
for norm in ("pre", "post"):
    for dtype in (torch.float32, torch.float64):
        model = random_encoder(SIZES["laptop"]["d32"], words, 8, norm, generator).to(dtype)
        twin = reopened(model)
        with torch.no_grad():
            ours = model(tokens, positions, lengths)
            theirs = HuggingFaceModel(twin, words)(tokens, positions, lengths)
        row = {"ours": f"{norm}-LN", "transformers": type(twin).__name__, "precision": str(dtype)[6:]}
        row |= {"largest logit": ours.abs().max().item(), "difference": (theirs - ours).abs().max().item()}
        rows.append(row)
agreement = pd.DataFrame(rows)
render(scientific(agreement, "difference"))

# %% [markdown]
# The export splits our joint matrix of queries, keys and values into three and sets the type embedding to zero.
# `[MASK]`, which has no output here, gets an output bias that leaves it no probability. Both classes reserve one id for
# padding, by default 0 or 1, which are our `[MASK]` and our first word. The export therefore pads with a new id,
# $c + 1$, and RoBERTa's positions begin after it.

# %%
model = Encoder(SIZES["laptop"]["d16"], words=16, max_length=8, seed=0)
opened = reopened(model)
sentence, masked = torch.tensor([[3, 0, 5]]), torch.tensor([1])
theirs = opened(sentence).logits.softmax(-1)[0, 1]  # [MASK], words 1 to 16, padding
ours = model(sentence, masked).softmax(-1)[0]
print(type(opened).__name__, theirs[:4].detach().numpy().round(4), ours[:3].detach().numpy().round(4))

# %% [markdown]
# A trained model is exported in the same way:
#
# ```python
# model = page.with_weights(replicates[0].longest_descent("d24")).last()
# export_model(model, Path("my-d24"))
# ```
#
# `transformers` has no LSTM like ours, so `export_model` refuses one with a message.
# %% [markdown]
# ## The experiment: pre-LN beside post-LN
#
# The released code and the paper's text place the LayerNorms differently. To see whether it matters, recorded runs
# train one size both ways, from the same seeds on the same sentences; other presets have the models alone.

# %% mystnb={"code_prompt_show": "Presets"} tags=["experiment", "hide-input"]
from sameloss.book.cells import begin
from sameloss.studies.same_loss.experiment import ADAMW, tabled
from sameloss.studies.same_loss.experiment import PRESETS as EXPERIMENTS
from sameloss.studies.same_loss.parameters import BOUNDS, chosen, of_one_size, preset_of

PRESETS = {
    name: {"experiment": e, "algorithms": (("post-ln", None),) if name == "workstation" else ()}
    for name, e in EXPERIMENTS.items()
}

# %% mystnb={"code_prompt_show": "Start of this page"} tags=["experiment", "hide-cell"]
page = begin(globals(), "a3_models", PRESETS, BOUNDS, auto=preset_of)
experiment = of_one_size(chosen(page.values), "a3_models")
page.about, model = experiment.about, experiment.size


# %% tags=["experiment"]
def measured_on(replicate):
    """Pre-LN and post-LN, by length, and the flatness of the longest."""
    yield replicate.baselines()
    yield replicate.untrained(model)
    for algorithm in (ADAMW, *page.algorithms):
        for steps in experiment.lengths:
            yield replicate.trained(model, steps, algorithm=algorithm)
        if page.algorithms:
            yield replicate.flatness(model, algorithm)


# %% mystnb={"code_prompt_show": "Runs of this page"} tags=["experiment", "hide-cell"]
replicates = list(experiment.replicates())
measurements = [measurement for replicate in replicates for measurement in measured_on(replicate)]
numbers = page.stack([measurement.run for measurement in measurements])

# %% tags=["comparison"]
from sameloss.studies.same_loss.claims import Comparison
from sameloss.studies.same_loss.tables import PAGES

found = page.results = Comparison(tabled(measurements, numbers), PAGES["a3_models"])

# %% [markdown]
# Effects are differences at equal KL: the accuracy of post-LN minus that of pre-LN in points, and the trace of pre-LN divided by that of post-LN.

# %%
from sameloss.studies.same_loss.tables import control_table

render(control_table(recorded_answers(), "post-LN"), decimals=4)

# %% [markdown]
# The sizes of this page's preset are named by their width:

# %%
rows, language = [], replicates[0].language
for size in replicates[0].models:
    shape = replicates[0].setup.models[size]
    with torch.device("meta"):
        model = shape.build(language.words, language.max_length)
    blocks = round(1e6 * millions(model.blocks, model.final_norm))
    head = round(1e6 * millions(model.head_dense, model.head_norm)) + len(model.head_bias)
    parts = {"embeddings": model.parameter_count - blocks - head, "blocks": blocks, "head": head}
    rows.append({"size": size, **asdict(shape), **parts, "all": model.parameter_count})
render(pd.DataFrame(rows))

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
counts = [encoder_parameters(s, paper.words, paper.max_length) / 1e6 for s in SIZES["paper"].values()]
differences = agreement.groupby("precision").difference.max()
print("the formula counts every size of Table 3:", counts == list(sizes.here))
print("every name of Table 3 is within 10 % of BERT's count:", bool((sizes.off.abs() < 10).all()))
print("67M and 135M are two directions:", bool((two_largest.off.abs() < 1).all()))
print("67M and 135M are not one direction:", bool((two_largest["off, one direction"].abs() > 10).all()))
print("sizes of Table 4 whose printed MLP width embeds:", list(ladder["size"][embeds]))
print("transformers computes our logits:", bool(differences.float32 < 1e-4 and differences.float64 < 1e-10))
print("and our probabilities, of words only:", torch.allclose(theirs[1:-1], ours) and not theirs[0])

# %% [markdown]
# ## Deviations
#
# - Pre-LN with a LayerNorm after the embedding follows the released code, not the paper's text.
# - Embeddings have one row per word, one for `[MASK]`, and one per position of the longest sentence. There are no types,
#   no pooler, and no output for `[MASK]`.
# - The text does not say which of BERT's parts surround its LSTMs. We count them as for the transformers; their
#   blocks, normalised and added, are those of the released code.
# - An exported model has a few more rows than ours: for padding, for a type, and, for pre-LN, for positions that never
#   occur.
#
# ## Exercises
#
# 1. From which size on do the blocks have most of the parameters, with BERT's rows (`sizes["as BERT"]`) and without
#    (`sizes.here`)?
# 2. Answer the same question for the LSTMs with `lstms`. Why does an LSTM block have half as many parameters as a
#    transformer block of the same width?
# 3. Set `pad_token_id` back to 1, the id of the first word, in the `config.json` of an exported model. Which of the two
#    classes then computes other logits, and why?

# %% tags=["hide-input"]
from sameloss.book.chapter import close
from sameloss.book.part_one import records_in_words

say(records_in_words())
close(page)
