"""The Python interpreters that tests can run."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

__all__ = ["PURE", "VERSIONS", "interpreters", "label"]

PURE = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
"""Environment with which other versions find the packages of this one that are Python only (trio)."""

VERSIONS = Path("~/.pyenv/versions").expanduser()


def interpreters(*versions: str) -> list[str]:
    """This interpreter, and others of the wanted versions that are installed for this user."""
    found = [sys.executable]
    for version in versions:
        found += [str(path) for path in sorted(VERSIONS.glob(f"{version}.*/bin/python"))[:1]]
    return found


def label(python: str) -> str:
    """The name of a test's parameter."""
    return "this" if python == sys.executable else Path(python).parents[1].name
