"""The second chance for tests that failed in the parallel run, and the list of those that may need it."""

from __future__ import annotations

import ast
import datetime
import os
import subprocess
import sys
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.suite import SECOND_CHANCES, Excuse, excuses

ROOT = Path(__file__).parents[1]

ONCE = """
import pathlib

def test_it():
    been = pathlib.Path("been")
    was_there = been.exists()
    been.touch()
    assert was_there, "a first time"
"""
ALWAYS = "def test_it():\n    assert not 1\n"
WELL = "def test_it():\n    pass\n"
MANY = (
    f"import pytest\n\n@pytest.mark.parametrize('n', range({SECOND_CHANCES + 1}))\ndef test_it(n):\n    assert n < 0\n"
)
BROKEN = "import nowhere_at_all\n"


NAME = "test_one.py::test_it"
RACE = f"SECOND CHANCE: {NAME}: failed in the parallel run, passed alone"
ONLY_XDIST = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
LONGEST = datetime.timedelta(weeks=4)


def run(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the suite on one module."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_one.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "tests.suite", *options, "-n", "1", "-q"],
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **ONLY_XDIST},
        capture_output=True,
        text=True,
        timeout=250,
    )


@pytest.mark.parametrize(
    ("source", "code", "again"),
    [
        (WELL, 0, ""),
        (ONCE, 0, RACE),
        (ALWAYS, 1, f"SECOND CHANCE: {NAME}: failed alone too"),
        (MANY, 1, ""),
        (BROKEN, 1, ""),
    ],
    ids=["well", "once", "always", "many", "broken"],
)
def test_what_fails_once_is_run_again_and_named(source: str, code: int, again: str, tmp_path: Path) -> None:
    done = run(tmp_path, source)
    assert done.returncode == code, done.stdout + done.stderr
    assert (again in done.stdout) if again else ("SECOND CHANCE" not in done.stdout)


def test_a_fresh_checkout_is_compiled_before_the_workers_start(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_two.py").write_text(WELL)
    assert run(tmp_path, WELL, "test_one.py").returncode == 0
    compiled = [path.name.partition(".")[0] for path in tmp_path.rglob("*-pytest-*.pyc")]
    assert sorted(compiled) == ["test_one", "test_two"]


@pytest.mark.parametrize(("listed", "code"), [(NAME, 0), ("test_one.py::test_other", 1), ("", 1)])
def test_a_strict_run_fails_for_a_second_chance_that_is_not_listed(listed: str, code: int, tmp_path: Path) -> None:
    entry = f'[[test]]\ntest = "{listed}"\nsince = 2026-01-31\nreason = "a race"\n'
    (tmp_path / "listed.toml").write_text(entry if listed else "")
    done = run(tmp_path, ONCE, "--strict", "--excused", "listed.toml")
    assert done.returncode == code, done.stdout + done.stderr
    assert RACE in done.stdout
    assert (f"FAILED: a strict run allows no second chance for {NAME} (listed.toml)" in done.stdout) == bool(code)


def test_ci_runs_the_suite_strictly() -> None:
    assert "make test SUITE=--strict" in (ROOT / ".ci" / "run").read_text()
    shown = subprocess.run(
        ["make", "-n", "unit", "SUITE=--strict"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
    )
    assert "-m tests.suite --strict -n " in shown.stdout


def wrong(excuse: Excuse, today: datetime.date) -> list[str]:
    """What is wrong with an entry of the list."""
    path, _, name = excuse.test.partition("[")[0].partition("::")
    module = ROOT / path
    names = {node.name for node in ast.walk(ast.parse(module.read_text() if module.is_file() else "")) if named(node)}
    found = [] if set(name.split("::")) <= names else [f"{excuse.test} does not exist"]
    if not today - LONGEST <= excuse.since <= today:
        found.append(f"{excuse.test} is listed since {excuse.since}: fix it")
    return found + ([] if excuse.reason else [f"{excuse.test} has no reason"])


def named(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """True for a function or a class."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def test_the_list_of_second_chances_is_short_recent_and_names_tests() -> None:
    listed = excuses()
    assert len(listed) <= SECOND_CHANCES
    assert [problem for excuse in listed for problem in wrong(excuse, datetime.date.today())] == []


@pytest.mark.parametrize(
    ("test", "days", "problem"),
    [
        ("tests/test_suite.py::test_ci_runs_the_suite_strictly", 28, ""),
        ("tests/test_suite.py::test_ci_runs_the_suite_strictly[a]", 0, ""),
        ("tests/test_suite.py::test_ci_runs_the_suite_strictly", 29, "is listed since 2026-01-01"),
        ("tests/test_suite.py::test_ci_runs_the_suite_strictly", -1, "is listed since"),
        ("tests/test_suite.py::test_nothing", 0, "does not exist"),
        ("tests/test_nowhere.py::test_nothing", 0, "does not exist"),
    ],
)
def test_an_old_entry_and_one_of_no_test_are_found(test: str, days: int, problem: str) -> None:
    since = datetime.date(2026, 1, 1)
    found = wrong(Excuse(test, since, "a race"), since + datetime.timedelta(days))
    assert (len(found) == 1 and problem in found[0]) if problem else found == []
