"""Names for readers, and what all figures share."""

import base64
import re
from io import BytesIO
from xml.etree import ElementTree

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from IPython.core.pylabtools import print_figure

from sameloss.statistics.intervals import Interval
from sameloss.studies.drawing import (
    LINE_HEIGHT,
    MARKERS,
    PRINTED,
    download,
    interval_line,
    label_ends,
    legend,
    panels,
    picture,
    readable,
    use_style,
)
from sameloss.studies.names import NAMES, display_name
from sameloss.studies.same_loss.experiment import PRESETS
from sameloss.training.objectives import ALGORITHMS, label

# Names


def test_every_task_and_algorithm_has_a_display_name():
    tasks = {task for preset in PRESETS.values() for setup in preset.setups for task in setup.tasks}
    for name in [*tasks, *map(label, ALGORITHMS)]:
        assert "-" not in display_name(name).replace("post-LN", "").partition(", ")[0], name
        assert not display_name(name)[0].isupper() or display_name(name)[:3] in ("SGD", "SAM", "Ada"), name


def test_algorithms_have_distinct_display_names():
    names = [display_name(label(name)) for name in ALGORITHMS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sgd-noise, s = 0.5", "label noise, s = 0.5"),
        ("root", "task A"),
        ("root mean square", "root mean square"),
        ("05_dyck", "05_dyck"),
        ("d_model", "d_model"),
        ("trained, task", "trained, task"),
        ("", ""),
    ],
)
def test_only_known_names_are_replaced(name, words):
    assert display_name(name) == words


def test_display_names_are_fixed_points():
    assert all(display_name(shown) == shown for shown in NAMES.values())


# Panels and legends


@pytest.mark.parametrize(
    ("count", "rows", "columns"), [(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 2, 2), (5, 2, 3), (8, 3, 3)]
)
def test_panels_are_up_to_three_in_a_row_or_four_in_a_square(count, rows, columns):
    axes = panels(count, width=2.0)
    assert len(axes) == count
    assert axes[0].figure.axes == axes  # no empty ones beside them
    assert axes[0].get_gridspec().get_geometry() == (rows, columns)
    assert axes[0].figure.get_size_inches()[0] == 2 * columns


@pytest.mark.parametrize("color", [f"C{number}" for number in range(10)])
def test_labels_in_the_colour_of_a_line_can_be_read(color):
    use_style()
    rgb = np.array(mpl.colors.to_rgb(readable(color)))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    assert 1.05 / (0.05 + linear @ (0.2126, 0.7152, 0.0722)) > 4.45


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


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_lines_are_labelled_at_their_ends_without_overlap(scale):
    _, ax = plt.subplots()
    heights = {"a": 1.0, "b": 1.001, "c": 5.0, "d": 9.0}
    for name, height in heights.items():
        ax.plot([1, 2], [1, height], label=name, color=f"C{len(ax.lines)}")
    ax.plot([1, 2], [2, 2])
    ax.set(xscale=scale, yscale=scale)
    ax.invert_xaxis()
    for line in ax.lines:
        line.set_xdata(line.get_xdata()[::-1])  # ends at the right of an inverted axis
    label_ends(ax)
    labels = {text.get_text(): text for text in ax.texts}
    assert list(labels) == list(heights)  # from below; what has no name has no label
    at = {name: label.xy[1] for name, label in labels.items()}
    to_axes = ax.transData + ax.transAxes.inverted()
    for name in "cd":
        assert at[name] == pytest.approx(to_axes.transform((1, heights[name]))[1])
        assert labels[name].get_color() == readable(ax.lines["abcd".index(name)].get_color())
    assert at["b"] - at["a"] == pytest.approx(LINE_HEIGHT)


def test_a_line_of_intervals_has_a_bar_at_each_value():
    (ax,) = panels(1)
    interval_line(ax, [1, 2], [Interval(0.5, 0.0, 1.0), Interval(3.0, 2.0, 5.0)], 1, "means", ls="")
    (line,), (bars,) = ax.lines, ax.collections
    assert line.get_xydata().tolist() == [[1, 0.5], [2, 3.0]]
    assert (line.get_label(), line.get_marker(), line.get_linestyle()) == ("means", MARKERS[1], "None")
    assert [segment.tolist() for segment in bars.get_segments()] == [[[1, 0], [1, 1]], [[2, 2], [2, 5]]]


def test_the_style_has_a_grid_and_colour_blind_colours():
    use_style()
    assert plt.rcParams["axes.grid"]
    first = plt.rcParams["axes.prop_cycle"].by_key()["color"][0]
    assert mpl.colors.to_hex(first) == "#0173b2"
    assert len(set(MARKERS)) == len(MARKERS)


def test_a_download_holds_the_table():
    table = pd.DataFrame({"size": ["1K", "3K"], "kl": [0.125, 1 / 3]})
    html = download(table, "data").data
    data = re.search(r'base64,([^"]+)"', html)[1]
    assert base64.b64decode(data).decode() == "size,kl\n1K,0.125\n3K,0.333333\n"
    assert 'download="data.csv"' in html
    assert "(2 rows)" in html


def test_a_large_download_is_gzipped_and_the_same_each_time():
    table = pd.DataFrame({"size": ["1K", "3K"] * 10_000, "kl": np.arange(20_000) / 8})
    html = download(table, "data").data
    data = base64.b64decode(re.search(r'href="data:application/gzip;base64,([^"]+)" ?', html)[1])
    pd.testing.assert_frame_equal(pd.read_csv(BytesIO(data), compression="gzip"), table)
    assert 'download="data.csv.gz"' in html
    assert html == download(table, "data").data


# SVG


def figure():
    """Two panels with a colour bar and a legend."""
    use_style()
    axes = panels(2)
    for name in ("of a small model", "of a large model"):
        axes[0].plot([0, 1], label=name)
    axes[0].set_xlabel("0.00375 nats")
    drawn = axes[1].imshow([[0, 1], [1, 0]])
    axes[1].figure.colorbar(drawn, ax=axes[1])
    legend(axes[0])
    return axes[0].figure


def words(svg):
    """The texts of an SVG."""
    return {element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}


def test_a_figure_is_deterministic_and_its_text_is_text():
    first = print_figure(figure(), "svg", **PRINTED)
    assert print_figure(figure(), "svg", **PRINTED) == first
    assert words(first) >= {"of a small model", "of a large model", "0.00375 nats"}


def test_a_picture_has_an_alternative_text():
    shown = picture(figure(), 'a "told" one').data
    assert 'alt="a &quot;told&quot; one"' in shown
    (svg,) = re.findall(r'="data:image/svg\+xml;base64,([^"]+)"', shown)
    assert words(base64.b64decode(svg)) >= {"of a small model"}
