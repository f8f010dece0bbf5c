"""Training of masked language models: objectives, optimisers, the loop, and corpora.

`objectives.ALGORITHMS` names every training algorithm of the book; the other modules hold what these are made
of. A training is a generator of steps, determined by settings and seeds. It knows nothing of the store, of
runs, or of later measurements, and the only files it writes are corpora.
"""
