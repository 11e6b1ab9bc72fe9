"""Pretraining: who may look at whom in three families, and a sentence with blanks."""

from textbook.plot.style import COLORS

EDGE = "0.35"


def _token(axes, x, y, word, color="0.93"):
    style = {"boxstyle": "round,pad=0.25", "fc": color, "ec": EDGE, "lw": 0.8}
    axes.text(x, y, word, ha="center", va="center", fontsize=8, bbox=style)


def family(axes, read, asked, looks, title):
    """Tokens that are read, below, and answers above them; a line where an answer may look.

    ``asked`` names an answer for each token or None, ``looks(i, j)`` tells whether answer i may
    look at token j.
    """
    for i, answer in enumerate(asked):
        if answer is None:
            continue
        for j in range(len(read)):
            if looks(i, j):
                axes.plot([j, i], [0.2, 0.8], color="0.55", linewidth=0.9, linestyle="-")
        _token(axes, i, 1, answer, COLORS[5])
    for j, word in enumerate(read):
        _token(axes, j, 0, word, "white" if word == "<mask>" else "0.93")
    axes.set(xlim=(-0.6, len(read) - 0.4), ylim=(-0.3, 1.3), title=title)
    axes.axis("off")


def masking(axes, words, shown, kinds):
    """A sentence, what the model gets to read, and what it is asked at the chosen places.

    ``kinds`` says for each word "hidden", "replaced", "kept", or nothing.
    """
    for i, (word, seen, kind) in enumerate(zip(words, shown, kinds, strict=True)):
        _token(axes, i, 2, word)
        _token(axes, i, 1, seen, COLORS[5] if kind else "0.93")
        if kind:
            axes.text(i, 1.45, kind, ha="center", va="center", fontsize=8)
            axes.annotate("", (i, 0.25), (i, 0.75), arrowprops={"arrowstyle": "->", "color": EDGE})
            _token(axes, i, 0, word, "white")
    for y, name in ((2, "text"), (1, "read"), (0, "asked")):
        axes.text(-0.8, y, name, ha="right", va="center")
    axes.set(xlim=(-1.6, len(words) - 0.4), ylim=(-0.4, 2.4))
    axes.axis("off")
