"""Matrices as images: attention, alignments, masks, position codes."""

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from textbook.plot.style import COLORS, subplots

WEIGHTS = "Blues"  # white for 0: one hue that gets darker, so that a grey print reads the same


def as_array(values):
    """Numbers, an array or a tensor, wherever it lies, as a NumPy array."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def heatmap(axes, matrix, *, row_labels=None, column_labels=None, colorbar=True, **options):
    """Draw a matrix (rows, columns), an array or a tensor, as an image with labeled cells.

    ``options`` are those of ``axes.imshow``; returns the image. ::

        figure, axes = plot.subplots()
        plot.heatmap(axes, states.T, column_labels=words, vmin=-1, vmax=1)
        plot.show(figure, alt="Each unit changes with every word.")
    """
    image = axes.imshow(as_array(matrix), **{"aspect": "auto"} | options)
    axes.grid(False)
    for axis, labels in ((axes.xaxis, column_labels), (axes.yaxis, row_labels)):
        if labels is None:
            axis.set_major_locator(MaxNLocator(integer=True))
        else:
            axis.set_ticks(range(len(labels)), labels)
    if colorbar:
        axes.figure.colorbar(image, ax=axes)
    return image


def attention(axes, weights, queries, keys, *, values=False, known=(), colorbar=True, title=""):
    """Draw attention weights (n, m): a row for each of n query tokens, a column for each key.

    ``values=True`` writes the numbers into the cells, but none where the weight is exactly 0;
    ``known`` frames the cells (row, column) of a known alignment. White is 0, dark is 1. ::

        figure, axes = plot.subplots(width=5, height=4)
        plot.attention(axes, weights[0], target_words, source_words, values=True)
        plot.show(figure, alt="Each German word attends to the English word it translates.")
    """
    weights = as_array(weights)
    if weights.shape != (len(queries), len(keys)):
        raise ValueError(
            f"attention weights of shape {weights.shape} need as many query and key tokens; "
            f"got {len(queries)} and {len(keys)}"
        )
    heatmap(
        axes,
        weights,
        row_labels=queries,
        column_labels=keys,
        colorbar=colorbar,
        cmap=WEIGHTS,
        vmin=0,
        vmax=1,
    )
    _tokens_on_top(axes, keys)
    for row, column in np.ndindex(weights.shape) if values else ():
        weight = weights[row, column]
        shade = "white" if weight > 0.55 else "black"
        text = f"{weight:.2f}".removeprefix("0") if weight < 0.995 else "1"
        if weight:
            axes.text(column, row, text, ha="center", va="center", color=shade, fontsize=8)
    for row, column in known:
        corner = (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=COLORS[1], linewidth=2))
    axes.set(xlabel="key", ylabel="query", title=title)
    return axes


def _tokens_on_top(axes, tokens):
    """The column labels above the image, upright where they would run into each other."""
    axes.xaxis.set_label_position("top")
    room = axes.get_position().width * axes.figure.get_figwidth() / max(len(tokens), 1)
    crowded = max(map(len, tokens), default=0) * 0.08 > room  # inches, at the usual size
    axes.tick_params(axis="x", top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.tick_params(axis="x", rotation=90 if crowded else 0)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def alignments(examples, *, columns=2, width=9.0, values=False):
    """A figure with an attention map for each of ``examples``; returns it and the list of its axes.

    An example is (weights, queries, keys), or has the cells (row, column) of the known alignment as
    a fourth; these are framed. ::

        figure, panels = plot.alignments([(weights, target, source, pairs)])
        panels[0].set_title("trained for 500 steps")
        plot.show(figure, alt="The dark cells lie within the frames.")
    """
    columns = min(columns, len(examples))
    rows = -(-len(examples) // columns)
    tallest = max(len(queries) for _, queries, *_ in examples)
    height = rows * (1 + max(1.2, 0.24 * tallest))
    figure, panels = subplots(rows, columns, width=width, height=height, squeeze=False)
    panels = list(panels.flat)
    for axes, (weights, queries, keys, *known) in zip(panels, examples, strict=False):
        attention(
            axes,
            weights,
            queries,
            keys,
            values=values,
            known=known[0] if known else (),
            colorbar=False,
        )
    for axes in panels[len(examples) :]:
        axes.set_axis_off()
    figure.colorbar(panels[0].images[0], ax=panels, shrink=0.6, label="weight")
    return figure, panels[: len(examples)]


def heads(weights, queries, keys, *, width=9.0):
    """A figure of all heads, (layers, h, n, m) or (h, n, m): a row a layer, a column a head.

    Returns the figure and its axes, an array (layers, h). ::

        figure, panels = plot.heads(weights, words, words)
        plot.show(figure, alt="Head 1 looks at the word itself, head 2 at the word before.")
    """
    weights = as_array(weights)
    if weights.ndim not in (3, 4):
        raise ValueError(f"heads need weights (layers, h, n, m) or (h, n, m); got {weights.shape}")
    weights = weights.reshape(-1, *weights.shape[-3:])
    layers, count, n, m = weights.shape
    height = layers * (width - 1.5) / count * min(n / m, 2) + 0.9
    figure, panels = subplots(
        layers, count, width=width, height=height, sharex=True, sharey=True, squeeze=False
    )
    for layer, head in np.ndindex(layers, count):
        axes = panels[layer, head]
        attention(axes, weights[layer, head], queries, keys, colorbar=False)
        axes.set(xlabel=f"head {head + 1}" if layer == 0 else "", ylabel="")
        axes.tick_params(labelsize=8, labeltop=layer == 0, labelleft=head == 0)
        axes.tick_params(axis="x", rotation=90)
        axes.spines[:].set(visible=True, color="0.7")
        if head == 0 and layers > 1:
            axes.set_ylabel(f"layer {layer + 1}")
    figure.colorbar(panels[0, 0].images[0], ax=panels, shrink=0.6, label="weight")
    return figure, panels


def mask(axes, allowed, queries=None, keys=None, *, title=""):
    """Draw which query (row) may attend to which key (column): dark for yes, a cross for no.

    ``allowed`` (n, m) is True for yes, as in ``scaled_dot_product_attention``; or it is the
    mask that is added to the scores, where minus infinity forbids. ::

        figure, axes = plot.subplots(width=4, height=3.5)
        plot.mask(axes, minitorch.ones(5, 5).tril().bool(), words, words)
        plot.show(figure, alt="A triangle: each word sees itself and the words before it.")
    """
    allowed = as_array(allowed)
    if allowed.dtype != bool:
        allowed = allowed > -np.inf
    options = dict(row_labels=queries, column_labels=keys, colorbar=False, aspect="equal")
    heatmap(axes, 0.8 * allowed, cmap=WEIGHTS, vmin=0, vmax=1, **options)
    if keys is not None:
        _tokens_on_top(axes, keys)
    rows, columns = np.nonzero(~allowed)
    axes.scatter(columns, rows, marker="x", color="0.6", linewidth=1, s=3000 / allowed.size**0.85)
    axes.set_xticks(np.arange(allowed.shape[1] - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(allowed.shape[0] - 1) + 0.5, minor=True)
    axes.grid(True, which="minor", color="white", alpha=1, linewidth=1)
    axes.tick_params(which="minor", length=0)
    axes.set(xlabel="key", ylabel="query", title=title)
    return axes


def positions(axes, codes, *, title=""):
    """Draw position codes (T, d): a row for each position, a column for each dimension. ::

    figure, axes = plot.subplots()
    plot.positions(axes, sinusoids(50, 32))
    plot.show(figure, alt="Waves along the columns, slower from left to right.")
    """
    codes = as_array(codes)
    largest = float(np.abs(codes).max())
    heatmap(axes, codes, vmin=-largest, vmax=largest, interpolation="nearest")
    axes.set(xlabel="dimension", ylabel="position", title=title)
    return axes
