"""Checks as students get them: the cases and how they are run, no reference and no mistake.

Kept is what an exercise itself names (cases, drivers, properties), what a chapter gives to its
set, and what these need; of a reference the first line and the docstring.
"""

import ast
import builtins
import symtable
from collections.abc import Iterator

CHECKS = "textbook.checks"
HOME, RELEASED = f"{CHECKS}.exercise", f"{CHECKS}.released"
HEADER = "# Written by `book.py release`: what a check needs, without answers.\n"
MISSING = "raise LookupError('this copy of the book has no answer: ' + "
REFUSAL = "hidden checks are the instructor's; this copy of the book has the public ones"
Definition = ast.FunctionDef | ast.ClassDef
Import = ast.Import | ast.ImportFrom


def without_answers(text: str) -> str:
    """A module of the framework, whole but for what only the instructor has."""
    tree = ast.parse(text)
    names = {name for statement in tree.body for name in _bound(statement)}
    tree.body = [_public(statement) for statement in tree.body]
    return HEADER + ast.unparse(_only(tree, names)) + "\n"


def stripped(modules: dict[str, str]) -> dict[str, str]:
    """The texts of modules by their names, with what students get of each."""
    trees = {name: ast.parse(text) for name, text in modules.items()}
    for tree in trees.values():
        _decorate(tree)
        tree.body = [_public(statement) for statement in tree.body]
    kept = _needed(trees)
    return {name: HEADER + ast.unparse(_only(trees[name], kept[name])) + "\n" for name in modules}


# What a statement is ----------------------------------------------------------------------------


def is_exercise(statement: ast.stmt) -> bool:
    return "exercise" in _decorators(statement)


def _decorators(statement: ast.stmt) -> list[str]:
    """The last parts of the names of a definition's decorators."""
    found = statement.decorator_list if isinstance(statement, Definition) else []
    calls = [node.func if isinstance(node, ast.Call) else node for node in found]
    return [ast.unparse(node).split(".")[-1] for node in calls]


def _decorate(tree: ast.Module) -> None:
    """`name = exercise(...)(definition)` becomes a decorator of the definition."""
    definitions = {each.name: each for each in tree.body if isinstance(each, Definition)}
    for statement in tree.body:
        call = getattr(statement, "value", None)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Call):
            if _last(call.func) == "exercise":
                [reference] = call.args
                definitions[reference.id].decorator_list.append(call.func)
                statement.value = reference


def _public(statement: ast.stmt) -> ast.stmt:
    """The statement without what only the instructor has."""
    if is_exercise(statement) or "recorded" in _decorators(statement):
        return _without_body(statement)
    if isinstance(statement, ast.FunctionDef):
        names = [argument.arg for argument in statement.args.args]
        if names and names[-1] == "hidden" and statement.args.defaults:
            said = ast.parse(f"if hidden:\n raise CheckFailed({statement.name + ': ' + REFUSAL!r})")
            place = 1 if ast.get_docstring(statement) else 0
            statement.body[place:place] = said.body
    return _public_half(statement)


def _public_half(statement: ast.stmt) -> ast.stmt:
    """Of a dict with one entry for public and one for hidden checks, the first."""
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Dict) and all(isinstance(key, ast.Constant) for key in value.keys):
        if [key.value for key in value.keys] == [False, True]:
            value.keys, value.values = value.keys[:1], value.values[:1]
    return statement


def _without_body(statement: Definition) -> Definition:
    """The first line of a definition and its docstring; a class has no bases."""
    docstring = [statement.body[0]] if ast.get_docstring(statement) else []
    if isinstance(statement, ast.ClassDef):
        statement.bases = []
        make = ast.parse(f"def __init__(self, *args, **named):\n    {MISSING}{statement.name!r})")
        statement.body = [*docstring, *make.body]
    else:
        statement.body = [*docstring, *ast.parse(f"{MISSING}{statement.name!r})").body]
        statement.args.defaults = [
            each if isinstance(each, ast.Constant) else ast.Constant(None)
            for each in statement.args.defaults
        ]
    statement.decorator_list = [
        node for node in statement.decorator_list if _last(node) in ("exercise", "recorded")
    ]
    for node in statement.decorator_list:
        if isinstance(node, ast.Call):
            node.keywords = [each for each in node.keywords if each.arg != "hidden_cases"]
    return statement


def _last(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).split(".")[-1]


# What is needed ---------------------------------------------------------------------------------


def _needed(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """The names that are needed of each module."""
    defined = {name: _defined(tree) for name, tree in trees.items()}
    kept = {name: set() for name in trees}
    wanted = [(module, name) for module in trees for name in _roots(module, trees[module])]
    while wanted:
        module, name = wanted.pop()
        if name in kept[module] or name not in defined[module]:
            continue
        kept[module].add(name)
        for statement in defined[module][name]:
            wanted += [(module, used) for used in _globals(statement)]
            wanted += _imported(statement, name, trees)
    return kept


def _roots(module: str, tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        if is_exercise(statement):
            yield statement.name
        elif isinstance(statement, Import) and module.count(".") == 2:  # what a chapter gives
            yield from _bound(statement)
        elif _acts(statement):
            yield from _globals(statement)


def _acts(statement: ast.stmt) -> bool:
    """Whether it does more than to give something a name."""
    return not isinstance(statement, (*Definition.__args__, *Import.__args__, ast.Assign))


def _defined(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """The statements that bind each name of a module."""
    found = {}
    for statement in tree.body:
        for name in _bound(statement):
            found.setdefault(name, []).append(statement)
    return found


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, Definition):
        return {statement.name}
    if isinstance(statement, Import):
        return {alias.asname or alias.name.split(".")[0] for alias in statement.names}
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _globals(statement: ast.stmt) -> set[str]:
    """The names of its module that a statement reads."""
    found, tables = set(), [symtable.symtable(ast.unparse(statement), "", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        top = table.get_type() == "module"
        found |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (top or symbol.is_global())
        }
    return found - set(dir(builtins))


def _imported(
    statement: ast.stmt, name: str, trees: dict[str, ast.Module]
) -> Iterator[tuple[str, str]]:
    """Of which module an import takes the name."""
    if isinstance(statement, ast.ImportFrom):
        for alias in statement.names:
            if (alias.asname or alias.name) == name and statement.module in trees:
                yield from _origin(statement.module, alias.name, trees)


def _origin(module: str, name: str, trees: dict[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Where a chapter's name is defined; an exercise is found by its name in all its modules."""
    yield module, name
    if module.count(".") == 2:
        for other, tree in trees.items():
            if other.startswith(f"{module}.") and name in _defined(tree):
                if any(is_exercise(s) and s.name == name for s in tree.body):
                    yield other, name


# What is written --------------------------------------------------------------------------------


def _only(tree: ast.Module, kept: set[str]) -> ast.Module:
    body = []
    for statement in tree.body:
        if _acts(statement) or _bound(statement) & kept:
            body += _imports(statement, kept) if isinstance(statement, Import) else [statement]
    return ast.Module(body, [])


def _imports(statement: Import, kept: set[str]) -> Iterator[Import]:
    """The import of what is kept; the framework's parts for a release come from its own module."""
    names = [a for a in statement.names if (a.asname or a.name.split(".")[0]) in kept]
    if isinstance(statement, ast.Import):
        yield ast.Import(names)
        return
    other = [a for a in names if a.name in ("exercise", "recorded")]
    if not statement.module.startswith(CHECKS) or statement.module.count(".") > 2:
        other = []
    same = [a for a in names if a not in other]
    if other:
        yield ast.ImportFrom(RELEASED, other, 0)
    if same:
        yield ast.ImportFrom(statement.module, same, statement.level)
