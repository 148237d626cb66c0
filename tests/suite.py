"""Run the test suite; run a few tests that failed once more, alone.

    python -m tests.suite [--strict] [PYTEST ARGUMENT…]

Most tests watch real programs on a machine that also runs other tests. A test that fails in the parallel run gets a
second chance: it runs again when nothing else runs. If it passes then, it has a race, or livedbg has one. The last line
of the output names it.

With `--strict` (`.ci/run` passes it) a test that needed its second chance fails the run, unless
tests/second_chances.toml lists it with a date and a reason.

More than `SECOND_CHANCES` failures are no race: nothing runs again.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

__all__ = ["EXCUSED", "SECOND_CHANCES", "Excuse", "excuses", "main"]

SECOND_CHANCES: Final = 3
"""How many failed tests of a run may run again."""
EXCUSED: Final = Path(__file__).with_name("second_chances.toml")
"""The tests that may need a second chance in a strict run."""
_FAILED: Final = Path(".pytest_cache", "v", "cache", "lastfailed")
"""Where pytest's cacheprovider keeps the tests that failed last: a JSON object with a key for each."""


@dataclass(frozen=True)
class Excuse:
    """A test that may need a second chance in a strict run.

    Attributes:
        test: its node id; without `[…]`, all of its parameters.
        since: the day on which it was listed.
        reason: why it may, and what it takes to fix it.
    """

    test: str
    since: datetime.date
    reason: str


def excuses(path: Path = EXCUSED) -> list[Excuse]:
    """Read the list of tests that may need a second chance.

    Raises:
        TypeError: an entry lacks a key or has another one.
        ValueError: the file is no TOML.
    """
    return [Excuse(**entry) for entry in tomllib.loads(path.read_text()).get("test", [])]


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def _compile(tests: Path) -> None:
    """Compile the tests and what they import, by two processes, in a fresh checkout: else each worker does it."""
    files = sorted(map(str, tests.rglob("test_*.py")))
    if not files or next(tests.rglob("test_*-pytest-*.pyc"), None):
        return
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
    halves = [
        subprocess.Popen([*command, *half], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for half in (files[::2], files[1::2])
    ]
    for half in halves:
        half.wait()


def _unexcused(tests: list[str], path: Path) -> list[str]:
    listed = {excuse.test for excuse in excuses(path)}
    return [test for test in tests if not {test, test.partition("[")[0]} & listed]


def main(arguments: list[str]) -> int:
    """Run pytest in the current folder.

    Args:
        arguments: `--strict`, and those of pytest for the first run.

    Returns:
        pytest's exit code: of the second run, where there was one. In a strict run also 1 where a test passed
        only in the second run and is not excused.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--excused", type=Path, default=EXCUSED)
    options, first_run = parser.parse_known_args(arguments)
    _FAILED.unlink(missing_ok=True)
    _compile(Path("tests"))
    code = _pytest(*first_run)
    if code != pytest.ExitCode.TESTS_FAILED or not _FAILED.exists():
        return code
    failed = list(json.loads(_FAILED.read_text()))
    if len(failed) > SECOND_CHANCES or not all("::" in name for name in failed):  # a module that can't be imported
        return code
    names = ", ".join(failed)
    print(f"\nAgain, alone: {names}", flush=True)
    code = _pytest("-n", "0", *failed)
    if code:
        print(f"SECOND CHANCE: {names}: failed alone too", flush=True)
        return code
    print(f"SECOND CHANCE: {names}: failed in the parallel run, passed alone. Fix the race.", flush=True)
    if options.strict and (unexcused := _unexcused(failed, options.excused)):
        print(f"FAILED: a strict run allows no second chance for {', '.join(unexcused)} ({options.excused.name})")
        return int(pytest.ExitCode.TESTS_FAILED)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
