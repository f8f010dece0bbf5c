"""How a model is trained: objectives, optimisers, the loop, and the sentences it reads.

`algorithms` names every way of training of the book; the other modules are what those names choose from.
A training is a function of settings and seeds that yields step after step. It knows nothing of the store,
of runs, or of what is measured afterwards, and writes no file but a corpus.
"""
