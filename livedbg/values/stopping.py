"""Reading that is given up when nobody wants its outcome any more.

A thread can't be cancelled from outside: whoever reads much asks `go_on` between two pieces.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["GivenUp", "go_on", "until"]

_stop: Final[ContextVar[threading.Event | None]] = ContextVar("livedbg-values-stop", default=None)


class GivenUp(BaseException):
    """Nobody wants it any more: no error, and nothing that a user sees. As asyncio's CancelledError, no Exception."""


@contextmanager
def until(stop: threading.Event) -> Iterator[None]:
    """What is read inside is given up soon after `stop` is set."""
    token = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(token)


def go_on() -> None:
    """Go on, unless it is to be given up.

    Raises:
        GivenUp: it is.
    """
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise GivenUp
