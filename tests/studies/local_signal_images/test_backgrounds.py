"""Backgrounds: images are where they should be, noise is elsewhere, and what cannot be is refused."""

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.images import Images, ImageSource
from sameloss.studies.local_signal_images.backgrounds import (
    ANY_CORNER,
    ANYWHERE,
    ONE_CORNER,
    Scene,
    composed,
    corners,
    placed,
    standardised,
)


def images(pool=30, tested=20, side=4):
    x = torch.rand(pool + tested, 2, side, side, generator=torch.Generator().manual_seed(0))
    return Images(x, torch.arange(pool + tested) % 2, pool, 2)


def test_an_image_is_where_it_should_be_and_the_background_elsewhere():
    x, at = images().x[:3], torch.tensor([[0, 0], [2, 5], [4, 1]])
    around = torch.full((3, 2, 9, 9), 7.0)
    found = placed(x, at, around)
    for own, (row, column), whole in zip(x, at.tolist(), found, strict=True):
        assert torch.equal(whole[:, row : row + 4, column : column + 4], own)
        whole[:, row : row + 4, column : column + 4] = 7.0
    assert (found == 7.0).all()
    assert (around == 7.0).all()


def test_corners_are_those_of_the_placement():
    rng = torch.Generator().manual_seed(1)
    assert (corners(ONE_CORNER, 50, 8, rng) == 0).all()
    any_corner = corners(ANY_CORNER, 200, 8, rng)
    assert set(map(tuple, any_corner.tolist())) == {(0, 0), (0, 8), (8, 0), (8, 8)}
    anywhere = corners(ANYWHERE, 2000, 8, rng)
    assert len(set(map(tuple, anywhere.tolist()))) == 81
    assert anywhere.double().mean() == pytest.approx(4, abs=0.2)
    assert (corners(ANYWHERE, 5, 0, rng) == 0).all()


def test_pixels_of_the_pool_have_the_mean_zero_and_the_deviation_one():
    x = standardised(images())[:30]
    assert (float(x.mean()), float(x.std())) == pytest.approx((0, 1), abs=1e-5)


@pytest.mark.parametrize("noise", [0.0, 0.5, 2.0])
def test_the_background_has_the_noise(noise):
    found = composed(images(), Scene(ONE_CORNER, 16, noise), 30, 0)
    beyond = torch.cat([found.x, found.tested])[:, :, 4:, 4:]
    assert float(beyond.std()) == pytest.approx(noise, rel=0.05)
    assert found.x.shape == (30, 2, 16, 16)
    assert set(found.y.tolist()) == {-1.0, 1.0}
    assert found.chance == 0.5


def test_images_keep_their_labels_and_are_drawn_once():
    source = images()
    found = composed(source, Scene(ONE_CORNER, 6, 1.0), 30, 3)
    own = standardised(source)
    rows = [(own == image[:, :4, :4]).flatten(1).all(1).nonzero().item() for image in found.x]
    assert sorted(rows) == list(range(30))
    assert torch.equal(found.y, 2.0 * source.y[rows] - 1)
    assert torch.equal(found.tested[:, :, :4, :4], own[30:])


def test_a_seed_has_backgrounds_of_its_own_and_tests_have_others():
    scene = Scene(ANYWHERE, 8, 1.0)
    first, again, other = (composed(images(), scene, 20, seed) for seed in (0, 0, 1))
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.tested, other.tested)
    assert not torch.equal(first.x[:20], first.tested[:20])


def test_shrunk_images_are_means_of_their_pixels():
    found = composed(images(), Scene(ONE_CORNER, 4, 0.0, shrunk=2), 5, 0)
    expected = standardised(images())[30:].unfold(2, 2, 2).unfold(3, 2, 2).mean((-2, -1))
    torch.testing.assert_close(found.tested[:, :, :2, :2], expected)


def test_pictures_may_be_around(monkeypatch):
    """Of the pool for training and of the test set for tests, times the noise."""
    x = torch.cat([torch.zeros(10, 2, 3, 3), torch.ones(10, 2, 3, 3)])
    x[0] = 0.5
    pictures = Images(x, torch.zeros(20, dtype=torch.long), 10, 2)
    monkeypatch.setattr(ImageSource, "load", lambda self: pictures)
    scene = Scene(ONE_CORNER, 8, 0.5, pictures=ImageSource())
    found, unit = composed(images(), scene, 20, 0), standardised(pictures)
    torch.testing.assert_close(found.tested[:, :, 4:, 4:], 0.5 * unit[10:11].mean().expand(20, 2, 4, 4))
    assert found.x[:, :, 4:, 4:].max() < found.tested[:, :, 4:, 4:].min()
    pictures = pictures._replace(x=x[:, :1])
    with pytest.raises(
        ParameterError, match=r"^Backgrounds have 1 channels, and images 2; they must agree\.$"
    ):
        composed(images(), scene, 20, 0)


def test_four_pictures_make_a_background_and_an_image_covers_one(monkeypatch):
    """Each picture is of one value, so that each quarter is of one, too, and of another than others."""
    x = torch.rand(40, 1, 1, 1, generator=torch.Generator().manual_seed(2)).expand(40, 2, 4, 4)
    monkeypatch.setattr(ImageSource, "load", lambda self: Images(x, torch.zeros(40, dtype=torch.long), 25, 1))
    found = composed(images(), Scene(ANY_CORNER, 8, 1.0, pictures=ImageSource(), tiles=2), 20, 0).x
    quarters = (
        found.unfold(2, 4, 4).unfold(3, 4, 4).flatten(2, 3).flatten(3)
    )  # image, channel, quarter, pixel
    plain = (quarters == quarters[..., :1]).all(-1).all(1)
    assert (plain.sum(1) == 3).all()
    assert set((~plain).long().argmax(1).tolist()) == {0, 1, 2, 3}
    assert len(quarters[:, 0][plain].unique()) > 15


def test_more_classes_than_two_keep_their_numbers():
    three = images()._replace(y=torch.arange(50) % 3, classes=3)
    found = composed(three, Scene(ANYWHERE, 8, 1.0), 20, 0)
    assert found.logits == 3
    assert torch.equal(found.answers, three.y[30:])
    assert found.chance == 7 / 20
    assert composed(images(), Scene(ANYWHERE, 8, 1.0), 20, 0).logits == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Scene("middle", 8, 1.0),
            "Unknown placement 'middle'; choose random place or random corner or",
        ),
        (lambda: Scene(ANYWHERE, 8, -0.1), "noise must be finite and not negative"),
        (lambda: Scene(ANYWHERE, 0, 1.0), "side must be a whole number"),
        (
            lambda: composed(images(), Scene(ANYWHERE, 3, 1.0), 5, 0),
            "4 pixels a side does not fit on a background of 3",
        ),
        (
            lambda: composed(images(), Scene(ANYWHERE, 8, 1.0), 31, 0),
            "There are 30 images to train on; 31 were",
        ),
        (
            lambda: composed(images()._replace(classes=1), Scene(ANYWHERE, 8, 1.0), 5, 0),
            "these images have one",
        ),
        (
            lambda: Scene(ANYWHERE, 8, 1.0, tiles=3),
            "3 pictures in a row do not divide 8 pixels",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
