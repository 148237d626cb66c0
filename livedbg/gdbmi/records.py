"""Parses one line of gdb/MI output (gdb manual, "GDB/MI Output Syntax").

pygdbmi's parser does the work. A guard before it checks that results are as gdb/MI writes them: pygdbmi's parser loops
for ever on lists that are cut short, on signs in the wrong place and on other lines that gdb never writes. A program
that writes them instead of gdb would hang livedbg.

Tables, `NAME={nr_rows="2",nr_cols="3",hdr=[…],body=[ROW={COLUMN="VALUE",…},…]}`, are scanned instead: one of some
thousand rows takes seconds in the general parser. Only the rows are read, and no more than a limit of them. A row holds
texts alone, so the reader says which tables it means.

Invariants:
    mi_grammar.V1. A line costs time in proportion to its length, whatever it contains; nesting is bounded.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from livedbg.text.patterns import lazy_re

__all__ = ["MAX_PAYLOAD", "Record", "c_string", "parse_line"]

_ESCAPE = lazy_re(r"\\(?:([0-7]{1,3})|(.))", re.DOTALL)
_SIMPLE: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}


def c_string(literal: str) -> str:
    """Return the text of a quoted C string of MI, octal escapes as UTF-8 bytes."""
    body = literal[1:-1] if len(literal) >= 2 and literal[0] == '"' == literal[-1] else literal
    if "\\" not in body:
        return body
    raw = _ESCAPE.sub(_unescape, body)
    return raw.encode("latin-1", "surrogateescape").decode("utf-8", "replace") if _is_latin(raw) else raw


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 8) & 0xFF)
    return _SIMPLE.get(match[2], match[2])


def _is_latin(text: str) -> bool:
    return all(ord(sign) < 256 for sign in text)


MAX_ROWS: Final = 100_000
"""Rows that are kept of one table."""

_HEAD: Final = lazy_re(r',(\w+)=\{nr_rows="(\d{1,18})",nr_cols="\d{1,18}",hdr=\[')
_BODY: Final = lazy_re(r"body=\[")
_ROW: Final = lazy_re(r'(?:\w+=)?\{((?:[\w-]+="(?:[^"\\]|\\.)*",?)*)\}')
_FIELD: Final = lazy_re(r'(?<![\w-])([\w-]+)=("(?:[^"\\]++|\\.)*+")')


class MiTable(list[dict[str, str]]):
    """The rows of a table, each column -> text; more are `declared` if it is cut or too long."""

    def __init__(self, name: str, declared: int, rows: list[dict[str, str]]) -> None:
        super().__init__(rows)
        self.name = name
        self.declared = declared


def mi_table(results: str, names: re.Pattern[str]) -> MiTable | None:
    """Return the table that an answer consists of, up to its last whole row; None if it is no table.

    Args:
        results: the text after `^done`, with its comma.
        names: the whole names of the tables to read.
    """
    head = _HEAD.match(results)
    if head is None or not names.fullmatch(head[1]):
        return None
    rows: list[dict[str, str]] = []
    body = _BODY.search(results, head.end())
    at = len(results) if body is None else body.end()
    while len(rows) < MAX_ROWS:
        row = _ROW.match(results, at)
        if row is None:
            break
        rows.append({name: c_string(value) for name, value in _FIELD.findall(row[1])})
        at = row.end() + 1  # the comma
    return MiTable(head[1], int(head[2]), rows)


DEEPEST: Final = 100
"""Lists and tuples in each other; gdb writes some ten."""

_VALUE: Final = lazy_re(r'(?P<name>[A-Za-z_][\w-]*=)?(?:"(?:[^"\\]|\\.)*"|(?P<opened>[\[{]))', re.DOTALL)
_CLOSING: Final = {"[": "]", "{": "}"}


def is_well_formed(text: str) -> bool:
    """Return whether the text after a record's class (`^done`) and comma is a list of results.

    In a list, gdb mixes values with and without a name (gdb bug 22217); elsewhere each has one.
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


MAX_PAYLOAD: Final = 8 << 20
"""Longest result payload that is parsed, bytes; bulk answers come as JSON on the console instead."""

_RECORD = lazy_re(r"^(\d{1,18})?([\^*=+])([a-z-]+)(,.*)?$", re.DOTALL)


class Record(NamedTuple):
    """A result or an asynchronous record.

    Attributes:
        token: of the command that it answers, or None.
        kind: `^` result, `*` execution, `=` notification, `+` status.
        name: `done`, `error`, `running`, `stopped`, …
        payload: its results; empty if it has none or they could not be parsed.
        broken: its results could not be parsed.
    """

    token: int | None
    kind: str
    name: str
    payload: dict[str, Any]
    broken: bool = False


def parse_line(line: str, tables: re.Pattern[str] | None = None) -> Record | None:
    """Return the record of a whole line; None for stream output, the prompt and anything else.

    `tables` are the names of tables that are read by rows.
    """
    match = _RECORD.match(line)
    if match is None:
        return None
    token = int(match[1]) if match[1] else None
    kind, name, rest = match[2], match[3], match[4]
    if not rest:
        return Record(token, kind, name, {})
    if name == "done" and tables is not None and (table := mi_table(rest, tables)) is not None:
        return Record(token, kind, name, {table.name: table})
    if len(rest) > MAX_PAYLOAD or not is_well_formed(rest[1:]):
        return Record(token, kind, name, {}, broken=True)
    from pygdbmi.gdbmiparser import parse_response  # 9 ms, and most sessions have no gdb

    try:
        payload = parse_response(f"{kind}{name}{rest}").get("payload")
    except (IndexError, KeyError, TypeError, ValueError, AssertionError):
        return Record(token, kind, name, {}, broken=True)
    if not isinstance(payload, dict):
        return Record(token, kind, name, {}, broken=True)
    return Record(token, kind, name, payload)
