"""Translation: encoder and decoder, one vector between them, padded and packed, a beam."""

from textbook.plot.style import COLORS, rectangle


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


def both_directions(axes, source):
    """Forward and backward states over a sentence; the last of both, side by side, are c."""
    n = len(source)
    end = n + 0.6  # where c stands
    rows = {"h": (1, 1, "0.93"), "g": (2, -1, COLORS[5])}
    arrow = dict(arrowstyle="->", color="0.35", shrinkA=13, shrinkB=13)
    thick = dict(arrow, linewidth=3, color=COLORS[1])
    for x, word in enumerate(source):
        axes.text(x, 0, word, ha="center", va="center")
        for letter, (y, step, shade) in rows.items():
            circle = dict(boxstyle="circle", facecolor=shade)
            label = f"${letter}_{{{x + 1}}}$"
            axes.text(x, y, label, ha="center", va="center", bbox=circle)
            if 0 <= x + step < n:
                axes.annotate("", (x + step, y), (x, y), arrowprops=arrow)
        axes.annotate("", (x, 1), (x, 0), arrowprops=arrow)
        axes.annotate(
            "",
            (x, 2),
            (x, 0),
            arrowprops=dict(arrow, connectionstyle="arc3,rad=0.35", linewidth=0.7),
        )
    bend = dict(thick, connectionstyle="arc3,rad=-0.25")
    axes.annotate("", (end, 1.75), (0, 2), arrowprops=bend)
    axes.annotate("", (end, 1), (n - 1, 1), arrowprops=thick)
    for y, letter, last in ((1, "h", n), (1.6, "g", 1)):
        box = dict(boxstyle="square,pad=0.5", facecolor=rows[letter][2])
        axes.text(end, y, f"${letter}_{{{last}}}$", ha="center", va="center", bbox=box)
    axes.text(end + 0.45, 1.3, "$c$", va="center", color=COLORS[1], fontsize=14)
    axes.text(-0.5, 1, "forward", ha="right", va="center")
    axes.text(-0.5, 2, "backward", ha="right", va="center")
    axes.set(xlim=(-1.4, end + 0.8), ylim=(-0.3, 3.0))
    axes.axis("off")


def squeezed(axes, hidden, numbers):
    """An encoding that is mapped to fewer numbers and back: three boxes and two matrices."""
    columns = {
        0: (2.0, f"{hidden} numbers", "the encoder's last states"),
        3: (0.45, f"{numbers} numbers", "all that passes"),
        6: (2.0, f"{hidden} numbers", "the decoder's first state"),
    }
    for x, (height, size, name) in columns.items():
        bar = dict(width=0.5, height=height, facecolor=COLORS[5], edgecolor="0.35")
        rectangle(axes, x - 0.25, -height / 2, **bar)
        axes.text(x, -1.2, size, ha="center", va="top")
        axes.text(x, -1.5, name, ha="center", va="top", fontsize=9, color="0.3")
    for x, shape in ((0, f"matrix\n{hidden} x {numbers}"), (3, f"matrix\n{numbers} x {hidden}")):
        heights = [columns[x][0] / 2, columns[x + 3][0] / 2]
        for sign in (1, -1):
            ends = [sign * height for height in heights]
            axes.plot([x + 0.25, x + 2.75], ends, color=COLORS[1], linestyle="-")
        axes.text(x + 1.5, 0, shape, ha="center", va="center", fontsize=9)
    axes.set(xlim=(-1, 7), ylim=(-1.9, 1.1))
    axes.axis("off")


def between(axes, sentences):
    """Sentences on the way from the first to the last, the ends in colour."""
    last = len(sentences) - 1
    axes.plot([0, 0], [-last, 0], color="0.6", linestyle="-", linewidth=1)
    for i, sentence in enumerate(sentences):
        color = {0: COLORS[0], last: COLORS[1]}.get(i, "0.15")
        axes.plot([0], [-i], "o", color=color)
        weight = "bold" if i in (0, last) else "normal"
        axes.text(0.25, -i, sentence, va="center", fontsize=13, color=color, weight=weight)
        axes.text(-0.25, -i, f"{i}/{last}", va="center", ha="right", fontsize=9, color="0.4")
    axes.set(xlim=(-0.8, 9), ylim=(-last - 0.6, 0.6))
    axes.axis("off")


def poolings(axes, words):
    """One matrix of states, a column a word, and three vectors that are made of it."""
    values = [[(5 * i + 3 * j * j + 2 * i * j) % 10 for j in range(len(words))] for i in range(4)]
    n, height = len(words), len(values)
    vectors = {
        "last": [row[-1] for row in values],
        "mean": [sum(row) / n for row in values],
        "max": [max(row) for row in values],
    }
    for j, word in enumerate(words):
        axes.text(j + 0.5, height + 0.3, word, ha="center", va="bottom")
    for i, row in enumerate(values):
        y = height - 1 - i
        for j, value in enumerate(row):
            shade = COLORS[5] if j == n - 1 else "white"
            rectangle(axes, j, y, 1, 1, facecolor=shade, edgecolor="0.5")
            strong = dict(weight="bold", color=COLORS[1]) if value == max(row) else {}
            axes.text(j + 0.5, y + 0.5, f".{value}", ha="center", va="center", **strong)
        for k, (name, vector) in enumerate(vectors.items()):
            x = n + 1 + 1.6 * k
            shade = COLORS[5] if name == "last" else "white"
            rectangle(axes, x, y, 1, 1, facecolor=shade, edgecolor="0.5")
            text = f"{vector[i] / 10:.2f}".lstrip("0") if name == "mean" else f".{vector[i]}"
            strong = dict(weight="bold", color=COLORS[1]) if name == "max" else {}
            axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", **strong)
    for k, name in enumerate(vectors):
        axes.text(n + 1.5 + 1.6 * k, height + 0.3, name, ha="center", va="bottom")
    axes.set(xlim=(-0.2, n + 6), ylim=(-0.2, height + 1))
    axes.axis("off")
