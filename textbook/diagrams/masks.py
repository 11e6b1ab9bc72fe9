"""Masks: what stands in the input, who may look, what leaks, and three suspects."""

from operator import itemgetter

from textbook.plot.style import COLORS, rectangle

ARROW = {"arrowstyle": "->", "color": "0.6", "shrinkA": 9, "shrinkB": 9}


def shifted(axes, words, writing):
    """Inputs below and outputs above: in training all words are there, in writing none is yet.

    Thick arrows are looks at the next input; in writing that input comes from the output (dashed).
    """
    look = ARROW | {"color": COLORS[1], "lw": 2}
    feed = ARROW | {"color": COLORS[0], "lw": 1.5, "linestyle": "--"}
    outputs = [*words[1:], "</s>"]
    for i, (word, output) in enumerate(zip(words, outputs, strict=True)):
        known = not writing or i == 0
        axes.text(i, 0, word if known else "?", ha="center", va="center")
        axes.text(i, 1, "?" if writing else output, ha="center", va="center")
        axes.annotate("", (i, 1), (i, 0), arrowprops=ARROW)
        if i:
            axes.annotate("", (i - 1, 1), (i, 0), arrowprops=look)
        if i and writing:
            bend = feed | {"connectionstyle": "arc3,rad=-0.35"}
            axes.annotate("", (i, 0), (i - 1, 1), arrowprops=bend)
    axes.text(-0.75, 0, "input", ha="right", va="center", color="0.35")
    axes.text(-0.75, 1, "output" if writing else "target", ha="right", va="center", color="0.35")
    axes.set(xlim=(-1.3, len(words) - 0.5), ylim=(-0.3, 1.3))
    axes.set_title("writing" if writing else "training")
    axes.axis("off")


def grid(axes, allowed, sentences, title):
    """Masks (B, h, T, n) as small squares, a row for each sentence, a column for each head."""
    batch, heads, queries, keys = allowed.shape
    for b, h in ((b, h) for b in range(batch) for h in range(heads)):
        for i, row in enumerate(allowed[b, h].tolist()):
            for j, may_look in enumerate(row):
                x, y = h * (keys + 1) + j, -b * (queries + 1) - i
                color = COLORS[0] if may_look else "0.93"
                axes.bar(x, 0.9, 0.9, y - 0.45, color=color, edgecolor="none")
    for h in range(heads):
        axes.text(h * (keys + 1) + (keys - 1) / 2, 1, f"head {h + 1}", ha="center", va="bottom")
    for b, sentence in enumerate(sentences):
        axes.text(-1, -b * (queries + 1) - (queries - 1) / 2, sentence, ha="right", va="center")
    axes.set(xlim=(-8.5, heads * (keys + 1) - 1), ylim=(-batch * (queries + 1) + 1, 2.6))
    axes.set(aspect="equal", title=title)
    axes.axis("off")


def rays(axes, right, lengths):
    """The right output as a dashed arrow, and on its ray what is left of it, by the next word."""
    x, y = right
    style = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 14}
    axes.annotate("", (x, y), (0, 0), arrowprops=style | {"color": "0.6", "ls": "--"})
    axes.text(x + 0.03, y, "right output", va="center", color="0.35")
    for (word, length), color in zip(
        sorted(lengths.items(), key=itemgetter(1), reverse=True), COLORS, strict=False
    ):
        tip = (length * x, length * y)
        axes.annotate("", tip, (0, 0), arrowprops=style | {"color": color, "lw": 2.5})
        axes.text(tip[0] + 0.03, tip[1], f'next: "{word}"', va="center", color=color)
    axes.set(xlim=(0, 0.62), ylim=(0, 0.8), aspect="equal")
    axes.set(xlabel="first number", ylabel="second number")


def guesses(panels, symbols, chances, notes):
    """Random symbols with the next one asked for, and what two models say of it, as bars."""
    first, *others = panels
    for i, symbol in enumerate([*symbols, "?"]):
        shade = "0.93" if i < len(symbols) else COLORS[4]
        rectangle(first, i, 0, 0.9, 0.9, color=shade)
        first.text(i + 0.45, 0.45, symbol, ha="center", va="center", fontsize=13)
    first.set(xlim=(-0.2, len(symbols) + 1.1), ylim=(-1.6, 2.5), aspect="equal")
    first.set_title("drawn at random: what comes next?")
    first.axis("off")
    for axes, heights, note, color in zip(others, chances, notes, COLORS, strict=False):
        axes.bar(range(1, len(heights) + 1), heights, color=color, width=0.7)
        axes.set(ylim=(0, 1.05), xticks=range(1, len(heights) + 1), xlabel="token", title=note)
    others[0].set_ylabel("probability")


def packed(axes, sentences, words):
    """Sentences one below the other, filled up with padding; and below them all in one row."""
    longest = max(map(len, sentences))
    for b, sentence in enumerate(sentences):
        for i in range(longest):
            word = sentence[i] if i < len(sentence) else "<pad>"
            _token(axes, i, -b, word, COLORS[b] if i < len(sentence) else None)
    axes.text(-0.25, -1, "a batch", ha="right", va="center")
    x, y = 0, -len(sentences) - 0.7
    for b, sentence in enumerate(sentences):
        for word in sentence:
            _token(axes, x, y, word, COLORS[b])
            x += 1
    axes.text(-0.25, y, "packed", ha="right", va="center")
    axes.set(xlim=(-1.6, words + 0.1), ylim=(y - 0.6, 0.6))
    axes.axis("off")


def _token(axes, x, y, word, color):
    shade = {"color": color, "alpha": 0.35} if color else {"color": "0.93"}
    rectangle(axes, x, y - 0.42, 0.95, 0.84, **shade)
    ink = "0.6" if color is None else "black"
    axes.text(x + 0.475, y, word, ha="center", va="center", fontsize=9, color=ink)


def blocks(axes, allowed, documents, words):
    """The mask (n, n) of a packed row, a colour a document; grey is what causal alone allows."""
    for i, row in enumerate(allowed.tolist()):
        for j, may_look in enumerate(row):
            color = COLORS[documents[i]] if may_look else ("0.82" if j <= i else "0.95")
            rectangle(axes, j, -i, 0.92, 0.92, color=color)
    axes.set_xticks([i + 0.46 for i in range(len(words))], words, rotation=90)
    axes.set_yticks([0.46 - i for i in range(len(words))], words)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.set(aspect="equal")


def order_of_work(axes, n, block, again=False):
    """The scores of n tokens, each with the number of the step that computes it.

    ``block`` tokens at a time meet the keys so far; scores above the diagonal are wasted. With
    ``again`` each prefix is computed anew, and a cell says how often.
    """
    for i in range(n):
        step = i // block
        for j in range(n):
            if j > i:
                wasted = again or j < (step + 1) * block
                rectangle(axes, j, -i, 0.94, 0.94, color="0.85" if wasted else "0.98")
                continue
            number = n - i if again else step + 1
            shade = {"color": COLORS[0], "alpha": 0.15 + 0.5 * number / n}
            rectangle(axes, j, -i, 0.94, 0.94, **shade)
            axes.text(j + 0.47, 0.47 - i, number, ha="center", va="center", fontsize=9)
    axes.set(xlim=(-0.1, n), ylim=(1 - n - 0.1, 1), aspect="equal")
    axes.axis("off")


def suspects(axes):
    """One layer of attention as a language model, from below, with what it may lack: 1, 2, 3."""
    box = {"boxstyle": "round,pad=0.4", "fc": "0.93", "ec": "0.35"}
    parts = (
        (0, "embedding of the token"),
        (1.15, "causal self-attention, 8 heads"),
        (2.3, "network that reads out"),
    )
    for y, name in parts:
        axes.text(0, y, name, ha="center", va="center", bbox=box)
    axes.text(-2.6, 0, "position, from a table", ha="center", va="center", bbox=box)
    arrow = {"arrowstyle": "->", "color": "0.35", "shrinkA": 13, "shrinkB": 13, "lw": 1.5}
    for below, above in ((0, 1.15), (1.15, 2.3)):
        axes.annotate("", (0, above), (0, below), arrowprops=arrow)
    axes.annotate("", (-0.25, 1.1), (-2.6, 0.1), arrowprops=arrow)
    missing = arrow | {"color": COLORS[1], "linestyle": "--", "connectionstyle": "arc3,rad=0.8"}
    axes.annotate("", (1.05, 2.3), (1.05, 0), arrowprops=missing | {"shrinkA": 2, "shrinkB": 2})
    told = (
        (-4.6, -0.62, '"one place back" is learned 32 times over'),
        (-4.6, 1.15, "values are mixed once, linearly"),
        (2.9, 1.15, "no way around: what a token\nis must pass the softmax, too"),
    )
    for number, (x, y, text) in enumerate(told, 1):
        circle = {"boxstyle": "circle", "fc": COLORS[1], "ec": "none"}
        axes.text(x, y, str(number), color="white", weight="bold", va="center", bbox=circle)
        axes.text(x + 0.35, y, text, va="center")
    axes.set(xlim=(-5, 6), ylim=(-0.95, 2.75))
    axes.axis("off")
