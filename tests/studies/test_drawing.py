"""Names for readers, and what all figures share."""

import base64
import re
from xml.etree import ElementTree

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest

from sameloss.studies.drawing import (
    LETTERS,
    LINE_HEIGHT,
    MARKERS,
    NARROW,
    NARROW_IN,
    NARROW_WANTED,
    WIDE,
    both_forms,
    download,
    forms,
    label_ends,
    legend,
    panels,
    picture,
    stacked,
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
        assert labels[name].get_color() == ax.lines["abcd".index(name)].get_color()
    assert at["b"] - at["a"] == pytest.approx(LINE_HEIGHT)


def test_the_style_has_a_grid_and_colour_blind_colours():
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


# Wide and narrow forms


@pytest.fixture
def figure():
    """Two panels with a colour bar and a legend of long names."""
    use_style()
    axes = panels(2)
    for name in ("of a small model", "of a large model"):
        axes[0].plot([0, 1], label=name)
    axes[0].set_title("all that is known of models of several sizes, in a row")
    drawn = axes[1].imshow([[0, 1], [1, 0]])
    axes[1].figure.colorbar(drawn, ax=axes[1])
    legend(axes[0])
    return axes[0].figure


def words(svg):
    """The texts of an SVG."""
    return {element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}


def test_the_narrow_form_stacks_its_panels(figure):
    narrow = stacked(figure)
    narrow.draw_without_rendering()
    upper, lower, bar = (ax.get_position() for ax in narrow.axes)
    assert narrow.get_size_inches().tolist() == [NARROW_IN, 2 * 3.1]
    assert upper.y0 > lower.y1
    assert bar.x0 >= lower.x1
    assert narrow.legends[0]._ncols == LETTERS // len("of a small model")
    assert len(narrow.legends) == len(figure.legends) == 1


def test_panels_of_several_rows_keep_their_height():
    assert stacked(panels(5)[0].figure).get_figheight() == pytest.approx(5 * 3.1)


def test_the_narrow_form_leaves_the_figure_unchanged(figure):
    before = plt.get_fignums()
    stacked(figure)
    assert plt.get_fignums() == before
    assert figure.axes[0].get_gridspec().get_geometry() == (1, 2)


def test_the_narrow_form_is_made_only_on_request(figure, monkeypatch):
    assert set(forms(figure)) == {WIDE}
    monkeypatch.setenv(NARROW_WANTED, "yes")
    assert forms(figure) == both_forms(figure)


def test_both_forms_are_deterministic_and_have_the_same_text(figure):
    first = both_forms(figure)
    assert both_forms(figure) == first
    assert first[WIDE] != first[NARROW]
    assert words(first[WIDE]) >= {"of a small model", "of a large model"}
    assert words(first[NARROW]) >= {"of a small model", "of a large model"}


def test_a_picture_has_an_alternative_text_and_both_forms(figure):
    shown = picture(figure, 'a "told" one').data
    assert 'alt="a &quot;told&quot; one"' in shown
    narrow, wide = re.findall(r'="data:image/svg\+xml;base64,([^"]+)"', shown)
    assert words(base64.b64decode(wide)) >= {"of a small model"}
    assert words(base64.b64decode(narrow)) >= {"of a small model"}


def test_long_labels_are_wrapped_on_the_y_axis_and_rotated_on_the_x_axis():
    (ax,) = panels(1)
    ax.set_yticks([0, 1], ["short", "a name of very many letters indeed"])
    ax.set_xticks([0, 1, 2], ["the first way", "the second way", "the third\nway"])
    (narrow,) = stacked(ax.figure).axes
    assert [label.get_text() for label in narrow.get_yticklabels()][
        1
    ] == "a name of very many\nletters indeed"
    assert [label.get_rotation() for label in narrow.get_xticklabels()] == [90] * 3
    assert narrow.get_xticklabels()[2].get_text() == "the third way"
    assert narrow.get_yticklabels()[0].get_rotation() == 0


def test_the_svg_is_minimised(figure):
    svg = both_forms(figure)[WIDE]
    assert "\n" not in svg
    assert "<!--" not in svg
    assert not re.search(r"<[^>]*\.\d{4}", svg)
    image = re.search(r'href="data:image/png;base64,([^"]+)"', svg)[1]
    assert base64.b64decode(image, validate=True).startswith(b"\x89PNG")


def test_opacities_and_text_keep_their_digits():
    (ax,) = panels(1)
    ax.fill_between([0, 1], [0, 1], alpha=0.18)
    ax.set_xlabel("0.00375 nats")
    for svg in both_forms(ax.figure).values():
        assert "opacity: 0.18" in svg
        assert ">0.00375 nats<" in svg


def test_the_style_of_markers_is_written_once_per_line(ax):
    """A single marker keeps its own."""
    for y, color in ((0, "#ff0000"), (1, "#00ff00")):
        ax.plot([0, 1, 2], [y] * 3, "o", color=color)
    ax.plot([1], [2], "o", color="#0000ff")
    ax.set(xticks=[], yticks=[])
    uses, groups = (re.findall(rf"<{tag} [^>]*>", both_forms(ax.figure)[WIDE]) for tag in ("use", "g"))
    assert len(uses) == 7
    for color, said in (("#ff0000", groups), ("#00ff00", groups), ("#0000ff", uses)):
        assert sum(f"fill: {color}" in tag for tag in said) == 1
    assert sum("style=" in tag for tag in uses) == 1


def test_powers_of_ten_are_not_wrapped(ax):
    ax.plot([1e-9, 1e9], [1, 2])
    ax.set(xscale="log")
    copy = stacked(ax.figure)
    copy.draw_without_rendering()
    labels = [label.get_text() for label in copy.axes[0].get_xticklabels()]
    assert "10⁻⁹" in labels
    assert not any("\n" in label for label in labels)
    assert copy.axes[0].get_xticklabels()[0].get_rotation() == 0
