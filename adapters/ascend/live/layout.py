"""Offsets of the scheduler's variables, from the debug information of the AICPU's shared library.

A gdb of our own, attached to nothing, opens the library and runs `gdb_types.py`. Names of structures and fields:
simpler src/a2a3/runtime/{tensormap_and_ringbuffer,host_build_graph}/runtime/scheduler/scheduler_context.h,
scheduler_types.h, pto_scheduler.h, pto_shared_memory.h, pto_runtime2_types.h, pto_async_wait.h of 2026.

Invariants:
    live_layout.L1. Every field is looked up by name; one that is not there is missing, its place is never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from livedbg.adapters.ascend.messages import read_data
from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbCommandError
from livedbg.text.patterns import lazy_re

EXECUTOR: Final = "g_aicpu_executor"
"""The variable that everything hangs on (aicpu_executor.cpp of both runtimes)."""

_ROOT: Final = "executor"  # the structure that the others are reached from
_SCRIPT: Final = Path(__file__).with_name("gdb_types.py")
_LIMIT_S: Final = 60.0
_UNSAFE: Final = lazy_re(r"[\x00-\x1f\x7f\"\\]")


class Field(Struct, frozen=True, forbid_unknown_fields=True):
    """A scheduler field to read (data/fields.toml)."""

    paths: tuple[str, ...]
    leads_to: str = ""
    loss: str = ""
    needed: bool = False


@cache
def wanted_fields() -> dict[str, Field]:
    """Return the fields by our own names: `structure.field`."""
    return read_data("fields.toml", dict[str, Field])


class Place(NamedTuple):
    """A field inside its structure.

    Attributes:
        offset: from the structure's first byte.
        size: of one element.
        length: number of consecutive elements.
        target: the structure that it is, or points to.
        target_size: size of that.
        relative: it holds an offset from itself, not an address.
        values: names of an enumeration's values.
    """

    offset: int
    size: int
    signed: bool = False
    length: int = 1
    target: str = ""
    target_size: int = 0
    relative: bool = False
    values: Mapping[int, str] = {}

    def of(self, data: bytes | memoryview, start: int = 0) -> int:
        """Return its number in the bytes of its structure, which begin at `start`."""
        at = start + self.offset
        return int.from_bytes(data[at : at + self.size], "little", signed=self.signed)

    def array(self, data: bytes, start: int = 0) -> tuple[int, ...]:
        """Return its numbers, for an array."""
        step, at = self.size, start + self.offset
        return tuple(
            int.from_bytes(data[at + n * step : at + (n + 1) * step], "little", signed=self.signed)
            for n in range(self.length)
        )

    def pointer(self, data: bytes | memoryview, address: int, start: int = 0) -> int:
        """Return the pointer in a structure at `address`; 0 for null."""
        value = self.of(data, start)
        return address + self.offset + value if self.relative and value else value


class Layout(Struct, frozen=True):
    """Places of all fields.

    Attributes:
        address: of the executor, before relocation.
        places: by our own `structure.field` (data/fields.toml).
        missing: the runtime's name of each field without debug information -> what is lost by it.
        needed: the missing ones without which nothing can be read.
    """

    address: int
    places: dict[str, Place] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    needed: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Place:
        return self.places[name]

    def get(self, name: str) -> Place | None:
        return self.places.get(name)


async def read_layout(gdb: str, library: Path, pid: int) -> Layout | None:
    """Return the layout from a library's debug information; None if that lacks the executor.

    Args:
        library: a path of ours by which it can be opened.
        pid: the process that has loaded it.

    Raises:
        GdbCommandError, GdbGone, GdbTimeout: gdb can't do it.
    """
    if _UNSAFE.search(str(library)):
        raise GdbCommandError("gdb can't be given the path of the library.")
    wanted = sorted({word for want in wanted_fields().values() for path in want.paths for word in path.split(".")})
    script = f"python exec({_SCRIPT.read_text()!r})"  # who it runs as may have no way to our folders
    engine = GdbEngine(gdb, target=pid)
    try:
        await engine.start()
        for command in ("set confirm off", "set auto-load off", script, f'file "{library}"'):
            await engine.console(command, _LIMIT_S)
        told = await engine.python(f"livedbg_layout({EXECUTOR!r}, {wanted!r})", _LIMIT_S)
    finally:
        await engine.close()
    return None if told is None else _resolved(told)


def _resolved(told: dict[str, Any]) -> Layout:
    """Resolve our own names to places."""
    types = told["types"]
    structures = {_ROOT: told["type"][1] if told["type"][0] == "s" else ""}
    layout = Layout(told["address"])
    for name, want in wanted_fields().items():
        holder, _, _ = name.partition(".")
        place = next((found for path in want.paths if (found := _place(types, structures.get(holder, ""), path))), None)
        if place is not None:
            layout.places[name] = place
            if want.leads_to:
                structures[want.leads_to] = place.target
            continue
        if want.loss and holder in structures:
            layout.missing[want.paths[0]] = want.loss
        if want.needed and holder in structures:
            layout.needed.append(want.paths[0])
    return layout


def _place(types: dict[str, Any], structure: str, path: str) -> Place | None:
    offset = 0
    kind: list[Any] = ["s", structure, 0]
    for word in path.split("."):
        if kind[0] != "s" or word not in types.get(kind[1], {}):
            return None
        step, kind = types[kind[1]][word]
        offset += step
    return _of_kind(offset, kind)


def _of_kind(offset: int, kind: list[Any]) -> Place | None:
    code = kind[0]
    if code == "a":
        inner = _of_kind(offset, kind[2])
        return None if inner is None else inner._replace(length=kind[1])
    if code in ("p", "d"):
        target: list[Any] = kind[1] if kind[1] is not None and kind[1][0] == "s" else ["s", "", 0]
        return Place(offset, 8 if code == "p" else 4, code == "d", 1, target[1], target[2], code == "d")
    if code == "s":
        return Place(offset, kind[2], target=kind[1], target_size=kind[2])
    values = {number: name for name, number in kind[2].items()} if code == "e" else {}
    return Place(offset, kind[1], code == "i", values=values)
