"""Same Pre-training Loss, Better Downstream (Liu, Xie, Li, Ma 2023), regenerated end to end.

Each of these layers imports only those before it: `statistics` (estimates with their errors), `languages`
(distributions over sentences), `models`, `training`, `measures` (saturation, flatness, downstream
accuracy), `store` (results by key), `runs` (the stored steps of an experiment), `studies` (one folder per
paper), `book` (chapters and their build). The modules beside the folders are used by all of them.
"""
