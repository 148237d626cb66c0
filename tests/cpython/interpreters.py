"""The Python interpreters that tests can run."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["VERSIONS", "interpreters", "label"]

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
