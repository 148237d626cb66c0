"""The results of a gdb/MI record, as nested dictionaries, lists and texts (gdb manual, "GDB/MI Output Syntax").

Own code and not pygdbmi's parser: that one loops for ever on some lines that gdb never writes, and a program that
babbles instead of gdb would hang livedbg. Like pygdbmi's, it leaves out the names of a list's elements
(`[frame={…},frame={…}]`) and makes a list of values that have one name (gdb bug 22217).

Invariants:
    mi_values.V1. A line costs time in proportion to its length, whatever it contains; nesting is bounded.
"""

from __future__ import annotations

import re
from typing import Any, Final

from livedbg.gdbmi.c_strings import c_string

__all__ = ["DEEPEST", "mi_results"]

DEEPEST: Final = 100
"""Lists and tuples in each other; gdb writes some ten."""

_TOKEN: Final = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([\[\]{},])|([^\s="{}\[\]]+)=)', re.DOTALL)


class _Open:
    """A list or tuple that has not ended."""

    def __init__(self, closing: str) -> None:
        self.closing = closing
        self.fields: dict[str, Any] = {}
        self.elements: list[Any] = []
        self._repeated: set[str] = set()

    def add(self, name: str, value: Any) -> None:
        if self.closing == "]":
            self.elements.append(value)
        elif name in self._repeated:
            self.fields[name].append(value)
        elif name in self.fields:
            self.fields[name] = [self.fields[name], value]
            self._repeated.add(name)
        else:
            self.fields[name] = value


def mi_results(text: str) -> dict[str, Any]:
    """The results of a record.

    Args:
        text: what is behind its class (`^done`), without the comma.

    Raises:
        ValueError: it is none that gdb writes, or nested more than DEEPEST deep.
    """
    stack = [_Open("")]
    names = [""]
    name, at = "", 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at:].isspace():
                break
            raise ValueError(f"no MI value at character {at}")
        at = match.end()
        string, sign, key = match.groups()
        if string is not None:
            stack[-1].add(name, c_string(string))
            name = ""
        elif key is not None:
            name = key
        elif sign == ",":
            name = ""
        elif sign in "[{":
            if len(stack) > DEEPEST:
                raise ValueError(f"nested more than {DEEPEST} deep")
            stack.append(_Open("]" if sign == "[" else "}"))
            names.append(name)
            name = ""
        elif sign != stack[-1].closing:
            raise ValueError(f"{sign} at character {at - 1} closes nothing")
        else:
            ended = stack.pop()
            stack[-1].add(names.pop(), ended.elements if ended.closing == "]" else ended.fields)
            name = ""
    if len(stack) > 1:
        raise ValueError("a list or tuple has no end")
    return stack[0].fields
