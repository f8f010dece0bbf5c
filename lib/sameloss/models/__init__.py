"""Masked language models, and maps between models of the same function.

The architectures with the shapes that name them, their counts of parameters and operations, and maps from
one model to another: enlarged, reparametrised, exported. A model takes masked sentences and returns logits;
it does not know how it is trained, measured or stored.
"""
