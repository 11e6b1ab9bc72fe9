"""What students try, and what comes of it: no points, and no harm to the others."""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import minitorch as mt
from authoring.grading.grade import Settings, grade_folder
from authoring.grading.isolation import DISK, ROOT, Place
from tests.attacks import ATTACKS, POSSIBLE, QUICK, due, hand_in, remembering
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
    rows = grade_folder(folder, folder.with_name("results"), sets, Settings(jobs=2, seed=7))
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
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    program = f"""
import os, socket
from pathlib import Path
assert not Path({str(ROOT / "solutions")!r}).exists()
assert len([name for name in os.listdir("/proc") if name.isdigit()]) <= 3
for place in ("/", "/dev", "/etc", {sys.prefix!r}, {str(place.library)!r}):
    try:
        Path(place, "x").touch()
    except OSError:
        continue
    raise SystemExit(f"wrote in {{place}}")
for place in (".", "/tmp", "/dev/shm"):
    Path(place, "x").touch()
    size = os.statvfs(place)
    assert size.f_blocks * size.f_frsize < {DISK + 10**5}, place
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


@pytest.mark.thorough
def test_all_attacks_and_accidents_end_as_they_should(tmp_path):
    """With those that take long or cost much: memory, disk, processes."""
    if Place(tmp_path).kind != "bubblewrap":
        pytest.skip("some of them are safe in bubblewrap alone")
    command = [sys.executable, "-m", "tests.attacks"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-5000:]
