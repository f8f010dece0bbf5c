"""The figures of the study's pages: of models, and of languages.

A figure is a function from a tidy frame, as the tables make it, to Axes with labels in readers' words. It
computes nothing but where marks stand, reads no run, and does not change what it is given.
"""
