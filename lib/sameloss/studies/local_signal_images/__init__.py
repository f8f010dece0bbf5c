"""Karp (2024), Chapter 3: what noise around an image takes from a convolutional network, and from its kernel.

Page: `ii3_images`. Digits lie on backgrounds of Gaussian noise; a small network is trained on them, and
beside it its tangent kernel is solved exactly, at the first and at the trained parameters; which neurons are
active, and what becomes of the network as its training is made lazy. The thesis' wide network is here for a
GPU.
"""
