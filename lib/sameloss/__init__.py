"""Same Pre-training Loss, Better Downstream (Liu, Xie, Li, Ma 2023), regenerated end to end.

Each folder is one idea, and imports only point down this list: `statistics` (numbers with their
error), `languages` (distributions over sentences), `models`, `training` and `measures` (what is done to
a model, what is asked of it), `store` (what was computed, under its key), `runs` (the stored steps of an
experiment), `studies` (one folder a paper), `book` (pages). At the top stand only what all of them
need: faults, seeds and the device.
"""
