"""The convolutional tangent kernel on patches (Section 3.5), with its best weights."""
