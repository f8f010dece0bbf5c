"""The stored computations that studies of masked language models share.

A run here is a frozen dataclass that connects functions of the layers below (sampling, training, measures)
with the store. Its fields are everything that decides the result, and its `schema` is raised when a change
of the code changes the result. Runs that only one paper needs belong to its folder in `studies`. A run
knows nothing of presets or pages.
"""
