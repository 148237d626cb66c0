"""Whether results are as gdb/MI writes them (gdb manual, "GDB/MI Output Syntax"): a guard before pygdbmi's parser.

pygdbmi's parser loops for ever on lists that are cut short, on signs in the wrong place and on other lines that gdb
never writes. A program that writes them instead of gdb would hang livedbg.

Invariants:
    mi_grammar.V1. A line costs time in proportion to its length, whatever it contains; nesting is bounded.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["DEEPEST", "is_well_formed"]

DEEPEST: Final = 100
"""Lists and tuples in each other; gdb writes some ten."""

_VALUE: Final = re.compile(r'(?P<name>[A-Za-z_][\w-]*=)?(?:"(?:[^"\\]|\\.)*"|(?P<opened>[\[{]))', re.DOTALL)
_CLOSING: Final = {"[": "]", "{": "}"}


def is_well_formed(text: str) -> bool:
    """Whether a text is a list of results.

    In a list, gdb mixes values with and without a name (gdb bug 22217); elsewhere each has one.

    Args:
        text: what is behind a record's class (`^done`), without the comma.
    """
    closings: list[str] = []
    at, empty = 0, False
    while True:
        if not (empty and text[at : at + 1] == closings[-1]):
            match = _VALUE.match(text, at)
            if match is None or (match["name"] is None and closings[-1:] != ["]"]):
                return False
            at, empty = match.end(), match["opened"] is not None
            if empty:
                closings.append(_CLOSING[match["opened"]])
                if len(closings) > DEEPEST:
                    return False
                continue
        while closings and text[at : at + 1] == closings[-1]:
            closings.pop()
            at += 1
        empty = False
        if at == len(text):
            return not closings
        if text[at] != ",":
            return False
        at += 1
