"""Karp (2024), Chapter 3: convolutional networks and their tangent kernels on images in noise.

Digits lie on backgrounds of Gaussian noise. A small network is trained on them, and its tangent kernel is
solved exactly, at the initial and at the trained parameters. The study also measures which neurons are active
and what happens when training is made lazy or the network narrower; the thesis' wide network needs a GPU.
Page: `ii3_images`.
"""
