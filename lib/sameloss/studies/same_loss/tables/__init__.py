"""The tables of the study's pages, one module a subject: comparisons, flatness, languages, models.

A table is a tidy frame made of finished results or of settings, with the columns that a page shows. It
computes no run of its own and draws nothing.
"""
