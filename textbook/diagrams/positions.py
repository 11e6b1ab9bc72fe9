"""Positions: where they enter self-attention, clocks, turned arrows, a dependency tree."""

import math

from textbook.plot.style import COLORS

EDGE = "0.35"
ROUND = {"boxstyle": "round,pad=0.35", "fc": "0.93", "ec": EDGE}
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 2}


def three_places(axes):
    """The way from words to weights, and the three places on it where an order can enter."""
    boxes = ((0, 0, "word\n$x_t$"), (2.6, 0.7, "query $q_i$"), (2.6, -0.7, "key $k_j$"))
    boxes += ((5.6, 0, "score\n$e_{ij}$"), (7.9, 0, "weight\n$\\alpha_{ij}$"))
    for x, y, name in boxes:
        axes.text(x, y, name, ha="center", va="center", bbox=ROUND)
    ways = (((0.5, 0.1), (1.85, 0.65)), ((0.5, -0.1), (1.95, -0.65)), ((3.35, 0.65), (5.0, 0.12)))
    ways += (((3.25, -0.65), (5.0, -0.12)), ((6.15, 0), (7.25, 0)))
    for start, end in ways:
        axes.annotate("", end, start, arrowprops=ARROW)
    axes.text(6.7, 0.15, "softmax", ha="center", va="bottom", fontsize=9)
    entries = (
        (0, 0.62, 1.35, "1  at the word:\nadd a code of its place"),
        (2.6, 1.05, 1.75, "2  at query and key:\nturn them"),
        (5.6, 0.5, 1.35, "3  at the score:\nadd something for the distance"),
    )
    style = {"ha": "center", "va": "bottom", "color": COLORS[0], "fontsize": 10}
    for x, tip, y, text in entries:
        axes.text(x, y, text, **style)
        axes.annotate("", (x, tip), (x, y), arrowprops=ARROW | {"color": COLORS[0], "lw": 1.8})
    axes.set(xlim=(-1.9, 8.7), ylim=(-1.2, 2.5))
    axes.axis("off")


def clock(axes, x, y, angles, radius=0.42):
    """A clock at (x, y); its hands stand at ``angles`` from twelve, the first the longest."""
    around = [math.pi * k / 40 for k in range(81)]
    rim = [x + radius * math.sin(a) for a in around], [y + radius * math.cos(a) for a in around]
    axes.fill(*rim, facecolor="0.96", edgecolor="0.6", linewidth=1, linestyle="-")
    for hand, angle in enumerate(angles):
        length = radius * (0.92 - 0.32 * hand)
        tip = (x + length * math.sin(angle), y + length * math.cos(angle))
        style = {"color": COLORS[hand], "linewidth": 2 + 1.6 * hand, "linestyle": "-"}
        axes.plot([x, tip[0]], [y, tip[1]], solid_capstyle="round", **style)


def hands_of_places(axes, places, omegas):
    """A row of clocks for each of ``omegas``; a column is the code of a place."""
    for row, omega in enumerate(omegas):
        for column, place in enumerate(places):
            clock(axes, column, -row, [omega * place])
        axes.text(-0.75, -row, f"hand {row}", ha="right", va="center")
    for column, place in enumerate(places):
        axes.text(column, 0.62, place, ha="center", va="bottom")
    axes.text(-0.75, 0.62, "place", ha="right", va="bottom")
    axes.set(xlim=(-1.9, len(places) - 0.4), ylim=(-len(omegas) + 0.45, 1), aspect="equal")
    axes.axis("off")


def clocks_at(axes, distances, omegas, lit):
    """A clock with all hands for each distance; those of the distances ``lit`` are framed."""
    for column, distance in enumerate(distances):
        clock(axes, column, 0, [omega * distance for omega in omegas])
        bold = distance in lit
        style = {"weight": "bold", "color": COLORS[1]} if bold else {}
        axes.text(column, -0.5, f"{distance} back", ha="center", va="top", **style)
        if bold:
            around = [math.pi * k / 40 for k in range(81)]
            ring = (
                [column + 0.46 * math.sin(a) for a in around],
                [0.46 * math.cos(a) for a in around],
            )
            axes.plot(*ring, color=COLORS[1], linewidth=2.5, linestyle="-")
    axes.set(xlim=(-0.6, len(distances) - 0.4), ylim=(-0.8, 0.6), aspect="equal")
    axes.axis("off")


def same_angle(axes, query, key, places, angle):
    """A query and a key, each turned left by ``angle`` for every place, and the angle between."""
    start = math.atan2(query[1], query[0]), math.atan2(key[1], key[0])
    at = [a + angle * place for a, place in zip(start, places, strict=True)]
    sizes = math.hypot(*query), math.hypot(*key)
    for name, before, now, size, place, color in zip(
        "qk", start, at, sizes, places, COLORS, strict=False
    ):
        faint, tip = ((size * math.cos(a), size * math.sin(a)) for a in (before, now))
        thin = {"arrowstyle": "->", "color": color, "alpha": 0.35, "lw": 1.2, "shrinkB": 0}
        axes.annotate("", faint, (0, 0), arrowprops=thin | {"linestyle": "--"})
        axes.annotate("", tip, (0, 0), arrowprops=thin | {"alpha": 1, "lw": 2.4})
        text = f"${name}$ at place {place}"
        side = "left" if tip[0] > 0.3 else "center"
        axes.text(1.1 * tip[0], 1.12 * tip[1], text, ha=side, va="center", color=color)
    steps = [at[0] + (at[1] - at[0]) * k / 30 for k in range(31)]
    axes.fill(
        [0, *(0.42 * math.cos(a) for a in steps)],
        [0, *(0.42 * math.sin(a) for a in steps)],
        color="0.8",
        linewidth=0,
    )
    middle = steps[15]
    between = round(math.degrees(at[1] - at[0]))
    axes.text(
        0.6 * math.cos(middle), 0.6 * math.sin(middle), f"{between}°", ha="center", va="center"
    )
    axes.set(xlim=(-1.3, 1.5), ylim=(-0.1, 1.25), aspect="equal")
    axes.axis("off")


def tree(axes, words, heads, lit):
    """Words in a row and an arrow from each to its head; the word ``lit`` has a thick one."""
    for place, head in enumerate(heads):
        if head is None:
            continue
        middle, radius = (place + head) / 2, abs(place - head) / 2
        height = radius**0.7
        steps = [math.pi * k / 30 for k in range(31)]
        steps = steps if place > head else steps[::-1]  # from the word to its head
        points = [(middle + radius * math.cos(a), height * math.sin(a)) for a in steps]
        color, width = (COLORS[1], 2) if place == lit else ("0.5", 1)
        axes.plot(*zip(*points, strict=True), color=color, linewidth=width, linestyle="-")
        arrow = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", points[-1], points[-3], arrowprops=arrow)
    for place, word in enumerate(words):
        axes.text(place, -0.2, word, ha="center", va="top", rotation=40, fontsize=9)
    axes.set(xlim=(-0.6, len(words) - 0.4), ylim=(-0.9, 3.2))
    axes.axis("off")
