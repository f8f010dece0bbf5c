"""Masked language models, and the same function written with other parameters.

Here stand the architectures with the shapes that name them, their counts of parameters and operations,
and maps from one model to another: enlarged, reparametrised, exported. A model takes masked sentences
and returns logits; it does not know how it is trained, measured or stored.
"""
