"""Cross-attention: who looks where, one step, a decoder that looks back, its gradient's ways."""

from textbook.plot.style import COLORS

EDGE = "0.35"
CIRCLE = {"boxstyle": "circle", "fc": "0.93", "ec": EDGE}


def connections(axes, weights, queries, keys, title=""):
    """Lines from each key (below) to each query (above), as strong as the weight (T, n)."""
    below = [(j + 0.5) / len(keys) for j in range(len(keys))]
    above = [(t + 0.5) / len(queries) for t in range(len(queries))]
    for t, row in enumerate(weights.tolist()):
        for j, weight in enumerate(row):
            if weight >= 0.01:
                strength = {"linewidth": 0.3 + 4 * weight, "alpha": min(1, 0.15 + weight)}
                ends = [below[j], above[t]], [0.1, 0.9]
                axes.plot(*ends, color=COLORS[0], linestyle="-", **strength)
    for places, words, y in ((below, keys, 0.0), (above, queries, 1.0)):
        for x, word in zip(places, words, strict=True):
            axes.text(x, y, word, ha="center", va="center", fontsize=9)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.08, 1.08), title=title)
    axes.axis("off")


def one_step(axes, words, scores, weights, t):
    """Step t of a decoder from bottom to top: words, states, scores, weights, output."""
    n, middle = len(words), (len(words) - 1) / 2
    upwards = {"arrowstyle": "->", "color": EDGE, "shrinkA": 14, "shrinkB": 10}
    for j, (word, score, weight) in enumerate(zip(words, scores, weights, strict=True)):
        axes.text(j, 0, word, ha="center", va="center")
        axes.text(j, 1, f"$h_{j + 1}$", ha="center", va="center", bbox=CIRCLE)
        axes.annotate("", (j, 2), (j, 1), arrowprops=upwards)
        axes.plot([n + 0.3, j + 0.3], [1, 1.85], color="0.6", linestyle="-", linewidth=0.8)
        axes.text(j, 2, f"{score:.2f}", ha="center", va="center")
        axes.bar(j, weight, width=0.5, bottom=3, color=COLORS[0])
        axes.text(j, 3.08 + weight, f"{weight:.3f}", ha="center", va="bottom", fontsize=9)
        strength = {"linestyle": "-", "linewidth": 0.3 + 4 * weight}
        axes.plot([j, middle], [4.5, 5.2], color=COLORS[0], **strength)
    for x, y, name, fill in ((n + 0.5, 1, "s", "#fbe3cf"), (middle, 5.4, "o", "#d6e8f5")):
        circle = CIRCLE | {"fc": fill}
        axes.text(x, y, f"${name}_{t}$", ha="center", va="center", bbox=circle)
    for y, name in ((0, "source"), (1, "states"), (2, "scores"), (3.5, "weights"), (5.4, "output")):
        axes.text(-1.3, y, name, ha="center", va="center", color=EDGE, style="italic")
    axes.set(xlim=(-1.8, n + 0.9), ylim=(-0.4, 5.9))
    axes.axis("off")


def decoder(axes, source, target, weights):
    """An encoder, a decoder with its output words, and its looks back, as strong as weights (T, n).

    Weights below 0.1 are left out. The decoder reads ``target`` one word later, after the start
    token.
    """
    n = len(source)
    axes.text(
        n + len(target) - 1.08, 1.75, "asks", color=COLORS[1], fontsize=8, ha="right", va="center"
    )
    axes.text((n - 1) / 2, 2.55, "answer", color=COLORS[0], fontsize=8, ha="right", va="center")
    arrow = {"arrowstyle": "->", "color": EDGE, "shrinkA": 13, "shrinkB": 13}
    for x, word in enumerate([*source, "<s>", *target[:-1]]):
        reading = x < n
        state = f"$h_{{{x + 1}}}$" if reading else f"$s_{{{x - n + 1}}}$"
        axes.text(x, 0, word, ha="center", va="center", fontsize=9)
        circle = CIRCLE if reading else CIRCLE | {"fc": "#fbe3cf"}
        axes.text(x, 1, state, ha="center", va="center", bbox=circle)
        axes.annotate("", (x, 1), (x, 0), arrowprops=arrow)
        if x:
            axes.annotate("", (x, 1), (x - 1, 1), arrowprops=arrow)
        if not reading:
            t = x - n
            asks = arrow | {"color": COLORS[1], "linestyle": "--"}
            axes.annotate("", (x, 3), (x, 1), arrowprops=asks)
            beside = {"connectionstyle": "arc3,rad=0.45"}
            axes.annotate("", (x, 4.1), (x, 1), arrowprops=arrow | beside)
            axes.annotate("", (x, 4.1), (x, 3), arrowprops=arrow)
            axes.text(
                x, 3, f"$o_{{{t + 1}}}$", ha="center", va="center", bbox=CIRCLE | {"fc": "#d6e8f5"}
            )
            axes.text(x, 4.1, target[t], ha="center", va="center", weight="bold", fontsize=9)
            for j, weight in enumerate(weights[t].tolist()):
                if weight < 0.1:
                    continue
                strength = {"linewidth": 0.3 + 3 * weight, "alpha": min(1, 0.25 + weight)}
                ends = [j, x - 0.2], [1.3, 2.8]
                axes.plot(*ends, color=COLORS[0], linestyle="-", **strength)
    axes.set(xlim=(-0.6, n + len(target) - 0.2), ylim=(-0.4, 4.5))
    axes.axis("off")


def two_paths(axes, words, middle):
    """The ways of a gradient from the loss back to the state of word ``middle`` (from 0).

    The encoder reads in both directions, and the decoder begins with both last states.
    """
    n = len(words)
    s, o, loss = (n + 0.6, 1), (n + 0.6, 3), (n + 2.2, 2)
    thin = {"arrowstyle": "->", "color": "0.75", "shrinkA": 13, "shrinkB": 13}
    for j, word in enumerate(words):
        axes.text(j, -0.75, word, ha="center", va="center", fontsize=9)
        fill = {"fc": "#d6e8f5"} if j == middle else {}
        axes.text(j, 1, f"$h_{j + 1}$", ha="center", va="center", bbox=CIRCLE | fill)
        axes.annotate("", (j, 1), (j, -0.75), arrowprops=thin)
    for (x, y), name, fill in (
        (s, "$s_t$", "#fbe3cf"),
        (o, "$o_t$", "#d6e8f5"),
        (loss, "$L$", "w"),
    ):
        axes.text(x, y, name, ha="center", va="center", bbox=CIRCLE | {"fc": fill})
    old = thin | {"color": COLORS[1], "linewidth": 1.8, "linestyle": "--"}
    new = thin | {"color": COLORS[0], "linewidth": 2.6}
    right_end = [(j + 1, j) for j in range(n - 2, middle - 1, -1)]
    left_end = [(j, j + 1) for j in range(middle)]
    for start, end in right_end + left_end:
        axes.annotate("", (end, 1), (start, 1), arrowprops=old)
    axes.annotate("", s, loss, arrowprops=old)
    axes.annotate("", (n - 1, 1), s, arrowprops=old)
    below = {"connectionstyle": "arc3,rad=-0.22"}
    axes.annotate("", (0, 1), s, arrowprops=old | below)
    axes.annotate("", o, loss, arrowprops=new)
    axes.annotate("", (middle, 1), o, arrowprops=new | {"connectionstyle": "arc3,rad=0.2"})
    axes.text(middle + 0.6, 2.9, "new: one step", color=COLORS[0], ha="center")
    axes.text((n - 1) / 2, -1.45, "old: state by state, from an end", color=COLORS[1], ha="center")
    axes.set(xlim=(-0.6, n + 2.6), ylim=(-1.7, 3.5))
    axes.axis("off")


def feeding(axes, title, *, fed_from):
    """Two steps of a decoder that reads what it found: the step ``"before"``, or ``"now"``."""
    if fed_from not in ("before", "now"):
        raise ValueError(f"fed_from is 'before' or 'now', got {fed_from!r}")
    arrow = {"arrowstyle": "->", "color": EDGE, "shrinkA": 15, "shrinkB": 15, "linewidth": 1.5}
    asks = arrow | {"color": COLORS[1], "linestyle": "--"}
    fed = arrow | {"color": COLORS[0]}
    for x, t in ((0, "t-1"), (2, "t")):
        for y, name, fill in ((0, "s", "#fbe3cf"), (1.4, "o", "#d6e8f5")):
            axes.plot(x, y, "o", markersize=27, markerfacecolor=fill, markeredgecolor=EDGE)
            axes.text(x, y, f"${name}_{{{t}}}$", ha="center", va="center", fontsize=10)
    axes.annotate("", (2, 0), (0, 0), arrowprops=arrow)
    ways = (
        [((0, 0), (0, 1.4), asks), ((0, 1.4), (2, 0), fed), ((2, 0), (2, 1.4), asks)]
        if fed_from == "before"
        else [((0, 0), (2, 1.4), asks), ((2, 1.4), (2, 0), fed)]
    )
    for start, end, style in ways:
        axes.annotate("", end, start, arrowprops=style)
    axes.text(2.9, 1.0, "asks", color=COLORS[1], fontsize=9)
    axes.text(2.9, 0.5, "is fed to", color=COLORS[0], fontsize=9)
    axes.set(xlim=(-0.6, 4), ylim=(-0.5, 1.9), title=title)
    axes.axis("off")
