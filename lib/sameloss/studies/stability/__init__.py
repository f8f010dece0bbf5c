"""Karp (2024), Chapter 2: how far another training example moves a trained model, beyond what its loss shows.

Page: `ii2_stability`. Two samples that differ in one example are trained on from one initialisation in one
order, for logistic regression, perceptrons, convolutional networks and a convex model that fits its sample.
"""
