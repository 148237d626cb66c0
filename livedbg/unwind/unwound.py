"""What unwinding gives, and what whoever unwinds must be able to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from livedbg.model import Frame
from livedbg.text.patterns import lazy_re
from livedbg.unwind.capture import Capture

DEPTH: Final = 256
"""Frames of a stack that are kept, innermost first."""

_ROOT_FRAMES: Final = lazy_re(r"^(_start|__?clone3?|start_thread|__libc_start_(call_)?main(_impl)?)$")


class Unwound(Struct, frozen=True):
    """The native stack of one thread.

    Attributes:
        whole: the outermost frame was reached.
    """

    frames: tuple[Frame, ...]
    whole: bool


class Note(NamedTuple):
    """What a reader of the stacks should know of how they were made.

    Attributes:
        code: stable word for it.
        sentence: it, in words.
    """

    code: str
    sentence: str


class StackUnwinder(Protocol):
    """Unwinds captures of one process, without the process."""

    @property
    def cpu_s(self) -> float:
        """Processor time that was used for this process."""

    @property
    def notes(self) -> list[Note]:
        """What should be known of the stacks."""

    async def unwind(self, capture: Capture, limit_s: float, *, values: bool = False) -> dict[int, Unwound]:
        """The stacks of a capture's threads.

        Args:
            capture: of the process.
            limit_s: time limit of the whole.
            values: arguments and local variables too, where they can be had.

        Raises:
            UnwindTimeout, GdbTimeout: it took longer.
            LivedbgError: it can't be done.
            OSError: the process is gone, or its copy can't be written.
        """

    async def close(self) -> None:
        """Use it no more."""


def is_root(function: str) -> bool:
    """Whether a function is one that nothing calls: a program or a thread begins in it."""
    return _ROOT_FRAMES.match(function) is not None


def up_to_main(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Without what the C library has below `main`, as gdb shows it (`set backtrace past-main off`)."""
    names = [frame.function for frame in frames]
    if "main" not in names:
        return frames
    end = names.index("main") + 1
    return frames[:end] if all(is_root(name) for name in names[end:]) else frames
