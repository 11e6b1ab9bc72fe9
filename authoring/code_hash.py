"""Which code an experiment depends on: its chapter's, that of saved chapters, the library's."""

import ast
import hashlib
import importlib.util
import io
import symtable
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SAVED = "textbook.chapter_"
LIBRARY = "minitorch"
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef


class Code:
    """The top-level statements of a source, by the names that they bind."""

    def __init__(self, source: Path) -> None:
        text = source.read_text(encoding="utf-8")
        self.lines = text.splitlines(keepends=True)
        self.tree = ast.parse(text, source.name)
        self.root = source.parent.parent
        self.binders: dict[str, set[str]] = defaultdict(set)
        for statement in self.tree.body:
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    self._imported(statement, alias)
                continue
            for name in bound(statement):
                self.binders[name].add(self.segment(statement))

    def _imported(self, statement: ast.ImportFrom, alias: ast.alias) -> None:
        """Of `from a import b as c` only `b as c` counts, and all of what a chapter saved."""
        name = alias.asname or alias.name
        self.binders[name].add(ast.unparse(ast.Import([alias])))
        if (statement.module or "").startswith(SAVED):
            saved = Code(self.root / f"{statement.module.replace('.', '/')}.py")
            self.binders[name] |= saved.closure(saved.binders[alias.name])

    def closure(self, start: set[str]) -> set[str]:
        """These pieces of code, and all that the names in them lead to."""
        reached: set[str] = set()
        todo = list(start)
        while todo:
            piece = todo.pop()
            if piece not in reached:
                reached.add(piece)
                for name in names_used(piece):
                    todo += self.binders.get(name, ())
        return reached

    def segment(self, node: ast.stmt, decorated: bool = True) -> str:
        """The statement's own lines, without comments and blank lines."""
        first = node.lineno
        if decorated:
            first = min([first, *(call.lineno for call in getattr(node, "decorator_list", []))])
        lines = self.lines[first - 1 : node.end_lineno]
        if any("#" in line for line in lines):
            for token in tokenize.generate_tokens(io.StringIO("".join(lines)).readline):
                if token.type == tokenize.COMMENT:
                    row, column = token.start
                    lines[row - 1] = lines[row - 1][:column] + "\n"
        return "".join(line.rstrip() + "\n" for line in lines if line.strip())

    def text_of(self, node: ast.expr) -> str:
        """An expression as it is written."""
        lines = self.lines[node.lineno - 1 : node.end_lineno]
        lines[-1] = lines[-1].encode()[: node.end_col_offset].decode()
        lines[0] = lines[0].encode()[node.col_offset :].decode()
        return "".join(lines)


@cache
def names_used(piece: str) -> frozenset[str]:
    """The global names that a piece of code reads."""
    top = symtable.symtable(piece, "piece", "exec")
    names = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    tables = top.get_children()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return frozenset(names)


def bound(statement: ast.stmt) -> set[str]:
    """The names that a top-level statement binds, or whose items or attributes it sets."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(getattr(node, "ctx", None), ast.Store):
            while isinstance(node, ast.Subscript | ast.Attribute):
                node = node.value
            names |= {node.id} if isinstance(node, ast.Name) else set()
    return names


def digest(pieces: set[str]) -> str:
    return hashlib.sha256("\n".join(sorted(pieces)).encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Part:
    """A definition of the library, or a member of a class: its names, and the words in it."""

    names: frozenset[str]
    owner: str | None
    text: str
    words: frozenset[str]


def library_hash(pieces: set[str]) -> str:
    """A hash of what these pieces of code reach in the library, without docstrings and comments.

    A word leads to all that the library binds under it, wherever it stands, and to a member of a
    class if the class is reached as well. So the hash holds too much rather than too little, and
    nothing of what is added under a name of its own.
    """
    reached = {"Tensor", *(word for piece in pieces for word in _words(ast.parse(piece)))}
    todo, texts, library = list(reached), set(), _library()
    while todo:
        for part in library.get(todo.pop(), ()):
            if part.names & reached and (part.owner is None or part.owner in reached):
                texts.add(part.text)
                todo += part.words - reached
                reached |= part.words
    return digest(texts)


@cache
def _library() -> dict[str, list[Part]]:
    """The parts of the library under each name that leads to them."""
    found = defaultdict(list)
    [folder] = importlib.util.find_spec(LIBRARY).submodule_search_locations
    for path in sorted(Path(folder).rglob("*.py")):
        for statement in _undocumented(path).body:
            for part in _parts(statement, path.stem):
                for name in part.names | {part.owner}:
                    found[name].append(part)
    return found


def _parts(statement: ast.stmt, module: str) -> Iterator[Part]:
    """A statement as a part; of a class the special methods, and each other member by itself."""

    def part(node: ast.AST, names: set[str], owner: str | None = None) -> Part:
        text = f"{module} {owner} {ast.dump(node)}"
        return Part(frozenset(names), owner, text, frozenset(_words(node)))

    if isinstance(statement, ast.ClassDef):
        special = []
        for member in statement.body:
            names = {name for name in bound(member) if not name.startswith("__")}
            if names:
                yield part(member, names, statement.name)
            else:
                special.append(member)
        statement.body = special
        yield part(statement, {statement.name})
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            if alias.asname:
                yield part(alias, {alias.asname})
    elif names := bound(statement) or {"Tensor"}:  # what binds nothing runs with the library
        if not all(name.startswith("__") for name in names):  # __all__, __getattr__
            yield part(statement, names)


def _words(tree: ast.AST) -> Iterator[str]:
    """Names, attributes, and texts that may be asked for as such."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
        elif isinstance(node, ast.Constant) and str(node.value).isidentifier():
            yield str(node.value)


def _undocumented(path: Path) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree
