"""Everything computed, kept under the key of what decides it.

`store` keeps results and their keys: `manifest` says what a result is and writes it, `limits` says what
a computation may take, `environment` with what it was made. `pool` computes many in several
processes, `one_gpu` gives each of them a GPU, `orphans` ends processes whose parent was killed, `provenance`
says where results come from and `location` where they lie. A run is anything with parameters, a computation
and a way to read its result back: the store knows nothing of languages, models or training.
"""
