"""The project's files agree with each other."""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

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


def test_the_workflow_runs_the_readme_s_command_from_the_oldest_python_on():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text("utf-8"))
    test, oldest = workflow["jobs"]["test"], workflow["jobs"]["oldest-numpy"]
    assert test["steps"][-1]["run"] == "python book.py test"
    assert test["strategy"]["matrix"]["python"][0] == ".".join(map(str, book.OLDEST))
    lowest = dict(book.requirements())["numpy"]
    assert f'-e "{book.BOOK}" "numpy=={lowest}.*"' in oldest["steps"][-2]["run"]
    assert oldest["steps"][-1]["run"].endswith("python book.py test")


def test_readme_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert "CONTRIBUTING.md" in links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_readme_lists_each_chapter_with_minutes_and_exercises():
    problems = list(overview.problems(ROOT))
    assert not problems, "\n".join(problems)


def test_readme_adds_up_the_minutes_of_the_chapters_rightly():
    minutes = {number: int(n) for number, n in re.findall(r"\| (\d\d) \|.*\| (\d+) \| \[", README)}
    weekend = re.search(r"in a weekend\*: (.*), about (\d+) hours", README)
    ours = re.findall(r"\d\d", weekend[1])
    assert len(ours) > 3 and round(sum(minutes[number] for number in ours) / 60) == int(weekend[2])
    told = re.search(r"chapters take about (\d+) hours", README)
    assert len(minutes) > 12 and round(sum(minutes.values()) / 60) == int(told[1])


def test_page_and_docstring_name_the_core_of_the_library():
    assert len(library.core(ROOT)) > 10
    problems = list(library.core_problems(ROOT))
    assert not problems, "\n".join(problems)


def test_pages_show_what_was_recorded():
    recorded, raced = (
        json.loads((ROOT / f"notebooks/results/{number}.json").read_text(encoding="utf-8"))
        for number in (11, 14)
    )
    long = [row for row in raced["whole_race"]["rows"] if row["seconds"] == 600]
    page = (ROOT / "docs/what_comes_out.md").read_text(encoding="utf-8")
    for text, written in [
        (README, long[0]["written"]),
        (page, recorded["plays"]["rows"][0]["written"][-1]),
    ]:
        sample = re.search("writes:\n\n((?: {4}.*\n|\n)+)", text)[1]
        lines = [line.strip() for line in sample.splitlines()]
        assert lines[-1] == "" and "\n".join(lines[:-1]) in written
    runs = {}
    for row in recorded["captions"]["rows"]:
        runs.setdefault(row["model"], []).append(row)
    for name, rows in runs.items():
        scores, greedy, losses = (
            sorted(row[key] for row in rows) for key in ("BLEU", "BLEU greedy", "test loss")
        )
        assert (
            f"| {name} | {rows[0]['weights'] / 1e6:.1f} M | {rows[0]['TFLOPs'][-1]:.0f} "
            f"| {scores[0]:.1f} to {scores[-1]:.1f} | {greedy[0]:.1f} to {greedy[-1]:.1f} "
            f"| {losses[0]:.2f} to {losses[-1]:.2f} |\n"
        ) in page
    said = {
        "| " + " | ".join([*ours, theirs[2]]) + " |"
        for ours, theirs in zip(*(rows[0]["examples"] for rows in runs.values()), strict=True)
    }
    shown = re.search(r"\| German .*\n.*\n((?:\|.*\n)+)", page)[1].splitlines()
    assert len(shown) >= 4 and set(shown) <= said
    [ours] = re.findall(r"> \*\*(.+)\*\* → \*(.+)\*", README)
    assert ours in {(german, theirs) for german, _, theirs in runs["Transformer"][0]["examples"]}


@in_git
def test_what_students_and_graders_make_is_ignored():
    made = ["my/notebooks/a.ipynb", ".venv/x", ".venv-python3.12/x", "submitted/x", "gradebook.db"]
    assert git("check-ignore", *made).split() == made


@in_git
def test_files_have_unix_line_ends():
    lines = git("ls-files", "--eol").splitlines()
    assert [line for line in lines if "/crlf" in line or "/mixed" in line] == []
