"""The author's and instructor's commands: python -m authoring <command>."""

import argparse
import sys
from pathlib import Path

from .sources import BookError

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    """Run one command; 0 means that all is well."""
    parser = argparse.ArgumentParser(prog="python book.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    build = commands.add_parser("build", help="execute the sources, write all generated files")
    build.add_argument("number", nargs="?", help="chapter, for example 01 (all)")
    build.add_argument(
        "--texts", action="store_true", help="only texts have changed: keep the stored outputs"
    )
    commands.add_parser("check", help="tell what is out of step; executes nothing")
    experiment = commands.add_parser("experiment", help="run and record the full experiments")
    experiment.add_argument("number", help="chapter, for example 01")
    experiment.add_argument("names", nargs="*", help="only these, by name or claim (all)")
    experiment.add_argument(
        "--budget", type=float, metavar="TIMES", help="record nothing: so many times the steps"
    )
    experiment.add_argument(
        "--seeds", type=seeds_of, metavar="FROM:TO", help="record nothing: other seeds, 100:105"
    )
    release = commands.add_parser("release", help="copy what students get, without solutions")
    release.add_argument("folder", type=Path, help="a new folder")
    site = commands.add_parser(
        "site", help="write the book as web pages, PDF and EPUB; executes nothing"
    )
    site.add_argument("folder", type=Path, help="a new folder")
    commands.add_parser("grade", help="grade a folder of submissions", add_help=False)
    chosen, rest = parser.parse_known_args(arguments)
    if chosen.command == "grade":
        from .grading.command import main as grade

        return grade(rest)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        return _run(chosen)
    except BookError as error:
        print(error, file=sys.stderr)
        return 1


def seeds_of(text: str) -> range:
    """The seeds that are meant: 100:105 is 100 to 104, as a slice is."""
    start, stop = map(int, text.split(":"))
    return range(start, stop)


def _run(chosen: argparse.Namespace) -> int:
    """Each command imports what it needs, so that `check` starts fast."""
    if chosen.command == "build":
        from .build import build

        build(ROOT, chosen.number, texts_only=chosen.texts)
    elif chosen.command == "experiment":
        if chosen.budget or chosen.seeds:
            from .elsewhere import elsewhere

            seeds = chosen.seeds or range(100, 105)
            elsewhere(ROOT, chosen.number, chosen.names, chosen.budget or 1, seeds)
        else:
            from .experiments import record

            record(ROOT, chosen.number, chosen.names)
    elif chosen.command == "release":
        from .release import hand_out

        hand_out(ROOT, chosen.folder)
    elif chosen.command == "site":
        from .site import add_books, site

        site(ROOT, chosen.folder)
        add_books(ROOT, chosen.folder)
    else:
        from . import library, overview, quoted
        from .check import check

        problems = check(ROOT, warn=lambda warning: print(f"warning: {warning}"))
        problems += [*overview.problems(ROOT), *quoted.problems(ROOT), *library.problems(ROOT)]
        print("\n".join(problems) or "all generated files are in step with their sources")
        return 1 if problems else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
