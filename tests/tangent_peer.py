"""Tangent kernels of small networks by neural-tangents, recorded in `recorded/neural_tangents.json`.

    python -m venv .venv-peer
    .venv-peer/bin/pip install "jax[cpu]==0.4.30" "numpy==2.2.6" "scipy==1.15.3" frozendict absl-py
    .venv-peer/bin/pip install --no-deps neural-tangents==0.6.5
    .venv-peer/bin/python tests/tangent_peer.py

The peer needs an old jax, in an environment of its own, so that its numbers are recorded. Parameters and
images follow a formula, which both sides evaluate, and not a generator, which they would not share.
"""

import json
import sys
import types
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FILE = Path(__file__).parent / "recorded" / "neural_tangents.json"

IMAGES = 4


class Shape(NamedTuple):
    """A network of 3 by 3 convolutions, ReLUs, the mean over pixels and a linear map; and its images."""

    channels: tuple[int, ...]
    strides: tuple[int, ...]
    side: int  # of an image
    planes: int = 1  # channels of an image


SHAPES = {
    "one filter": Shape((1,), (1,), 5),
    "two layers": Shape((3, 4), (1, 2), 6),
    "colours": Shape((4, 5), (2, 1), 7, 3),
    "the laptop's": Shape((16, 32, 32), (1, 2, 1), 16),
}


def wave(shape: tuple[int, ...], at: int) -> np.ndarray:
    """Return numbers in [-1, 1] that hardly repeat: sin(i² + 7 at)."""
    return np.sin(np.arange(np.prod(shape)) ** 2 + 7.0 * at).reshape(shape)


def images(shape: Shape) -> np.ndarray:
    """Return some images."""
    return wave((IMAGES, shape.planes, shape.side, shape.side), 99)


def parameters(shape: Shape) -> list[np.ndarray]:
    """Return weights and offsets, layer by layer, in PyTorch's order of axes."""
    found = []
    for at, (before, after) in enumerate(pairwise((shape.planes, *shape.channels))):
        found += [
            wave((after, before, 3, 3), 2 * at) * (4 / (9 * before)) ** 0.5,
            wave((after,), 2 * at + 1) / 10,
        ]
    last = shape.channels[-1]
    return [*found, wave((1, last), 50) / last**0.5, wave((1,), 51)]


def main() -> None:
    """Compute all kernels by neural-tangents, and write them."""
    sys.modules["neural_tangents.experimental"] = types.ModuleType(
        ""
    )  # it needs another jax, and is not used
    import jax
    import neural_tangents as nt

    jax.config.update("jax_enable_x64", True)

    def kernel(shape: Shape) -> list[list[float]]:
        def output(own: list[Any], x: Any) -> Any:
            *layers, weight, offset = own
            for at, stride in enumerate(shape.strides):
                edges = [(1, 1), (1, 1)]
                h = jax.lax.conv_general_dilated(x, layers[2 * at], (stride, stride), edges)
                x = jax.nn.relu(h + layers[2 * at + 1][:, None, None])
            return x.mean((2, 3)) @ weight.T + offset

        found = nt.empirical_ntk_fn(output, trace_axes=(-1,))(images(shape), None, parameters(shape))
        return np.asarray(found).tolist()

    versions = {"neural-tangents": nt.__version__, "jax": jax.__version__, "numpy": np.__version__}
    kernels = {name: kernel(shape) for name, shape in SHAPES.items()}
    FILE.write_text(json.dumps({"versions": versions, "kernels": kernels}, indent=1) + "\n")


if __name__ == "__main__":
    main()
