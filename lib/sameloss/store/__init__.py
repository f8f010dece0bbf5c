"""The run store, which knows nothing of languages, models or training.

`store`: runs, keys, manifests, atomic results. `pool`: parallel computation. `processes`: workers and GPUs.
`record`: results under version control. `provenance`: where results come from. `location`: folders.
"""
