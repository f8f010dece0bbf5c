"""Everything computed, kept under the key of what decides it.

`store` keeps results with their keys and manifests, and says what a computation may take. `pool` computes
many in several processes, `processes` ends those whose parent was killed and gives a command its own GPU,
`recording` keeps results in small, `provenance` says where they come from and `location` where they lie. A
run is anything with parameters, a computation and a way to read its result back: the store knows nothing of
languages, models or training.
"""
