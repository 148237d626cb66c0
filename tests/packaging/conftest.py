"""What tests of packages share: pip, and a folder for all workers of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def pip(*words: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


NOT_ISOLATED = "--no-build-isolation"
"""Build with the setuptools of the tests: an environment of its own costs as much as the build. One build has one."""
