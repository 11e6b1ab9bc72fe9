"""Judge a program of chapter 14, or print the table of a class."""

import argparse
import os
import sys
from pathlib import Path

from textbook.data import tiny_shakespeare
from textbook.race.clock import LEAGUES, STEP
from textbook.race.judge import judge
from textbook.race.measure import RaceError
from textbook.race.table import read_results, table


def main(arguments: list[str]) -> str | None:
    """Run the command; a text is what went wrong."""
    parser = argparse.ArgumentParser(prog="race", description=__doc__)
    parser.add_argument("program", nargs="?", type=Path, help="a file that defines train(...)")
    parser.add_argument("--seconds", type=int, choices=LEAGUES, default=LEAGUES[0], help="league")
    parser.add_argument("--table", type=Path, metavar="FOLDER", help="print its results instead")
    chosen = parser.parse_args(arguments)
    if (chosen.program is None) == (chosen.table is None):
        parser.error("name a program, or --table and a folder")
    here = Path(os.environ.get("BOOK_CALLED_FROM", "."))
    try:
        if chosen.table:
            print(table(read_results(here / chosen.table)))
        else:
            told(judge(here / chosen.program, chosen.seconds, tiny_shakespeare(), here / "race"))
    except (ConnectionError, RaceError, ValueError) as error:
        return f"{chosen.program or chosen.table}: {error}"
    return None


def told(result: dict) -> None:
    """Print a result as one reads it."""
    nats, step = result["nats"], 1000 * result["reference step"]
    print(result["written"], end="\n\n")
    print(f"{nats['closed']:.3f} nats a letter on the closed half ({nats['open']:.3f} on the open)")
    print(
        f"{result['program']}, {result['lines']} lines: {result['steps']} steps in "
        f"{result['seconds']:.1f} s of the race. They took {result['processor seconds']:.1f} s of "
        f"processor time: the reference step took {step:.0f} ms, not {1000 * STEP:.0f}."
    )
    print(f"Written to race/: seed {result['seed']}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
