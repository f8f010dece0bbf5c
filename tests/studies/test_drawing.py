"""What all figures share."""

import base64
import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest

from sameloss.studies.drawing import MARKERS, download, legend, panels, use_style


@pytest.mark.parametrize(
    ("count", "rows", "columns"), [(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 2, 2), (5, 2, 3), (8, 3, 3)]
)
def test_panels_stand_up_to_three_in_a_row_and_four_in_a_square(count, rows, columns):
    axes = panels(count, width=2.0)
    assert len(axes) == count
    assert axes[0].figure.axes == axes  # no empty ones beside them
    assert axes[0].get_gridspec().get_geometry() == (rows, columns)
    assert axes[0].figure.get_size_inches()[0] == 2 * columns


def test_one_legend_explains_all_panels():
    axes = panels(2)
    for name, marker in zip("ab", MARKERS, strict=False):
        axes[0].plot([0, 1], marker=marker, label=name)
    legend(axes[0])
    (drawn,) = axes[0].figure.legends
    assert [text.get_text() for text in drawn.get_texts()] == ["a", "b"]
    assert axes[0].get_legend() is None
    assert drawn._ncols == 2


def test_a_long_legend_has_several_rows():
    (ax,) = panels(1)
    for name in "abcde":
        ax.plot([0, 1], label=30 * name)
    legend(ax)
    assert ax.figure.legends[0]._ncols == 3


def test_a_style_has_a_grid_and_colours_that_all_can_tell():
    use_style()
    assert plt.rcParams["axes.grid"]
    first = plt.rcParams["axes.prop_cycle"].by_key()["color"][0]
    assert mpl.colors.to_hex(first) == "#0173b2"
    assert len(set(MARKERS)) == len(MARKERS)


def test_a_download_holds_the_table():
    table = pd.DataFrame({"size": ["1K", "3K"], "kl": [0.125, None]})
    html = download(table, "data").data
    data = re.search(r'base64,([^"]+)"', html)[1]
    assert base64.b64decode(data).decode() == table.to_csv(index=False)
    assert 'download="data.csv"' in html
    assert "(2 rows)" in html
