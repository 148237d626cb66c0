"""One line of gdb/MI output, taken apart (gdb manual, "GDB/MI Output Syntax").

pygdbmi's parser does the work, behind a guard (livedbg.gdbmi.grammar). Large tables are scanned (livedbg.gdbmi.tables).
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from livedbg.gdbmi.c_strings import c_string
from livedbg.gdbmi.grammar import is_well_formed
from livedbg.gdbmi.tables import mi_table

__all__ = ["MAX_PAYLOAD", "Record", "c_string", "parse_line"]

MAX_PAYLOAD: Final = 8 << 20
"""Longest result payload that is parsed, bytes; bulk answers come as JSON on the console instead."""

_RECORD = re.compile(r"^(\d{1,18})?([\^*=+])([a-z-]+)(,.*)?$", re.DOTALL)


class Record(NamedTuple):
    """A result or an asynchronous record.

    Attributes:
        token: of the command that it answers, or None.
        kind: `^` result, `*` execution, `=` notification, `+` status.
        name: `done`, `error`, `running`, `stopped`, …
        payload: its results; empty where it has none or they could not be parsed.
        broken: its results were there and could not be parsed.
    """

    token: int | None
    kind: str
    name: str
    payload: dict[str, Any]
    broken: bool = False


def parse_line(line: str, tables: re.Pattern[str] | None = None) -> Record | None:
    """The record of a whole line; None for stream output, the prompt and anything else.

    Args:
        tables: names of the tables that are read by rows (livedbg.gdbmi.tables).
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
