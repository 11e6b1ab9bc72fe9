"""A chapter runs as a plain script."""

import os
import subprocess
import sys

from mini_book import REPOSITORY

from authoring.sources import chapters


def test_a_chapter_runs_as_a_script():
    """One is enough: ruff refuses names that only a notebook knows, and nbval runs all chapters."""
    command = [sys.executable, chapters(REPOSITORY)[0].relative_to(REPOSITORY)]
    environment = os.environ | {"MINITORCH_BOOK": "quick", "TQDM_DISABLE": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
