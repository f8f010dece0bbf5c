"""What is asked of a model: how near it is to the truth, how flat, how useful downstream.

A measure is a function of a model and sentences, and what it estimates comes with a standard error. It
does not know how the model was trained, keeps nothing on disk, and draws its random numbers from the
generator it is given.
"""
