"""Parses lines of a rocgdb session: queues, dispatches, waves, and where the debugger stopped.

Source: ROCgdb's manual, "Heterogeneous Debugging" (`info queues`, `info dispatches`, `info threads`, `info lanes`), and
gdb/amd-dbgapi-target.c for the names of targets: `AMDGPU Queue AGENT:QUEUE (QID n)`, `AMDGPU Dispatch
AGENT:QUEUE:DISPATCH (PKID n)`, `AMDGPU Wave AGENT:QUEUE:DISPATCH:WAVE (x,y,z)/n`, `AMDGPU Lane …/LANE (x,y,z)[x,y,z]`.
Each function takes a line and returns None if it does not match.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from msgspec import Struct

from livedbg.text.patterns import lazy_re

_QUEUE: Final = lazy_re(
    r"AMDGPU Queue (?P<agent>\d{1,6}):(?P<queue>\d{1,9})(?: \(QID \d{1,20}\))? +(?P<type>\S.{0,40}?) +"
    r"(?P<read>\d{1,20}) +(?P<write>\d{1,20}) +(?P<size>\d{1,20}) +0x[0-9a-f]{1,16}"
)
_DISPATCH: Final = lazy_re(
    r"AMDGPU Dispatch (?P<id>\d{1,6}:\d{1,9}:\d{1,12})(?: \(PKID (?P<packet>\d{1,20})\))? {1,50}"
    r"(?P<grid>\[[\d,]{1,60}\]) {1,50}"
    r"(?P<group>\[[\d,]{1,60}\]) {1,50}(?P<fence>[A-Za-z|]{0,20}) {1,50}(?P<kernel>\S.{0,1000})"
)
_WAVE: Final = lazy_re(
    r"^\s{0,100}(?:\* )?\s{0,100}\d{1,9} {1,50}AMDGPU Wave (?P<id>\d{1,6}:\d{1,9}:\d{1,12}:\d{1,12}|\?:\?:\?:\d{1,12})"
    r" \((?P<group>[\d,?]{1,60})\)/(?:\d{1,9}|\?)(?: {1,50}\"(?P<name>[^\"]{0,64})\")? {1,50}(?P<frame>\S.{0,4000})"
)
_LANE: Final = lazy_re(
    r"AMDGPU Lane (?P<id>\d{1,6}:\d{1,9}:\d{1,12}:\d{1,12})/(?P<lane>\d{1,4}) \((?P<group>[\d,]{1,60})\)"
    r"\[(?P<item>[\d,]{1,60})\]"
)
_SIGNAL: Final = lazy_re(
    r"^(?:Thread \d{1,9}|Program)(?: \"[^\"]{0,64}\")? received signal (?P<name>SIG[A-Z]{2,8}), (?P<text>[^.\n]{1,60})"
)
_FATAL: Final = frozenset({"SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"})
_FRAME: Final = lazy_re(r"^(?:#\d{1,4} +)?(?:0x[0-9a-f]{1,16} in )?(?P<function>[^\s(][^(\n]{0,500}?) ?\(")
_PLACE: Final = lazy_re(r"\) at (?P<file>[^\s:][^:\n]{0,400}):(?P<line>\d{1,9})\s*$")
_COMMENT: Final = "<"


class Queue(Struct, frozen=True):
    """A queue of a GPU.

    Attributes:
        id: `AGENT:QUEUE`.
        type: as the debugger prints it (`HSA`, `DMA`).
        read: number of the packet that the GPU takes next.
        write: number of the packet that the program writes next.
    """

    id: str
    type: str
    read: int
    write: int

    @property
    def waiting(self) -> int:
        """Packets that are written but not taken yet."""
        return max(0, self.write - self.read)


class Dispatch(Struct, frozen=True):
    """A kernel that was launched and has not completed.

    Attributes:
        id: `AGENT:QUEUE:DISPATCH`.
        packet: its number in its queue.
        grid: work items, as `[x,y,z]`.
        group: work items of a work-group.
        fence: barrier and fences, as abbreviations.
    """

    id: str
    packet: int | None
    grid: str
    group: str
    fence: str
    kernel: str


class Wave(Struct, frozen=True):
    """A wave of a dispatch.

    Attributes:
        dispatch: id; "" if unknown.
        group: its work-group.
        function: of its innermost frame; "" while it runs.
        frame: the rest of its line.
    """

    dispatch: str
    group: str
    function: str
    frame: str


class Lane(Struct, frozen=True):
    """One work item: its dispatch, work-group, and position in that."""

    dispatch: str
    group: str
    item: str


def queue(line: str) -> Queue | None:
    """Parse a row of `info queues`."""
    found = _QUEUE.search(line)
    if found is None:
        return None
    return Queue(f"{found['agent']}:{found['queue']}", found["type"], int(found["read"]), int(found["write"]))


def dispatch(line: str) -> Dispatch | None:
    """Parse a row of `info dispatches`."""
    found = _DISPATCH.search(line)
    if found is None:
        return None
    packet = int(found["packet"]) if found["packet"] else None
    return Dispatch(found["id"], packet, found["grid"], found["group"], found["fence"], found["kernel"].strip())


def wave(line: str) -> Wave | None:
    """Parse a row of `info threads` that is a wave of a GPU."""
    found = _WAVE.match(line)
    if found is None:
        return None
    known = "" if found["id"].startswith("?") else found["id"].rpartition(":")[0]
    frame = found["frame"]
    at = None if frame.startswith("(running)") else _FRAME.match(frame)
    return Wave(known, found["group"], at["function"] if at is not None else "", frame)


def lane(line: str) -> Lane | None:
    """Parse the line that names the work item that the debugger switched to."""
    found = _LANE.search(line)
    return Lane(found["id"].rpartition(":")[0], found["group"], found["item"]) if found is not None else None


def signalled(line: str) -> tuple[str, str] | None:
    """Return name and meaning of the signal that the debugger stopped at, if it ends a program."""
    found = _SIGNAL.match(line)
    return (found["name"], found["text"].strip()) if found is not None and found["name"] in _FATAL else None


def place(line: str) -> tuple[str, str]:
    """Return `(function, file:line)` of a frame, each "" if the line does not have it."""
    at, where = _FRAME.match(line), _PLACE.search(line)
    function = at["function"] if at is not None and not at["function"].startswith(_COMMENT) else ""
    return function, f"{PurePath(where['file']).name}:{where['line']}" if where is not None else ""
