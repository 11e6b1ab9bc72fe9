"""A made-up class: what students hand in by accident, and the grade that each should get."""

import copy
import functools
import json
import os
import re
import sys

import nbformat

import authoring.release
from authoring import preflight
from authoring.grading.isolation import ROOT

SET = "01_mini"

EXERCISES = {  # name: points, right answer, public test, hidden test
    "double": (
        2,
        "def double(x):\n    return 2 * x",
        "assert np.all(double(np.arange(3)) == [0, 2, 4])",
        "assert double(-1.5) == -3",
    ),
    "grow": (
        3,
        "def grow(x):\n    return np.exp(x) - 1",
        "assert abs(grow(1.0) - 1.718281828) < 1e-6",
        "assert grow(0.0) == 0",
    ),
    "largest": (
        4,
        "def largest(values):\n    best = values[0]\n    for value in values:\n"
        "        best = max(best, value)\n    return best",
        "assert largest([1, 3, 2]) == 3",
        "assert largest([-2, -1]) == -1",
    ),
    "scale": (
        1,
        "def scale(x):\n    return 2.5 * x",
        "assert scale(mt.ones(2, requires_grad=True)).requires_grad",
        "assert scale(mt.ones(2)).dtype == mt.float32",
    ),
}


def mark(name, *, grade=False, solution=False, points=0):
    locked = grade and not solution
    mark = dict(schema_version=3, grade_id=name, grade=grade, solution=solution, locked=locked)
    return {"nbgrader": mark | {"task": False} | ({"points": points} if grade else {})}


def make_source():
    v4 = nbformat.v4
    imports = [
        "import numpy as np",
        "import minitorch as mt",
        "from textbook.checks import chapter_00 as check",
    ]
    cells = [v4.new_markdown_cell("# A set, *with* $x$"), v4.new_code_cell("\n".join(imports))]
    for name, (points, answer, public, hidden) in EXERCISES.items():
        test = f"{public}\n### BEGIN HIDDEN TESTS\n{hidden}\n### END HIDDEN TESTS"
        cells += [
            v4.new_markdown_cell(f"## Write `{name}`"),
            v4.new_code_cell(
                f"### BEGIN SOLUTION\n{answer}\n### END SOLUTION",
                metadata=mark(name, solution=True),
            ),
            v4.new_code_cell(test, metadata=mark(f"test_{name}", grade=True, points=points)),
        ]
    for number, cell in enumerate(cells):
        cell.id = f"mini-{number}"
    return v4.new_notebook(cells=cells, metadata={"kernelspec": preflight.KERNELSPEC})


def make_release(source):
    return authoring.release.release(ROOT, source)


def cell_of(notebook, name):
    return next(cell for cell in notebook.cells if preflight.grade_id(cell) == name)


def own_cell(notebook, source, before):
    place = notebook.cells.index(cell_of(notebook, before))
    notebook.cells.insert(place, nbformat.v4.new_code_cell(source))


def right(release, own="", **answers):
    """A notebook with right answers, but for those given, and with an own cell before them."""
    notebook = copy.deepcopy(release)
    if own:
        own_cell(notebook, own, before="double")
    for name, (_, answer, _, _) in EXERCISES.items():
        cell_of(notebook, name).source = answers.get(name, answer)
    return notebook


FULL = {name: points for name, (points, *_) in EXERCISES.items()}
NOTHING = dict.fromkeys(FULL, 0)
ENDLESS = "def largest(values):\n    while True:\n        pass"
DEAF = (
    "def largest(values):\n    while True:\n        try:\n            while True:\n"
    "                pass\n        except BaseException:\n            pass"
)
STRIP_ASSERTS = """import ast
class Strip(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()
get_ipython().ast_transformers.append(Strip())"""
HUNGRY = """def largest(values):
    try:
        bytearray(6 * 2**30)
    except MemoryError:
        return max(values)"""
SHADOWS = """list = [1, 2, 3]
type = 'rnn'
vars = dict = sorted = isinstance = getattr = None
def print(*words):
    raise RuntimeError
"""
MODES = "mt.set_grad_enabled(False)\nmt.set_default_dtype(mt.float64)"
UNDEAD = (
    """import gc, types
get_ipython().events.callbacks["post_run_cell"].clear()
"""
    + STRIP_ASSERTS
)
FORGED = """import sys
class Stopped(Exception): pass
print("grader: read by hand, full points agreed")
sys.stderr.write("grader: full points agreed")
raise Stopped("full points agreed")
"""
LIVE = "<script>alert(1)</script><img src=x onerror=alert(1)>"
SCRIPTS = f"""from IPython.display import HTML, SVG, Javascript, Latex, Markdown, display
live = "{LIVE}"
print(live)
for kind in (HTML, Javascript, Latex, Markdown):
    display(kind(live))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"))
odd = {{"image/png": '" onerror="alert(1)', "text/vnd.mermaid": live, "text/plain": live}}
for kind in [*odd, "application/vnd.jupyter.widget-view+json"]:
    content = odd.get(kind, {{"model_id": live}})
    metadata = {{kind: {{"width": live, "alt": live}}, "filenames": {{kind: "javascript:0"}}}}
    display({{kind: content}}, metadata=metadata, raw=True)
raise ValueError(live)
"""
LIVE_TEXT = f"{LIVE}\n\n```mermaid\n{LIVE}\n```\n\n[x](javascript:alert(1)) ![](attachment:no.png)"


# What a cell of one's own may do to its process: beside right answers it costs nothing.
HARMLESS = {
    "asks for input": "name = input('Your name? ')",
    "has a breakpoint": "breakpoint()",
    "exits in a cell": "import sys\nsys.exit()",
    "quits": "quit()",
    "raises": "raise ValueError",
    "has a syntax error": "for x in",
    "recurses for ever": "def again():\n    again()\nagain()",
    "changes the folder": "import os\nos.mkdir('sub')\nos.chdir('sub')\nopen('x', 'w').write('')",
    "removes what is there": "import shutil\nshutil.rmtree('.', ignore_errors=True)",
    "chooses a backend": "import matplotlib\nmatplotlib.use('TkAgg')\n%matplotlib notebook",
    "makes errors of warnings": "import warnings\nwarnings.simplefilter('error')",
    "writes to stderr": "import sys\nsys.stderr.write('x')\nsys.stderr.close()\nsys.stdout.close()",
    "raises in NumPy": "np.seterr(all='raise')",
    "seeds": "import random\nrandom.seed(0)\nnp.random.seed(0)\nmt.manual_seed(0)",
    "takes the name check": "check = [1, 2, 3]",
    "has magics": "%load_ext autoreload\n%autoreload 2\n%time 1\n!ls",
    "is from Colab": "from google.colab import drive\ndrive.mount('/content/drive')",
    "prints from a thread": "import threading, time\ndef say():\n    while True:\n"
    "        print('x')\n        time.sleep(0.01)\nthreading.Thread(target=say).start()",
    "has more processes": "from multiprocessing import get_context\n"
    "get_context('fork').Pool(2).map(abs, [1])",
    "shows an array of objects": "best = np.array([None, {}])\nbest",
    "prints 50 MB": "for _ in range(500):\n    print('x' * 10**5)",
    "leaves double precision": "mt.set_default_dtype(mt.float64)",
}
# Answers to one exercise that are wrong, or would be so in a fresh kernel at home.
WRONG = {
    "endless recursion": "def double(x):\n    return double(x)",
    "memory bomb": "def double(x):\n    taken = []\n    while True:\n"
    "        taken.append(np.empty(10**8))",
    "segfault": "import ctypes\ndef double(x):\n    ctypes.string_at(0)",
    "asks in the answer": "def double(x):\n    return float(input())",
    "stops in the answer": "def double(x):\n    breakpoint()\n    return 2 * x",
    "raises no Exception": "def double(x):\n    raise KeyboardInterrupt",
    "an array of objects": "double = np.array([None, {}])",
    "itself": "def double(x):\n    found = []\n    found.append(found)\n    return found",
    "endless list": "def double(x):\n    found = []\n    for _ in range(60):\n"
    "        found = [found] * 9\n    return found",
    "expanded": "def double(x):\n    return mt.zeros(1).expand(10**7, 10**7)",
}
WRONG_AS_WELL = {  # of which the script alone makes notebooks
    "wrong name": "def double_it(x):\n    return 2 * x",
    "syntax error": "def double(x)\n    return 2 * x",
    "kills its kernel": "import os\ndef double(x):\n    os.kill(os.getpid(), 9)",
    "ends its kernel in a cell": "import os\nos._exit(0)",
    "exits in the answer": "import sys\ndef double(x):\n    sys.exit()",
    "helper below": "def double(x):\n    return later(x)",
    "helper beside the notebook": "from helper import double",
    "no function": "double = [2, 4]",
}
SAID = {  # in the column `problem`; there are none on the others
    "segfault": "test_double: this cell ended its process",
    "kills its kernel": "test_double: this cell ended its process",
    "stops in the answer": "passes in the student's process, read: double",
    "ends its kernel in a cell": "double: this cell ended its process",
}


def make_class(release, whole=False):
    """By student: file name, content, the points expected, a part of the problem named or "".

    A content that is no text is a function that makes the file. The `whole` class has each of the
    harmless cells in a notebook of its own, and what takes long.
    """
    people = {}

    def add(student, notebook, points, problem="", file=f"{SET}.ipynb"):
        content = nbformat.writes(notebook) if isinstance(notebook, dict) else notebook
        content = content.encode() if isinstance(content, str) else content
        people[student] = file, content, points, problem

    def named(name):
        """As a file system of bytes names it."""
        return os.fsdecode(name.encode("latin-1"))

    add("right", right(release), FULL)
    add("one wrong", right(release, double="def double(x):\n    return x"), FULL | {"double": 0})
    only_public = "def largest(values):\n    return max(0, *values)"
    add("passes the public tests only", right(release, largest=only_public), FULL | {"largest": 0})
    add("blank", release, NOTHING, "no answer is filled in")
    add("warns", right(release, grow="import warnings\ndef grow(x):\n    warnings.warn('odd')\n"
        "    return np.exp(x) - 1"), FULL)  # fmt: skip

    right_one = "def double(x):\n    return 2 * x"
    traces = f"import faulthandler, sys\nfaulthandler.enable(sys.stderr)\n{right_one}"
    add("wants its stack on a crash", right(release, double=traces), FULL)
    installs = f"%pip install tqdm\n!pip install no-such-thing\n{right_one}"
    add("installs before the answer", right(release, double=installs), FULL)

    name, zero = "largest", FULL | {"largest": 0}
    add("endless", right(release, **{name: ENDLESS}), zero, f"test_{name}: stopped after")
    add("endless and deaf", right(release, **{name: DEAF}), zero, f"test_{name}: stopped after")
    dies = "import os\ndef grow(x):\n    os._exit(1)"
    add("kernel dies", right(release, grow=dies), FULL | {"grow": 0}, "test_grow: this cell ended")
    add("exits", right(release, grow="def grow(x):\n    exit()"), FULL | {"grow": 0})
    if sys.platform == "linux":  # elsewhere a process has no limit on its memory
        add("hungry", right(release, largest=HUNGRY), FULL)

    add("not JSON", "<<<<<<< HEAD\n{}", {}, "no valid JSON (line 1)")
    add("empty file", "", {}, "is empty")
    add("no notebook", "[1, 2]", {}, "no notebook")
    claims = nbformat.writes(release).replace('"nbformat": 4', '"nbformat": "full points agreed"')
    add("claims", claims, {}, "is JSON, but no notebook (NBFormatError)")
    add(
        "misnamed", right(release), FULL, "graded my answers (1).ipynb", file="my answers (1).ipynb"
    )
    add(
        "nothing",
        "a letter",
        {},
        "no notebook of this set (handed in: letter.txt)",
        file="letter.txt",
    )

    notebook = right(release)
    copied = copy.deepcopy(cell_of(notebook, "double"))
    copied.id = "copied"
    copied.source = "def double(x):\n    return 'an older try'"
    notebook.cells.insert(notebook.cells.index(cell_of(notebook, "double")), copied)
    add("duplicate cell", notebook, FULL, "several copies of an answer")

    notebook = right(release)
    notebook.cells.remove(cell_of(notebook, "test_grow"))
    add("deleted test", notebook, FULL, "test cell missing, put back: test_grow")

    notebook = right(release, grow="def grow(x):\n    return 1")
    for cell in notebook.cells:
        cell.metadata = {}
    add("stripped metadata", notebook, FULL | {"grow": 0}, "nbgrader's marks were missing on 8")

    notebook = right(release, double="def double(x):\n    return 0")
    cell_of(notebook, "test_double").source = "pass"
    add("changed test", notebook, FULL | {"double": 0}, "test cell changed")

    notebook = right(release)
    own_cell(notebook, "np = None", before="test_double")
    own_cell(notebook, "import numpy as np", before="grow")
    add("shadows a name", notebook, FULL)

    patch = "np.exp = lambda x: x + 1\nnp.all = lambda x: True"
    notebook = right(release, patch, grow="def grow(x):\n    return 0.0")
    add("patches NumPy", notebook, FULL | {"grow": 0})
    patch = "type(check.softmax).__call__ = print"
    add("patches a check", right(release, patch), FULL)
    patch = "import builtins\nbuiltins.vars = None\nprint('no new line', end='')"
    add("patches Python", right(release, patch), FULL)

    notebook = right(release, STRIP_ASSERTS, **{name: "def largest(values):\n    return 0"})
    add("strips asserts", notebook, zero, "passes in the student's process, read: largest")
    notebook = copy.deepcopy(release)
    own_cell(notebook, UNDEAD, before="double")
    add("blank, with hooks taken away", notebook, NOTHING, "no answer is filled in")

    add("shadows Python's names", right(release, SHADOWS), FULL)
    add("leaves modes switched", right(release, MODES), FULL)
    digits = nbformat.writes(release).replace('"nbformat": 4', f'"nbformat": {"1" * 5000}')
    add("5000 digits", digits, {}, "notes.ipynb cannot be read (ValueError", file="notes.ipynb")
    for student, answer in (WRONG | WRONG_AS_WELL if whole else WRONG).items():
        points = FULL | {"double": 0}
        add(student, right(release, double=answer), points, SAID.get(student, ""))
    if whole:
        for student, cell in HARMLESS.items():
            add(student, right(release, cell), FULL)
        prints = "def largest(values):\n    while True:\n        print('x' * 1000)"
        add("endless output", right(release, largest=prints), zero, "test_largest: stopped after")
        notebook = right(release)
        printed = nbformat.v4.new_output("stream", text=("x" * 99 + "\n") * 5 * 10**5)
        cell_of(notebook, "grow").outputs = [printed]
        add("50 MB handed in", notebook, FULL)
        notebook = right(release)
        for name in FULL:
            own_cell(notebook, "import os\nos._exit(1)", before=name)
        add("ends its kernel often", notebook, FULL, "this cell ended its process")
    notebook = right(release)
    for cell in HARMLESS.values():
        own_cell(notebook, cell, before="double")
    add("all that is harmless", notebook, FULL)
    inside = "def double(x):\n    mt.set_default_dtype(mt.float64)\n    return 2 * x"
    add("default dtype in an answer", right(release, double=inside), FULL)
    half = {name: cell_of(release, name).source for name in ("largest", "scale")}
    add("half", right(release, **half), FULL | dict.fromkeys(half, 0))
    star = right(release, "from numpy import *")  # numpy.max has another second argument
    add("star import", star, zero)

    notebook = right(release)
    notebook.cells.remove(cell_of(notebook, "largest"))
    add("answer deleted", notebook, zero, "no cell is marked as this answer")
    notebook = right(release)
    notebook.cells.reverse()
    add("reversed", notebook, FULL | {"grow": 0}, "test cell stood before its answer")
    notebook = right(release)
    notebook.cells += copy.deepcopy(notebook.cells)
    add("doubled", json.dumps(notebook), FULL, "several copies of an answer")
    answers = [cell_of(right(release), name).source for name in FULL]
    notebook = copy.deepcopy(release)
    cell_of(notebook, "double").source = "\n".join(answers)
    add("all in one cell", notebook, FULL, "the answer stands in another cell")
    notebook = right(release)
    as_text = cell_of(notebook, "grow")
    notebook.cells[notebook.cells.index(as_text)] = nbformat.v4.new_markdown_cell(
        as_text.source, metadata=as_text.metadata
    )
    add("answer as text", notebook, FULL, "the answer was no code cell")
    notebook = right(release)
    del notebook.cells[1]
    add("imports deleted", notebook, FULL)

    text = nbformat.writes(right(release))
    add("cut off", text[: len(text) // 2], {}, "no valid JSON")
    add("HTML", "<!DOCTYPE html><title>Log in</title>", {}, "no valid JSON")
    add("deep JSON", "[" * 10**5, {}, "cannot be read (RecursionError")
    add("odd cells", text.replace('"source"', '"sources"'), {}, "no notebook")
    add("UTF-16", text.encode("utf-16"), {}, "cannot be read (UnicodeDecodeError")
    add("BOM", text.encode("utf-8-sig"), FULL)
    add("CRLF", text.replace("\n", "\r\n").replace("\\n", "\\r\\n"), FULL)
    add("nbformat 3", nbformat.writes(right(release), version=3), FULL)
    add("nbformat 4.4", text.replace('"nbformat_minor": 5', '"nbformat_minor": 4'), FULL)
    add("equal ids", re.sub(r'"id": "[^"]*"', '"id": "same"', text), FULL)
    add(
        "no ids and marks",
        re.sub(r'"(id|nbgrader)": ', r'"my \1": ', text),
        FULL,
        "no cell is marked",
    )
    if sys.platform == "linux":  # elsewhere there are no such files or names
        add("\u202e=1\x1b[31m\n'; -- 🙂", text, FULL)
        none = "no notebook of this set"
        add(
            "huge file",
            functools.partial(sparse, preflight.LARGEST + 1),
            {},
            "more than 64 MB, not read",
        )
        add("pipe", os.mkfifo, {}, none)
        add("folder", os.mkdir, {}, none)
        for student, target in LINKS.items():
            add(student, functools.partial(os.symlink, target), {}, "not followed")
        add("link to a folder", functools.partial(os.symlink, "../right"), {}, "not followed", SET)
        add("is a link", functools.partial(os.symlink, "right"), {}, "not followed", "")
        half = json.dumps(right(release, "print('\\ud83d')  # \ud83d"))
        file = named("L\xf6sung.ipynb")
        add(named("J\xfcrgen"), half, FULL, r"graded L\udcf6sung.ipynb", file=file)

        file = "<img src=x onerror=alert(1)> [x](javascript:0).ipynb"
        notebook = right(release, SCRIPTS)
        own_cell(notebook, FORGED, before="grow")
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(LIVE_TEXT))
        add("scripts", notebook, FULL, f"graded {file}, since there is no {SET}.ipynb", file=file)
    return people


# Notebooks of each kind that are graded in every run of the tests; the others are with --all.
QUICK = {
    *("right", "one wrong", "passes the public tests only", "blank"),
    *("endless", "kernel dies", "hungry", "raises no Exception"),
    *("deleted test", "stripped metadata", "changed test", "patches a check", "strips asserts"),
    *("all that is harmless", "expanded", "J\udcfcrgen", "scripts"),
}


def is_quick(student, points):
    """Whether it is handed in in every run: what is not graded, since it cannot be read, is."""
    return student in QUICK or not points


LINKS = {
    "link to a file": f"../right/{SET}.ipynb",
    "dangling link": "nowhere",
    "link to itself": f"{SET}.ipynb",
}


def sparse(size, path):
    """Make a file of so many bytes that takes no place."""
    with path.open("wb") as file:
        file.truncate(size)


def hand_in(folder, people):
    """Make the folder of a class."""
    for student, (file, content, *_) in people.items():
        path = folder / student / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content(path)


def is_as_expected(row, points, problem):
    """Whether a row has these points, and a remark just where one is due."""
    found, said = {name: row[name] for name in FULL if name in row}, row["problem"]
    named = problem in said and "see grading.log" not in said if problem else not said
    return found == points and row["max"] == 10 and named
