"""Masks: what stands in the input, and one mask for each sentence and head."""

from textbook.plot.style import COLORS

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
