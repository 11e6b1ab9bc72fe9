"""tqdm as the book uses it: seen while a cell runs, gone from the notebook when the cell ends.

The bars of ``tqdm.auto`` are widgets: in a saved notebook an error stands where one has been.
"""

from __future__ import annotations

import sys
from typing import Any

import tqdm.std


class tqdm(tqdm.std.tqdm):  # noqa: N801  its name everywhere
    """tqdm's bar; in a notebook all bars that are open make one line of text.

    The line is emptied when the last of them closes, and at the latest when the cell ends: an error
    or an interrupt leaves the bar of a loop open. A notebook saved before that holds the text, no
    more. In a terminal it is tqdm's bar for terminals.
    """

    monitor_interval = 0  # no thread of its own

    def __init__(self, *args: Any, leave: bool = False, **options: Any) -> None:
        shell = _notebook()
        super().__init__(*args, leave=leave, gui=shell is not None, **options)
        if shell and not self.disable:
            shell.events.register("post_run_cell", _line.end)
            _line.bars[self] = None
            _line.show()

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Show the bar as it is now, and tell whether it is shown."""
        if self not in _line.bars:
            return super().display(msg, pos)
        _line.show()
        return True

    def close(self) -> None:
        """Take the bar away."""
        super().close()
        if self in _line.bars:
            del _line.bars[self]
            _line.show()


class _Line:
    """The line of the running cell: an output that is changed in its place."""

    def __init__(self) -> None:
        self.bars: dict[tqdm, None] = {}  # those that are open, the outermost first
        self.output = None

    def show(self) -> None:
        from IPython.display import display

        text = "  ".join(map(str, self.bars))
        data = {"text/plain": text} if text else {}
        if self.output:
            self.output.update(data, raw=True)
        else:
            self.output = display(data, raw=True, display_id=True)

    def end(self, result: Any) -> None:
        """Close what the cell has left open; the next cell has a line of its own."""
        for bar in list(self.bars):
            bar.close()
        self.output = None


_line = _Line()


def _notebook() -> Any:
    """IPython's shell where a kernel runs it, else None."""
    shell = "IPython" in sys.modules and sys.modules["IPython"].get_ipython()
    return shell if shell and hasattr(shell, "kernel") else None
