"""Reading that is given up when nobody wants its outcome any more.

A thread can't be cancelled from outside: whoever reads much asks `go_on` between two pieces.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["GivenUp", "go_on", "insisting", "until"]

_stops: Final[ContextVar[tuple[threading.Event, ...]]] = ContextVar("livedbg-values-stops", default=())


class GivenUp(BaseException):
    """Nobody wants it any more: no error, and nothing that a user sees. As asyncio's CancelledError, no Exception."""


@contextmanager
def until(*stops: threading.Event) -> Iterator[None]:
    """What is read inside is given up soon after one of `stops` is set; the first means the end of everything."""
    token = _stops.set(stops)
    try:
        yield
    finally:
        _stops.reset(token)


@contextmanager
def insisting() -> Iterator[None]:
    """What is read inside is of use to whoever comes next, too: it is given up at the end of everything only."""
    with until(*_stops.get()[:1]):
        yield


def go_on() -> None:
    """Go on, unless it is to be given up.

    Raises:
        GivenUp: it is.
    """
    if any(stop.is_set() for stop in _stops.get()):
        raise GivenUp
