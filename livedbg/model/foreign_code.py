"""Calls into code of other packages: any exception becomes an `Exception`, and what it prints does not mix with output.

Invariants:
    foreign_code.F1. An exception of foreign code that is no `Exception` (SystemExit, KeyboardInterrupt, GeneratorExit,
        a class of its own) ends nothing: it becomes a `ForeignError`.
    foreign_code.F2. A signal that arrives meanwhile has its usual effect, even if the code swallows it.
    foreign_code.F3. Output of code while it is imported, by whatever means, goes to standard error.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import isfunction, isgeneratorfunction
from types import FrameType
from typing import Any, Final, TypeVar

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OWN: Final = "livedbg"


class ForeignError(Exception):
    """An exception of foreign code that is no `Exception`, as text: `SystemExit: 3`."""


def in_words(error: BaseException) -> str:
    """Format an exception: `ValueError: no such thing`."""
    if isinstance(error, ForeignError):
        return str(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def is_foreign(module: str) -> bool:
    """Return whether a module belongs to another package."""
    return module.partition(".")[0] != _OWN


def plain(error: BaseException) -> Exception:
    """Return an exception of foreign code as an `Exception`.

    Raises:
        BaseException: the same exception, on the main thread, where a signal may have raised it (F2).
    """
    if isinstance(error, Exception):
        return error
    if threading.current_thread() is threading.main_thread():
        raise error
    return ForeignError(in_words(error))


@contextlib.contextmanager
def foreign(*, imports: bool = False) -> Iterator[None]:
    """Run foreign code in the `with` block.

    Args:
        imports: the code is imported: redirect its output (F3).

    Raises:
        Exception: any exception of the code (F1).
    """
    with _signals_noted() as came:
        try:
            with _aside() if imports else contextlib.nullcontext():
                yield
        except Exception:
            if not came:
                raise
        except BaseException as error:
            if came:
                raise
            raise ForeignError(in_words(error)) from error


def only_exceptions(value: T) -> T:
    """Wrap a foreign function so that it raises only `Exception`s (F1); return any other value as it is."""
    if not isfunction(value):
        return value
    function: Callable[..., Any] = value

    if isgeneratorfunction(value):

        @wraps(function)
        def piece_by_piece(*args: Any, **named: Any) -> Iterator[Any]:
            with foreign():
                pieces = function(*args, **named)
            while True:
                with foreign():
                    try:
                        piece = next(pieces)
                    except StopIteration:
                        return
                yield piece

        return piece_by_piece  # type: ignore[return-value]

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        with foreign():
            return function(*args, **named)

    return call  # type: ignore[return-value]


@contextlib.contextmanager
def _signals_noted() -> Iterator[list[int]]:
    """Record the signals that arrive in the block. One that the code swallowed is handled again at the end (F2)."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # handlers run on the main thread
        yield came
        return
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    called = {number: handler for number, handler in handlers.items() if callable(handler)}

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        called[signal.Signals(number)](number, frame)

    for number in called:
        signal.signal(number, note)
    try:
        yield came
    finally:
        for number, handler in called.items():
            if signal.getsignal(number) is note:
                signal.signal(number, handler)
    if came:  # and nothing was raised to here
        called[signal.Signals(came[0])](came[0], None)


@contextlib.contextmanager
def _aside() -> Iterator[None]:
    """Redirect standard output to standard error, also for the C library and child processes."""
    printed, sys.stdout = sys.stdout, sys.stderr
    kept = -1
    with contextlib.suppress(OSError, ValueError, AttributeError):  # there may be none
        printed.flush()
    with contextlib.suppress(OSError):
        kept = os.dup(1)
        os.dup2(2, 1)
    try:
        yield
    finally:
        _flush_c()
        if kept >= 0:
            os.dup2(kept, 1)
            os.close(kept)
        sys.stdout = printed


def _flush_c() -> None:
    import ctypes  # 5 ms, where no other package is there

    ctypes.CDLL(None).fflush(None)
