"""Classes that JSON, TOML or msgpack is read into, made ready so that any thread can read into them.

msgspec works out a Struct class when it first reads into it, and keeps on the class what it has so far. A second thread
that reads into the class meanwhile follows a null pointer, and the process ends by SIGSEGV (msgspec 0.22).

Invariants:
    typed.R1. A class is worked out by one thread at a time, and nobody reads into it before that is done.
"""

from __future__ import annotations

import threading
from typing import Final, TypeVar

import msgspec

Kind = TypeVar("Kind")

_lock: Final = threading.Lock()
_done: Final[set[type]] = set()


def ready(kind: type[Kind]) -> type[Kind]:
    """The same class, once it can be read into: `msgspec.json.decode(data, type=ready(Header))`.

    A decoder that a module makes while it is imported needs this not: one thread imports it.
    """
    with _lock:
        if kind not in _done:
            msgspec.json.Decoder(kind)
            _done.add(kind)
    return kind
