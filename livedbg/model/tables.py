"""Tables with copy-on-write snapshots: a snapshot costs what changed, not what the table holds.

A table is a list of dicts, the shards. A small one has a single shard and keeps the order of insertion, as a dict does;
one that grows beyond SPLIT is split once, by a checksum of the key's beginning, into SHARDS of them. A snapshot shares
all shards; the first write to a shared shard copies that one.

Invariants:
    tables.H1. A frozen table never changes.
    tables.H2. Lookups, length and membership are those of a dict with the same operations done to it.
    tables.H3. The order of iteration depends on the operations alone (not on hash seeds or addresses).
    tables.H4. A write after a freeze copies one shard; two frozen tables share the shards without a write between.
    tables.Q1. A name keeps its number, and `names[number]` its name, for as long as the numbering lives.
    tables.Q2. Names may be numbered and looked up from several threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Any, Final, Generic, TypeVar, cast, overload
from zlib import crc32

SPLIT: Final = 4096
"""Entries above which a table is split."""

SHARDS: Final = 1024
"""Shards of a table that was split."""

_TAIL: Final = 3  # characters

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


def _place(text: str, shards: int) -> int:
    """Return the shard of a key.

    Keys that differ in their last characters only share a shard: tasks are numbered, and neighbours are read and change
    together.
    """
    return crc32(text[:-_TAIL].encode("utf-8", "surrogatepass")) % shards if shards > 1 else 0


class FrozenTable(Mapping[K, V]):
    """An immutable state of a table; `text` returns the text of a key that selects its shard."""

    __slots__ = ("_length", "_text", "shards")

    def __init__(self, shards: tuple[dict[K, V], ...], text: Callable[[K], str]) -> None:
        self.shards = shards
        self._text = text
        self._length = sum(map(len, shards))

    def __getitem__(self, key: K) -> V:
        shards = self.shards
        return shards[_place(self._text(key), len(shards))][key]

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, default: V | D, /) -> V | D: ...

    def get(self, key: K, default: V | D | None = None, /) -> V | D | None:
        shards = self.shards
        return shards[_place(self._text(key), len(shards))].get(key, default)

    def __contains__(self, key: object) -> bool:
        try:
            place = _place(self._text(cast("K", key)), len(self.shards))
        except (TypeError, AttributeError, IndexError):
            return False  # no key of this table
        return key in self.shards[place]

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self.shards)

    def __len__(self) -> int:
        return self._length

    def values(self) -> ValuesView[V]:
        """Return a view of the values, as fast to iterate as a dict's."""
        return _Values(self)

    def items(self) -> ItemsView[K, V]:
        """Return a view of keys and values, as fast to iterate as a dict's."""
        return _Items(self)


class _Values(ValuesView[V], Generic[V]):
    _mapping: FrozenTable[Any, V]

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(shard.values() for shard in self._mapping.shards)


class _Items(ItemsView[K, V]):
    _mapping: FrozenTable[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(shard.items() for shard in self._mapping.shards)


class Table(Generic[K, V]):
    """A mutable table. Not thread-safe; the result of `freeze` may be read anywhere. For `text` see FrozenTable."""

    def __init__(self, text: Callable[[K], str]) -> None:
        self._text = text
        self._shards: list[dict[K, V]] = [{}]
        self._shared = [False]
        self._frozen: FrozenTable[K, V] | None = None

    def get(self, key: K) -> V | None:
        return self._shards[_place(self._text(key), len(self._shards))].get(key)

    def put(self, key: K, value: V) -> bool:
        """Set the value of a key; return False if it has that value already."""
        shards = self._shards
        place = _place(self._text(key), len(shards))
        if shards[place].get(key) == value and key in shards[place]:
            return False
        self._own(place)[key] = value
        if len(shards) == 1 and len(shards[0]) > SPLIT:
            self._split()
        return True

    def discard(self, key: K) -> None:
        place = _place(self._text(key), len(self._shards))
        if key in self._shards[place]:
            del self._own(place)[key]

    def freeze(self) -> FrozenTable[K, V]:
        if self._frozen is None:
            self._shared = [True] * len(self._shards)
            self._frozen = FrozenTable(tuple(self._shards), self._text)
        return self._frozen

    def copy(self) -> Table[K, V]:
        other: Table[K, V] = Table(self._text)
        other._frozen = self.freeze()
        other._shards = list(self._shards)
        other._shared = [True] * len(self._shards)
        return other

    def _own(self, place: int) -> dict[K, V]:
        """Return a shard for writing; copy it if it is shared."""
        self._frozen = None
        if self._shared[place]:
            self._shards[place] = self._shards[place].copy()
            self._shared[place] = False
        return self._shards[place]

    def _split(self) -> None:
        whole = self._shards[0]
        self._shards = [{} for _ in range(SHARDS)]
        self._shared = [False] * SHARDS
        for key, value in whole.items():
            self._shards[_place(self._text(key), SHARDS)][key] = value


class Numbering:
    """Numbers from 0 for names, in the order in which they come; `names` is only ever appended to."""

    __slots__ = ("_lock", "_numbers", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> int:
        """Return the number of a name; assign one if it has none."""
        number = self._numbers.get(name)
        if number is None:
            with self._lock:
                number = self._numbers.get(name)
                if number is None:
                    number = len(self.names)
                    self.names.append(name)
                    self._numbers[name] = number
        return number

    def get(self, name: str) -> int | None:
        return self._numbers.get(name)

    def copy(self) -> Numbering:
        other = Numbering()
        with self._lock:
            other.names = self.names.copy()
            other._numbers = self._numbers.copy()
        return other
