"""Size names: one shape each, and what the names promise."""

import pytest

from sameloss.models.sizes import LADDER, LSTM_SIZES, PRINTED_D_INTER, SIZES


def test_names_of_ours_are_widths():
    assert all(name == f"d{shape.d_model}" for name, shape in SIZES["laptop"].items())
    assert all(name == f"lstm{shape.d_model}" for name, shape in LSTM_SIZES["laptop"].items())


def test_a_name_names_one_shape():
    families = [*SIZES.values(), *LSTM_SIZES.values(), LADDER]
    names = [name for sizes in families for name in sizes]
    assert len(set(names)) == len(names)


def test_the_papers_heads_are_64_wide_and_its_mlps_four_times_the_width():
    for shape in [*SIZES["paper"].values(), *LADDER.values()]:
        assert shape.d_model == 64 * shape.heads
        assert shape.d_inter == 4 * shape.d_model


def test_the_ladder_is_printed_with_other_mlps():
    assert len(LADDER) == len(PRINTED_D_INTER)
    differing = [shape.d_inter != d for shape, d in zip(LADDER.values(), PRINTED_D_INTER, strict=True)]
    assert differing == [False, False, True, True, True, True, True]


@pytest.mark.parametrize("family", ["laptop", "paper"])
@pytest.mark.parametrize("sizes", [SIZES, LSTM_SIZES])
def test_sizes_grow(sizes, family):
    counts = [shape.parameter_count(16, 8) for shape in sizes[family].values()]
    assert counts == sorted(counts)
