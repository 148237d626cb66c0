"""Thread-safe preparation of classes that JSON, TOML or msgpack is decoded into.

msgspec works out a Struct class when it first decodes into it, and keeps partial results on the class. A second thread
that decodes into the class meanwhile follows a null pointer, and the process ends by SIGSEGV (msgspec 0.22).

Invariants:
    typed.R1. A class is worked out by one thread at a time, and nobody decodes into it before that is done.
"""

from __future__ import annotations

import threading
from typing import Any, Final, TypeVar

import msgspec

Kind = TypeVar("Kind")

_lock: Final = threading.Lock()
_done: Final[set[type]] = set()


def ready(kind: type[Kind]) -> type[Kind]:
    """Return the class once it can be decoded into: `msgspec.json.decode(data, type=ready(Header))`.

    A decoder that a module makes on import doesn't need this: one thread imports it.
    """
    with _lock:
        if kind not in _done:
            msgspec.json.Decoder(kind)
            _done.add(kind)
    return kind


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of JSON, made while no other one is (R1)."""
    with _lock:
        return msgspec.json.Decoder(kind)
