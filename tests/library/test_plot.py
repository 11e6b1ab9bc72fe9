"""Pictures: what is drawn, labeled and described; not how the pixels look."""

import base64
import io
import subprocess
import sys

import numpy as np
import pytest

import minitorch as mt

pytest.importorskip("matplotlib").use("agg")

from matplotlib.patches import Rectangle  # noqa: E402
from PIL import Image  # noqa: E402

from textbook import plot  # noqa: E402

WORDS = ["we", "read", "one", "word"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plot.style.plt.close("all")


def image(axes):
    return axes.images[0].get_array()


def texts(labels):
    return [label.get_text() for label in labels]


def tokens(axes):
    return texts(axes.get_yticklabels()), texts(axes.get_xticklabels())


def weights(*shape):
    return mt.randn(*shape).softmax(-1)


def drawn(figure):
    """Drawing the figure must not fail or warn."""
    figure.canvas.draw()


def test_importing_the_library_leaves_matplotlib_alone():
    program = "import sys, minitorch; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_colors_differ_in_grey_or_in_their_line():
    assert len(plot.COLORS) == len(plot.LINES) == len(set(plot.LINES))
    _, axes = plot.subplots()
    lines = [axes.plot([0, 1])[0] for _ in plot.COLORS]
    assert [line.get_color() for line in lines] == list(plot.COLORS)
    assert len({str(line._unscaled_dash_pattern) for line in lines}) == len(lines)


# Loss curves


def test_losses_of_several_runs():
    _, axes = plot.subplots()
    runs = {"a": [3.0, 2.0, 1.0], "b": mt.tensor([4.0, 2.0, 0.5], requires_grad=True)}
    assert plot.losses(axes, runs, log=True, title="both", ylabel="nats") is axes
    first, second = axes.lines
    assert first.get_ydata().tolist() == [3, 2, 1] and first.get_xdata().tolist() == [0, 1, 2]
    assert second.get_ydata().tolist() == [4, 2, 0.5]
    assert texts(axes.get_legend().get_texts()) == ["a", "b"]
    assert (axes.get_yscale(), axes.get_xlabel(), axes.get_ylabel()) == ("log", "step", "nats")


def test_losses_smoothed_and_at_given_steps():
    _, axes = plot.subplots()
    plot.losses(axes, {"a": ([10, 20, 30, 40], [4.0, 2.0, 0.0, 1.0])}, smooth=3)
    smooth, raw = axes.lines
    np.testing.assert_allclose(smooth.get_ydata(), [4, 3, 2, 1])
    assert smooth.get_xdata().tolist() == raw.get_xdata().tolist() == [10, 20, 30, 40]
    assert raw.get_ydata().tolist() == [4, 2, 0, 1]
    assert axes.get_legend() is None
    plot.losses(axes, {"short": [4.0, 2.0]}, smooth=5)
    np.testing.assert_allclose(axes.lines[2].get_ydata(), [4, 3])
    with pytest.raises(ValueError, match="at least 1"):
        plot.losses(axes, {"a": [1.0]}, smooth=0)


def test_losses_that_became_infinite_are_drawn_without_a_warning():
    _, axes = plot.subplots()
    plot.losses(axes, {"diverged": [1.0, np.inf, np.inf, np.inf]}, smooth=2)
    np.testing.assert_array_equal(axes.lines[0].get_ydata()[:3], [1, np.inf, np.inf])


def test_losses_of_several_seeds():
    _, axes = plot.subplots()
    plot.losses(axes, {"a": [[1.0, 2.0], [3.0, 2.0], [2.5, 5.0]]})
    assert axes.lines[0].get_ydata().tolist() == [2.5, 2]
    [band] = axes.collections
    corners = band.get_paths()[0].vertices
    assert corners[:, 1].min() == 1 and corners[:, 1].max() == 5


def test_spread_of_one_run_is_a_line_alone():
    _, axes = plot.subplots()
    line = plot.spread(axes, [10, 20], [[1.0, 2.0]], marker="o", label="quick")
    assert line.get_xydata().tolist() == [[10, 1], [20, 2]] and not axes.collections
    assert (line.get_marker(), line.get_label()) == ("o", "quick")


# Matrices


def test_heatmap():
    figure, axes = plot.subplots()
    matrix = mt.arange(6).float().view(2, 3).requires_grad_()
    shown = plot.heatmap(axes, matrix, row_labels=["r", "s"], column_labels=["a", "b", "c"], vmax=9)
    assert shown.get_array().tolist() == matrix.tolist() and shown.get_clim()[1] == 9
    assert tokens(axes) == (["r", "s"], ["a", "b", "c"]) and len(figure.axes) == 2
    _, axes = plot.subplots()
    plot.heatmap(axes, np.zeros((3, 3)), colorbar=False)
    assert all(tick == int(tick) for tick in axes.get_yticks())


def test_attention():
    figure, axes = plot.subplots()
    w = weights(2, 4)
    known = [(0, 3), (1, 1)]
    result = plot.attention(
        axes, w, ["a", "b"], WORDS, values=True, known=known, colorbar=False, title="t"
    )
    assert result is axes and len(figure.axes) == 1
    np.testing.assert_array_equal(image(axes), w.tolist())
    assert axes.images[0].get_clim() == (0, 1)
    assert tokens(axes) == (["a", "b"], WORDS)
    assert (axes.get_ylabel(), axes.get_xlabel(), axes.get_title()) == ("query", "key", "t")
    frames = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [frame.get_xy() for frame in frames] == [(2.5, -0.5), (0.5, 0.5)]
    written = {tuple(map(int, text.get_position())): text.get_text() for text in axes.texts}
    assert len(written) == 8
    for (column, row), text in written.items():
        assert float(text) == pytest.approx(w[row, column].item(), abs=0.005)
    with pytest.raises(ValueError, match=r"shape \(2, 4\) need as many .* got 4 and 2"):
        plot.attention(axes, w, WORDS, ["a", "b"])


def test_attention_writes_nothing_where_the_weight_is_exactly_zero():
    _, axes = plot.subplots()
    w = mt.tensor([[1.0, 0.0], [0.999, 0.001]])
    plot.attention(axes, w, ["a", "b"], ["a", "b"], values=True)
    assert [text.get_text() for text in axes.texts] == ["1", "1", ".00"]


def test_attention_labels_turn_when_they_are_crowded():
    def rotation(width):
        _, axes = plot.subplots(width=width)
        plot.attention(axes, weights(1, 3), ["x"], ["hundred", "and", "thirty"])
        return axes.get_xticklabels()[0].get_rotation()

    assert rotation(6) == 0 and rotation(2) == 90


def test_alignments():
    examples = [
        (weights(2, 4), ["a", "b"], WORDS, [(0, 0)]),
        (weights(3, 4), ["a", "b", "c"], WORDS),
        (weights(1, 2), ["a"], ["x", "y"], []),
    ]
    figure, panels = plot.alignments(examples, values=True)
    assert len(panels) == 3 and len(figure.axes) == 5  # an empty place, and the scale
    for axes, (w, queries, keys, *known) in zip(panels, examples, strict=True):
        np.testing.assert_array_equal(image(axes), w.tolist())
        assert tokens(axes) == (queries, keys)
        assert len(axes.patches) == len(known[0] if known else [])
    assert not figure.axes[3].axison
    drawn(figure)


def test_heads():
    w = weights(2, 2, 4, 4)
    figure, panels = plot.heads(w, WORDS, WORDS)
    assert panels.shape == (2, 2)
    for layer in range(2):
        for head in range(2):
            np.testing.assert_array_equal(image(panels[layer, head]), w[layer, head].tolist())
    assert [axes.get_xlabel() for axes in panels[0]] == ["head 1", "head 2"]
    assert [axes.get_ylabel() for axes in panels[:, 0]] == ["layer 1", "layer 2"]
    drawn(figure)
    figure, panels = plot.heads(w[0], WORDS, WORDS)
    assert panels.shape == (1, 2) and panels[0, 0].get_ylabel() == ""
    with pytest.raises(ValueError, match=r"got \(4, 4\)"):
        plot.heads(w[0, 0], WORDS, WORDS)


def test_mask():
    allowed = mt.ones(4, 4).tril().bool()
    added = mt.zeros(4, 4).masked_fill(~allowed, -mt.inf)
    for form in (allowed, added):
        figure, axes = plot.subplots()
        assert plot.mask(axes, form, WORDS, WORDS) is axes
        assert (image(axes) > 0).tolist() == allowed.tolist()
        crosses = {(int(row), int(column)) for column, row in axes.collections[0].get_offsets()}
        assert crosses == {(i, j) for i in range(4) for j in range(4) if j > i}
        assert tokens(axes) == (WORDS, WORDS)
    drawn(figure)


def test_positions():
    codes = mt.tensor([[0.5, -2.0], [1.0, 0.0], [0.0, 1.0]])
    _, axes = plot.subplots()
    assert plot.positions(axes, codes, title="learned") is axes
    assert image(axes).tolist() == codes.tolist() and axes.images[0].get_clim() == (-2, 2)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("dimension", "position")


# Graphs


def arrows(axes):
    """The label of each node, and how many arrows end there."""
    nodes = {id(t.get_bbox_patch()): t.get_text() for t in axes.texts if t.get_text()}
    ends = [id(t.arrowprops["patchB"]) for t in axes.texts if not t.get_text()]
    return sorted((text, ends.count(key)) for key, text in nodes.items())


def test_graph_of_a_computation():
    w = mt.randn(3, 2, requires_grad=True)
    b = mt.randn(2, requires_grad=True)
    h = (mt.randn(4, 3) @ w + b).tanh()
    _, axes = plot.subplots()
    result = plot.graph(axes, h.sum(), {"W": w, "b": b, "h": h}, title="graph")
    assert result is axes and axes.get_title() == "graph"
    uses = [("W\n3 x 2", 0), ("add", 2), ("b\n2", 0), ("h =\ntanh", 1), ("matmul", 1), ("sum", 1)]
    assert arrows(axes) == uses
    place = {t.get_text(): t.get_position() for t in axes.texts if t.get_text()}
    order = ["W\n3 x 2", "matmul", "add", "h =\ntanh", "sum"]
    assert [place[text][0] for text in order] == [-4, -3, -2, -1, 0]
    assert place["b\n2"][0] == -3
    assert len(set(place.values())) == len(place)


def test_graph_shows_every_use_and_keeps_arrows_off_nodes():
    x = mt.tensor(2.0, requires_grad=True)
    figure, axes = plot.subplots()
    plot.graph(axes, (x * x + x.exp()) * x)
    assert arrows(axes) == [("add", 2), ("exp", 1), ("mul", 2), ("mul", 2), ("scalar", 0)]
    places = [t.get_position() for t in axes.texts if t.get_text()]
    corners = [tuple(corner) for line in axes.lines for corner in line.get_xydata()[1:]]
    assert corners and not set(corners) & set(places)
    drawn(figure)


def test_graph_that_cannot_be_drawn():
    _, axes = plot.subplots()
    with pytest.raises(ValueError, match="computed from one that requires_grad"):
        plot.graph(axes, mt.ones(1))
    x = mt.ones(1, requires_grad=True)
    for _ in range(70):
        x = x + 1
    with pytest.raises(ValueError, match="71 nodes, too many"):
        plot.graph(axes, x)


# Showing


def test_show_needs_a_description_and_closes_the_figure():
    figure, _ = plot.subplots()
    with pytest.raises(ValueError, match="needs alt"):
        plot.show(figure, alt="")
    plot.show(figure, alt="A plot.")
    assert not plot.style.plt.get_fignums()


def test_show_in_a_notebook_carries_the_description(monkeypatch):
    shown = []
    monkeypatch.setattr(
        plot.style, "notebook_display", lambda: lambda data, raw: shown.append(data)
    )
    figure, _ = plot.subplots()
    plot.show(figure, alt='Loss < 1 "soon"')
    [data] = shown
    assert data["text/plain"] == '[picture: Loss < 1 "soon"]'
    tag, _, picture = data["text/html"].partition("base64,")
    assert tag == '<img width="672" alt="Loss &lt; 1 &quot;soon&quot;" src="data:image/png;'
    pixels = Image.open(io.BytesIO(base64.b64decode(picture)))
    assert pixels.width == 2 * 672  # sharp on a dense screen


def test_a_picture_of_no_pixels_is_drawn_and_says_what_a_picture_says(monkeypatch):
    """As where chapters are tested: what cannot be drawn fails, and the text is the same."""
    shown = []
    monkeypatch.setattr(
        plot.style, "notebook_display", lambda: lambda data, raw: shown.append(data)
    )
    for density in (2, 0):
        monkeypatch.setattr(plot.style, "DENSITY", density)
        plot.show(plot.subplots(width=7.3)[0], alt="A plot.")
        figure, axes = plot.subplots()
        axes.set_title("$\\frac{1$")
        with pytest.raises(ValueError, match="frac"):
            plot.show(figure, alt="No formula.")
        plot.style.plt.close(figure)
    texts = [data["text/html"].partition("base64,")[0] for data in shown]
    assert texts[0] == texts[1]
