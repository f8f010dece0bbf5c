"""The convolutional tangent kernel of m filters on patches (Section 3.5), with its best weights.

Its features' mean and covariance are exact, its least error is that of linear discriminant analysis; runs
try many starts and drawn images. It knows the distribution of images, and nothing of the network's training.
"""
