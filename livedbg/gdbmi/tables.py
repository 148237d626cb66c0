"""Tables of MI output, scanned: `NAME={nr_rows="2",nr_cols="3",hdr=[…],body=[ROW={COLUMN="VALUE",…},…]}`.

A table of some thousand rows takes seconds in the general parser. Here only the rows are read, and no more than a limit
of them (gdb manual, "GDB/MI Output Syntax"). A row holds texts alone, so the reader says which tables it means.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.gdbmi.c_strings import c_string
from livedbg.text.patterns import lazy_re

MAX_ROWS: Final = 100_000
"""Rows that are kept of one table."""

_HEAD: Final = lazy_re(r',(\w+)=\{nr_rows="(\d{1,18})",nr_cols="\d{1,18}",hdr=\[')
_BODY: Final = lazy_re(r"body=\[")
_ROW: Final = lazy_re(r'(?:\w+=)?\{((?:[\w-]+="(?:[^"\\]|\\.)*",?)*)\}')
_FIELD: Final = lazy_re(r'(?<![\w-])([\w-]+)=("(?:[^"\\]++|\\.)*+")')


class MiTable(list[dict[str, str]]):
    """The rows of a table, each column -> text.

    Attributes:
        name: of the table.
        declared: how many rows it declares; more than are here when it is cut or too long.
    """

    def __init__(self, name: str, declared: int, rows: list[dict[str, str]]) -> None:
        super().__init__(rows)
        self.name = name
        self.declared = declared


def mi_table(results: str, names: re.Pattern[str]) -> MiTable | None:
    """The table that an answer consists of; None where it is none. What is behind the last whole row is left.

    Args:
        results: what is behind `^done`, with its comma.
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
