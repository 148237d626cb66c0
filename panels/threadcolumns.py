"""The columns of a table of threads: which there are, how wide they are, and what processes a row names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from livedbg.model import Process
from livedbg.panels.cells import width_of
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.table import Column, Rows
from livedbg.text.wording import spans

__all__ = ["THREAD_COLUMNS", "columns_of", "pids", "ranks"]

THREAD_COLUMNS: Final = (
    Column("STATE", 9, keep=10, sort="state"),
    Column("PID", 3, keep=4, align="right"),
    Column("RANK", 4, keep=9, align="right"),
    Column("TID", 3, keep=9, sort="tid", align="right"),
    Column("NAME", 4, keep=10, sort="name"),
    Column("CPU", 5, keep=4, sort="cpu", align="right"),
    Column("DOES", 11, keep=2),
    Column("WAITS FOR", 13, stretch=1, keep=8),
    Column("AT", 16, stretch=1, keep=6),
    Column("SINCE", 9, keep=7, sort="since", align="right"),
    Column("BEHIND", 7, keep=5, sort="behind", align="right"),
)

_MEASURED: Final = 2000
"""Rows that decide how wide columns are."""

_WIDEST: Final = {"PID": 12, "RANK": 8, "TID": 10, "NAME": 18}
_NAMED: Final = {"PID": 9, "TID": 3}
"""What distinguishes processes is kept longer than the number of a thread, where there are several."""


def columns_of(context: DrawContext, rows: Rows) -> tuple[Column, ...]:
    """The columns for these rows: numbers and names take no more room than they need, 0 cells where they say nothing.

    PID and RANK are there where the rows are of more than one process.
    """
    threads, processes = context.snapshot.threads, context.snapshot.processes
    found = {thread.process for row in rows.order for one in rows.of(row) if (thread := threads.get(one))}
    ranked = any(known.rank is not None for name in found if (known := processes.get(name)))
    shown = [(thread, rows.of(row)) for row in rows.order[:_MEASURED] if (thread := threads.get(row))]
    wide = {
        "TID": _widest(str(thread.tid) for thread, _members in shown),
        "NAME": _widest(thread.title for thread, _members in shown),
        "PID": _widest(pids(context, members) for _thread, members in shown) if len(found) > 1 else 0,
        "RANK": _widest(ranks(context, members) for _thread, members in shown) if len(found) > 1 and ranked else 0,
    }
    wanted = {name: max(min(cells, _WIDEST[name]), len(name)) if cells else 0 for name, cells in wide.items()}
    many = max((len(members) for _thread, members in shown), default=1)
    wanted["NAME"] = max(min(wide["NAME"] + (len(f"×{many} ") if many > 1 else 0), 18), 4)
    keep = ({**_NAMED, "PID": 4} if ranked else _NAMED) if len(found) > 1 else {}
    return tuple(replace(c, width=wanted.get(c.title, c.width), keep=keep.get(c.title, c.keep)) for c in THREAD_COLUMNS)


def pids(context: DrawContext, members: Iterable[str]) -> str:
    """`4711`, `4711 +3` for four processes."""
    found = list(dict.fromkeys(process.pid for process in _processes(context, members)))
    return f"{found[0]}{f' +{len(found) - 1}' if len(found) > 1 else ''}" if found else ""


def ranks(context: DrawContext, members: Iterable[str]) -> str:
    """`3`, `0-2,5` for four processes."""
    return spans(process.rank for process in _processes(context, members) if process.rank is not None)


def _processes(context: DrawContext, members: Iterable[str]) -> Iterator[Process]:
    shot = context.snapshot
    for name in dict.fromkeys(thread.process for one in members if (thread := shot.threads.get(one))):
        known = shot.processes.get(name)
        if known is not None:
            yield known


def _widest(texts: Iterable[str]) -> int:
    return max(map(width_of, set(texts)), default=0)
