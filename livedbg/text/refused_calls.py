"""Calls that a function of C++ refused, as its binding to Python says: what it was given, below what it takes.

Sources: pybind11 include/pybind11/pybind11.h (cpp_function::dispatcher), nanobind src/nb_func.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from livedbg.text.patterns import lazy_re
from livedbg.text.shortening import shortened

_INVOKED: Final = lazy_re(r"Invoked with(?: types)?: (?P<given>\S.{0,8000})")
_TAKES: Final = lazy_re(r"\d{1,3}\. (?P<takes>\S.{0,4000})")
_SHOWN: Final = 130


def refused_call(lines: Sequence[str]) -> str:
    """Return the first sentence of a message's lines with what was given, and what is taken; "" of another message."""
    given = next((found["given"] for line in lines if (found := _INVOKED.match(line)) is not None), "")
    takes = [found["takes"] for line in lines if (found := _TAKES.match(line)) is not None]
    if not given or not takes:
        return ""
    only = f"; it takes {shortened(takes[0], _SHOWN)}" if len(takes) == 1 else ""
    return f"{lines[0].partition('. ')[0].rstrip(':')}: it was given {shortened(given, _SHOWN)}{only}"
