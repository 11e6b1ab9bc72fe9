"""Several heads: who is asked what, the layer with its shapes, where the numbers go, a proof."""

from textbook.plot import COLORS, heatmap

EDGE = "0.35"
HEADS = (COLORS[5], COLORS[4], COLORS[3])
HATCHES = ("", "//", "..")


def questions(axes, words, asked):
    """A sentence in large letters, and an arc with its question from a word to another.

    ``asked`` is a list of (place of the word that asks, place that it looks at, question, color).
    """
    for j, word in enumerate(words):
        axes.text(2 * j, 0, word, ha="center", va="center", fontsize=19)
    for i, j, question, color in asked:
        bend = f"arc3,rad={-0.45 if j > i else 0.45}"
        arrow = {"arrowstyle": "-|>", "color": color, "lw": 2.2, "connectionstyle": bend}
        axes.annotate("", (2 * j, 0.3), (2 * i, 0.3), arrowprops=arrow)
        top = 0.3 + 0.45 * abs(j - i)  # an arc with this bend rises by 0.45 of half its length
        axes.text(i + j, top - 0.08, question, color=color, ha="center", va="top", fontsize=12)
    axes.set(xlim=(-0.9, 2 * len(words) - 1.1), ylim=(-0.4, 1.75), aspect="equal")
    axes.axis("off")


def square(axes, named=True):
    """The proof that one head cannot: no p and q lie on both sides of p + q = 1."""
    sides = (
        ([0, 1, 0], [0, 0, 1], COLORS[5], (0.3, 0.28), "second answers\ncan be right"),
        ([1, 1, 0], [0, 1, 1], COLORS[4], (0.7, 0.7), "first answers\ncan be right"),
    )
    for x, y, color, at, name in sides:
        axes.fill(x, y, color=color, alpha=0.3, linewidth=0)
        if named:
            axes.text(*at, name, ha="center", va="center", fontsize=9)
    axes.plot([0, 1], [1, 0], color=EDGE, linestyle="-", linewidth=1.2)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.06, 1.06), aspect="equal")
    axes.set(xlabel="p: share of the first letter, asked a, b")
    axes.set(ylabel="q: share of the first letter, asked b, a")


def layer(axes):
    """Multi-head attention from left to right for n = 4, d = 6, h = 3: X, heads, W_O, output."""
    _blocks(axes, 0, 0, 6, 4, "$X$", "(n, d)")
    for head in range(3):
        y, of_head = 6.4 * (1 - head), f"_{head + 1}"
        _arrow(axes, (6.2, 2), (8.6, y + 2))
        for i, matrix in enumerate("QKV"):
            shape = "(n, d/h)" if i == 1 else ""
            _blocks(axes, 9 + 2.9 * i, y, 2, 4, f"$X{matrix}{of_head}$", shape, [head])
        _arrow(axes, (17.2, y + 2), (20.3, y + 2), "attention" if head == 0 else "")
        _blocks(axes, 20.7, y, 4, 4, f"$A{of_head}$", "(n, n)", [head])
        _blocks(axes, 26, y, 2, 4, f"$O{of_head}$", "(n, d/h)", [head])
        _arrow(axes, (28.3, y + 2), (30.6, 2))
    _blocks(axes, 31, 0, 6, 4, "$[O_1, O_2, O_3]$", "(n, d)", [0, 1, 2])
    _blocks(axes, 38.5, -1, 6, 6, "$W_O$", "(d, d)", [0, 1, 2], down=True)
    axes.text(45.3, 2, "=", ha="center", va="center", fontsize=14)
    _blocks(axes, 46.3, 0, 6, 4, "output", "(n, d)")
    axes.set(xlim=(-0.5, 53), ylim=(-8.6, 12.4), aspect="equal")
    axes.axis("off")


def scores(axes, together):
    """XQ times the transpose of XK for three heads: one matrix of scores, or one a head."""
    _blocks(axes, 0, 0, 6, 4, "$XQ$", "(n, d)", [0, 1, 2])
    _blocks(axes, 7, -1, 4, 6, "$(XK)^T$", "(d, n)", [0, 1, 2], down=True)
    sign = "=" if together else r"$\to$"
    axes.text(12, 2, sign, ha="center", va="center", fontsize=14)
    for head in range(3):
        x = 13 + 5.4 * head
        _blocks(axes, x, 0, 4, 4, "", "(n, n)", [head])
        if together and head:
            axes.text(x - 0.7, 2, "+", ha="center", va="center", fontsize=14)
    title = "one head: the sum, one softmax" if together else "three heads: three softmaxes"
    axes.text(20.4, 4.4, title, ha="center", va="bottom")
    axes.set(xlim=(-0.5, 28.5), ylim=(-3, 6.6), aspect="equal")
    axes.axis("off")


def split(panels, words, matrix, heads):
    """The cells of a matrix (n, d) and where they stand in the heads, (h, n, d/h).

    Both are pairs (tokens, columns) of indices: shades are tokens, numbers are columns.
    """
    titles = ["$XQ$ (n, d)", *(f"head {i + 1} (n, d/h)" for i in range(len(heads[0])))]
    grids = [matrix, *zip(*heads, strict=True)]
    for axes, title, (tokens, columns) in zip(panels, titles, grids, strict=True):
        heatmap(axes, tokens, colorbar=False, cmap="Blues", vmin=-1, vmax=5, row_labels=words)
        for i, (row, numbers) in enumerate(zip(tokens.tolist(), columns.tolist(), strict=True)):
            for j, (word, number) in enumerate(zip(row, numbers, strict=True)):
                axes.text(j, i, f"{words[word]} {number + 1}", ha="center", va="center")
        axes.set(title=title, xticks=[])


def _blocks(axes, x, y, width, height, name, shape, heads=(), down=False):
    """A matrix as a box, cut into a block of columns (``down``: of rows) for each of its heads."""
    axes.bar(x, height, width, y, align="edge", color="0.93", edgecolor=EDGE)
    for place, head in enumerate(heads):
        part = (height if down else width) / len(heads)
        left, bottom = (x, y + height - (place + 1) * part) if down else (x + place * part, y)
        tall, wide = (part, width) if down else (height, part)
        style = {"color": HEADS[head], "edgecolor": EDGE, "hatch": HATCHES[head]}
        axes.bar(left, tall, wide, bottom, align="edge", linewidth=0.6, **style)
    axes.text(x + width / 2, y + height + 0.25, name, ha="center", va="bottom", fontsize=9)
    axes.text(x + width / 2, y - 0.25, shape, ha="center", va="top", fontsize=8)


def _arrow(axes, start, end, name=""):
    arrow = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=arrow)
    middle = (start[0] + end[0]) / 2
    axes.text(middle, start[1] + 0.3, name, ha="center", va="bottom", fontsize=8)
