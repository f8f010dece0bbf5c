"""How useful a model's representations are downstream: linear probes and fine-tuning (App. A.4).

Features are read off a model, probes are fitted on them side by side, and a copy of the model is
fine-tuned; the result says which test sentences are right. A probe is solved to its optimum or trained as the
paper does, and the labels can be coded with it. Tasks are columns of labels here: which
language they come from, and which runs they belong to, is known elsewhere.
"""
