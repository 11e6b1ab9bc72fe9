"""Collect what a chapter saves, for later chapters to import: textbook/chapter_NN.py."""

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

from .code_hash import bound, names_used
from .sources import BookError, first_line, number_of, read_chapter

HEAD = '''\
"""What chapter {number} defines and later chapters use.

Generated from the cells of notebooks/{source} that start with
`# %% save`: change them there.
"""
'''


def saved_path(root: Path, source: Path) -> Path:
    """Where what this chapter saves is written."""
    return root / "textbook" / f"chapter_{number_of(source)}.py"


def saved_module(source: Path) -> str | None:
    """The text of the module, or None for a chapter that saves nothing.

    It has the imports of the chapter that it needs, and the saved cells in their order.
    """
    code = [cell for cell in read_chapter(source).cells if cell.cell_type == "code"]
    cells = [cell for cell in code if "save" in cell.metadata.get("tags", ())]
    if not cells:
        return None
    text = "\n\n\n".join(cell.source for cell in cells)
    known = {name for statement in ast.parse(text).body for name in bound(statement)}
    needed = names_used(text) - known - set(dir(builtins))
    imports = {name: line for cell in code for name, line in _imports(cell.source)}
    for cell in cells:
        if missing := names_used(cell.source) & (needed - imports.keys()):
            raise BookError(
                f"{source}: the saved cell '{first_line(cell)}' uses {min(missing)}, which is "
                "neither saved nor imported: save it too, or make it an argument"
            )
    lines = dict.fromkeys(line for name, line in imports.items() if name in needed)
    head = HEAD.format(number=number_of(source), source=source.name)
    return "\n".join([head, *lines, "\n", text]) + "\n"


def _imports(text: str) -> Iterator[tuple[str, str]]:
    """Each name that a cell imports, with the line that imports it alone."""
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                name = alias.asname or alias.name.split(".")[0]
                if isinstance(statement, ast.ImportFrom):
                    one = ast.ImportFrom(statement.module, [alias], statement.level)
                else:
                    one = ast.Import([alias])
                yield name, ast.unparse(one)
