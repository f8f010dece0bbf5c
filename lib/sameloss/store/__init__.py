"""Everything computed, kept under the key of what decides it.

`store` keeps results and their keys, `pool` computes many of them in several processes, `one_gpu` gives
each of them a GPU, `provenance` says where results come from and `location` where they lie. A run is
anything with parameters, a computation and a way to read its result back: the store knows nothing of
languages, models or training.
"""
