"""The project's files agree with each other."""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import book
import minitorch
from authoring import library, overview

ROOT = Path(__file__).resolve().parent.parent
in_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def git(*arguments):
    """What git prints, whoever owns the folder and whatever else the user ignores."""
    settings = ["-c", "safe.directory=*", "-c", f"core.excludesFile={os.devnull}"]
    command = ["git", *settings, *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def all_requirements():
    project = PROJECT["project"]
    return sum(project["optional-dependencies"].values(), project["dependencies"])


def test_conda_installs_what_book_installs():
    lines = (ROOT / "environment.yml").read_text(encoding="utf-8").splitlines()
    entries = [line.strip().removeprefix("- ") for line in lines if line.strip().startswith("-")]
    assert entries == ["python>=3.11", "pip", "pip:", f"-e {book.BOOK}"]


def test_uv_installs_what_book_installs():
    assert PROJECT["dependency-groups"]["dev"] == [book.BOOK.replace(".", book.NAME)]


def test_versions_agree():
    assert PROJECT["project"]["name"] == book.NAME
    assert PROJECT["project"]["version"] == minitorch.__version__
    assert f"\n## {minitorch.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_nothing_is_pinned():
    for requirement in all_requirements():
        assert re.fullmatch(r"[\w-]+(\[\w+\])?>=[\d.]+", requirement), requirement


def test_readme_and_ci_name_the_commands():
    assert "python book.py lab" in README and "python book.py test" in README
    assert "book.py test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_readme_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert "CONTRIBUTING.md" in links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_readme_lists_each_chapter_with_minutes_and_exercises():
    problems = list(overview.problems(ROOT))
    assert not problems, "\n".join(problems)


def test_readme_and_docstring_name_the_core_of_the_library():
    assert len(library.core(ROOT)) > 10
    problems = list(library.core_problems(ROOT))
    assert not problems, "\n".join(problems)


def test_readme_tells_the_recorded_results_of_chapter_11():
    recorded = json.loads((ROOT / "notebooks/results/11.json").read_text(encoding="utf-8"))["C23"]
    budget = recorded["settings"]["budget"]
    rows = []
    for name in recorded["settings"]["names"]:
        runs_by_steps = recorded["result"][name]["runs"]
        for steps in sorted(runs_by_steps, key=int):
            if int(steps) < budget:
                continue
            runs = runs_by_steps[steps]
            exact, scores = ([run[key] for run in runs] for key in ("decoded", "bleu"))
            seconds = sorted(run["seconds"] for run in runs)[len(runs) // 2]
            rows.append(
                f"| {name} | {runs[0]['parameters']:,} | {steps} "
                f"| {runs[0]['flops'] / 1e12:.2f} | {seconds:.0f} "
                f"| {min(scores):.1f} to {max(scores):.1f} "
                f"| {min(exact):.3f} to {max(exact):.3f} |"
            )
    assert [row for row in rows if row not in README] == []


@in_git
def test_what_students_and_graders_make_is_ignored():
    made = ["my/notebooks/a.ipynb", ".venv/x", ".venv-python3.12/x", "submitted/x", "gradebook.db"]
    assert git("check-ignore", *made).split() == made


@in_git
def test_files_have_unix_line_ends():
    lines = git("ls-files", "--eol").splitlines()
    assert [line for line in lines if "/crlf" in line or "/mixed" in line] == []
