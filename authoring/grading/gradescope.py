"""Gradescope: a zip with which it grades a set, and what runs in it there.

    python book.py grade --package gradescope 05

``/autograder`` has ``source`` (what the zip holds), ``submission`` and ``results``, and its
``run_autograder`` is ours. There each submission has a container of its own and is graded as root:
the students' processes run as another user, who cannot read ``source/book``.
"""

import argparse
import json
import shutil
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

from nbformat import NotebookNode

from authoring.grading.course import by_hand, maximum
from authoring.grading.grade import Settings, grade_folder, load_sets
from authoring.grading.isolation import ROOT, is_root
from authoring.preflight import printable

PARTS = ("minitorch", "textbook", "authoring")
USER = "grader"
LARGEST = 2**20  # characters of results.json that students see
# Ubuntu's newest Python that the book runs on; the environment may be read by all, the book not.
SETUP = f"""#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
apt-get update
for python in python3.13 python3.12 python3.11; do
    if apt-get install -y "$python" "$python-venv" bubblewrap util-linux; then break; fi
done
id {USER} > /dev/null 2>&1 || useradd --system --user-group --shell /usr/sbin/nologin {USER}
"$python" -m venv venv
venv/bin/pip install -r requirements.txt
chmod 700 book
"""
RUN = f"""#!/usr/bin/env bash
cd "$(dirname "$0")"
export PYTHONPATH="$PWD/source/book" OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
exec source/venv/bin/python -m authoring.grading.gradescope --user {USER} .
"""


def package(number: str, folder: Path) -> Path:
    """Write the zip for one set into a folder; its path."""
    [name] = load_sets(ROOT / "solutions", number)
    files = [path for part in PARTS for path in sorted((ROOT / part).rglob("*")) if path.is_file()]
    files += [ROOT / "book.py", ROOT / "nbgrader_config.py"]
    files += [ROOT / "solutions" / name / f"{name}.ipynb"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["grading"]]
    path = folder / f"gradescope_{name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for script, text in (("setup.sh", SETUP), ("run_autograder", RUN)):
            entry = zipfile.ZipInfo(script)
            entry.external_attr = 0o755 << 16  # may be executed
            packed.writestr(entry, text)
        packed.writestr("requirements.txt", "\n".join([*needed, ""]))
        for file in files:
            if "__pycache__" not in file.parts:
                packed.write(file, Path("book", file.relative_to(ROOT)))
    return path


def grade(base: Path, sets: dict[str, NotebookNode], settings: Settings) -> dict:
    """Grade what lies in ``submission`` below a folder; write and return ``results.json``."""
    (base / "results").mkdir(exist_ok=True)
    for folder in (base, base / "source", base / "results"):
        if folder.is_dir():  # what an answer has left running must not exchange what is ours
            folder.chmod(folder.stat().st_mode & ~0o022)
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o711)
        folder = Path(scratch, "class")
        shutil.copytree(base / "submission", folder / _student(base), symlinks=True)
        [row] = grade_folder(folder, Path(scratch, "results"), sets, settings)
    results = {
        "output": row["problem"] or "Each exercise was tested on numbers that are new each time.",
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [
            {
                "name": exercise,
                "score": row.get(exercise, 0),
                "max_score": points,
                "status": "passed" if row.get(exercise, 0) >= points else "failed",
                "output": row["said"].get(exercise, "")[:LARGEST],
            }
            for source in sets.values()
            for exercise, points in maximum(source).items()
            if exercise not in by_hand(source)
        ],
    }
    (base / "results" / "results.json").write_text(json.dumps(results), encoding="utf-8")
    return results


def _student(base):
    """How the log calls the student: by the e-mail address that Gradescope tells."""
    try:
        told = json.loads((base / "submission_metadata.json").read_text(encoding="utf-8"))
        name = printable(" ".join(str(user["email"]) for user in told["users"]))
        return name.replace("/", "_").lstrip(".")[:100] or "student"
    except (OSError, ValueError, KeyError, TypeError):
        return "student"


def main(arguments: list[str]) -> int:
    """What ``run_autograder`` runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--user")
    parser.add_argument("base", type=Path)
    options = parser.parse_args(arguments)
    user = options.user if is_root() else None
    grade(options.base.resolve(), load_sets(ROOT / "solutions"), Settings(user=user))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
