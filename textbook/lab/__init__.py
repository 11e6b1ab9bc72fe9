"""Experiments: a function measures ONE run, everything else is the lab's.

::

    lab = Lab("05")

    @lab.experiment("C11", d=[4, 64, 256], divided=[False, True], full=dict(seeds=5))
    def softmax_at(d, divided, n=16):
        ...
        return {"variance of scores": scores.var()}

    runs = softmax_at.run()  # measured here; what was recorded in full comes with it
    runs.draw(x="d", y="variance of scores", by="divided", log="xy", alt="...")
    runs.holds("undivided, the variance is d, to 15 %",
               lambda rows: rows.values("variance of scores", d=256, divided=False) / 256,
               between=(0.85, 1.15))

A list is an axis of the grid, anything else a fixed setting; ``full`` replaces some of them.
"""

from textbook.lab.experiments import Experiment, Lab
from textbook.lab.finding import finding
from textbook.lab.measuring import Budgets
from textbook.lab.progress import tqdm
from textbook.lab.report import measured
from textbook.lab.rows import Rows
from textbook.lab.runs import Runs
from textbook.lab.text import colored_text, large
from textbook.lab.tuned import Tuned

__all__ = [
    "Budgets",
    "Experiment",
    "Lab",
    "Rows",
    "Runs",
    "Tuned",
    "colored_text",
    "finding",
    "large",
    "measured",
    "tqdm",
]
