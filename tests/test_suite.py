"""The suite's second chance for what failed beside other tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite import SECOND_CHANCES

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


@pytest.mark.parametrize(
    ("source", "code", "again"),
    [
        (WELL, 0, ""),
        (ONCE, 0, "SECOND CHANCE: test_one.py::test_it: failed beside others and passed alone"),
        (ALWAYS, 1, "SECOND CHANCE: test_one.py::test_it: failed alone too"),
        (MANY, 1, ""),
        (BROKEN, 1, ""),
    ],
    ids=["well", "once", "always", "many", "broken"],
)
def test_what_fails_once_is_run_again_and_named(source: str, code: int, again: str, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_one.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "tests.suite", "-n", "2", "-q"],
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert (again in done.stdout) if again else ("SECOND CHANCE" not in done.stdout)
