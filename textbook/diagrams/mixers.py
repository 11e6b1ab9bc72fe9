"""Cheaper attention: products, what is read, tiles, slots, what is carried, what fades, a scan."""

from math import exp

from textbook.plot.style import COLORS, cells, rectangle

EDGE = "0.35"
ROUND = {"boxstyle": "round,pad=0.3", "fc": "0.93", "ec": EDGE}
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}


def _box(axes, x, y, width, height, color):
    """A rectangle with its lower left corner at x, y."""
    axes.bar(x, height, width, y, align="edge", color=color, edgecolor="0.3", linewidth=0.8)


def products(axes, rows):
    """Products of matrices, each as two boxes whose sides are coloured by their length, n or d.

    ``rows`` holds name, sides (rows, inner, columns) as "n", "d" or "4d", and what it costs.
    """
    size = {"n": 1.5, "d": 0.8, "4d": 1.3}
    color = {"n": COLORS[1], "d": COLORS[0], "4d": COLORS[0]}
    for i, (name, (rows_, inner, columns), cost) in enumerate(rows):
        y, x = -2.3 * i, 5.2
        axes.text(0, y, name, va="center")
        for high, wide, gap in ((rows_, inner, 1.3), (inner, columns, 0.9)):
            height, width = size[high], size[wide]
            rectangle(axes, x, y - height / 2, width, height, facecolor="0.95", edgecolor="0.8")
            for side, ends in ((high, ((x, x), (-1, 1))), (wide, ((x, x + width), (1, 1)))):
                line = [y + end * height / 2 for end in ends[1]]
                axes.plot(ends[0], line, color=color[side], linewidth=3, linestyle="-")
            axes.text(x - 0.15, y, high, ha="right", va="center", color=color[high], fontsize=9)
            middle = x + width / 2, y + height / 2 + 0.08
            axes.text(*middle, wide, ha="center", va="bottom", color=color[wide], fontsize=9)
            x += width + gap
        axes.text(10.4, y, cost, va="center")
    axes.set(xlim=(-0.2, 15), ylim=(y - 1.0, 1.4))
    axes.axis("off")


def read_for_a_token(axes, rows):
    """A bar for each kind of writing: the numbers read for one token, of weights and of a cache.

    ``rows`` holds name, numbers of the weights, and numbers of the cache.
    """
    for place, (name, weights, cache) in enumerate(reversed(rows)):
        style = {"linestyle": "-", "edgecolor": EDGE, "height": 0.5}
        axes.barh(place, weights, color=COLORS[5], **style)
        axes.barh(place, cache, left=weights, color=COLORS[1], **style)
        axes.text(0.2, place + 0.33, name, va="bottom", fontsize=9)
        total = f"{weights + cache:.2f}".rstrip("0").rstrip(".")
        axes.text(weights + cache + 0.3, place, total, va="center", fontsize=9)
    for x, name, color in ((4, "weights", COLORS[5]), (9.5, "cache", COLORS[1])):
        axes.text(x, len(rows) - 0.05, name, ha="center", weight="bold", color=color)
    axes.set(xlim=(0, 16), ylim=(-0.5, len(rows) + 0.25), yticks=[])
    axes.set(xlabel="numbers read for one token, in $d^2$")
    axes.grid(visible=False, axis="y")


def bridge(panels):
    """What crosses between a small fast memory and a large slow one: all at once, and by tiles."""
    once = [("q, k", "in", 0), ("scores", "out", 1), ("scores", "in", 1)]
    once += [("weights", "out", 1), ("weights, v", "in", 1), ("outputs", "out", 0)]
    tiled = [("q", "in", 0), *[("k, v", "in", 0)] * 3, ("outputs", "out", 0)]
    for axes, title, crossings in zip(
        panels, ("all at once", "by tiles"), (once, tiled), strict=True
    ):
        for x, width, high, name in ((0, 2, 3, "small,\nfast"), (7.6, 2.4, 6, "large,\nslow")):
            rectangle(axes, x, 3 - high / 2, width, high, facecolor="0.93", edgecolor=EDGE)
            axes.text(x + width / 2, 3.8, name, ha="center", va="center", fontsize=9)
        if crossings is tiled:
            rectangle(axes, 0.6, 2, 0.8, 0.8, facecolor=COLORS[5], edgecolor=EDGE)
            axes.text(1, 1.3, "scores of a tile", ha="center", va="top", fontsize=8)
        for i, (name, way, square) in enumerate(crossings):
            y = 5.3 - i * (4.9 / (len(crossings) - 1))
            start, end = (7.4, 2.4) if way == "in" else (2.4, 7.4)
            look = {"color": COLORS[1] if square else COLORS[0], "linewidth": 4 if square else 1.2}
            axes.annotate("", (end, y), (start, y), arrowprops=ARROW | look)
            axes.text(4.9, y + 0.12, name, ha="center", va="bottom", fontsize=9)
        axes.set(xlim=(-0.4, 10.2), ylim=(-0.2, 6.2), title=title)
        axes.axis("off")


def from_one_point(axes, vectors, title):
    """Arrows of one length from one point, in a quarter of the circle or all around."""
    for x, y in vectors:
        length = (x * x + y * y) ** 0.5
        style = ARROW | {"color": COLORS[0], "linewidth": 1.5}
        axes.annotate("", (x / length, y / length), (0, 0), arrowprops=style)
    axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal", title=title)
    axes.set(xticks=[], yticks=[])
    axes.axhline(0, color="0.8", linewidth=1, linestyle="-")
    axes.axvline(0, color="0.8", linewidth=1, linestyle="-")
    for side in axes.spines.values():
        side.set_visible(False)


def tiles(axes, count=4, row=1, column=2):
    """Scores cut into tiles: those of one block of queries, done, at work, and still to come."""
    for i in range(count):
        for j in range(count):
            at = (i, j)
            color = "0.8" if at < (row, column) else COLORS[5] if at == (row, column) else "0.96"
            _box(axes, j, count - 1 - i, 0.94, 0.94, color)
    middle = count - 0.5 - row
    axes.text(-0.3, middle, "queries\nat work", ha="right", va="center")
    axes.text(column + 0.47, count + 0.15, "keys and values\nat work", ha="center", va="bottom")
    axes.annotate("", (count + 0.9, middle), (count + 0.1, middle), arrowprops=ARROW)
    kept = "kept for each query:\nlargest score, sum, mixed values"
    axes.text(count + 1.1, middle, kept, va="center", bbox=ROUND)
    axes.set(xlim=(-2, count + 5.6), ylim=(-0.1, count + 1.1), aspect="equal")
    axes.axis("off")


def rescaled(panels, scores=((1, 3), (2, 5))):
    """Two tiles of one row of scores, each relative to its own maximum, then both to the larger."""
    tops = [max(tile) for tile in scores]
    for axes, tile, top, color, which in zip(panels, scores, tops, (0, 1), (1, 2), strict=False):
        weights = [exp(score - top) for score in tile]
        axes.bar(range(len(tile)), weights, 0.7, color=COLORS[color])
        axes.set_title(f"tile {which}: m = {top}, z = {sum(weights):.2f}")
        axes.set_xticks(range(len(tile)), [f"s = {score}" for score in tile])
    both, place = panels[2], 0
    for tile, top, color in zip(scores, tops, (0, 1), strict=True):
        for score in tile:
            both.bar(
                place, exp(score - top), 0.7, facecolor="none", edgecolor=COLORS[color], ls=":"
            )
            both.bar(place, exp(score - max(tops)), 0.7, color=COLORS[color])
            place += 1
    z = sum(exp(score - max(tops)) for tile in scores for score in tile)
    both.set_title(f"merged: m = {max(tops)}, z = {z:.2f}")
    both.set_xticks(range(place), [f"s = {score}" for tile in scores for score in tile])
    factor = exp(tops[0] - max(tops))
    both.annotate(
        f"times $e^{{{tops[0]} - {max(tops)}}}$ = {factor:.2f}",
        (0.9, factor + 0.03),
        (0.5, 0.62),
        ha="center",
        arrowprops=ARROW,
    )
    for axes in panels:
        axes.set(ylim=(0, 1.15), ylabel="$e^{s - m}$" if axes is panels[0] else "")
        axes.grid(visible=False)


def carried(axes, places=7):
    """What four mixers carry to the next token: a list that grows, a matrix, two vectors."""
    kinds = (
        ("softmax", "all keys and values: the list grows", places, 2, 1),
        ("linear, Mamba-2 style", "a matrix: its size stays", 4, 3, 5),
        ("gated, GRU", "a vector (RWKV style: two)", 1, 3, 5),
    )
    x = 0.0
    for name, what, wide, high, color in kinds:
        for i in range(wide):
            for j in range(high):
                fresh = name == "softmax" and i == places - 1
                fill = COLORS[color] if fresh or name != "softmax" else "0.9"
                rectangle(axes, x + i, j, 0.9, 0.9, facecolor=fill, edgecolor=EDGE)
        if name == "softmax":
            axes.annotate("", (x + wide + 1.1, 1), (x + wide + 0.1, 1), arrowprops=ARROW)
        axes.text(x, 3.7, name, va="bottom", weight="bold")
        axes.text(x, 3.2, what, va="bottom", fontsize=9)
        x += max(wide, 5) + 3.6
    axes.set(xlim=(-0.3, x), ylim=(-0.3, 4.5), aspect="equal")
    axes.axis("off")


def fading(axes, keys, values, decay):
    """A cache that keeps every key and value, above a state in which each product of both fades.

    ``keys`` and ``values`` are lists of vectors; a token is ``decay`` times as strong in the next
    state as in this one. Blue is above zero, red below it.
    """
    last, rows, columns = len(keys) - 1, len(keys[0]), len(values[0])
    state = [[0.0] * columns for _ in range(rows)]
    text = {"ha": "center", "va": "center"}
    for j, (key, value) in enumerate(zip(keys, values, strict=True)):
        x, weight = 6.0 * j, decay ** (last - j)
        cells(axes, x + 0.7, 7, [[number] for number in key])
        cells(axes, x + 2.3, 7, [[number] for number in value])
        for at, letter in ((1.2, "k"), (2.8, "v")):
            axes.text(x + at, 6.4, f"${letter}$", fontsize=9, **text)
        product = [[weight * k * v for v in value] for k in key]
        state = [[s + p for s, p in zip(*r, strict=True)] for r in zip(state, product, strict=True)]
        cells(axes, x, 0, product)
        name = "token t" if j == last else f"t - {last - j}"
        axes.text(x + columns / 2, 7 + rows + 0.9, name, fontsize=9, **text)
        axes.text(x + columns / 2, -0.9, f"times {weight:.2f}".rstrip("0").rstrip("."), **text)
        axes.text(x + columns + 1, rows / 2, "=" if j == last else "+", fontsize=13, **text)
    x += columns + 2
    cells(axes, x, 0, state)
    rectangle(axes, x, 0, columns, rows, facecolor="none", edgecolor=COLORS[1])
    axes.text(x + columns / 2, -0.9, "state $S_t$", color=COLORS[1], **text)
    axes.annotate("", (x + 2, 7 + rows / 2), (x - 1.2, 7 + rows / 2), arrowprops=ARROW)
    axes.text(x + 2.3, 7 + rows / 2, "grows", va="center")
    for y, name in ((7, "cache:\nkeys and values"), (0, "what is left\nof key times value")):
        axes.text(-0.8, y + rows / 2, name, ha="right", va="center")
    axes.set(xlim=(-9, x + columns + 1.5), ylim=(-1.6, 7 + rows + 1.5), aspect="equal")
    axes.axis("off")


def recall(axes, pairs, asked, answer):
    """Pairs of key and value side by side, then a key that is asked for, and its value."""
    for i, (key, value) in enumerate(pairs):
        for j, (symbol, color) in enumerate(((key, "0.93"), (value, COLORS[5]))):
            style = ROUND | {"fc": color}
            axes.text(2.2 * i + 0.9 * j, 0, symbol, ha="center", va="center", bbox=style)
    x = 2.2 * len(pairs) + 0.3
    axes.text(x, 0, asked, ha="center", va="center", bbox=ROUND)
    axes.annotate("", (x + 1.5, 0), (x + 0.5, 0), arrowprops=ARROW)
    style = ROUND | {"fc": COLORS[5]}
    axes.text(x + 2.0, 0, answer, ha="center", va="center", bbox=style)
    axes.text(x, -0.75, "asked", ha="center", va="center", fontsize=9)
    axes.text(x + 2.0, -0.75, "answer", ha="center", va="center", fontsize=9)
    axes.text(
        2.2 * len(pairs) / 2 - 0.6,
        -0.75,
        "key, value, key, value, ...",
        ha="center",
        va="center",
        fontsize=9,
    )
    axes.set(xlim=(-0.7, x + 2.8), ylim=(-1.1, 0.6))
    axes.axis("off")


def squeezed(axes, places=8, slots=3):
    """Linformer: n places mixed into fewer slots, by a matrix (slots, n)."""
    parts = (
        (0, slots, places, "mixing\n(slots, n)", COLORS[5]),
        (places + 1.2, places, 2, "keys\n(n, d)", "0.93"),
        (places + 4.4, slots, 2, "slots\n(slots, d)", "0.93"),
    )
    for x, rows, columns, name, color in parts:
        for i in range(rows):
            for j in range(columns):
                _box(axes, x + j, rows / 2 - 1 - i, 0.94, 0.94, color)
        axes.text(x + columns / 2, -places / 2 - 0.4, name, ha="center", va="top", fontsize=9)
    axes.text(places + 0.55, 0, "×", ha="center", va="center", fontsize=14)
    axes.text(places + 3.8, 0, "=", ha="center", va="center", fontsize=14)
    axes.set(xlim=(-0.3, places + 6.8), ylim=(-places / 2 - 2.4, places / 2 + 0.3), aspect="equal")
    axes.axis("off")


def forms(panels, n=8, size=3):
    """What linear attention computes at a time: all scores, one state, or a chunk and a state."""
    names = ("parallel: all scores", "recurrent: one state", "in chunks: both")
    for axes, name in zip(panels, names, strict=True):
        for i in range(n):
            for j in range(i + 1):
                in_chunk = i // size == j // size
                if name.startswith("parallel") or (name.startswith("in") and in_chunk):
                    _box(axes, j, n - 1 - i, 0.94, 0.94, COLORS[5])
                else:
                    _box(axes, j, n - 1 - i, 0.94, 0.94, "0.96")
        for stop in {"r": range(1, n), "i": range(size, n, size), "p": ()}[name[0]]:
            down = ((stop - 0.03, n - stop - 0.95), (stop - 0.03, n - stop + 0.9))
            style = ARROW | {"color": COLORS[1], "lw": 1.8}
            axes.annotate("", *down, arrowprops=style)
            axes.text(stop + 0.2, n - stop + 0.55, "S", va="center", color=COLORS[1], fontsize=9)
        axes.set(xlim=(-0.3, n), ylim=(-0.3, n), aspect="equal", title=name)
        axes.axis("off")


def doubling(axes, n=8):
    """A scan in steps of 1, 2, 4, ...: which numbers each step adds to which."""
    step, height = 1, 0
    for t in range(n):
        axes.text(t, 0, f"$x_{t + 1}$", ha="center", va="center", bbox=ROUND)
    while step < n:
        height += 1
        for t in range(n):
            first = max(t - 2 * step + 1, 0) + 1
            label = f"{first}-{t + 1}" if first <= t else f"{t + 1}"
            axes.text(t, -height, label, ha="center", va="center", fontsize=8, bbox=ROUND)
            arrow = ARROW | {"shrinkA": 10, "shrinkB": 10, "lw": 0.9}
            axes.annotate("", (t, -height), (t, 1 - height), arrowprops=arrow)
            if t >= step:
                style = arrow | {"color": COLORS[0]}
                axes.annotate("", (t, -height), (t - step, 1 - height), arrowprops=style)
        axes.text(n - 0.3, 0.5 - height, f"{step} back", va="center", fontsize=9, color=COLORS[0])
        step *= 2
    axes.set(xlim=(-0.6, n + 0.6), ylim=(-height - 0.5, 0.5))
    axes.axis("off")
