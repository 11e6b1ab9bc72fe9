"""A model at work: merges of pieces, the cache, weights that a token meets, a look-up."""

from textbook.plot.style import COLORS, rectangle

EDGE, BLUE, ORANGE, GREY = "0.35", "#d6e8f5", "#fbe3cf", "0.93"
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}


def merging(axes, stages):
    """Words in pieces, a column of boxes for each stage: its title, and the pieces of each word.

    Pieces that the stage before did not have are lit.
    """
    longest = max(len("".join(word)) for _, words in stages for word in words)
    before = {piece for word in stages[0][1] for piece in word}
    for i, (title, words) in enumerate(stages):
        left, top = i * (longest + 1.3), len(words)
        axes.text(left + longest / 2, top + 0.35, title, ha="center", fontsize=9)
        for row, word in enumerate(words):
            x = left
            for piece in word:
                fill = GREY if piece in before else ORANGE
                size = {"width": len(piece) - 0.1, "height": 0.72}
                rectangle(axes, x, top - row - 0.86, **size, facecolor=fill, edgecolor=EDGE)
                middle = x + len(piece) / 2 - 0.05, top - row - 0.5
                axes.text(*middle, piece, ha="center", va="center", fontsize=9, family="monospace")
                x += len(piece)
        before |= {piece for word in words for piece in word}
    axes.set(xlim=(-0.4, left + longest + 0.4), ylim=(-0.1, top + 0.8))
    axes.axis("off")


def cached_step(axes, tokens):
    """One step with the cache: the last of ``tokens`` makes q, k and v; all others lie there."""
    new = len(tokens) - 1
    for j, token in enumerate(tokens):
        fill, word = (ORANGE, "black") if j == new else (GREY, "0.5")
        axes.text(j, 0, token, ha="center", va="center", fontsize=9, color=word)
        for y, name in ((1.3, "k"), (2.1, "v")):
            size = {"width": 0.7, "height": 0.6}
            rectangle(axes, j - 0.35, y - 0.3, **size, facecolor=fill, edgecolor=EDGE)
            axes.text(j, y, f"${name}_{j + 1}$", ha="center", va="center")
        axes.plot([j, new + 1.4], [2.4, 3.3], color=COLORS[0], linewidth=1, linestyle="-")
    axes.annotate("", (new, 0.97), (new, 0.25), arrowprops=ARROW)
    axes.plot([new + 0.35, new + 1.4], [0.12, 0.12], color=EDGE, linewidth=1, linestyle="-")
    axes.annotate("", (new + 1.4, 1.0), (new + 1.4, 0.12), arrowprops=ARROW)
    rectangle(axes, new + 1.05, 1.0, 0.7, 0.6, facecolor=ORANGE, edgecolor=EDGE)
    axes.text(new + 1.4, 1.3, f"$q_{new + 1}$", ha="center", va="center")
    axes.annotate("", (new + 1.4, 3.25), (new + 1.4, 1.65), arrowprops=ARROW)
    box = {"boxstyle": "round,pad=0.3", "fc": BLUE, "ec": EDGE}
    axes.text(new + 1.4, 3.5, f"$o_{new + 1}$", ha="center", va="center", bbox=box)
    if new:
        axes.text(-0.55, 1.7, "cache", ha="right", va="center", color=EDGE, style="italic")
    axes.set(xlim=(-1.7, new + 2.1), ylim=(-0.3, 3.95), title=f"step {new + 1}")
    axes.axis("off")


def met_weights(axes, lanes):
    """What each kind of token meets on its way: a token, and boxes as wide as their weights.

    ``lanes`` has for each token the boxes that it passes, name to millions of weights.
    """
    widest = max(sum(boxes.values()) for boxes in lanes.values())
    for row, ((token, boxes), fill) in enumerate(zip(lanes.items(), (BLUE, ORANGE), strict=True)):
        x, y, total = 0.0, 2.2 * (len(lanes) - 1 - row), sum(boxes.values())
        axes.text(-0.07 * widest, y, token, ha="right", va="center")
        ends = (total + 0.06 * widest, y), (-0.05 * widest, y)
        axes.annotate("", *ends, arrowprops=ARROW, zorder=0)
        for name, millions in boxes.items():
            rectangle(axes, x, y - 0.5, millions, 1.0, facecolor=fill, edgecolor=EDGE)
            inside = millions > widest / 5
            place = {"va": "center"} if inside else {"va": "bottom"}
            axes.text(x + millions / 2, y if inside else y + 0.6, name, ha="center", **place)
            x += millions
        label = f"{total:.0f} million weights"
        axes.text(total + 0.08 * widest, y, label, va="center", color=COLORS[1], fontsize=9)
    axes.set(xlim=(-0.28 * widest, 1.38 * widest), ylim=(-0.8, 2.2 * len(lanes) - 0.7))
    axes.axis("off")


def code_book(axes, entries, question):
    """A code book as boxes "a is c" from left to right, and the way of a question through it."""
    place = {word: i for i, (word, _) in enumerate(entries)}
    meaning = dict(entries)
    box = {"boxstyle": "round,pad=0.35", "ec": EDGE}
    found = meaning[question]
    for i, (word, stands_for) in enumerate(entries):
        fill = ORANGE if word in (question, found) else GREY
        style = {"ha": "center", "va": "center", "bbox": box | {"fc": fill}}
        axes.text(i, 1, f"{word} is {stands_for}", **style)
    asks = len(entries)
    style = {"ha": "center", "va": "center", "bbox": box | {"fc": BLUE}}
    axes.text(asks, 1, f"{question}?", **style)
    for start, end, label in (
        (asks, place[question], f"1. look up {question}: {found}"),
        (place[question], place[found], f"2. look up {found}: {meaning[found]}"),
    ):
        y = 1.95 if start == asks else 0.05
        axes.plot([start, start, end], [1 + 0.3 * (y - 1), y, y], color=COLORS[1], linestyle="-")
        tip = ARROW | {"color": COLORS[1], "lw": 1.8}
        axes.annotate("", (end, 1 + 0.3 * (y - 1)), (end, y), arrowprops=tip)
        axes.text((start + end) / 2, y + 0.08, label, ha="center", va="bottom", color=COLORS[1])
    axes.set(xlim=(-0.6, asks + 0.6), ylim=(-0.2, 2.4))
    axes.axis("off")
