"""Causal language models as languages: sentences drawn from left to right, conditionals by enumeration.

A causal model, its tokens restricted to a small vocabulary, is a distribution over sentences whose
conditionals are sums over what could stand behind a mask (App. A.2). Here stand the language, its
stand-in teacher of random weights, and what is fetched when a real OPT is asked for. Nothing here
is trained, and `transformers` is imported only where such a model is built.
"""
