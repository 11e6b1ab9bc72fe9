"""How many submissions a minute are graded, beside nbgrader's own autograde on the same ones.

    python benchmarks/grading.py [--count 60] [--jobs 2] [--set 01] [--nbgrader 6] [--user grader]

Of four made-up submissions one is right, one has two wrong answers, one is half blank, one blank.
Autograde, which is slower, grades the first few of them.
"""

import argparse
import itertools
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from book import ONE_THREAD  # noqa: E402

os.environ.update(ONE_THREAD)  # before NumPy is loaded

import nbformat  # noqa: E402
from nbgrader.apps import NbGraderAPI  # noqa: E402
from nbgrader.utils import is_solution  # noqa: E402
from traitlets.config import Config  # noqa: E402

from authoring.grading.grade import Settings, grade_folder, load_sets  # noqa: E402
from authoring.grading.isolation import ROOT, refuse_root  # noqa: E402
from authoring.release import release  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
MARKS = re.compile(r"^ *### (BEGIN|END) SOLUTION\n?", re.MULTILINE)


def make_class(folder: Path, name: str, source, count: int) -> None:
    """Write the submissions in nbgrader's layout."""
    for number in range(count):
        notebook = release(ROOT, source)
        answers = [i for i, cell in enumerate(source.cells) if is_solution(cell)]
        kept = {0: len(answers), 1: len(answers), 2: len(answers) // 2, 3: 0}[number % 4]
        for i in answers[:kept]:
            notebook.cells[i].source = MARKS.sub("", source.cells[i].source)
        if number % 4 == 1:
            for i in answers[:2]:
                defined = re.search(r"^(?:def|class) (\w+)", source.cells[i].source, re.MULTILINE)
                notebook.cells[i].source += f"\n\n\ndef {defined[1]}(*case):\n    return case[0]"
        place = folder / f"student-{number:03}" / name
        place.mkdir(parents=True)
        nbformat.write(notebook, place / f"{name}.ipynb")


class Watch(threading.Thread):
    """What this process and all others of the grading use, without the looking itself (Linux).

    Times are looked at ten times a second, memory, which takes long to look at, once.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.memory = 0.0  # MiB that all have held at once
        self.seconds = {}  # of processor time, by process

    def run(self):
        for look in itertools.count():
            held = 0
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    if b"grading" in (process / "cmdline").read_bytes():
                        times = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
                        self.seconds[process] = sum(map(int, times)) / TICKS
                        if look % 10 == 0:
                            shares = (process / "smaps_rollup").read_text()
                            held += int(re.search(r"^Pss: +(\d+)", shares, re.M)[1])
                except (OSError, TypeError):
                    continue
            self.seconds["looking"] = -time.thread_time()
            self.memory = max(self.memory, held / 1024)
            time.sleep(0.1)


def autograde(root: Path, name: str, source, count: int) -> tuple[float, float]:
    """The seconds that nbgrader takes, its database made before, and those of the processor."""
    config = Config()
    config.CourseDirectory.root = str(root)
    config.Exchange.root = str(root / "exchange")
    place = root / "source" / name
    place.mkdir(parents=True)
    nbformat.write(source, place / f"{name}.ipynb")
    api = NbGraderAPI(config=config)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = api.generate_assignment(name)
    if not result["success"]:
        raise SystemExit(result["log"])
    begin, before = time.perf_counter(), sum(os.times()[:4])
    for number in range(count):
        result = api.autograde(name, f"student-{number:03}", force=False)
        if not result["success"]:
            raise SystemExit(result["log"])
    return time.perf_counter() - begin, sum(os.times()[:4]) - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--set", default="01")
    parser.add_argument("--nbgrader", type=int, default=6, help="how many autograde grades")
    parser.add_argument("--user", help="as root: whom students' processes run as")
    options = parser.parse_args()
    refuse_root(options.user)
    [(name, source)] = load_sets(ROOT / "solutions", options.set).items()
    with tempfile.TemporaryDirectory() as root:
        submitted = Path(root, "submitted")
        make_class(submitted, name, source, options.count)
        watch = Watch()
        watch.start()
        times = []
        settings = Settings(jobs=options.jobs, user=options.user)

        def say(line):
            times.append((time.perf_counter(), sum(watch.seconds.values())))
            print(line, flush=True)

        grade_folder(submitted, Path(root, "results"), {name: source}, settings, say)
        (begin, used), (end, more) = times[-options.count - 1], times[-1]
        print(f"{options.count / (end - begin) * 60:.1f} submissions a minute, {options.jobs} jobs")
        print(f"{(more - used) / options.count:.2f} s of processor time a submission")
        print(f"{watch.memory:.0f} MiB at most")
        if options.nbgrader:
            took, used = autograde(Path(root), name, source, options.nbgrader)
            print(f"nbgrader autograde: {options.nbgrader / took * 60:.1f} submissions a minute,")
            print(f"{used / options.nbgrader:.2f} s of processor time a submission")


if __name__ == "__main__":
    main()
