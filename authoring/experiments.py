"""Run a chapter's experiments in their full setting, record them, and tell stale records."""

import ast
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from textbook.lab.measuring import run_key

from .code_hash import Code, digest, library_hash
from .sources import BookError, chapters, number_of, write_text

_CALL = '@lab.experiment("C1", name=[value, ...], full=dict(name=[more, ...]))'


@dataclass
class Declared:
    """An experiment as the source declares it; ``anywhere`` if its full setting lacks nothing.

    ``name`` is what its record is kept under: that of its function, which no other experiment of
    the book has. ``run_hash`` is of the code of a single run, without the full settings: as long as
    it stays, a run that was recorded is a run of the new grid as well.
    """

    name: str
    claim: str
    chapter: str
    code_hash: str
    run_hash: str
    library_hash: str
    anywhere: bool


def results_path(source: Path) -> Path:
    """Where the full results of this chapter are kept."""
    return source.parent / "results" / f"{number_of(source)}.json"


def read_results(source: Path) -> dict:
    """What is recorded for this chapter, by the experiment's name."""
    path = results_path(source)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def record(root: Path, number: str, wanted: Sequence[str] = ()) -> None:
    """Run the chapter's experiments of these names or claims (all) in full, and record them.

    The others run in their quick setting. An experiment that does not finish keeps its old record,
    and so does one that lacks something here, a GPU, say; that is a failure only if it was asked
    for by name. Runs that were finished before an interruption are not measured again. Where only
    the full settings have changed, to more seeds, say, the runs of the record are offered to the
    lab, which keeps them if they can be repeated.
    """
    sources = chapters(root, number)
    if not sources:
        raise BookError(f"no chapter with number {number!r} in {root / 'notebooks'}")
    [source] = sources
    experiments = declared(source)
    if not experiments:
        raise BookError(f"{source} has no experiment: nothing to record")
    known = {name for experiment in experiments for name in (experiment.name, experiment.claim)}
    if unknown := set(wanted) - known:
        raise BookError(
            f"{source} has the experiments {', '.join(e.name for e in experiments)}, "
            f"and not {', '.join(sorted(unknown))}"
        )
    chosen = [e for e in experiments if not wanted or {e.name, e.claim} & set(wanted)]
    old = read_results(source)
    for experiment in chosen:
        told = took(old.get(experiment.name, {}))
        print(f"{experiment.name} ({experiment.claim}): {told}", flush=True)
    scratch = _scratch(source, experiments)
    for experiment in chosen:
        _offer(scratch, experiment, old.get(experiment.name))
    variables = {
        "MINITORCH_BOOK": "full",
        "MINITORCH_CLAIMS": " ".join(wanted),
        "MINITORCH_RECORD": str(scratch),
        "MPLBACKEND": "Agg",
        "PYTHONUNBUFFERED": "1",
    }
    interrupted = False
    try:
        status = subprocess.call(
            [sys.executable, source.name], cwd=source.parent, env=os.environ | variables
        )
    except KeyboardInterrupt:
        interrupted = True
    finally:
        measured = {
            path.stem: json.loads(path.read_text(encoding="utf-8"))
            for path in scratch.glob("*.json")
        }
        lacking = {
            path.stem: path.read_text(encoding="utf-8") for path in scratch.glob("*.lacking")
        }
        _merge(source, experiments, measured)
        for name in measured:
            (scratch / f"{name}.jsonl").unlink(missing_ok=True)
        if not any(scratch.glob("*.jsonl")):
            shutil.rmtree(scratch)
    if interrupted:
        begun = [e.name for e in chosen if (scratch / f"{e.name}.jsonl").exists()]
        raise BookError(
            f"interrupted; recorded: {', '.join(measured) or 'nothing'}; "
            f"begun: {', '.join(begun) or 'nothing'}; the same command goes on where it was, "
            "unless the code changes"
        )
    for name, what in lacking.items():
        print(f"{name} in full needs {what}: not recorded")
    unfinished = [e.name for e in chosen if e.name not in measured]
    if not wanted:
        unfinished = [name for name in unfinished if name not in lacking]
    if status or unfinished:
        raise BookError(
            f"{source} ended with status {status}; recorded: {', '.join(measured) or 'nothing'}; "
            f"not recorded: {', '.join(unfinished) or 'nothing'}"
        )
    print(f"recorded {', '.join(measured) or 'nothing'} in {results_path(source)}")
    print(f"run: python book.py build {number}")


def took(record: dict) -> str:
    """How long it took to make a record."""
    if "seconds" not in record:
        return "not recorded so far"
    return f"took {_in_words(record['seconds'])} when last recorded"


def _in_words(seconds: float) -> str:
    """A time as one says it."""
    return f"{round(seconds / 60)} minutes" if seconds >= 120 else f"{round(seconds)} s"


def _scratch(source: Path, experiments: list[Declared]) -> Path:
    """The folder of what was begun; there only finished runs of the code as it is now are left."""
    folder = source.parent / "results" / f".unfinished-{number_of(source)}"
    folder.mkdir(parents=True, exist_ok=True)
    begun = folder / "code_hashes.txt"
    hashes = {f"{e.name} {e.run_hash}" for e in experiments}
    before = set(begun.read_text(encoding="utf-8").splitlines()) if begun.exists() else set()
    current = {line.split()[0] for line in hashes & before}
    for path in folder.iterdir():
        if path.suffix != ".jsonl" or path.stem not in current:
            path.unlink()
    write_text(begun, "\n".join(sorted(hashes)))
    return folder


def _offer(scratch: Path, experiment: Declared, record: dict | None) -> None:
    """Offer the lab the runs of a record of which only the full settings have changed."""
    same_run = record and record.get("run_hash") == experiment.run_hash
    if same_run and record["code_hash"] != experiment.code_hash:
        names = record["settings"].keys() - {"seeds"}
        rows = record["rows"] + record["tried"]
        seconds = record["seconds"] / len(rows)
        lines = [
            json.dumps([run_key({name: row[name] for name in names}, row["seed"]), row, seconds])
            for row in rows
        ]
        write_text(scratch / f"{experiment.name}.recorded", "\n".join(lines) + "\n")


def _merge(source: Path, experiments: list[Declared], measured: dict[str, dict]) -> None:
    if not measured:
        return
    old = read_results(source)
    about = {"machine": machine(), "versions": _versions(), "date": _today()}
    results = {}
    for experiment in experiments:
        name = experiment.name
        if name in measured:
            hashes = ("code_hash", "run_hash", "library_hash")
            results[name] = measured[name] | about | {key: vars(experiment)[key] for key in hashes}
        elif name in old:
            results[name] = old[name]
    write_text(results_path(source), _as_text(results))


def _as_text(results: dict[str, dict]) -> str:
    """The records as JSON, a line for each run."""
    lines: list[str] = []

    def kept(row: dict) -> str:
        lines.append(json.dumps(row, sort_keys=True, ensure_ascii=False))
        return f"@{len(lines) - 1}@"

    shortened = {
        name: record | {key: [*map(kept, record[key])] for key in ("rows", "tried")}
        for name, record in results.items()
    }
    text = json.dumps(shortened, indent=1, sort_keys=True, ensure_ascii=False)
    return re.sub(r'"@(\d+)@"', lambda found: lines[int(found[1])], text) + "\n"


def machine() -> dict:
    """What of the machine matters for speed and for digits, without the machine's name."""
    import numpy  # noqa: F401  loads its BLAS
    from threadpoolctl import threadpool_info

    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
        "blas": [
            f"{blas['internal_api']} {blas['version']}, {blas.get('architecture', 'unknown')}, "
            f"{blas['num_threads']} threads"
            for blas in threadpool_info()
            if blas["user_api"] == "blas"
        ],
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

    An experiment depends on its body, its full settings, and every top-level statement that binds a
    name which one of these uses. Comments and blank lines do not count. Of `from a import b as c`
    only `b as c` counts: the code of b is in no hash, so the module where it stands is in none
    either; what another chapter saved counts like the chapter's own. Nothing is executed.
    """
    code = Code(source)
    experiments = []
    for statement in code.tree.body:
        for call in getattr(statement, "decorator_list", []):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "experiment":
                options = {word.arg: word.value for word in call.keywords}
                where = f"{source}: experiment {statement.name}"
                if len(call.args) != 1 or not isinstance(call.args[0], ast.Constant):
                    raise BookError(f"{where} has no claim: write {_CALL}")
                if "full" not in options:
                    raise BookError(f"{where} has no full=dict(...): write {_CALL}")
                replaced = {"full", "lacks", *_keys(where, options["full"])}
                kept = {
                    f"{key} = {code.text_of(value)}"
                    for key, value in options.items()
                    if key not in replaced
                }
                body = code.segment(statement, decorated=False)
                pieces = code.closure({body, code.text_of(options["full"])} | kept)
                experiments.append(
                    Declared(
                        name=statement.name,
                        claim=call.args[0].value,
                        chapter=_chapter_of(code.tree, ast.unparse(call.func.value), where),
                        code_hash=digest(pieces),
                        run_hash=digest(code.closure({body})),
                        library_hash=library_hash(pieces),
                        anywhere="lacks" not in options,
                    )
                )
    return experiments


def _keys(where: str, settings: ast.expr) -> set[str]:
    """The names in dict(name=...); anything else is refused."""
    if isinstance(settings, ast.Call) and ast.unparse(settings.func) == "dict":
        return {word.arg for word in settings.keywords if word.arg}
    if isinstance(settings, ast.Dict) and not settings.keys:
        return set()
    raise BookError(f"{where} has full={ast.unparse(settings)}: write full=dict(name=value, ...)")


def _chapter_of(tree: ast.Module, lab: str, where: str) -> str:
    """The chapter that stands in lab = Lab("01")."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            if any(ast.unparse(target) == lab for target in statement.targets):
                return ast.literal_eval(statement.value.args[0])
    raise BookError(f'{where}: {lab} is not bound at the top level: write {lab} = Lab("NN")')
