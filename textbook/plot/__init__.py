"""Pictures: matplotlib in the book's style, with a description for those who cannot see.

The drawing functions take the axes first, as ``axes.plot`` would have them, and return them;
``alignments`` and ``heads`` make a figure of their own. ::

    figure, axes = plot.subplots()
    plot.losses(axes, {"GRU": gru_losses, "LSTM": lstm_losses}, smooth=20)
    plot.show(figure, alt="Both losses fall, that of the LSTM faster.")
"""

from textbook.plot.curves import losses, spread
from textbook.plot.matrices import alignments, attention, heads, heatmap, mask, positions
from textbook.plot.networks import graph
from textbook.plot.style import COLORS, LINES, show, subplots

__all__ = [
    "COLORS",
    "LINES",
    "alignments",
    "attention",
    "graph",
    "heads",
    "heatmap",
    "losses",
    "mask",
    "positions",
    "show",
    "spread",
    "subplots",
]
