"""Whether a target is as if nobody had ever touched it: it runs, counts on, is nobody's tracee, and its code is that
of its files."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Final

from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import parse_maps
from livedbg.linux.procfs import child_pids, process_ids, read_file, read_stat, status_fields, thread_ids
from livedbg.model import ThreadState
from tests.waiting import WALL_S

COUNTERS: Final = ("heartbeat", "runtime_error", "sold_out", "closed", "number", "forks")
"""What tests/targets/thrower.cpp counts."""

_STANDING: Final = (ThreadState.STOPPED, ThreadState.TRACED)
_CHUNK: Final = 4 << 20


def counters(file: Path, layout: tuple[str, ...] = COUNTERS) -> dict[str, int]:
    """What a target has counted: 8 bytes a counter, in the order of the layout."""
    data = file.read_bytes()[: 8 * len(layout)]
    return dict(zip(layout, struct.unpack(f"<{len(layout)}Q", data), strict=True))


def counts_on(
    file: Path, names: tuple[str, ...] = COUNTERS, deadline_s: float = WALL_S, layout: tuple[str, ...] = COUNTERS
) -> bool:
    """Whether each counter moves; one of a target that stands never does, so only the clock can end the wait."""
    first, end = counters(file, layout), time.monotonic() + deadline_s
    while any(counters(file, layout)[name] == first[name] for name in names):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def untouched(pid: int) -> bool:
    """Whether no thread is traced or stands."""
    try:
        return all(
            status_fields(pid, tid)["TracerPid"] == "0" and read_stat(pid, tid).state not in _STANDING
            for tid in thread_ids(pid)
        )
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread that ended meanwhile: look again


def family_untouched(pid: int) -> bool:
    """Whether no thread of a process and of its children that last is traced or stands."""
    if not untouched(pid):
        return False
    return all(untouched(child) or not Path(f"/proc/{child}").exists() for child in child_pids(pid))


def changed_code(pid: int) -> list[str]:
    """The mapped code that differs from its file."""
    found = []
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        for mapping in parse_maps(pid):
            if not mapping.executable or not mapping.path.startswith("/"):
                continue
            with mapped_file(pid, mapping).open("rb", buffering=0) as file:
                file.seek(mapping.offset)
                at = mapping.start
                while kept := file.read(min(_CHUNK, mapping.end - at)):
                    if os.pread(memory, len(kept), at) != kept:
                        found.append(mapping.path)
                        break
                    at += len(kept)
    finally:
        os.close(memory)
    return found


def guards(pid: int) -> list[int]:
    """The guards over a process."""
    found = []
    for other in process_ids():
        try:
            words = read_file(f"/proc/{other}/cmdline").split(b"\0")
        except OSError:
            continue
        if b"guard.py" in words and str(pid).encode() in words[words.index(b"guard.py") :][1:3]:
            found.append(other)
    return found
