"""Cheaper attention: tiles of a score matrix, the recall task, three forms of one sum, a scan."""

from textbook.plot.style import COLORS

EDGE = "0.35"
ROUND = {"boxstyle": "round,pad=0.3", "fc": "0.93", "ec": EDGE}
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}


def _box(axes, x, y, width, height, color):
    """A rectangle with its lower left corner at x, y."""
    axes.bar(x, height, width, y, align="edge", color=color, edgecolor="0.3", linewidth=0.8)


def tiles(axes, count=4, row=1, column=2):
    """Scores cut into tiles: those of one block of queries, done, at work, and still to come."""
    for i in range(count):
        for j in range(count):
            color = "white"
            if i == row:
                color = "0.8" if j < column else COLORS[5] if j == column else "0.96"
            _box(axes, j, count - 1 - i, 0.94, 0.94, color)
    middle = count - 0.5 - row
    axes.text(-0.3, middle, "queries\nat work", ha="right", va="center")
    axes.text(column + 0.47, count + 0.15, "keys and values\nat work", ha="center", va="bottom")
    axes.annotate("", (count + 0.9, middle), (count + 0.1, middle), arrowprops=ARROW)
    kept = "kept for each query:\nlargest score, sum, mixed values"
    axes.text(count + 1.1, middle, kept, va="center", bbox=ROUND)
    axes.set(xlim=(-2, count + 5.6), ylim=(-0.1, count + 1.1), aspect="equal")
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
        stops = {"r": range(1, n), "i": range(size, n, size), "p": ()}[name[0]]
        for stop in stops:
            axes.text(stop - 0.5, n - 0.5 - stop, "S", ha="center", va="center", color=COLORS[1])
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
