"""Judge a program: run it in a fresh process for the time of a league, and measure what came out.

A program is a file of at most 200 lines that defines ::

    def train(text, letters, seed, clock):
        ...
        return predict

``text`` is what it may learn from, ``letters`` all letters that there are, in order: the letter
``letters[i]`` has the number i. ``for done in clock:`` runs through the time, a training step for
each ``done``, the share of it that is used. ``predict(numbers)`` gets windows of letters, an array
(B, n), and gives, for each place, the log-probability of every letter to come next, from what
stands up to there: (B, n, V).

The rules. Python, NumPy and minitorch, one thread, no other module, file, process or network. Lines
count that hold more than a comment, and are at most 100 characters long. Training is all that
happens until ``train`` returns. The seed is drawn when the race begins. The held-out text comes
into the process when training is over.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import secrets
import subprocess
import sys
import tempfile
import tokenize
from datetime import UTC, datetime
from os import environ
from pathlib import Path

from textbook.race.measure import RaceError, parts

LINES, WIDTH = 200, 100
LATE = 1.05  # the share of its time that a program may take: the last step ends a little later
# Modules of Python's own that lead to other files, programs and machines.
OUTSIDE = {"asyncio", "ctypes", "http", "multiprocessing", "os", "pathlib", "shutil", "socket"}
OUTSIDE |= {"subprocess", "threading", "urllib"}
ALLOWED = (set(sys.stdlib_module_names) - OUTSIDE) | {"minitorch", "numpy"}
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT}
NO_CODE |= {tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}


def lines_of(program: str) -> int:
    """The lines that hold more than a comment; a text of several lines counts with all of them."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(program).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines)


def refuse_program(program: str) -> None:
    """RaceError if the program may not race; it says which rule it breaks, and where."""
    try:
        tree = ast.parse(program)
    except SyntaxError as error:
        raise RaceError(f"line {error.lineno} is no Python: {error.msg}") from None
    if lines_of(program) > LINES:
        raise RaceError(f"at most {LINES} lines may hold code, here {lines_of(program)} do")
    for number, line in enumerate(program.splitlines(), start=1):
        if len(line) > WIDTH:
            raise RaceError(f"line {number} has {len(line)} characters, at most {WIDTH} may stand")
    for node in ast.walk(tree):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or "."]
        for module in modules:
            if module.split(".")[0] not in ALLOWED:
                raise RaceError(
                    f"line {node.lineno} imports {module}: a program may use NumPy, minitorch, "
                    "and of Python what stays within the process"
                )
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    expected = ["text", "letters", "seed", "clock"]
    if [a.arg for f in functions if f.name == "train" for a in f.args.args] != expected:
        raise RaceError(f"a program defines train({', '.join(expected)}); this one does not")


def judge(path: Path, league: float, text: str, folder: Path) -> dict:
    """Race the program, and write the result into the folder, a file of its own; returns it.

    The file is called by program, league, a hash of the program, and seed: none is written twice.
    RaceError says why there is no result.
    """
    try:
        program = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RaceError(f"{path} cannot be read: {error}") from None
    refuse_program(program)
    seed = secrets.randbelow(2**31)
    found = _in_a_fresh_process(path.resolve(), league, seed, text)
    if found["seconds"] > LATE * league:
        raise RaceError(
            f"training took {found['seconds']:.1f} of {league:g} seconds: ask the clock before "
            "each step (for done in clock), and return when it ends"
        )
    code = hashlib.sha256(program.encode()).hexdigest()[:8]
    result = {"program": path.stem, "code": code, "lines": lines_of(program), "league": league}
    result |= {"seed": seed} | found | {"date": datetime.now(UTC).date().isoformat()}
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{path.stem}-{league:g}s-{code}-{seed}.json"
    unfinished = folder / (name + ".part")
    unfinished.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(folder / name)
    return result


def _in_a_fresh_process(path: Path, league: float, seed: int, text: str) -> dict:
    cut = parts(text)
    given = [
        {"letters": cut.letters, "text": cut.training},
        {"open": cut.open, "closed": cut.closed},
    ]
    variables = {"PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    variables["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])  # of the book itself
    with tempfile.TemporaryDirectory() as empty:
        out = Path(empty, "result.json")
        command = [sys.executable, "-m", "textbook.race.inside", path, league, seed, out]
        try:
            status = subprocess.run(
                [str(part) for part in command],
                cwd=empty,
                input="\n".join(map(json.dumps, given)) + "\n",
                text=True,
                encoding="utf-8",
                env=environ | variables,
                timeout=60 + 20 * league,
            ).returncode
        except subprocess.TimeoutExpired:
            raise RaceError(
                f"no end after {60 + 20 * league:g} seconds by the clock on the wall: the loop "
                "must be `for done in clock:`"
            ) from None
        if not out.exists():
            raise RaceError(f"the process ended with status {status}: out of memory, or stopped")
        found = json.loads(out.read_text(encoding="utf-8"))
    if "error" in found:
        raise RaceError(found["error"])
    return found
