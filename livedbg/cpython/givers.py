"""Find who will end a wait for a queue, an event or a condition: who sleeps, can reach it, and has code for it.

Nothing in a queue says who fills it. But the coroutine or thread that does so has a reference to it, and its source,
from the place at which it sleeps on, calls a method that ends such a wait (`put`, `set`, `notify`), itself or in a
function of the same file.

Invariants:
    givers.V1. A giver can reach the very object from the variables of its frames, through at most DEPTH objects.
    givers.V2. The code that it will run has such a call: what is in the loops around its place, or behind it where
        there are none, and in the functions of the same name that are called there. What ran before does not count: a
        main program that has started a producer, and only looks on, gives nothing.
    givers.V3. What the call is made on has the name by which the object was reached: an attribute, or a variable of the
        frame. A variable of a function that is called may be anything.
    givers.V4. That is no proof that it gives: it may ask a condition first. Nothing is called stuck because of it.
    givers.V5. Into a pipe or a socket, which other processes read, gives who has such a call ahead on a connection, a
        queue of multiprocessing, a socket or a file of this descriptor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Final, NamedTuple

from livedbg.cpython.heap import METHODS, HeapReader
from livedbg.cpython.loop_modules import module_variables
from livedbg.cpython.loop_source import Sources
from livedbg.cpython.objects import is_pointer
from livedbg.cpython.threads import ThreadReader
from livedbg.linux import memory

DEPTH: Final = 4
_MOST: Final = 400
"""Objects that are looked at for one who sleeps."""

_MOST_READ: Final = 16
"""Who sleeps and has such code: of more of them, the others give nothing."""

_ITEMS: Final = 64
_CLOSURE_AT: Final = 72
_SEQUENCES: Final = frozenset({"list", "tuple", "set", "collections.deque"})
_PLAIN: Final = frozenset(
    {"", "str", "int", "float", "bool", "bytes", "bytearray", "NoneType", "type", "module", "code", "frame", "complex"}
)

_ENDS: Final[Mapping[str, frozenset[str]]] = {
    "get": frozenset({"put", "put_nowait"}),
    "put": frozenset({"get", "get_nowait"}),
    "join": frozenset({"task_done"}),
    "Event": frozenset({"set"}),
    "Condition": frozenset({"notify", "notify_all"}),
    "Semaphore": frozenset({"release"}),
    "BoundedSemaphore": frozenset({"release"}),
}


def ends_of(kind: str, call: str) -> frozenset[str]:
    """Return the methods that end a wait: of `Event.wait`, `set`.

    Args:
        kind: the class of what is waited for: `Queue`.
        call: the method that waits: `get`.
    """
    return _ENDS.get(kind.rpartition(".")[2], _ENDS.get(call.rpartition(".")[2], frozenset()))


_PUTS: Final = frozenset({"put", "put_nowait"})
_SENDS: Final = frozenset({"send", "send_bytes"})
_SENDS_ALL: Final = frozenset({"send", "sendall", "sendmsg", "sendfile"})
_WRITES: Final = frozenset({"write", "writelines"})
_CHANNELS: Final[Mapping[str, frozenset[str]]] = {
    "Queue": _PUTS,
    "JoinableQueue": _PUTS,
    "SimpleQueue": _PUTS,
    "Connection": _SENDS,
    "socket": _SENDS_ALL,
    "_io.FileIO": _WRITES,
    "_io.BufferedWriter": _WRITES,
    "_io.TextIOWrapper": _WRITES,
}
"""The methods that write into a descriptor, by the type of what has it."""

_WRITING: Final = frozenset().union(*_CHANNELS.values())
_RAW_AT, _BUFFER_AT, _FD_AT = 16, 32, 16
"""Of a BufferedWriter, a TextIOWrapper, and a FileIO or a socket (CPython Modules/_io, Modules/socketmodule.h)."""


class Wanted(NamedTuple):
    """What is waited for, and the methods that end the wait."""

    address: int
    ends: frozenset[str]


class Place(NamedTuple):
    """Where a frame is, and its variables by name."""

    file: str
    line: int
    variables: tuple[tuple[str, int], ...]


class Sleeper(NamedTuple):
    """A thread or a task that sleeps, and its frames of the user's own code."""

    id: str
    places: tuple[Place, ...]


class Givers:
    """Finds the givers of one process; raises no error: who can't be read gives nothing."""

    def __init__(self, heap: HeapReader, reader: ThreadReader) -> None:
        self._heap = heap
        self._reader = reader
        self._sources = Sources(heap.pid)
        self._known: dict[tuple[object, ...], dict[int, tuple[str, ...]]] = {}
        self._into: dict[tuple[object, ...], dict[str, frozenset[int]]] = {}

    def of(self, wanted: Sequence[Wanted], sleepers: Sequence[Sleeper]) -> dict[int, tuple[str, ...]]:
        """Return the givers of each thing that is waited for, by its address."""
        if not wanted or not sleepers:
            return {}
        key = (tuple(wanted), *map(_at, sleepers))
        if key not in self._known:
            self._known = {key: self._read(wanted, sleepers)}
        return self._known[key]

    def into(self, sleepers: Sequence[Sleeper]) -> dict[str, frozenset[int]]:
        """Return the descriptors into which sleepers will write (V5), by their ids."""
        key = tuple(map(_at, sleepers))
        if key not in self._into:
            self._into = {key: self._channels(sleepers)}
        return self._into[key]

    def _read(self, wanted: Sequence[Wanted], sleepers: Sequence[Sleeper]) -> dict[int, tuple[str, ...]]:
        found: dict[int, tuple[str, ...]] = {}
        ends_any = frozenset().union(*(one.ends for one in wanted))
        for sleeper, calls, variables in self._ahead(sleepers, ends_any):
            own = {name for name, _ in variables}
            ways = self._ways(variables, {one.address for one in wanted})
            for address, ends in wanted:
                if _is_called(calls, ends, ways.get(address, set()), own) and sleeper not in found.get(address, ()):
                    found[address] = (*found.get(address, ()), sleeper)
        return found

    def _channels(self, sleepers: Sequence[Sleeper]) -> dict[str, frozenset[int]]:
        found: dict[str, frozenset[int]] = {}
        for sleeper, calls, variables in self._ahead(sleepers, _WRITING):
            own = {name for name, _ in variables}
            ways = self._ways(variables, (), _CHANNELS)
            called = (at for at, names in ways.items() if _is_called(calls, self._writes(at), names, own))
            if into := frozenset(fd for at in called if (fd := self._descriptor(at)) is not None):
                found[sleeper] = into | found.get(sleeper, frozenset())
        return found

    def _ahead(
        self, sleepers: Sequence[Sleeper], ends: Set[str]
    ) -> Iterator[tuple[str, Set[tuple[str, str]], Sequence[tuple[str, int]]]]:
        """Yield who has calls of some methods ahead, by the frame that has them and its variables."""
        left = _MOST_READ
        for sleeper in sleepers:
            for place in sleeper.places:
                ahead = self._sources.names_ahead(place.file, place.line)
                calls = {call for call in ahead.attributes if call[1] in ends}
                if calls and left:
                    left -= 1
                    yield sleeper.id, calls, [*place.variables, *self._globals(ahead.variables)]

    def _writes(self, at: int) -> Set[str]:
        return _CHANNELS.get(self._heap.type_name(at), frozenset())

    def _descriptor(self, at: int) -> int | None:
        """Return the file descriptor into which an object writes; None if it can't be read."""
        with suppress(OSError, OverflowError, ValueError):
            kind = self._heap.type_name(at)
            if kind in ("_io.FileIO", "socket"):
                return int.from_bytes(memory.read(self._heap.pid, at + _FD_AT, 4), "little", signed=True)
            if kind == "_io.BufferedWriter":
                return self._descriptor(self._heap.words(at + _RAW_AT, 1)[0])
            if kind == "_io.TextIOWrapper":
                return self._descriptor(self._heap.words(at + _BUFFER_AT, 1)[0])
            own = self._heap.attributes(at)
            if (handle := own.get("_handle")) is not None:
                return self._heap.integer(handle)
            return self._descriptor(own["_writer"]) if "_writer" in own else None
        return None

    def _globals(self, names: Set[str]) -> Iterable[tuple[str, int]]:
        """Return some global variables of the program."""
        with suppress(OSError, OverflowError, ValueError):
            for interpreter in self._reader.interpreters():
                return module_variables(self._heap, interpreter, "__main__", names).items()
        return ()

    def _ways(
        self, variables: Iterable[tuple[str, int]], wanted: Container[int], kinds: Container[str] = ()
    ) -> dict[int, set[str]]:
        """Return the names by which wanted objects, or those of some types, are reached from variables (V1, V3)."""
        found: dict[int, set[str]] = {}
        seen: set[int] = set()
        todo = deque((name, value, 0) for name, value in variables)
        while todo and len(seen) < _MOST:
            name, at, depth = todo.popleft()
            if at in wanted or (kinds and self._heap.type_name(at) in kinds):
                found.setdefault(at, set()).add(name)
            if at in seen or not is_pointer(at) or depth >= DEPTH:
                continue
            seen.add(at)
            try:
                todo += ((of or name, value, depth + 1) for of, value in self._inside(at))
            except (OSError, OverflowError, ValueError):
                continue  # it has changed
        return found

    def _inside(self, at: int) -> Iterator[tuple[str, int]]:
        """Yield what an object refers to, with the names of its attributes."""
        kind = self._heap.type_name(at)
        if kind in _PLAIN:
            return
        if kind == "dict":
            yield from (("", value) for _, value in self._heap.dict_items(at, _ITEMS))
        elif kind in _SEQUENCES:
            yield from (("", item) for item in self._heap.items(at, _ITEMS))
        elif kind in METHODS:
            yield "", self._heap.bound_to(at)
        elif kind == "cell":
            yield "", self._heap.in_cell(at)
        elif kind == "function":
            (cells,) = self._heap.words(at + _CLOSURE_AT, 1)
            yield from (("", cell) for cell in (self._heap.items(cells, _ITEMS) if is_pointer(cells) else ()))
        else:
            yield from self._heap.attributes(at).items()


def _at(sleeper: Sleeper) -> tuple[object, ...]:
    return (sleeper.id, *((place.file, place.line) for place in sleeper.places))


def _is_called(calls: Iterable[tuple[str, str]], methods: Container[str], names: Set[str], own: Set[str]) -> bool:
    """Return whether one of some methods is called on an object that some names reach."""
    return bool(names) and any(_is_on(before, names, own) for before, method in calls if method in methods)


def _is_on(before: str, names: Set[str], own: Set[str]) -> bool:
    """Return whether a call may be made on an object that some names reach (V3).

    Args:
        before: see `Ahead`.
        own: variables of the frames.
    """
    attribute = before.startswith(".")
    return before.removeprefix(".") in names if attribute or before in own else True
