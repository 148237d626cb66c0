"""Entity identifiers: building and parsing.

An identifier is `KIND:PATH`, PATH being parts joined by `/`. It is stable for the life of the entity, unique over all
hosts of a job, and shown in `report --json` (docs/report-schema.md lists every kind).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from livedbg.text.patterns import lazy_re

_PROCESS: Final = lazy_re(r"process:[^/\s]{1,255}/\d+")


class EntityRef(Struct, frozen=True):
    """A parsed identifier."""

    kind: str
    parts: tuple[str, ...]

    @property
    def short(self) -> str:
        """Return the last part: the tid of a thread, the address of a lock, the name of a task."""
        return self.parts[-1]


def parse(entity_id: str) -> EntityRef:
    """Parse an identifier.

    Raises:
        ValueError: `entity_id` has no kind or no path.
    """
    kind, sep, path = entity_id.partition(":")
    if not sep or not kind or not path:
        raise ValueError(f"not an entity identifier: {entity_id!r}")
    return EntityRef(kind, tuple(path.split("/")))


def process(host: str, pid: int) -> str:
    """Return `process:HOST/PID`."""
    return f"process:{host}/{pid}"


def thread(host: str, pid: int, tid: int) -> str:
    """Return `thread:HOST/PID/TID` (tids of the host's PID namespace)."""
    return f"thread:{host}/{pid}/{tid}"


def lock(kind: str, host: str, pid: int, address: int) -> str:
    """Return `KIND:HOST/PID/0xADDRESS` for an object in a process's memory, e.g. a `mutex` or a `pylock`.

    The pid of a process-shared object is the lowest one that is known to map it.
    """
    return f"{kind}:{host}/{pid}/{address:#x}"


def fd_object(kind: str, host: str, number: int | str) -> str:
    """Return `KIND:HOST/INODE` for a kernel object: `pipe`, `socket`, `eventfd`, `flock`, `file`."""
    return f"{kind}:{host}/{number}"


def task(system: str, *names: str) -> str:
    """Return `task:SYSTEM/[rankN/]NAME`, e.g. `task:toy/r0t12`."""
    return f"task:{system}/{'/'.join(names)}"


def core(system: str, number: int) -> str:
    """Return `core:SYSTEM/N`, e.g. `core:toy/8`."""
    return f"core:{system}/{number}"


def collective(group: str, sequence: int | str) -> str:
    """Return `task:collective/PG/SEQ`; without a number `task:collective/PG/recv.0.1.7`."""
    return f"task:collective/{group}/{sequence}"


def rank(number: int) -> str:
    """Return `rank:N`."""
    return f"rank:{number}"


def process_of(entity_id: str) -> str | None:
    """Return the process of a thread or of an object in its memory; a process is its own.

    None for what outlives a process: kernel objects, tasks, devices.
    """
    kind, _, path = entity_id.partition(":")
    if kind == "process":
        return entity_id
    parts = path.split("/")
    if len(parts) != 3 or kind == "task" or not parts[1].isdecimal():
        return None
    return f"process:{parts[0]}/{parts[1]}"


def processes_in(scope: str) -> frozenset[str]:
    """Return the processes in the name of a scope of edges, e.g. `proc/process:box/4711/threads`."""
    return frozenset(_PROCESS.findall(scope))
