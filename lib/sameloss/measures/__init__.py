"""Measures of a model: its distance from the truth, its flatness, its usefulness downstream.

A measure is a function of a model and sentences, and an estimate comes with its standard error. It does not
know how the model was trained, keeps nothing on disk, and draws its random numbers from the generator that
it gets.
"""
