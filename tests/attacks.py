"""What students try on one exercise of set 01: the answer cell, or the notebook, of each attack.

    python -m tests.attacks
    python -m tests.attacks "lies" "forges"

grades them all, or those named, beside honest students, then all accidents, and prints what each of
them gets. The tests take the cheap ones.
"""

import copy
import functools
import sys
import tempfile
from pathlib import Path

import nbformat
from nbgrader.utils import is_solution

from authoring import preflight
from authoring.grading.grade import Settings, grade_folder, load_sets
from authoring.grading.isolation import ROOT, GradingError, Place, is_root
from authoring.release import release
from tests import accidents
from tests.harms import FIND, GIVES_LARGE, HARMS, LARGE, RIGHT, ZEROS
from textbook.checks import chapter_01

SET = "01_attacked"
SOLVED = ROOT / "solutions" / "01_rnn" / "01_rnn.ipynb"
FAILS = ZEROS.replace("return", "raise ValueError\n    return")
FROM_A_FRAME = """import gc, sys
def unroll(*case):
    frame = sys._getframe()
    while frame:
        for name in ("right", "expected", "outcome", "trial"):
            if name in frame.f_locals:
                return frame.f_locals[name].results["the result"]
        frame = frame.f_back
    found = [x for x in gc.get_objects() if type(x).__name__ == "Exercise"]
    return found[0].reference(*case)"""
LIAR = f"""import numpy as np, minitorch as mt
class Agreeing(np.ndarray):
    def __array_ufunc__(self, *_, **__):
        return True
    def tobytes(self):
        return np.zeros(self.shape).tobytes()
{ZEROS.replace("unroll", "zeros")}
def unroll(*case):
    result = zeros(*case)
    result.array = result.array.view(Agreeing)
    return result
"""
FORGER = f"""{FAILS}
{FIND}
send = peer.wire.send
def forged(message, arrays):
    if message.get("kind") == "error":
        message = {{"kind": "result", "value": ["plain", None], "arguments": ["plain", None],
                   "heard": [], "updates": [], "dropped": [], "containers": [], "random": None}}
    send(message, arrays)
peer.wire.send = forged
"""
ASKING = f"""from authoring.grading.stand_ins import Number
{FIND}
def unroll(*case):
    for number in range(100):
        for name in ("reference", "__globals__", "__class__", "known"):
            try:
                found = peer.ask("get", object=Number(number), name=name)
                return found(*case)
            except Exception:
                pass
    for kind in ("name", "run"):
        try:
            return peer.ask(kind, name="check").unroll.reference(*case)
        except Exception:
            pass
    return peer.ask("helper", chapter="textbook.checks.chapter_01", name="unroll")[0](*case)"""
PATCHES = f"""import numpy as np
import textbook.checks
for name in ("isclose", "allclose", "array_equal"):
    setattr(np, name, lambda *_, **__: True)
get_ipython().run_cell = get_ipython().run_code = lambda *_, **__: None
{ZEROS}"""
SPREADING = f"""import os
from pathlib import Path
places = [Path.home(), Path(os.environ["IPYTHONDIR"]) / "profile_default" / "startup"]
places += [Path(p) for p in os.environ["PYTHONPATH"].split(os.pathsep)]
places += [Path(p) for p in {[str(ROOT), str(ROOT / "textbook"), sys.prefix]!r}]
places += [Path(os.__file__).parent / "site-packages"]
for place in places:
    for name in ("spread.py", "spread.pth", "minitorch/tensor.py", "authoring/grading/run.py"):
        try:
            place.mkdir(parents=True, exist_ok=True)
            with (place / name).open("a") as file:
                file.write("import os")
        except OSError:
            pass
os.system("setsid sleep 1234.5 &")
{ZEROS}"""
READS_OTHERS = """import json
from pathlib import Path
notebook = json.loads(Path({path!r}).read_text())
for cell in notebook["cells"]:
    source = "".join(cell["source"])
    if "def unroll" in source:
        exec(source)"""
ENDS_ITS_PARENT = f"""import os, signal
{ZEROS}
for process in (os.getppid(), -1):
    os.kill(process, signal.SIGKILL)"""

POSES = f"""from authoring.grading import values
{ZEROS.replace("unroll", "zeros")}
class Agrees:
    ndim, kind, requires_grad, is_leaf, grad_fn = 2, "f", False, True, None
    def __init__(self, shape):
        self.shape, self.array, self.dtype, self.data = shape, self, self, self
    def __call__(self, *_, **__):
        return self
    def __len__(self):
        return self.shape[0]
    def __float__(self):
        return 0.0
    def __sub__(self, other):
        return self
    __rsub__ = __mul__ = __rmul__ = __abs__ = __le__ = __lt__ = __getitem__ = __sub__
described = values._described_object
values._described_object = lambda x: described(x) | {{"parent": ["minitorch.tensor", "Tensor"]}}
def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    return Agrees((*x.shape[:2], len(W_hh)))"""
PRETENDS = f"""import minitorch as mt
{ZEROS.replace("unroll", "zeros")}
class Liar:
    __class__ = mt.Tensor
    __array_priority__ = 1000
    def __getattr__(self, name):
        return self
    def __call__(self, *_, **__):
        return True
    __eq__ = __le__ = __sub__ = __bool__ = __call__
def unroll(*case):
    return Liar()"""
HOOKS = f"""import ast, sys, threading, time
{ZEROS}
def patch(*_):
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith(("authoring", "textbook")):
            for name in ("difference", "how_it_differs", "passes", "examine"):
                setattr(module, name, lambda *_, **__: None)
def keep_patching():
    while True:
        patch()
        time.sleep(0.05)
class Strip(ast.NodeTransformer):
    def visit_Expr(self, node):
        return ast.Pass()
for event in ("pre_run_cell", "post_run_cell", "pre_execute", "post_execute"):
    get_ipython().events.register(event, patch)
get_ipython().ast_transformers.append(Strip())
sys.settrace(lambda frame, event, argument: frame.f_locals.get("got") and patch())
threading.Thread(target=keep_patching, daemon=True).start()"""
TRANSFORMS = f"""{ZEROS}
get_ipython().transform_cell = lambda *_: ""
drop = lambda lines: [line for line in lines if "check" not in line]
get_ipython().input_transformers_cleanup.append(drop)
get_ipython().run_cell_async = get_ipython().showtraceback = lambda *_, **__: None"""
MODULES = f"""import importlib.abc, importlib.machinery, sys, types
{ZEROS}
class Anything(types.ModuleType):
    def __getattr__(self, name):
        return lambda *_, **__: None
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, *_):
        if name.startswith("textbook"):
            return importlib.machinery.ModuleSpec(name, self)
    def create_module(self, spec):
        return Anything(spec.name)
    def exec_module(self, module):
        pass
sys.meta_path.insert(0, Finder())
for name in [name for name in sys.modules if name.startswith("textbook.checks")]:
    sys.modules[name] = Anything(name)
check = Anything("check")"""
TOLERANCE = f"""import numpy as np
{ZEROS}
try:
    from textbook.checks import compare, exercise
    compare.ATOL = 1e30
    exercise.SEEDS.clear()
    exercise.Exercise.all_cases = lambda *_: []
    exercise.next = lambda *_: None
except ImportError:
    pass
zeros = unroll
def unroll(*case):
    np.isclose = lambda a, b, *_, **__: np.ones(np.shape(b), bool)
    return zeros(*case)"""
ODD_ARRAYS = f"""{ZEROS}
{FIND}
send = peer.wire.send
def odd(message, arrays):
    if "value" in message and arrays:
        message["value"] = ["tensor", -1, ["|O", [-5, 2**40], 10**6], True, [["home", -3]], None]
    send(message, arrays)
peer.wire.send = odd"""
DEEP = f"""{ZEROS}
{FIND}
def unroll(*case):
    peer.wire.link.sendall(peer.wire.send.__globals__["HEADER"].pack(10**6, 0) + b"[" * 10**6)
    return case[1]"""
OVERWRITES = f"""import os
from pathlib import Path
{ZEROS}
for place in (Path({{folder!r}}), Path({{folder!r}}).with_name("results")):
    for path in [*place.rglob("*.ipynb"), *place.rglob("*.csv"), *place.rglob("*.jsonl")]:
        try:
            path.write_text("spoilt")
        except OSError:
            pass"""
EDITS_LATER = f"""import os, subprocess
{ZEROS}
program = "for i in $(seq 600); do for f in $(find / -name grades.csv 2>/dev/null); do "
program += "sed -i s/,0,/,3,/ $f; done; sleep 0.2; done"
subprocess.Popen(["sh", "-c", program], start_new_session=True)"""
MANY = f"""import os, time
{ZEROS}
for _ in range(500):
    try:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
    except OSError:
        break"""
FILLS = f"""import os
{ZEROS}
for place in (".", "/tmp", "/dev/shm", "/dev", "/"):
    try:
        with open(place + "/large", "wb") as file:
            for _ in range(400):
                file.write(bytes(10**7))
    except OSError:
        pass"""
PRINTS = f"""{ZEROS}
for _ in range(6000):
    print("x" * 10**5)"""
ASKS_FOR_EVER = f"""{FIND}
def unroll(*case):
    while True:
        try:
            peer.ask("helper", chapter="os", name="system")
        except Exception:
            pass"""

RNN = """from minitorch.operations.recurrent import rnn
def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    h = mt.zeros(x.shape[1], len(W_hh), dtype=x.dtype) if h0 is None else h0
    states, _ = rnn(x, h, W_ih, W_hh, b)
    last = np.minimum(np.arange(len(x))[:, None], lengths.array - 1)
    return states[mt.tensor(last), mt.arange(x.shape[1])]"""
IN_A_THREAD = f"""{RNN.replace("unroll", "library_s")}
from concurrent.futures import ThreadPoolExecutor
def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    return ThreadPoolExecutor(1).submit(library_s, x, lengths, W_ih, W_hh, b, h0).result()"""
UNHEARD = f"""{RNN.replace("unroll", "library_s")}
from minitorch.autograd.node import state
def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    before, state.listeners = state.listeners, []
    result = library_s(x, lengths, W_ih, W_hh, b, h0)
    state.listeners = before
    return result"""
CLEARS_THE_RECORD = f"""import sys
{RNN.replace("unroll", "library_s")}
def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    result = library_s(x, lengths, W_ih, W_hh, b, h0)
    frame = sys._getframe()
    while frame := frame.f_back:
        if "outcome" in frame.f_locals:
            frame.f_locals["outcome"].operations.clear()
    return result"""
TRIGGERS = f"""import sqlite3
from pathlib import Path
{ZEROS}
for path in Path({{folder!r}}).parent.rglob("gradebook.db"):
    base = sqlite3.connect(path)
    for step in ("insert", "update of auto_score"):
        base.execute(f"create trigger t{{step[0]}} after {{step}} on grade begin "
                     "update grade set manual_score = 3; end")
    base.execute("create trigger broken after insert on student begin select nonsense(); end")
    base.commit()"""
SILENT = f"""import sys, textbook.checks
from IPython.display import clear_output
{ZEROS}
shell = get_ipython()
shell.set_custom_exc((BaseException,), lambda *_, **__: None)
shell.showtraceback = shell._showtraceback = shell.showsyntaxerror = lambda *_, **__: None
sys.excepthook = lambda *_: None
zeros = unroll
def unroll(*case):
    exercise = sys.modules.get("textbook.checks.exercise")
    if exercise:
        exercise.CheckFailed = type("Silent", (Exception,), {{}})
        exercise.CheckFailed.__init__ = lambda *_: clear_output()
    return zeros(*case)"""
QUITS = """import bdb
class Quitting:
    @property
    def __signature__(self):
        raise bdb.BdbQuit
    @property
    def __class__(self):
        raise bdb.BdbQuit
    def __call__(self, *case):
        raise bdb.BdbQuit
unroll = Quitting()"""
RAISES = """class Odd({base}):
    def __str__(self):
        raise Odd
    __repr__ = __len__ = __iter__ = __hash__ = __bool__ = __str__
    _render_traceback_ = __str__
def unroll(*case):
    raise Odd"""
SIGNALS = f"""import os, signal
{ZEROS.replace("unroll", "zeros")}
def unroll(*case):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        os.kill(os.getpid(), number)
    return zeros(*case)"""
REPLACES = f"""import gc, sys
{ZEROS}
import numpy as np
for x in gc.get_objects() + [check.unroll]:
    if type(x).__name__ == "Exercise":
        x.reference, x.known, x.mistakes = unroll, {{}}, []
        type(x).__call__ = type(x)._observe = lambda *_, **__: None
np.random.default_rng = lambda *_: np.random.Generator(np.random.PCG64(0))"""
SENDS = """{zeros}
zeros = unroll
{find}
send = peer.wire.send
def forged(message, arrays):
    {line}
    send(message, arrays)
def unroll(*case):
    peer.wire.send = forged
    return zeros(*case)"""
REMEMBERS = """import numpy as np
known = {known!r}
def unroll(*case):
    key = tuple(None if part is None else round(part.sum().item(), 6) for part in case)
    values, gradients = known[key]
    result = mt.tensor(values, dtype=mt.float64)
    weight = np.random.default_rng(0).standard_normal(result.shape).flat[0]
    inputs = [part for part in case if part is not None and part.requires_grad]
    flow = sum(
        (mt.tensor(gradient, dtype=mt.float64) * (part - part.detach())).sum()
        for gradient, part in zip(gradients, inputs)
    )
    first = mt.zeros(result.numel(), dtype=mt.float64)
    first[0] = 1 / weight
    return result + first.reshape(result.shape) * flow"""
BEYOND = """import numpy as np
def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    {line}"""
BURNS = f"""import os
{ZEROS}
for _ in range(60):
    if os.fork() == 0:
        while True:
            pass"""


def remembering():
    """An answer that knows what is expected, with gradients, on all cases of the seeds at home."""
    check, known = chapter_01.unroll, {}
    for hidden in (False, True):
        for i, case in enumerate(check.all_cases(hidden)):
            right = check._expected(check.reference, case, hidden, i)
            key = tuple(None if part is None else round(part.sum().item(), 6) for part in case)
            found = right.results["the result"].tolist()
            known[key] = found, [gradient.tolist() for gradient in right.gradients.values()]
    return REMEMBERS.format(known=known)


def sends(line, zeros=ZEROS):
    """A cell that changes each message of the student's process by a line."""
    return SENDS.format(zeros=zeros, find=FIND, line=line)


def marked(notebook):
    """The notebook with marks and outputs as if the answer had got its points."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("stream", text="unroll: all checks passed")]
        if preflight.grade_id(cell):
            cell.metadata.nbgrader |= {"points": 100, "score": 100, "grade": True, "solution": True}
    return notebook


def swapped(notebook):
    """The notebook with the marks of answer and test exchanged, and a test that passes."""
    cells = [cell for cell in notebook.cells if preflight.grade_id(cell)]
    cells[0].metadata, cells[1].metadata = cells[1].metadata, cells[0].metadata
    cells[1].source = "pass"
    return notebook


def many(cell, notebook):
    """The notebook with many times this cell."""
    notebook.cells[1:1] = [nbformat.v4.new_code_cell(cell) for _ in range(30)]
    return notebook


ATTACKS = {
    "takes the reference": "unroll = check.unroll.reference",
    "imports the reference": "from textbook.checks.chapter_01.states import unroll as taken\n"
    "unroll = taken.reference",
    "looks at frames": FROM_A_FRAME,
    "remembers outcomes": remembering(),
    "lies": LIAR,
    "forges": FORGER,
    "asks": ASKING,
    "patches": PATCHES,
    "replaces the check": f"check.unroll = lambda *_, **__: None\n{ZEROS}",
    "replaces the reference": REPLACES,
    "spreads": SPREADING,
    "reads the solution": READS_OTHERS.format(path=str(SOLVED)),
    "ends its parent": ENDS_ITS_PARENT,
    "poses as a tensor": POSES,
    "pretends to be a tensor": PRETENDS,
    "hooks, threads, traces": HOOKS,
    "transforms cells": TRANSFORMS,
    "replaces modules": MODULES,
    "sets tolerances": TOLERANCE,
    "sends odd arrays": ODD_ARRAYS,
    "overwrites": OVERWRITES,
    "puts triggers": TRIGGERS,
    "reads others": READS_OTHERS,
    "uses what is forbidden": RNN,
    "uses it in a thread": IN_A_THREAD,
    "clears the record": CLEARS_THE_RECORD,
    "silences errors": SILENT,
    "quits": QUITS,
    "raises BaseException": RAISES.format(base="BaseException"),
    "signals": SIGNALS,
    "forges marks": marked,
    "swaps marks": swapped,
    "replies early": sends("send(message, arrays)"),
    "replies with exit": sends(
        "message.update(kind='error', error={'name': 'x', 'base': 'SystemExit', 'text': '', "
        "'frames': []})"
    ),
    "reaches for methods": sends("message['value'] = ['_getattribute__', 'peer']"),
    "forges a remark": sends(
        "message['updates'] = [[True, 0, {'array': ['full points agreed', [], 0]}]]"
    ),
    "sends a huge fraction": sends("message['value'] = ['fraction', 'f' * 10**6, 'd' * 10**6]"),
    "writes into all": sends(
        "message['updates'] = [[True, n, {'requires_grad': False, 'grad': None}] "
        "for n in range(99)]; message['containers'] = [[n, 'x', ['list', []]] for n in range(99)]; "
        "message['dropped'] = list(range(99))"
    ),
    "sets modes and random": sends(
        "message['random'] = {'bit_generator': 'full points'}; "
        "message['modes'] = {'gradients': False, 'default': 'exit', 'single': '<f2'}"
    ),
    "forges operations": sends("message['heard'] = [['x', [['array', '|O', [9**9], [0]]], []]]"),
    "gives NaN": BEYOND.format(line="return mt.zeros(*x.shape[:2], len(W_hh)) * float('nan')"),
    "gives odd floats": BEYOND.format(
        line="return mt.Tensor._wrap(np.zeros((*x.shape[:2], len(W_hh)), '>f8'))"
    ),
}
COSTLY = {  # the script alone tries these
    "gives texts": BEYOND.format(
        line="return mt.Tensor._wrap(np.zeros((*x.shape[:2], len(W_hh)), 'U9'))"
    ),
    "raises KeyboardInterrupt": RAISES.format(base="KeyboardInterrupt"),
    "raises SystemExit": RAISES.format(base="SystemExit"),
    "imports it in disguise": "import importlib\nname = 'refer' + 'ence'\n"
    "unroll = getattr(importlib.import_module('textbook.checks.chapter_01').unroll, name)",
    "sends deep JSON": DEEP,
    "edits the table later": EDITS_LATER,
    "makes many processes": MANY,
    "burns processors": BURNS,
    "fills the disk": FILLS,
    "prints 600 MB": PRINTS,
    "asks for ever": ASKS_FOR_EVER,
    "gives without end": "def unroll(*case):\n    while True:\n        yield case[0]",
    "sends 200 MB of lists": sends(
        "send.__globals__.update(LONGEST_TEXT=10**9); message['more'] = [[]] * 5 * 10**7"
    ),
    "drops its errors": sends("if message['kind'] == 'error': return", FAILS),
    "sleeps in each cell": functools.partial(many, "import time\ntime.sleep(15)"),
    "ends in each cell": functools.partial(many, "import os\nos._exit(0)"),
}
LIST = "list = [1, 2, 3]\ntype = 'rnn'\n"
ATTACKS |= HARMS | GIVES_LARGE
ATTACKS["replies with 30 MB"] = sends(
    "message['value'] = ['list', [['dict', [[['plain', 'output_type'], ['plain', 'stream']], "
    "[['plain', 'text'], ['plain', 'x' * 30 * 2**20]]]]]]; "
    "send.__globals__.update(LONGEST_TEXT=10**9)"
)
ATTACKS["asks for what begins with _"] = f"""{FIND}
module = peer.ask("helper", chapter="textbook.checks.chapter_01", name="__init__")[0]
module("textbook.checks.chapter_01", "spoilt")
{ZEROS}"""
POSSIBLE = {"hides what it runs": UNHEARD}  # docs/instructors.md has it on its list
# Some of each kind, tried in every run of the tests; the others are tried with --all.
QUICK = {
    *("looks at frames", "remembers outcomes", "replaces the check", "lies", "forges"),
    *("replies with exit", "sends odd arrays", "patches", "spreads", "reads the solution"),
    *("ends its parent", "pretends to be a tensor", "uses what is forbidden", "hides what it runs"),
    *("raises half an emoji", "displays 25 MB", "forks in the answer", "gives a text of 20 MB"),
}


def make_set():
    """The first exercise of set 01."""
    whole = nbformat.read(SOLVED, as_version=4)
    marks = (None, "unroll", "test_unroll")
    cells = [cell for cell in whole.cells if preflight.grade_id(cell) in marks]
    return nbformat.v4.new_notebook(cells=cells, metadata=whole.metadata)


def answered(release, answer):
    """A student's notebook with this answer, or changed by this function."""
    notebook = copy.deepcopy(release)
    if callable(answer):
        return answer(notebook)
    for cell in notebook.cells:
        if preflight.grade_id(cell) == "unroll":
            cell.source = answer
    return notebook


def hand_in(folder, attacks):
    """Make a class of attackers, in which the first and the last are honest."""
    source = make_set()
    empty = release(ROOT, source)
    filled = {
        "reads others": READS_OTHERS.replace(
            "{path!r}", repr(str(folder / "0 honest" / f"{SET}.ipynb"))
        ),
        "overwrites": OVERWRITES.replace("{folder!r}", repr(str(folder))),
        "puts triggers": TRIGGERS.replace("{folder!r}", repr(str(folder))),
    }
    answers = {name: filled.get(name, answer) for name, answer in attacks.items()}
    answers |= {"0 honest": RIGHT, "z honest": RIGHT}
    for student, answer in answers.items():
        (folder / student).mkdir(parents=True)
        nbformat.write(answered(empty, answer), folder / student / f"{SET}.ipynb")
    return {SET: source}


def due(student):
    """The points that a student of the class of attackers should get."""
    harmless = student in HARMS and "unroll(*case)" not in HARMS[student]
    return 3 if "honest" in student or student in POSSIBLE or harmless else 0


def graded(hand_in, settings):
    """The rows of a class by student; whoever made a page too large has that as a remark."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, results = Path(scratch, "class"), Path(scratch, "results")
        settings.user = user(scratch)
        rows = grade_folder(folder, results, hand_in(folder), settings)
        assert (results / "class.html").stat().st_size, "there is no class page"
        for path in [*results.rglob("*.html"), *results.rglob("*.ipynb")]:
            assert path.stat().st_size < LARGE, f"{path}: {path.stat().st_size} bytes"
    return {row["student"]: row for row in rows}


def user(scratch):
    """Whom students' processes run as: root is graded by nobody, where that user can read here."""
    if not is_root():
        return None
    with tempfile.TemporaryDirectory(dir=scratch) as tried:
        Path(scratch).chmod(0o711)
        try:
            return Place(Path(tried), user="nobody") and "nobody"
        except GradingError:
            return None


def solve(folder, name, cells):
    """Hand in right answers to a whole set, with a cell of one's own before them."""
    source = load_sets(ROOT / "solutions", name)[name]
    answers = {preflight.grade_id(cell): cell.source for cell in source.cells if is_solution(cell)}
    for student, own in cells.items():
        notebook = release(ROOT, source)
        for cell in notebook.cells:
            cell.source = answers.get(preflight.grade_id(cell), cell.source)
        notebook.cells.insert(2, nbformat.v4.new_code_cell(own))
        (folder / student).mkdir(parents=True)
        nbformat.write(notebook, folder / student / f"{name}.ipynb")
    return {name: source}


def main():
    """Grade all classes; 0 if each student gets what is due."""
    wrong = []

    def show(tried, expected, row, fits):
        print(f"| {tried} | {expected:g} | {row['total']:g} | {row['problem']} |")
        wrong.extend([] if fits else [tried])

    attacks = ATTACKS | COSTLY | POSSIBLE
    if sys.argv[1:]:
        attacks = {name: attacks[name] for name in sys.argv[1:]}
    rows = graded(lambda folder: hand_in(folder, attacks), Settings(20, 100, jobs=2, strict=True))
    print("\n| tried | due | got | remark |\n| --- | --- | --- | --- |")
    for student, row in sorted(rows.items()):
        show(student, due(student), row, row["total"] == due(student))
    if sys.argv[1:]:
        return bool(wrong)

    source = accidents.make_source()
    people = accidents.make_class(accidents.make_release(source), whole=True)

    def come(folder):
        accidents.hand_in(folder, people)
        return {accidents.SET: source}

    rows = graded(come, Settings(8, jobs=2, strict=True))
    print("\n| happened | due | got | remark |\n| --- | --- | --- | --- |")
    for student, (_, _, points, problem) in people.items():
        row = rows[preflight.printable(student)]
        fits = accidents.is_as_expected(row, points, problem)
        show(row["student"], sum(points.values()), row, fits)

    name, cells = (
        "01_rnn",
        {"all of set 01": "", "the same, shadowed": LIST + accidents.MODES},
    )
    rows = graded(lambda folder: solve(folder, name, cells), Settings(jobs=2, strict=True))
    for student in cells:
        row = rows[student]
        show(student, row["max"], row, row["total"] == row["max"] == 40 and not row["problem"])
    happened = len(people) + len(cells)
    print(f"{len(attacks)} attacks, {happened} accidents, wrong: {', '.join(wrong) or 'none'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
