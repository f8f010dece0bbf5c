"""Maps of layers, against the thesis' examples (Section 5.2.1), whose text counts from 1."""

import pytest

from sameloss.errors import ParameterError
from sameloss.models.enlarge import LayerMap, grid, repeated, stacked


@pytest.mark.parametrize(
    ("block", "printed", "new"),
    [
        (1, [1, 2, 2, 3, 3, 4, 4, 5, 6], [2, 4, 6]),
        (3, [1, 2, 3, 4, 2, 3, 4, 5, 6], [4, 5, 6]),
    ],
)
def test_the_four_printed_examples(block, printed, new):
    """L = 6, k = 3, i = 2; duplicated and random layers stand at the same places."""
    found = repeated(6, 3, index=2 - 1, block=block)
    assert [source + 1 for source in found.sources] == printed
    assert [at for at, added in enumerate(found.new) if added] == new


def test_the_thesis_has_thirty_operators():
    """Fifteen maps, each with copied and with random layers (Section 5.3.1)."""
    maps = grid(12, 4, every=2)
    assert list(maps) == [(i, b) for i in (0, 2, 4, 6, 8) for b in (1, 2, 4)]


def test_adaptive_stacking_tries_as_many_as_published():
    """Stages 2 to 6 of BERT-LARGE (Section 5.4.2)."""
    tried = [len(grid(layers, 4, every=1 if layers <= 12 else 2)) for layers in (4, 8, 12, 16, 20)]
    assert tried == [3, 15, 27, 21, 27]


@pytest.mark.parametrize(("layers", "added"), [(1, 1), (4, 2), (6, 3), (6, 6)])
def test_every_map_keeps_each_layer_once_and_adds_as_many_as_asked(layers, added):
    for found in grid(layers, added).values():
        assert sum(found.new) == added
        assert [s for s, new in zip(found.sources, found.new, strict=True) if not new] == [*range(layers)]


def test_stacking_puts_the_last_layers_on_top_once_more():
    assert stacked(4, 2) == repeated(4, 2, index=2, block=2)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: repeated(6, 3, 4, 1), r"^The first of 3 out of 6 layers is 0 to 3 \(.*from 1\); got 4\.$"),
        (lambda: repeated(6, 3, -1, 1), "got -1"),
        (lambda: repeated(6, 3, 0, 2), r"^A block size divides the 3 added layers; got 2\.$"),
        (lambda: repeated(6, 7, 0, 1), r"^From 6 layers 1 to 6 can be added; got 7\.$"),
        (lambda: repeated(6, 0, 0, 1), "got 0"),
        (
            lambda: LayerMap((1, 0, 0), (False, False, True)),
            r"keeps every layer once and in order; the kept ones here are \[1, 0\]",
        ),
        (lambda: LayerMap((0, 1), (False, False)), "is deeper than the one it comes from"),
        (lambda: LayerMap((0, 5), (False, True)), "There is no layer 5 to repeat; the layers are 0 to 0"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(ParameterError, match=sentence):
        make()
