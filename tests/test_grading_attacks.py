"""What students try, and what comes of it: no points, and no harm to the others."""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from authoring import preflight
from authoring.grading.grade import Settings, grade_folder
from authoring.grading.isolation import ROOT, Place
from authoring.release import release

SET = "01_attacked"
RIGHT = """def rnn_cell(x_t, h, W_ih, W_hh, b):
    return (x_t @ W_ih.T + h @ W_hh.T + b).tanh()"""
ZEROS = """def rnn_cell(x_t, h, W_ih, W_hh, b):
    return 0 * h + 0 * (x_t.sum() + W_ih.sum() + W_hh.sum() + b.sum())"""
FROM_A_FRAME = """import gc, sys
def rnn_cell(*case):
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
{ZEROS.replace("rnn_cell", "zeros")}
def rnn_cell(*case):
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
def rnn_cell(*case):
    for number in range(100):
        for name in ("reference", "__globals__", "__class__", "known"):
            try:
                found = peer.ask("get", object=Number(number), name=name)
                return found(*case)
            except Exception:
                pass
    for kind in ("name", "run"):
        try:
            return peer.ask(kind, name="check").rnn_cell.reference(*case)
        except Exception:
            pass
    return peer.ask("helper", chapter="textbook.checks.chapter_01", name="rnn_cell")[0](*case)"""
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
exec(text[text.index("def rnn_cell"):text.index("    ### END SOLUTION")])"""
READS_OTHERS = """import json
from pathlib import Path
notebook = json.loads(Path({path!r}).read_text())
for cell in notebook["cells"]:
    source = "".join(cell["source"])
    if "def rnn_cell" in source:
        exec(source)"""
ENDS_ITS_PARENT = f"""import os, signal
{ZEROS}
for process in (os.getppid(), -1):
    os.kill(process, signal.SIGKILL)"""

ATTACKS = {
    "takes the reference": "rnn_cell = check.rnn_cell.reference",
    "imports the reference": "from textbook.checks.chapter_01.states import rnn_cell as taken\n"
    "rnn_cell = taken.reference",
    "looks at frames": FROM_A_FRAME,
    "lies": LIAR,
    "forges": FORGER,
    "asks": ASKING,
    "patches": PATCHES,
    "replaces the check": f"check.rnn_cell = lambda *_, **__: None\n{ZEROS}",
    "spreads": SPREADING,
    "reads the solution": READS.format(path=str(ROOT / "solutions" / "01_rnn" / "01_rnn.py")),
    "ends its parent": ENDS_ITS_PARENT,
}


def make_set():
    path = ROOT / "solutions" / "01_rnn" / "01_rnn.ipynb"
    whole = nbformat.read(path, as_version=4)
    marks = (None, "rnn_cell", "test_rnn_cell")
    cells = [cell for cell in whole.cells if preflight.grade_id(cell) in marks]
    return nbformat.v4.new_notebook(cells=cells, metadata=whole.metadata)


def answered(source, answer):
    notebook = release(ROOT, source)
    for cell in notebook.cells:
        if preflight.grade_id(cell) == "rnn_cell":
            cell.source = answer
    return notebook


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The rows by student, of a class in which the first, the last and two between are honest."""
    folder = tmp_path_factory.mktemp("attacked") / "class"
    source = make_set()
    answers = {"0 honest": RIGHT, "z honest": RIGHT, **ATTACKS}
    answers["reads others"] = READS_OTHERS.format(path=str(folder / "0 honest" / f"{SET}.ipynb"))
    for student, answer in answers.items():
        (folder / student).mkdir(parents=True)
        nbformat.write(answered(source, answer), folder / student / f"{SET}.ipynb")
    before = {path: path.read_bytes() for path in folder.rglob("*.ipynb")}
    rows = grade_folder(
        folder, folder.with_name("results"), {SET: source}, Settings(jobs=2, seed=7)
    )
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    return {row["student"]: row for row in rows}


@pytest.fixture(scope="module")
def protection(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("place")).kind


@pytest.mark.parametrize("student", [*ATTACKS, "reads others"])
def test_attack_gets_nothing(student, graded, protection):
    if student.startswith("reads") and protection != "bubblewrap":
        pytest.skip("without bubblewrap other files can be read")
    assert graded[student]["total"] == 0, graded[student]


@pytest.mark.parametrize("student", ["0 honest", "z honest"])
def test_the_others_get_what_is_theirs(student, graded):
    assert graded[student]["total"] == graded[student]["max"] == 2
    assert graded[student]["problem"] == ""


def test_nothing_is_left_behind(graded, protection):
    if protection == "none":
        pytest.skip("nothing holds it")
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"1234.5" in line for line in running)
    if protection == "bubblewrap":
        for place in (ROOT, ROOT / "textbook", Path(sys.prefix), Path.home()):
            assert not (place / "spread.py").exists()


def test_the_student_s_library_holds_no_check(tmp_path):
    place = Place(tmp_path, "none")
    texts = {path: path.read_text() for path in place.library.rglob("*.py")}
    assert not [path for path in texts if "checks" in path.relative_to(place.library).parts]
    assert not [path for path in texts if "class Exercise" in texts[path]]
    assert (place.library / "minitorch" / "__init__.py") in texts


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_in_bubblewrap_there_is_nothing_to_write_or_to_reach(tmp_path):
    place = Place(tmp_path)
    if place.kind != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    program = f"""
import os, socket
from pathlib import Path
assert not Path({str(ROOT / "solutions")!r}).exists()
assert len([name for name in os.listdir("/proc") if name.isdigit()]) <= 3
for place in (Path({sys.prefix!r}), Path({str(place.library)!r})):
    try:
        (place / "x").touch()
    except OSError:
        continue
    raise SystemExit(f"wrote in {{place}}")
try:
    socket.create_connection(("127.0.0.1", {port}), 1)
except OSError:
    raise SystemExit
raise SystemExit("reached the network")
"""
    home = tmp_path / "home"
    home.mkdir()
    command = place._around(home, [sys.executable, "-c", program], place.library)
    with listener:
        done = subprocess.run(command, capture_output=True, text=True, cwd=home)
    assert done.returncode == 0, done.stderr
