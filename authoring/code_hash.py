"""Which code an experiment depends on: its chapter's, that of saved chapters, the library's."""

import ast
import hashlib
import importlib
import importlib.util
import io
import symtable
import tokenize
from collections import defaultdict
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
        self.imports: dict[str, str] = {}  # name -> where it comes from, "minitorch.nn"
        for statement in self.tree.body:
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    self._imported(statement, alias)
                continue
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    self.imports[alias.asname or alias.name.split(".")[0]] = alias.name
            for name in bound(statement):
                self.binders[name].add(self.segment(statement))

    def _imported(self, statement: ast.ImportFrom, alias: ast.alias) -> None:
        """Of `from a import b as c` only `b as c` counts, and all of what a chapter saved."""
        name = alias.asname or alias.name
        self.binders[name].add(ast.unparse(ast.Import([alias])))
        self.imports[name] = f"{statement.module}.{alias.name}"
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

    def library_hash(self, pieces: set[str]) -> str:
        """A hash of the library's files that these pieces of code use.

        The files where the names stand that they take from it, and all that those import; without
        docstrings and comments.
        """
        modules = {f"{LIBRARY}.tensor"}
        for piece in pieces:
            for chain in _chains(piece):
                first, _, rest = chain.partition(".")
                modules |= _home(f"{self.imports.get(first, '')}.{rest}".rstrip("."))
        files: set[str] = set()
        while modules:
            module = modules.pop()
            if module not in files:
                files.add(module)
                modules |= _imports_of(module)
        return digest({f"{module} {_without_docstrings(module)}" for module in files})


def names_used(piece: str) -> set[str]:
    """The global names that a piece of code reads."""
    top = symtable.symtable(piece, "piece", "exec")
    names = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    tables = top.get_children()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return names


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


def _chains(piece: str) -> set[str]:
    """Every name with the attributes asked of it: "nn.functional.softmax"."""
    return {
        ast.unparse(node)
        for node in ast.walk(ast.parse(piece))
        if isinstance(node, ast.Name | ast.Attribute) and _plain_chain(node)
    }


def _plain_chain(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


@cache
def _home(chain: str) -> frozenset[str]:
    """The library's module that defines what this chain of names leads to."""
    parts = chain.split(".")
    if parts[0] != LIBRARY:
        return frozenset()
    found = importlib.import_module(LIBRARY)
    for part in parts[1:]:
        found = getattr(found, part, None)
    home = getattr(found, "__module__", None) or getattr(found, "__name__", "")
    inside = isinstance(home, str) and home.startswith(f"{LIBRARY}.") and _file_of(home)
    return frozenset({home} if inside else ())


@cache
def _file_of(module: str) -> Path | None:
    """Where a module of the library stands; None for a package, which only names others."""
    spec = importlib.util.find_spec(module)
    path = Path(spec.origin) if spec and spec.origin else None
    return None if path is None or path.name == "__init__.py" else path


@cache
def _imports_of(module: str) -> frozenset[str]:
    path = _file_of(module)
    if path is None:
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(LIBRARY):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {node.module} | {name for name in inner if _is_module(name)}
    return frozenset(name for name in found if _is_module(name) and _file_of(name))


@cache
def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@cache
def _without_docstrings(module: str) -> str:
    tree = ast.parse(_file_of(module).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)
