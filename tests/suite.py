"""Runs the test suite; a few tests that failed are run once more, alone, and named.

    python -m tests.suite [PYTEST ARGUMENT…]

Most tests watch real programs by the clock of the machine that they run on. One that is held up for long enough at a
bad moment makes a good program look late, so a test that fails beside others gets a second chance when nothing else
runs. That it needed one is printed at the end, where nobody overlooks it: it is a defect of the test or, worse, of
livedbg. More than `SECOND_CHANCES` failures are no accident, and nothing is run again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

__all__ = ["SECOND_CHANCES", "main"]

SECOND_CHANCES: Final = 3
"""Tests of a run that may be run again."""
_FAILED: Final = Path(".pytest_cache", "v", "cache", "lastfailed")
"""Where pytest's cacheprovider keeps the tests that failed last: a JSON object with a key for each."""


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def main(arguments: list[str]) -> int:
    """Run pytest in the current folder.

    Args:
        arguments: those of pytest, for the first run.

    Returns:
        pytest's exit code: of the second run, where there was one.
    """
    _FAILED.unlink(missing_ok=True)
    code = _pytest(*arguments)
    if code != pytest.ExitCode.TESTS_FAILED or not _FAILED.exists():
        return code
    failed = list(json.loads(_FAILED.read_text()))
    if len(failed) > SECOND_CHANCES or not all("::" in name for name in failed):  # a module that can't be imported
        return code
    print(f"\nOnce more, alone: {', '.join(failed)}", flush=True)
    code = _pytest("-n", "0", *failed)
    verdict = "failed alone too" if code else "failed beside others and passed alone, which is a defect to be mended"
    print(f"SECOND CHANCE: {', '.join(failed)}: {verdict}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
