"""Images: digits, data sets in their real form, and what cannot be used."""

import itertools

import datasets
import numpy as np
import pytest
import torch
from PIL import Image

from sameloss import hub
from sameloss.errors import ParameterError
from sameloss.images import ImageSource, visiting_order


@pytest.fixture(autouse=True)
def no_network(tmp_path, monkeypatch):
    """Whatever the machine's network and caches, nothing is reached and nothing is left behind."""
    monkeypatch.setattr(hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def test_digits_are_all_there_once():
    found = ImageSource().load()
    assert (found.pool, found.tested, found.classes) == (1300, 497, 10)
    assert found.x.shape == (1797, 1, 8, 8)
    assert (float(found.x.min()), float(found.x.max())) == (0, 1)
    assert len(torch.unique(found.x.flatten(1), dim=0)) > 1790  # a few are drawn alike
    again = ImageSource().load()
    assert torch.equal(found.x, again.x)


def test_halves_of_the_classes():
    whole, halves = ImageSource().load(), ImageSource(halves=True).load()
    assert halves.classes == 2
    assert torch.equal(halves.y, (whole.y >= 5).long())


def test_some_classes_told_from_the_others():
    whole, told = ImageSource().load(), ImageSource(second=(2, 7)).load()
    assert told.classes == 2
    assert torch.equal(told.y, ((whole.y == 2) | (whole.y == 7)).long())


def write(folder, *, image="img", mode="RGB", size=8, count=12, labels=None):
    """Write a data set as the hub has CIFAR-10: parquet files with pictures and named classes."""
    rng = np.random.default_rng(0)
    shape = (size, size, 3) if mode == "RGB" else (size, size)
    for split, rows in (("train", count), ("test", count // 2)):
        pictures = [Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)) for _ in range(rows)]
        features = datasets.Features(
            {image: datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog", "mat"])}
        )
        columns = {image: pictures, "label": labels or [row % 3 for row in range(rows)]}
        (folder / "data").mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_dict(columns, features).to_parquet(folder / "data" / f"{split}-0.parquet")
    return folder


@pytest.mark.parametrize(("image", "mode", "channels"), [("img", "RGB", 3), ("image", "L", 1)])
def test_a_folder_in_the_form_of_the_hub(tmp_path, image, mode, channels):
    source = ImageSource(str(write(tmp_path / "set", image=image, mode=mode)), 10, 6).known()
    assert source.shape == (channels, 8, 8)
    found = source.load()
    assert found.x.shape == (16, channels, 8, 8)
    assert (found.classes, found.tested) == (3, 6)
    assert 0 <= float(found.x.min()) < 0.1 < 0.9 < float(found.x.max()) <= 1
    assert sorted(found.y[10:].tolist()) == [0, 0, 1, 1, 2, 2]


def test_pictures_keep_their_labels(tmp_path):
    """Rows of one colour, and the class that says which."""
    folder = tmp_path / "set" / "data"
    folder.mkdir(parents=True)
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    for split in ("train", "test"):
        pictures = [Image.new("RGB", (4, 4), (255 * (at % 2), 0, 51)) for at in range(8)]
        data = datasets.Dataset.from_dict({"img": pictures, "label": [at % 2 for at in range(8)]}, features)
        data.to_parquet(folder / f"{split}-0.parquet")
    found = ImageSource(str(folder.parent), 8, 8).known().load()
    assert torch.equal(found.x[:, 0, 0, 0].long(), found.y)
    assert found.x[:, 2] == pytest.approx(torch.full((16, 4, 4), 0.2))


def test_the_content_of_a_folder_is_in_the_key(tmp_path):
    first = ImageSource(str(write(tmp_path / "set")), 10, 6).known()
    second = ImageSource(str(write(tmp_path / "set", count=14)), 10, 6).known()
    assert first.content != second.content


def test_too_few_images_and_other_shapes_are_refused(tmp_path):
    source = ImageSource(str(write(tmp_path / "set")), 13, 6)
    with pytest.raises(ParameterError, match=r"set has 12 images where 13 are wanted; choose fewer\.$"):
        source.known().load()
    with pytest.raises(ParameterError, match=r"set has images of \(3, 8, 8\), not of \(1, 8, 8\)\.$"):
        ImageSource(str(tmp_path / "set"), 10, 6).load()


def test_what_cannot_be_reached_is_one_sentence(tmp_path):
    for name in (str(tmp_path / "none"), "uoft-cs/no-such-set:part"):
        with pytest.raises(
            ParameterError, match=r"^Cannot load the images .*local folder in the parameter `data`\.$"
        ):
            ImageSource(name, 10, 6).known()


@pytest.mark.parametrize(("size", "batch", "steps"), [(12, 4, 9), (10, 4, 11)])
def test_an_order_visits_all_once_an_epoch(size, batch, steps):
    order = visiting_order(size, batch, steps, torch.Generator().manual_seed(2))
    assert order.shape == (steps, batch)
    visits = order.flatten().tolist()
    for first in range(0, len(visits) - size + 1, size):
        assert sorted(visits[first : first + size]) == list(range(size))
    epochs = [tuple(visits[first : first + size]) for first in range(0, len(visits) - size + 1, size)]
    assert all(one != other for one, other in itertools.pairwise(epochs))
