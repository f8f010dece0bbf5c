"""How useful a model's representations are downstream: linear probes and fine-tuning (App. A.4).

Features are read off a model, probes are fitted on them side by side, and a copy of the model is
fine-tuned; the result says which test sentences are right. Tasks are columns of labels here: which
language they come from, and which runs they belong to, is known elsewhere.
"""
