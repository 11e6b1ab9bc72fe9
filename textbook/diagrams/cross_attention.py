"""Cross-attention: who looks where, one step from states to output, a decoder that looks back."""

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

    Weights below 0.02 are left out. The decoder reads ``target`` one word later, after the start
    token.
    """
    n = len(source)
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
            axes.annotate("", (x, 3), (x, 1), arrowprops=arrow)
            axes.text(
                x, 3, f"$o_{{{t + 1}}}$", ha="center", va="center", bbox=CIRCLE | {"fc": "#d6e8f5"}
            )
            axes.annotate("", (x, 4), (x, 3), arrowprops=arrow)
            axes.text(x, 4, target[t], ha="center", va="center", weight="bold")
            for j, weight in enumerate(weights[t].tolist()):
                if weight < 0.02:
                    continue
                strength = {"linewidth": 0.3 + 3 * weight, "alpha": min(1, 0.25 + weight)}
                ends = [j, x - 0.2], [1.3, 2.8]
                axes.plot(*ends, color=COLORS[0], linestyle="-", **strength)
    axes.set(xlim=(-0.6, n + len(target) - 0.4), ylim=(-0.4, 4.4))
    axes.axis("off")
