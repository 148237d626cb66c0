"""The Python interpreters that tests can run."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

__all__ = ["PURE", "VERSIONS", "gevent_environment", "gevent_interpreters", "interpreters", "label"]

PURE = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
"""Environment with which other versions find the packages of this one that are Python only (trio)."""

VERSIONS = Path("~/.pyenv/versions").expanduser()
COMPILED = Path(sys.prefix) / "pythons"
"""Packages for other versions that are not Python only (gevent), by version: `.ci/setup test` puts them there."""


def interpreters(*versions: str) -> list[str]:
    """This interpreter, and others of the wanted versions that are installed for this user."""
    found = [sys.executable]
    for version in versions:
        found += [str(path) for path in sorted(VERSIONS.glob(f"{version}.*/bin/python"))[:1]]
    return found


def gevent_interpreters() -> list[str]:
    """This interpreter, and those of the others for which gevent is there."""
    return [sys.executable, *(python for python in interpreters("3.12", "3.13")[1:] if _gevent_of(python).is_dir())]


def gevent_environment(python: str) -> dict[str, str]:
    """Environment with which an interpreter finds gevent."""
    if python == sys.executable:
        return dict(os.environ)
    return {**os.environ, "PYTHONPATH": str(_gevent_of(python).parent)}


def _gevent_of(python: str) -> Path:
    version = ".".join(label(python).split(".")[:2])
    return COMPILED / version / "site-packages" / "gevent"


def label(python: str) -> str:
    """The name of a test's parameter."""
    return "this" if python == sys.executable else Path(python).parents[1].name
