"""What students try, and what comes of it: no points, and no harm to the others."""

import os
import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import minitorch as mt
from authoring.grading import command, kernel, run
from authoring.grading.grade import Settings, grade_folder
from authoring.grading.isolation import DISK, ROOT, GradingError, Place, is_root
from authoring.grading.peer import Peer
from authoring.grading.wire import Wire
from tests.attacks import ATTACKS, LARGE, POSSIBLE, QUICK, due, hand_in, remembering, user
from textbook.checks import chapter_01

OUTSIDE = ("reads", "overwrites", "puts", "spreads", "ends its parent")  # reach what is not theirs
STUDENTS = ATTACKS | POSSIBLE


@pytest.fixture(scope="module")
def graded(request, tmp_path_factory):
    """The rows by student, of a class in which the first and the last are honest."""
    folder = tmp_path_factory.mktemp("attacked") / "class"
    place = Place(tmp_path_factory.mktemp("tried"))
    safe = place.kind == "bubblewrap"
    tried = STUDENTS if request.config.getoption("all") else QUICK
    attacks = {name: STUDENTS[name] for name in tried if safe or not name.startswith(OUTSIDE)}
    sets = hand_in(folder, attacks)
    before = {path: path.read_bytes() for path in folder.rglob("*.ipynb")}
    results = folder.with_name("results")
    settings = Settings(jobs=2, seed=7, user=user(tmp_path_factory.mktemp("user")))
    rows = grade_folder(folder, results, sets, settings)
    assert (results / "class.html").stat().st_size
    for path in [*results.rglob("*.html"), *results.rglob("*.ipynb")]:
        assert path.stat().st_size < LARGE, path
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    return {row["student"]: row for row in rows}


@pytest.fixture(scope="module")
def protection(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("place")).kind


@pytest.mark.parametrize(
    "student",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough) for name in STUDENTS],
)
def test_attack_gets_nothing(student, graded):
    if student not in graded:
        pytest.skip("without bubblewrap it would reach what is not the student's")
    assert graded[student]["total"] == due(student), graded[student]
    assert "full points" not in graded[student]["problem"]


def test_what_is_remembered_is_right_at_home():
    names = {"mt": mt}
    exec(remembering(), names)
    for hidden in (False, True):
        chapter_01.unroll(names["unroll"], hidden=hidden)


@pytest.mark.parametrize("student", ["0 honest", "z honest"])
def test_the_others_get_what_is_theirs(student, graded):
    assert graded[student]["total"] == graded[student]["max"] == 3
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
    home = tmp_path / "home"
    home.mkdir()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    program = f"""
import ctypes, os, platform, socket
from pathlib import Path
assert not Path({str(ROOT / "solutions")!r}).exists()
assert len([name for name in os.listdir("/proc") if name.isdigit()]) <= 3
places = ["/", "/dev", "/etc", "/proc/sys/vm", {sys.prefix!r}, {str(place.library)!r}]
for file in [*(Path(place, "x") for place in places), Path("/proc/sys/kernel/core_pattern")]:
    try:
        file.open("a").close()
    except OSError:
        continue
    raise SystemExit(f"wrote {{file}}")
for place in (".", "/tmp", "/dev/shm"):
    Path(place, "x").touch()
    size = os.statvfs(place)
    assert size.f_blocks * size.f_frsize < {DISK + 10**5}, place
assert platform.node() != {platform.node()!r}, "the host's name"
command = Path("/proc/1/cmdline").read_bytes().partition(b"-c")[0]
assert {os.fsencode(home)!r} not in command and b"ro-bind" not in command, command
libc = ctypes.CDLL(None, use_errno=True)
keyctl, new_user = {{"x86_64": (250, 272), "aarch64": (219, 97)}}[platform.machine()]
for call in ((keyctl, 0, -3, 1), (425, 8, 0), (new_user, 0x10000000)):
    assert libc.syscall(*call) == -1 and ctypes.get_errno() == 1, call
for family in (socket.AF_VSOCK, socket.AF_PACKET, socket.AF_ALG):
    try:
        socket.socket(family, socket.SOCK_RAW)
    except OSError as error:
        assert error.errno == 97, (family, error)
    else:
        raise SystemExit(f"made a socket of family {{family}}")
try:
    socket.create_connection(("127.0.0.1", {port}), 1)
except OSError:
    raise SystemExit
raise SystemExit("reached the network")
"""
    with (
        listener,
        place._protected(home, [sys.executable, "-c", program], place.library) as (around, more),
    ):
        done = subprocess.run(around, capture_output=True, text=True, cwd=home, **more)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not kernel.call_filter(), reason="a filter is made for Linux on two machines")
def test_a_student_s_process_keeps_the_filter_without_bubblewrap(tmp_path):
    place = Place(tmp_path, "none")
    student = place.start(run.CHAPTERS)
    peer = Peer(Wire(student.link), False)
    try:
        source = "import socket\ntry:\n    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)\n"
        source += "except OSError as error:\n    print('refused', error.errno)"
        assert peer.ask("run", source=source)[0]["text"] == "refused 97\n"
    finally:
        student.end()


KEYS = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}
NOTE = """
import ctypes, sys
add, ask, keyctl = map(int, sys.argv[2:])
libc = ctypes.CDLL(None, use_errno=True)
if sys.argv[1] == "put":
    sys.exit(libc.syscall(add, b"user", b"note", b"the answers", 11, -3) < 0)
sys.exit(libc.syscall(keyctl, 10, -3, b"user", b"note", 0) < 0)
"""


@pytest.mark.skipif(platform.machine() not in KEYS or sys.platform != "linux", reason="Linux")
def test_no_note_passes_through_a_keyring():
    numbers = [str(number) for number in KEYS[platform.machine()]]

    def start(what, **more):
        return subprocess.run([sys.executable, "-c", NOTE, what, *numbers], **more).returncode

    kernel._libc().syscall(int(numbers[2]), kernel.NEW_SESSION, None)  # one that they share
    if start("put") or start("find"):
        pytest.skip("no keyrings here")
    assert start("find", preexec_fn=kernel.begin), "the next process finds what one has left"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Linux and macOS have a root")
def test_root_is_told_how_to_grade(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "class" / "anna").mkdir(parents=True)
    assert command.main([str(tmp_path / "class")]) == 1
    told = capsys.readouterr().err
    assert "useradd" in told and "grade --user grader" in told
    for name, why in (("root", "useradd"), ("no such user", "there is no user")):
        with pytest.raises(GradingError, match=why):
            Place(tmp_path / name, user=name)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(GradingError, match="for root alone"):
        Place(tmp_path / "own", user="nobody")


@pytest.mark.thorough
def test_all_attacks_and_accidents_end_as_they_should(tmp_path):
    """With those that take long or cost much: memory, disk, processes."""
    if Place(tmp_path).kind != "bubblewrap":
        pytest.skip("some of them are safe in bubblewrap alone")
    if is_root() and not user(tmp_path):
        pytest.skip("as root some of them are not held")
    command = [sys.executable, "-m", "tests.attacks"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-5000:]
