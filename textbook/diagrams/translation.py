"""Translation: which words belong together, encoder and decoder, padded and packed, a beam."""

from textbook.plot.style import COLORS


def aligned(axes, pair, title):
    """Source above, target below, and a line between words that speak for the same digits."""
    longest = max(len(pair.source), len(pair.target))
    columns = [
        [i + (longest - len(words)) / 2 for i in range(len(words))]
        for words in (pair.source, pair.target)
    ]
    for words, row, xs in zip((pair.source, pair.target), (1, 0), columns, strict=True):
        for word, x in zip(words, xs, strict=True):
            axes.text(x, row, word, ha="center", va="center")
    for j, partners in enumerate(pair.alignment):
        for i in partners:
            axes.plot([columns[0][i], columns[1][j]], [0.85, 0.15], color="0.4", linestyle="-")
    axes.set(xlim=(-0.5, longest - 0.5), ylim=(-0.2, 1.2), title=title)
    axes.axis("off")


def encoder_decoder(axes, source, target):
    """The encoder on the source, the decoder on the target, and the arrow between the two."""
    arrow = dict(arrowstyle="->", color="0.35", shrinkA=14, shrinkB=14)
    inputs = [*source, "<s>", *target[:-1]]
    for x, word in enumerate(inputs):
        decoding = x >= len(source)
        state = f"$s_{{{x - len(source) + 1}}}$" if decoding else f"$h_{{{x + 1}}}$"
        box = dict(boxstyle="circle", facecolor=COLORS[5] if decoding else "0.93")
        axes.text(x, 0, word, ha="center", va="center")
        axes.text(x, 1, state, ha="center", va="center", bbox=box)
        axes.annotate("", (x, 1), (x, 0), arrowprops=arrow)
        if x:
            bottleneck = x == len(source)
            thick = dict(arrow, linewidth=4, color=COLORS[1]) if bottleneck else arrow
            axes.annotate("", (x, 1), (x - 1, 1), arrowprops=thick)
        if decoding:
            axes.text(x, 2, target[x - len(source)], ha="center", va="center", weight="bold")
            axes.annotate("", (x, 2), (x, 1), arrowprops=arrow)
    axes.text(len(source) - 0.5, 1.35, "$c$", ha="center", color=COLORS[1], fontsize=13)
    axes.set(xlim=(-0.5, len(inputs) - 0.5), ylim=(-0.3, 2.3))
    axes.axis("off")


def layout(axes, columns, title):
    """Tokens as a network reads them, a column a step; <pad> is grey."""
    for x, column in enumerate(columns):
        for y, word in enumerate(column):
            shade = "0.75" if word == "<pad>" else COLORS[5]
            axes.text(x, -y, word, ha="center", va="center", bbox=dict(facecolor=shade, pad=4))
    axes.set(xlim=(-0.6, len(columns) - 0.4), ylim=(-2.5, 0.5), title=title)
    axes.axis("off")


def beam(axes, steps, title):
    """A beam search from left to right: of each step all candidates, those kept in heavy boxes.

    A step is (candidates, kept), lists of (probability, words from <s> on).
    """
    place = {("<s>",): (0, 0)}
    for x, (candidates, kept) in enumerate(steps, 1):
        survivors = {said for _, said in kept}
        below_parents = sorted(candidates, key=lambda entry: -place[entry[1][:-1]][1])
        for row, (p, said) in enumerate(below_parents):
            place[said] = (x, (len(candidates) - 1) / 2 - row)
            alive = said in survivors
            color = COLORS[0] if alive else "0.6"
            box = dict(facecolor="white", edgecolor=color, linewidth=1.8 if alive else 0.6)
            label = f"{said[-1]}  {p:.3f}".replace("0.", ".")
            arrow = dict(arrowstyle="-", color=color, linewidth=1.8 if alive else 0.8)
            axes.annotate("", place[said], place[said[:-1]], arrowprops=arrow, zorder=0)
            axes.text(*place[said], label, ha="center", va="center", bbox=box, fontsize=9)
    axes.text(0, 0, "<s>", ha="center", va="center", bbox=dict(facecolor="white"))
    axes.set(xlim=(-0.3, len(steps) + 0.5), ylim=(-2.1, 2.1), title=title)
    axes.axis("off")
