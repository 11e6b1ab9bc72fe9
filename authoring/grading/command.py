"""The command ``book.py grade FOLDER``."""

import argparse
import os
import sys
from pathlib import Path

from authoring.grading.grade import Settings, grade_folder, load_sets
from authoring.grading.gradescope import package
from authoring.grading.isolation import ROOT, GradingError, refuse_root
from authoring.grading.statistics import compare
from authoring.release import from_shell


def main(argv: list[str] | None = None) -> int:
    """Grade a folder of submissions; 0 means that all of them have a row."""
    parser = argparse.ArgumentParser(prog="book.py grade", description="Grade a folder.")
    parser.add_argument("folder", type=Path, nargs="?", help="holds a folder for each student")
    parser.add_argument(
        "--set", help="name or number of the exercise set (default: those handed in)"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time (%(default)s)"
    )
    parser.add_argument("--resume", action="store_true", help="grade only what is new or changed")
    parser.add_argument(
        "--student", help="grade this one anew, after an appeal; the others keep their rows"
    )
    parser.add_argument("--seed", type=int, help="repeat a grading, whose log names it")
    parser.add_argument("--strict", action="store_true", help="refuse to grade without bubblewrap")
    parser.add_argument("--user", help="as root: whom students' processes run as")
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="let the workers of a Dask scheduler grade"
    )
    parser.add_argument(
        "--package",
        nargs=2,
        metavar=("PLATFORM", "SET"),
        help="grade nothing: write a zip with which gradescope grades this set",
    )
    parser.add_argument(
        "--compare", nargs="+", type=Path, metavar="RESULTS", help="statistics of several gradings"
    )
    options = parser.parse_args(argv)
    if options.folder is None and not (options.package or options.compare):
        parser.error("name the folder of a class")
    if options.jobs < 1:
        parser.error("--jobs must be 1 or more")
    for stream in (sys.stdout, sys.stderr):  # a name need not fit into the terminal's encoding
        stream.reconfigure(errors="backslashreplace")
    try:
        if options.package or options.compare:
            return _write_about_others(options, parser)
    except (GradingError, OSError) as error:
        print(f"grade: {error}", file=sys.stderr)
        return 1
    folder = from_shell(options.folder).resolve()
    results = folder.with_name(f"{folder.name}-results")
    settings = Settings(
        jobs=options.jobs,
        resume=options.resume,
        seed=options.seed,
        strict=options.strict,
        scheduler=options.scheduler,
        student=options.student,
        user=options.user,
    )
    try:
        refuse_root(settings.user)
        all_sets = load_sets(ROOT / "solutions")
        sets = load_sets(ROOT / "solutions", options.set) if options.set else all_sets
        rows = grade_folder(folder, results, sets, settings, all_sets=all_sets)
    except GradingError as error:
        print(f"grade: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"stopped: --resume goes on from here ({results})", file=sys.stderr)
        return 130
    problems = sum(bool(row["problem"]) for row in rows)
    print(f"{len(rows)} graded, {problems} with a remark in the column problem: {results}")
    return 0


def _write_about_others(options, parser) -> int:
    """What grades nobody here: a zip for a platform, and several gradings side by side."""
    if options.compare:
        print(compare([from_shell(path).resolve() for path in options.compare]))
        return 0
    platform, number = options.package
    if platform != "gradescope":
        parser.error(f"--package {platform}: there is gradescope alone")
    print(f"written: {package(number, from_shell(Path('.')).resolve())}")
    return 0
