"""Self-attention: who sees whom, who asks whom, products of matrices, what waits for what."""

from textbook.plot.style import COLORS

EDGE = "0.35"
CIRCLE = {"boxstyle": "circle", "fc": "0.93", "ec": EDGE}
ROUND = {"boxstyle": "round", "fc": "0.93", "ec": EDGE}


def encoder(axes, words, kind):
    """Words below, encoder states above, and an arrow for each direct way from one to another.

    ``kind`` is "GRU" (in both directions), "words alone" or "self-attention".
    """
    arrow = {"arrowstyle": "->", "color": EDGE, "shrinkA": 10, "shrinkB": 13}
    for j, word in enumerate(words):
        axes.text(j, 0, word, ha="center", va="center")
        axes.text(j, 1, f"$h_{j + 1}$", ha="center", va="center", bbox=CIRCLE)
        for i in range(len(words)):
            if i == j or kind == "self-attention":
                color = EDGE if i == j else COLORS[0]
                axes.annotate("", (i, 1), (j, 0.06), arrowprops=arrow | {"color": color})
            elif kind == "GRU" and abs(i - j) == 1:
                bend = {"color": COLORS[1], "connectionstyle": "arc3,rad=-0.4"}
                axes.annotate("", (i, 1), (j, 1), arrowprops=arrow | bend)
    axes.set(xlim=(-0.6, len(words) - 0.4), ylim=(-0.2, 1.45), title=kind)
    axes.axis("off")


def roles(axes, token):
    """One token's vector, and the three that are made from it: query, key and value."""
    axes.text(0, 0, f"{token}\n$x_i$", ha="center", va="center", bbox=ROUND)
    made = (
        (1, "Q", "$q_i = x_i Q$", "query: what it looks for"),
        (0, "K", "$k_i = x_i K$", "key: what it can be found by"),
        (-1, "V", "$v_i = x_i V$", "value: what it gives when it is found"),
    )
    for (height, matrix, formula, meaning), color in zip(made, COLORS, strict=False):
        arrow = {"arrowstyle": "->", "color": color, "lw": 1.8, "shrinkA": 22}
        axes.annotate("", (1.9, height), (0, 0), arrowprops=arrow)
        axes.text(1.1, 0.66 * height + 0.1, f"${matrix}$", color=color, ha="center", va="bottom")
        axes.text(2, height, formula, va="center", bbox=ROUND)
        axes.text(3.0, height, meaning, va="center")
    axes.set(xlim=(-0.6, 6.0), ylim=(-1.5, 1.5))
    axes.axis("off")


def asking(axes, word, query, words, keys, scores, weights, values, output):
    """One word asks all: its query, their keys, scores and weights, their values, and the mix.

    Vectors are lists of numbers; a line is as thick as the weight that it stands for.
    """
    heads = ("query", "keys", "1. scores", "2. weights", "values", "3. output")
    places = (0, 2.1, 3.5, 4.6, 6.6, 8.6)
    for x, head in zip(places, heads, strict=True):
        axes.text(x, 0.85, head, ha="center", weight="bold")
    centre = (1 - len(words)) / 2
    axes.text(0, centre, f"{word}\n{_row(query)}", ha="center", va="center", bbox=ROUND)
    axes.text(8.6, centre, f"{word}\n{_row(output)}", ha="center", va="center", bbox=ROUND)
    for j, name in enumerate(words):
        line = {"color": COLORS[0], "lw": 0.5 + 6 * weights[j], "ls": "-", "zorder": 0}
        axes.plot([0.75, 1.35], [centre, -j], **line)
        axes.plot([7.3, 7.85], [-j, centre], **line)
        axes.text(2.1, -j, f"{name}  {_row(keys[j])}", ha="center", va="center", bbox=ROUND)
        axes.text(3.5, -j, f"{scores[j]:g}", ha="center", va="center")
        axes.barh(-j, weights[j], 0.45, 4.15, color=COLORS[0])
        axes.text(4.2 + weights[j], -j, f"{weights[j]:.3f}", va="center", fontsize=9)
        axes.text(6.6, -j, f"{name}  {_row(values[j])}", ha="center", va="center", bbox=ROUND)
    axes.set(xlim=(-0.9, 9.5), ylim=(0.5 - len(words), 1.3))
    axes.axis("off")


def _row(numbers):
    """A vector as a reader writes it with a pencil."""
    return "(" + "  ".join(f"{number:.2f}".rstrip("0").rstrip(".") for number in numbers) + ")"


def arcs(axes, words, looks, *, least=0.03):
    """A sentence in large letters, and arcs from words to those that they look at.

    ``looks`` is a list of (place of the word, its weights, color); an arc is as thick as its
    weight, and there is none below ``least``.
    """
    widths = [0.5 + 0.17 * len(word) for word in words]
    at = [sum(widths[:j]) + widths[j] / 2 for j in range(len(words))]
    for x, word in zip(at, words, strict=True):
        axes.text(x, 0, word, ha="center", va="center", fontsize=17)
    for i, weights, color in looks:
        for j, weight in enumerate(weights):
            if weight >= least and j != i:
                bend = f"arc3,rad={-0.28 if j > i else 0.28}"
                arrow = {"arrowstyle": "-|>", "color": color, "lw": 0.8 + 3.2 * weight}
                arrow |= {"connectionstyle": bend, "shrinkA": 2, "shrinkB": 2}
                axes.annotate("", (at[j], 0.16), (at[i], 0.16), arrowprops=arrow)
    axes.set(xlim=(0, sum(widths)), ylim=(-0.22, 1.05))
    axes.axis("off")


def product(axes, left, right, result):
    """Three matrices (name, shape text, rows, columns) as boxes; row i times column j is lit."""
    x = 0.0
    for (name, shape, rows, columns), lit, sign in (
        (left, "row", ""),
        (right, "column", "="),
        (result, "both", ""),
    ):
        axes.bar(x, rows, columns, -rows / 2, align="edge", color="0.93", edgecolor="0.3")
        height, bottom = (1, rows / 2 - 2) if lit != "column" else (rows, -rows / 2)
        width, start = (1, x + 1) if lit != "row" else (columns, x)
        axes.bar(start, height, width, bottom, align="edge", color=COLORS[5])
        axes.text(x + columns / 2, rows / 2 + 0.3, name, ha="center", va="bottom")
        axes.text(x + columns / 2, -rows / 2 - 0.3, shape, ha="center", va="top", fontsize=9)
        x += columns + 0.6
        axes.text(x, 0, sign, ha="center", va="center", fontsize=14)
        x += 0.6 if sign else 0
    axes.set(xlim=(-0.3, x), ylim=(-3.4, 3.4), aspect="equal")
    axes.axis("off")


def steps_needed(axes, words, kind, layers=1):
    """States as circles that hold the number of steps before each can be computed.

    ``kind`` is "RNN" or "self-attention"; the words themselves need none.
    """
    arrow = {"arrowstyle": "->", "color": "0.6", "shrinkA": 11, "shrinkB": 11, "lw": 0.9}
    n = len(words)
    for i, word in enumerate(words):
        axes.text(i, -0.55, word, ha="center", va="center")
        axes.text(i, 0, "0", ha="center", va="center", bbox=CIRCLE | {"fc": "white"})
        for layer in range(1, layers + 1):
            steps = layer if kind == "self-attention" else i + layer
            axes.text(i, layer, str(steps), ha="center", va="center", bbox=CIRCLE)
            seen = range(n) if kind == "self-attention" else (i,)
            for j in seen:
                axes.annotate("", (i, layer), (j, layer - 1), arrowprops=arrow)
            if kind == "RNN" and i:
                axes.annotate("", (i, layer), (i - 1, layer), arrowprops=arrow | {"color": EDGE})
    axes.set(xlim=(-0.6, n - 0.4), ylim=(-0.8, layers + 0.5), title=kind)
    axes.axis("off")


def chain(axes, names, *, row, title):
    """Operations that wait for each other, as numbered boxes from left to right."""
    axes.text(-0.6, row, title, ha="right", va="center")
    axes.plot([0, len(names) - 1], [row, row], color=EDGE, linewidth=1, linestyle="-")
    for i, name in enumerate(names):
        axes.text(i, row, name, ha="center", va="center", fontsize=9, bbox=ROUND)
        axes.text(i, row + 0.42, str(i + 1), ha="center", va="bottom", fontsize=8, color=EDGE)
    axes.axis("off")
