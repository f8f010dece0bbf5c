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
# are learned by transformers of BERT's kind in nine shapes, called 2M to 730M; the HMM by PyTorch's
# LSTMs in five.
#
# **What you will see**: the blocks and the head as equations beside their code; what the names of the
# sizes count, and how little of it a language of a few hundred words can use; which kind of
# LSTM the names fit; and that HuggingFace's `transformers` computes the same logits and opens what
# is trained here.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation, gpu, paper
size: str = None  # all, or one: d24 to d96 (the width); lstm16 to lstm64 on hmm; 2M to 730M: the paper's
seeds: int = None  # replicates, each with its own language, weights and batches; None: the preset's
steps: int = None  # steps of the longest descent; None: the preset's
micro_batch: int = None  # sentences that go through the model at once; None: the preset's
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
processes: int = None  # that share one training, each on a core or GPU of its own
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.studies.same_loss.pages import STUDY

page = begin(globals(), STUDY, "a3_models")

# %% [markdown]
# ## The idea
#
# A sentence enters as the sum of a word's vector and a position's, row 0 of $E$ being that of `[MASK]`:
# $h_t = \mathrm{LN}(E_{x_t} + P_t)$. Then come $L$ blocks. Each lets the positions exchange something by
# attention and then works on every position alone, and adds both to what it was given:
#
# $$
# \begin{aligned}
# \text{pre-LN:}\quad & v = h + \mathrm{Attn}(\mathrm{LN}\,h), & h' &= v + \mathrm{MLP}(\mathrm{LN}\,v), \\
# \text{post-LN:}\quad & v = \mathrm{LN}(h + \mathrm{Attn}\,h), & h' &= \mathrm{LN}(v + \mathrm{MLP}\,v).
# \end{aligned}
# $$
#
# A block's parameters are the same, the place of its LayerNorms is not. In pre-LN nothing stands between the
# embedding and the last block's sum but additions, and one more LayerNorm ends the stack; in post-LN every
# sum is normalised on the way. Appendix B.1 of the paper writes post-LN. Its released code trains pre-LN
# with a LayerNorm behind the embedding, and so does this book unless it says otherwise. (In the code, `bias` hides
# padding, and `at` asks for one position of each sentence: from the last block, training wants no other.)

# %%
from sameloss.book.chapter import show_source
from sameloss.models.encoder import Attention, Block, PostBlock

show_source(Block.forward)

# %%
show_source(PostBlock.forward)

# %% [markdown]
# With queries, keys and values $q = W_q h + b_q$, $k$ and $v$ likewise, each cut into heads $a$ of width
# $d/n_\text{head}$, and an MLP that is $d_\text{inter}$ wide inside,
#
# $$
# \mathrm{Attn}(h)_t = b_o + \sum_a W_o^a \sum_s \mathrm{softmax}_s\Bigl(\frac{q_t^a\cdot k_s^a}{\sqrt{d/n_\text{head}}}\Bigr)\, v_s^a,
# \qquad \mathrm{MLP}(h) = W_2\,\mathrm{GELU}(W_1 h + b_1) + b_2 .
# $$

# %%
show_source(Attention.forward)

# %% [markdown]
# An **LSTM** block has two LSTMs of half the width, one of which reads the sentence backwards; like the
# released code's, it normalises what they say and adds it:
#
# $$ h' = h + \mathrm{LN}\bigl[\overrightarrow{\mathrm{LSTM}}(h);\ \overleftarrow{\mathrm{LSTM}}(h)\bigr] . $$

# %%
from sameloss.models.bilstm import BiLSTMBlock

show_source(BiLSTMBlock.forward)

# %% [markdown]
# The **head** is the same for all. It transforms $h$ once more and compares with the rows of the words in
# $E$, which is therefore both the first and the last matrix (it is *tied*); `[MASK]` is never predicted:
#
# $$ f_\theta(x_{-t}) = \mathrm{softmax}\bigl(E_{1..c}\,\mathrm{LN}(\mathrm{GELU}(W h_t + b)) + \beta\bigr) . $$

# %%
from sameloss.models.masked_model import MaskedLanguageModel

show_source(MaskedLanguageModel.head)

# %% [markdown]
# **By hand.** How many parameters has a pre-LN encoder of width $d = 4$ with one block, $d_\text{inter} = 8$, for
# $c = 3$ words and $n = 4$ positions? The number of heads does not matter.
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
from sameloss.studies.same_loss.models import encoder_parameters

tiny = EncoderShape(d_model=4, heads=2, layers=1, d_inter=8)
counted = Encoder(tiny, words=3, max_length=4).parameter_count
encoder_parameters(tiny, words=3, max_length=4), counted

# %% [markdown]
# ## What a size's name counts (Table 3)
#
# BERT has more around its blocks than a small language needs. All numbers are
# millions of parameters; `as BERT` is their sum, `here` what this book builds from the same shape, and
# `name off (%)` by how much the paper's name is above that sum.

# %%
from sameloss.book.chapter import render
from sameloss.studies.same_loss.models import transformer_sizes

sizes = transformer_sizes()
render(sizes.rename(columns={"off": "name off (%)"}))

# %% tags=["remove-cell"]
from myst_nb import glue

from sameloss.languages.paper import PAPER_LANGUAGE as paper
from sameloss.studies.same_loss.models import BERT_IDS, BERT_POSITIONS, BERT_TYPES

share = 100 * sizes["word embedding"] / sizes["as BERT"]
farthest = sizes.loc[sizes.off.abs().idxmax()]
texts = {
    "bert-ids": f"{BERT_IDS:,}",
    "bert-positions": BERT_POSITIONS,
    "bert-types": BERT_TYPES,
    "paper-words": paper.words,
    "paper-length": paper.max_length,
    "rows-used": f"{100 * (paper.words + 1) / BERT_IDS:.1f}",
    "words-smallest": f"{share.iloc[0]:.0f}",
    "words-largest": f"{share.iloc[-1]:.0f}",
    "smallest": sizes["size"].iloc[0],
    "largest": sizes["size"].iloc[-1],
    "smallest-here": f"{sizes.here.iloc[0]:.2f}",
    "ratio-names": f"{sizes['as BERT'].iloc[-1] / sizes['as BERT'].iloc[0]:,.0f}",
    "ratio-here": f"{sizes.here.iloc[-1] / sizes.here.iloc[0]:,.0f}",
    "farthest": farthest["size"],
    "farthest-off": f"{farthest.off:+.1f}",
}
for name, text in texts.items():
    glue(name, str(text), display=False)

# %% [markdown]
# - **word embedding**: {glue:text}`bert-ids` rows, of which a language of {glue:text}`paper-words` words reads
#   {glue:text}`rows-used` %. It makes up {glue:text}`words-smallest` % of {glue:text}`smallest` and
#   {glue:text}`words-largest` % of {glue:text}`largest`.
# - **positions, types**: {glue:text}`bert-positions` and {glue:text}`bert-types` rows, and the LayerNorm behind
#   them; sentences have {glue:text}`paper-length` tokens at most, and one type.
# - **blocks**: as above, without a final LayerNorm. The only part that is the same here (but for that one).
# - **pooler**: a layer that BERT reads its first token with. Masked-language modelling does not train it.
# - **head**: as above, with one output bias for each of the {glue:text}`bert-ids` ids.
#
# The names round in either direction; farthest is {glue:text}`farthest`, {glue:text}`farthest-off` % off. What
# matters more is what they hide: by the count behind its name the largest model is {glue:text}`ratio-names` times
# the smallest, without unused rows {glue:text}`ratio-here` times, and {glue:text}`smallest` has
# {glue:text}`smallest-here` million parameters that are ever used. The laptop's sizes are named by their
# width:

# %%
from sameloss.studies.same_loss.models import own_sizes

own = own_sizes(page.replicate)
render(own)

# %% [markdown]
# ## A ladder into one width (Table 4)
#
# The ICML text compares traces in one large model, whose width has to be a common multiple of all widths, so it
# has another table of shapes. A model of width $d$ goes in as $k$ copies of itself, and its MLP has to grow
# $k$ times, too ([B.1 Enlargement](b2_enlargement.ipynb)). Appendix B says that $d_\text{inter} = 4d$, which `d_inter` is here; Table 4 prints
# another column.

# %%
from sameloss.studies.same_loss.enlargement import ladder_table

ladder = ladder_table()
render(ladder.rename(columns={"ratio": "copies k"}))

# %% tags=["remove-cell"]
embeds = ladder["printed embeds"] == "yes"
as_said = ladder["printed d_inter"] == ladder.d_inter
glue("cannot-embed", ", ".join(ladder["size"][~embeds]), display=False)
glue("as-said", ", ".join(ladder["size"][as_said]), display=False)
glue("ladder-printed", str(ladder["printed d_inter"].iloc[-1]), display=False)

# %% [markdown]
# With the printed widths these cannot be embedded in the last one: {glue:text}`cannot-embed`, because $k$ times their
# own is not {glue:text}`ladder-printed`. And the printed width is four times $d$ for {glue:text}`as-said` only: the
# column continues as in Table 3, whose widths are others.
#
# ## Which LSTM
#
# Appendix A.3 gives widths and depths in two lists, read here in pairs, and "the implementation of PyTorch". The text
# speaks of 4M, 10M, 67M and 135M. Two kinds have an output of width $d$: two directions of $d/2$ each, as in the
# block above, and one direction of $d$. Both counts have BERT's parts around them, in millions:

# %%
from sameloss.studies.same_loss.models import lstm_sizes

lstms = lstm_sizes()
render(lstms.rename(columns={"off": "name off (%)", "off, one direction": "off (%), one direction"}))

# %% tags=["remove-cell"]
large = lstms[lstms["size"].isin(["67M", "135M"])]
glue("two-off", f"{large.off.abs().max():.1f}", display=False)
glue("one-off", f"{large['off, one direction'].abs().min():.0f}", display=False)
small = lstms.iloc[0]
glue("small-two", f"{small['two directions']:.1f}", display=False)
glue("small-one", f"{small['one direction']:.1f}", display=False)

# %% [markdown]
# The two largest names decide: they are within {glue:text}`two-off` % of two directions, and at least
# {glue:text}`one-off` % away from one. (The smallest cannot tell, {glue:text}`small-two` or {glue:text}`small-one`
# million: most of it is the word embedding. 29M is named here, not in the paper.) Two directions are
# what the task needs as well: one that reads forwards never sees what follows the mask.
#
# ## The same function in `transformers`
#
# Pre-LN is what `RobertaPreLayerNormForMaskedLM` computes and post-LN what `BertForMaskedLM` does.
# `export_model` writes an encoder under their names into a folder. Here encoders whose
# parameters are all random, gains and biases included, are exported and opened again; `difference` is the largest
# one of any logit, over sentences of all lengths.

# %%
import transformers

from sameloss.book.chapter import scientific
from sameloss.models.sizes import SIZES
from sameloss.studies.same_loss.models import agreement_table

transformers.utils.logging.disable_progress_bar()
agreement = agreement_table(SIZES["laptop"]["d32"])
render(scientific(agreement, "difference"))

# %% [markdown]
# What it takes: our one matrix of queries, keys and values is cut in three; the types' embedding is zero; `[MASK]`, which
# has no output here, gets an output bias that leaves it no probability. These classes take one id for padding,
# by default 0 or 1, which are our `[MASK]` and first word. So a new id, $c + 1$, is padding, and RoBERTa's positions
# begin behind it.

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from sameloss.models.export import export_model

model = Encoder(SIZES["laptop"]["d16"], words=16, max_length=8, seed=0)
with TemporaryDirectory() as folder:
    export_model(model, Path(folder))
    opened = transformers.AutoModelForMaskedLM.from_pretrained(folder)

# %%
sentence, masked = torch.tensor([[3, 0, 5]]), torch.tensor([1])
theirs = opened(sentence).logits.softmax(-1)[0, 1]  # [MASK], words 1 to 16, padding
ours = model(sentence, masked).softmax(-1)[0]
print(type(opened).__name__, theirs[:4].detach().numpy().round(4), ours[:3].detach().numpy().round(4))

# %% [markdown]
# A trained model goes the same way:
#
# ```python
# model = page.store.complete.get(page.replicate.main("d24")).last()
# export_model(model, Path("my-d24"))
# ```
#
# No class of `transformers` is an LSTM like ours; `export_model` says so.
#
# ## Pre-LN beside post-LN
#
# The released code and the paper's text place the LayerNorms differently. One size, trained both ways from the same seeds
# on the same sentences, in recorded runs: what post-LN has more than pre-LN at one KL, accuracies in points, and how many
# times larger the trace of pre-LN is. The laptop's preset leaves post-LN out.

# %%
from sameloss.studies.same_loss import tables
from sameloss.studies.same_loss.pages import recorded_answers

render(tables.control_table(recorded_answers(), "post-LN"), decimals=4)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
counts = [encoder_parameters(s, paper.words, paper.max_length) / 1e6 for s in SIZES["paper"].values()]
differences = agreement.groupby("precision").difference.max()
print("the formula counts every size of Table 3:", counts == list(sizes.here))
print("every name of Table 3 is within 10 % of BERT's count:", bool((sizes.off.abs() < 10).all()))
print("67M and 135M are two directions:", bool((large.off.abs() < 1).all()))
print("67M and 135M are not one direction:", bool((large["off, one direction"].abs() > 10).all()))
print("sizes of Table 4 whose printed MLP width embeds:", list(ladder["size"][embeds]))
print("transformers computes our logits:", bool(differences.float32 < 1e-4 and differences.float64 < 1e-10))
print("and our probabilities, of words only:", torch.allclose(theirs[1:-1], ours) and not theirs[0])

# %% [markdown]
# ## Deviations
#
# - Pre-LN with a LayerNorm behind the embedding follows the released code, not the paper's text.
# - Embeddings have a row for each word, for `[MASK]` and for each position that a sentence can have. There are no
#   types, no pooler, and no output for `[MASK]`.
# - How BERT's parts surround the paper's LSTMs is not said in the text; they are counted here like the transformers',
#   and their normalised, added blocks are the released code's.
# - An exported model has a few rows more than ours: for padding, a type, and, pre-LN, positions that never occur.
#
# ## Exercises
#
# 1. From which size on do the blocks have most of the parameters, with BERT's rows and without?
#    `-p preset paper`.
# 2. The same for an LSTM: `-p language hmm -p size 10M`. Why does its block have half of the parameters of a transformer's as wide?
# 3. Put 1, the first word's id, back for `pad_token_id` in the `config.json` of an exported model. Which of the two
#    classes then computes other logits, and why?

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page)
