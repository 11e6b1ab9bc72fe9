"""Run a chapter's experiments in their full setting, record them, and tell stale records."""

import ast
import hashlib
import io
import json
import os
import platform
import subprocess
import symtable
import sys
import tempfile
import tokenize
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .sources import BookError, chapters, number_of, write_text


@dataclass
class Declared:
    """An experiment as the source declares it; ``anywhere`` if its full setting lacks nothing."""

    claim: str
    chapter: str
    code_hash: str
    anywhere: bool


def results_path(source: Path) -> Path:
    """Where the full results of this chapter are kept."""
    return source.parent / "results" / f"{number_of(source)}.json"


def read_results(source: Path) -> dict:
    """What is recorded for this chapter, by claim."""
    path = results_path(source)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def record(root: Path, number: str, claims: Sequence[str] = ()) -> None:
    """Run the chapter's experiments on these claims (all) in full and write what they measured.

    The others run in their quick setting. An experiment that does not finish keeps its old record,
    and so does one that lacks something here, a GPU, say; that is a failure only if it was asked
    for by name.
    """
    sources = chapters(root, number)
    if not sources:
        raise BookError(f"no chapter with number {number!r} in {root / 'notebooks'}")
    [source] = sources
    experiments = declared(source)
    if not experiments:
        raise BookError(f"{source} has no experiment: nothing to record")
    names = [experiment.claim for experiment in experiments]
    if unknown := set(claims) - set(names):
        raise BookError(
            f"{source} has the experiments {', '.join(names)}, and not {', '.join(sorted(unknown))}"
        )
    with tempfile.TemporaryDirectory() as scratch:
        variables = {
            "MINITORCH_BOOK": "full",
            "MINITORCH_CLAIMS": " ".join(claims),
            "MINITORCH_RECORD": scratch,
            "MPLBACKEND": "Agg",
            "PYTHONUNBUFFERED": "1",
        }
        try:
            status = subprocess.call(
                [sys.executable, source.name], cwd=source.parent, env=os.environ | variables
            )
        finally:
            measured = {
                path.stem: json.loads(path.read_text(encoding="utf-8"))
                for path in Path(scratch).glob("*.json")
            }
            lacking = {
                path.stem: path.read_text(encoding="utf-8")
                for path in Path(scratch).glob("*.lacking")
            }
            _merge(source, experiments, measured)
    for claim, what in lacking.items():
        print(f"{claim} in full needs {what}: not recorded")
    unfinished = [claim for claim in claims or names if claim not in measured]
    if not claims:
        unfinished = [claim for claim in unfinished if claim not in lacking]
    if status or unfinished:
        raise BookError(
            f"{source} ended with status {status}; recorded: {', '.join(measured) or 'nothing'}; "
            f"not recorded: {', '.join(unfinished) or 'nothing'}"
        )
    print(f"recorded {', '.join(measured) or 'nothing'} in {results_path(source)}")
    print(f"run: python book.py build {number}")


def _merge(source: Path, experiments: list[Declared], measured: dict[str, dict]) -> None:
    if not measured:
        return
    old = read_results(source)
    about = {"machine": machine(), "versions": _versions(), "date": _today()}
    results = {}
    for experiment in experiments:
        claim = experiment.claim
        if claim in measured:
            results[claim] = measured[claim] | about | {"code_hash": experiment.code_hash}
        elif claim in old:
            results[claim] = old[claim]
    text = json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False)
    write_text(results_path(source), text + "\n")


def machine() -> dict:
    """The processor and the system, without the machine's name."""
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def _processor() -> str:
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    import numpy

    import minitorch

    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "minitorch": minitorch.__version__,
    }


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def declared(source: Path) -> list[Declared]:
    """The experiments of a chapter with the hash of the code that each depends on.

    An experiment depends on its body, its full setting, and every top-level statement that binds a
    name which one of these uses. Comments and blank lines do not count. Of `from a import b as c`
    only `b as c` counts: the code of b is in no hash, so the module where it stands is in none
    either. Nothing is executed.
    """
    text = source.read_text(encoding="utf-8")
    tree = ast.parse(text, source.name)
    binders = defaultdict(set)
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                binders[alias.asname or alias.name].add(ast.unparse(ast.Import([alias])))
            continue
        for name in _bound(statement):
            binders[name].add(_segment(text, statement))
    experiments = []
    for statement in tree.body:
        for call in getattr(statement, "decorator_list", []):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "experiment":
                claim = ast.literal_eval(call.args[0])
                options = {word.arg: word.value for word in call.keywords}
                body = _segment(text, statement, decorated=False)
                start = {body, ast.get_source_segment(text, options["full"])}
                chapter = _chapter_of(tree, call.func.value)
                code_hash = _hash(_closure(start, binders))
                experiments.append(Declared(claim, chapter, code_hash, "lacks" not in options))
    return experiments


def _chapter_of(tree: ast.Module, lab: ast.expr) -> str:
    """The chapter that stands in lab = Experiments("01")."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            if any(ast.unparse(target) == ast.unparse(lab) for target in statement.targets):
                return ast.literal_eval(statement.value.args[0])
    name = ast.unparse(lab)
    raise BookError(f'{name} is not bound at the top level: write {name} = Experiments("NN")')


def _closure(start: set[str], binders: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    todo = list(start)
    while todo:
        segment = todo.pop()
        if segment not in reached:
            reached.add(segment)
            for name in _names_used(segment):
                todo += binders.get(name, ())
    return reached


def _names_used(segment: str) -> set[str]:
    """The global names that a piece of code reads."""
    top = symtable.symtable(segment, "segment", "exec")
    names = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    tables = top.get_children()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return names


def _bound(statement: ast.stmt) -> set[str]:
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


def _segment(text: str, node: ast.stmt, decorated: bool = True) -> str:
    """The node's own lines, without comments and blank lines."""
    first = node.lineno
    if decorated:
        first = min([first, *(call.lineno for call in getattr(node, "decorator_list", []))])
    lines = text.splitlines(keepends=True)[first - 1 : node.end_lineno]
    for token in tokenize.generate_tokens(io.StringIO("".join(lines)).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + "\n"
    return "".join(line.rstrip() + "\n" for line in lines if line.strip())


def _hash(segments: set[str]) -> str:
    return hashlib.sha256("\n".join(sorted(segments)).encode()).hexdigest()[:16]
