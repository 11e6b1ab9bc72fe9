"""What students try on one exercise of set 01: the answer cell of each attack.

    python -m tests.attacks

grades them all, beside honest students, and prints what each gets. The tests take the cheap ones.
"""

import sys
import tempfile
from pathlib import Path

import nbformat

from authoring import preflight
from authoring.grading.grade import Settings, grade_folder
from authoring.grading.isolation import ROOT
from authoring.release import release

SET = "01_attacked"
RIGHT = """def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    h = mt.zeros(x.shape[1], len(W_hh)) if h0 is None else h0
    states = []
    for t, x_t in enumerate(x):
        new = (x_t @ W_ih.T + h @ W_hh.T + b).tanh()
        h = mt.where((t < lengths).unsqueeze(1), new, h)
        states.append(h)
    return mt.stack(states)"""
ZEROS = """def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    first = 0 if h0 is None else h0.sum()
    total = x.sum() + first + W_ih.sum() + W_hh.sum() + b.sum()
    return mt.zeros(*x.shape[:2], len(W_hh)) + 0 * total"""
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
FORGER = f"""import gc
from authoring.grading.peer import Peer
{ZEROS}
peer = next(x for x in gc.get_objects() if isinstance(x, Peer))
send = peer.wire.send
def forged(message, arrays):
    if message.get("kind") == "error":
        message = {{"kind": "result", "value": ["plain", None], "arguments": ["plain", None],
                   "heard": [], "updates": [], "dropped": [], "containers": [], "random": None}}
    send(message, arrays)
peer.wire.send = forged
"""
ASKING = """import gc
from authoring.grading.peer import Peer
from authoring.grading.stand_ins import Number
peer = next(x for x in gc.get_objects() if isinstance(x, Peer))
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
for place in places:
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / "spread.py").write_text("spread = True")
    except OSError:
        pass
os.system("setsid sleep 1234.5 &")
{ZEROS}"""
READS = """from pathlib import Path
text = Path({path!r}).read_text()
exec(text[text.index("def unroll"):text.index("    ### END SOLUTION")])"""
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
            for name in ("difference", "_difference", "passes", "examine"):
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
ODD_ARRAYS = f"""import gc
from authoring.grading.peer import Peer
{ZEROS}
peer = next(x for x in gc.get_objects() if isinstance(x, Peer))
send = peer.wire.send
def odd(message, arrays):
    if "value" in message and arrays:
        message["value"] = ["tensor", -1, ["|O", [-5, 2**40], 10**6], True, [["home", -3]]]
    send(message, arrays)
peer.wire.send = odd"""
DEEP = f"""import gc
from authoring.grading.peer import Peer
{ZEROS}
peer = next(x for x in gc.get_objects() if isinstance(x, Peer))
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
try:
    with open("large", "wb") as file:
        while True:
            file.write(bytes(10**7))
except OSError:
    pass"""
PRINTS = f"""{ZEROS}
for _ in range(6000):
    print("x" * 10**5)"""
ASKS_FOR_EVER = """import gc
from authoring.grading.peer import Peer
peer = next(x for x in gc.get_objects() if isinstance(x, Peer))
def unroll(*case):
    while True:
        try:
            peer.ask("helper", chapter="os", name="system")
        except Exception:
            pass"""

ATTACKS = {
    "takes the reference": "unroll = check.unroll.reference",
    "imports the reference": "from textbook.checks.chapter_01.states import unroll as taken\n"
    "unroll = taken.reference",
    "looks at frames": FROM_A_FRAME,
    "lies": LIAR,
    "forges": FORGER,
    "asks": ASKING,
    "patches": PATCHES,
    "replaces the check": f"check.unroll = lambda *_, **__: None\n{ZEROS}",
    "spreads": SPREADING,
    "reads the solution": READS.format(path=str(ROOT / "solutions" / "01_rnn" / "01_rnn.py")),
    "ends its parent": ENDS_ITS_PARENT,
    "poses as a tensor": POSES,
    "pretends to be a tensor": PRETENDS,
    "hooks, threads, traces": HOOKS,
    "transforms cells": TRANSFORMS,
    "replaces modules": MODULES,
    "sets tolerances": TOLERANCE,
    "sends odd arrays": ODD_ARRAYS,
    "overwrites": OVERWRITES,
    "reads others": READS_OTHERS,
}
COSTLY = {
    "sends deep JSON": DEEP,
    "edits the table later": EDITS_LATER,
    "makes many processes": MANY,
    "fills the disk": FILLS,
    "prints 600 MB": PRINTS,
    "asks for ever": ASKS_FOR_EVER,
}


def make_set():
    """The first exercise of set 01."""
    path = ROOT / "solutions" / "01_rnn" / "01_rnn.ipynb"
    whole = nbformat.read(path, as_version=4)
    marks = (None, "unroll", "test_unroll")
    cells = [cell for cell in whole.cells if preflight.grade_id(cell) in marks]
    return nbformat.v4.new_notebook(cells=cells, metadata=whole.metadata)


def answered(source, answer):
    """A student's notebook with this answer."""
    notebook = release(ROOT, source)
    for cell in notebook.cells:
        if preflight.grade_id(cell) == "unroll":
            cell.source = answer
    return notebook


def hand_in(folder, attacks):
    """Make a class of attackers, in which the first and the last are honest."""
    source = make_set()
    filled = {
        "reads others": READS_OTHERS.replace(
            "{path!r}", repr(str(folder / "0 honest" / f"{SET}.ipynb"))
        ),
        "overwrites": OVERWRITES.replace("{folder!r}", repr(str(folder))),
    }
    answers = {name: filled.get(name, answer) for name, answer in attacks.items()}
    answers |= {"0 honest": RIGHT, "z honest": RIGHT}
    for student, answer in answers.items():
        (folder / student).mkdir(parents=True)
        nbformat.write(answered(source, answer), folder / student / f"{SET}.ipynb")
    return {SET: source}


def main():
    """Grade them all; 0 if nobody got what is not theirs."""
    attacks = ATTACKS | COSTLY
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "class")
        sets = hand_in(folder, attacks)
        rows = grade_folder(folder, Path(scratch, "results"), sets, Settings(20, jobs=2))
    print("| attack | points of 3 | remark |\n| --- | --- | --- |")
    for row in sorted(rows, key=lambda row: row["student"]):
        print(f"| {row['student']} | {row['total']:g} | {row['problem']} |")
    wrong = [row["student"] for row in rows if (row["total"] > 0) != ("honest" in row["student"])]
    print(f"wrong: {', '.join(wrong) or 'none'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
