"""Tell, without executing anything, what of the library is not written down, and where to write it.

An operation has a row in ``tests/library/rows`` and is exported. The core, which docs/library.md
and the docstring of ``minitorch/__init__.py`` name in the order of reading, stays an evening's.
"""

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

ROWS = "tests/library/rows"
FACE = "minitorch/__init__.py"
PAGE = "docs/library.md"
CORE = re.compile(r"^    ([\w/]+\.py)  ", re.MULTILINE)
PAGE_ROW = re.compile(
    r"^\| \[`([\w/]+\.py)`\]\(\.\./minitorch/\1\) \| (\d+) \| [^|\n]+ \|$", re.MULTILINE
)
MOST_LINES = 2000  # of code, in the core


def problems(root: Path) -> list[str]:
    """Every problem as one line that says what to do."""
    return [*missing_rows(root, rows(root)), *unexported(root), *core_problems(root)]


def operations(root: Path) -> list[tuple[str, Path]]:
    """Each function of the library that is decorated with ``operation(...)``, and its file."""
    return [
        (item.name, path)
        for path in sorted(root.glob("minitorch/**/*.py"))
        for item in _tree(path).body
        if isinstance(item, ast.FunctionDef)
        and any(_called(decorator) == "operation" for decorator in item.decorator_list)
    ]


def rows(root: Path) -> set[str]:
    """The operations that have a row: ``@row("add")``, ``unary(elementwise.neg, ...)``, ..."""
    named = set()
    for path in root.glob(f"{ROWS}/*.py"):
        for item in ast.walk(_tree(path)):
            if isinstance(item, ast.Constant):
                named.add(item.value)
            elif isinstance(item, ast.Call) and item.args:
                named.add(_called(item.args[0]))
    return named & {name for name, _ in operations(root)}


def missing_rows(root: Path, names: Collection[str]) -> Iterator[str]:
    """What is wrong if these names, and no others, have a row."""
    seen: dict[str, Path] = {}
    for name, path in operations(root):
        where = path.relative_to(root)
        file = f"{ROWS}/{'compat' if 'compat' in path.parts else path.stem}.py"
        if name in seen:
            yield f"operation {name} stands in {seen[name]} and in {where}: rename one"
        elif name not in names:
            short = f"{path.stem}.{name}"
            yield (
                f"operation {name} of {where} has no row in {file}: add one there, "
                f"unary({short}, np.{name}) or binary({short}, np.{name}), or under "
                f'@row("{name}") a function that draws a Case'
            )
        seen[name] = where
    for name in sorted(set(names) - set(seen)):
        yield f"{ROWS} has a row {name}, which is no operation of the library: rename or remove it"


def unexported(root: Path) -> Iterator[str]:
    """Operations that no ``__all__`` holds and no other code of the library names."""
    used: set[tuple[str, str]] = set()
    for path in root.glob("minitorch/**/*.py"):
        for item in ast.walk(_tree(path)):
            if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name):
                used.add((item.value.id, item.attr))
            elif isinstance(item, ast.ImportFrom) and item.module:
                home = item.module.rpartition(".")[2]
                used |= {(home, alias.name) for alias in item.names}
            elif isinstance(item, ast.Name):
                used.add((path.stem, item.id))
        used |= {(path.stem, name) for name in _offered(_tree(path))}
    for name, path in operations(root):
        if (path.stem, name) not in used:
            yield (
                f"operation {name} of {path.relative_to(root)} is exported nowhere: as PyTorch has "
                f"it, add it to __all__ there, for minitorch.{name}, and as a method to "
                f"minitorch/methods.py, {name} = {path.stem}.{name}; or to "
                "minitorch/nn/functional.py"
            )


def core(root: Path) -> list[str]:
    """The files of the library's core, in the order of reading."""
    return CORE.findall(ast.get_docstring(_tree(root / FACE), clean=False) or "")


def core_problems(root: Path) -> Iterator[str]:
    """Whether both lists of the core's files agree with each other and with the files."""
    files = core(root)
    text = _text(root / PAGE)
    told = {name: int(lines) for name, lines in PAGE_ROW.findall(text)}
    absent = [name for name in files if not (root / "minitorch" / name).exists()]
    for name in absent:
        yield f"{FACE} names {name}, which is not there: correct the list in its docstring"
    if absent:
        return
    if list(told) != files:
        yield (
            f"{PAGE} lists other files than the docstring of {FACE}, or in another order: "
            f"list {', '.join(files)}"
        )
    counted = {name: code_lines(root / "minitorch" / name) for name in files}
    for name in sorted(told.keys() & counted):
        if told[name] != round(counted[name], -1):
            yield (
                f"{PAGE} says {told[name]} lines of {name}, which has {counted[name]}: "
                f"write {round(counted[name], -1)}"
            )
    total = sum(counted.values())
    whole = sum(len(_text(root / "minitorch" / name).splitlines()) for name in files)
    words = f"{round(whole, -2):,} with comments and docstrings"
    together = f"| together | {round(total, -1):,} | {words} |"
    if together not in text:
        yield f"{PAGE} has another sum than its files: write {together}"
    if total > MOST_LINES:
        yield (
            f"the core has {total} lines of code, more than the {MOST_LINES} of an evening: move "
            f"what no chapter uses to minitorch/compat, or take a file out of {PAGE} and out of "
            f"the docstring of {FACE}"
        )


def code_lines(path: Path) -> int:
    """How many lines hold code: all but empty ones, comments, docstrings and lists of names."""
    text = _text(path)
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    left_out: list[ast.stmt] = [
        item.body[0]
        for item in ast.walk(tree)
        if isinstance(item, documented) and ast.get_docstring(item)
    ]
    left_out += [item for item in tree.body if isinstance(item, (ast.Import, ast.ImportFrom))]
    left_out += [item for item in tree.body if _is_all(item)]
    skipped = {line for item in left_out for line in range(item.lineno, (item.end_lineno or 0) + 1)}
    lines = enumerate(text.splitlines(), start=1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and i not in skipped
        for i, line in lines
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path), str(path))


def _called(item: ast.expr) -> str | None:
    """The last name of ``name``, ``module.name`` or of a call of these."""
    item = getattr(item, "func", item)
    return getattr(item, "attr", getattr(item, "id", None))


def _is_all(item: ast.stmt) -> bool:
    return isinstance(item, ast.Assign) and getattr(item.targets[0], "id", "") == "__all__"


def _offered(tree: ast.Module) -> Iterator[str]:
    """The names in ``__all__``, a list or a text that is split."""
    for item in filter(_is_all, tree.body):
        for part in ast.walk(item):
            if isinstance(part, ast.Constant):
                yield from str(part.value).split()
