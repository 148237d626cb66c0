"""The result of unwinding, and the protocol of unwinders."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from livedbg.model import Frame
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.unwind.capture import Capture
from livedbg.unwind.modules import Modules
from livedbg.unwind.wire import WireFrame

DEPTH: Final = 256
"""Frames of a stack that are kept, innermost first."""

_NAME_LENGTH: Final = 400
_ROOT_FRAMES: Final = lazy_re(r"^(_start|__?clone3?|start_thread|__libc_start_(call_)?main(_impl)?)$")


class Unwound(Struct, frozen=True):
    """The native stack of one thread; `whole`: the outermost frame was reached."""

    frames: tuple[Frame, ...]
    whole: bool


def left_s(end: float) -> float:
    """Return the seconds until `end`, by `time.monotonic()`, for a time limit: never none."""
    return max(0.05, end - time.monotonic())


class Note(NamedTuple):
    """A remark for readers of the stacks on how they were made."""

    code: str
    sentence: str


class StackUnwinder(Protocol):
    """Unwinds captures of one process, without touching the process."""

    @property
    def cpu_s(self) -> float:
        """CPU seconds that were used for this process."""

    @property
    def notes(self) -> list[Note]:
        """Remarks on the stacks."""

    async def unwind(self, capture: Capture, limit_s: float, *, values: bool = False) -> dict[int, Unwound]:
        """Return the stacks of a capture's threads.

        Args:
            values: arguments and local variables too, where possible.

        Raises:
            UnwindTimeout, GdbTimeout: it took longer.
            LivedbgError: it can't be done.
            OSError: the process is gone, or its copy can't be written.
        """

    async def close(self) -> None:
        """Release the unwinder."""


def is_root(function: str) -> bool:
    """Return whether a program or thread begins in this function: nothing calls it."""
    return _ROOT_FRAMES.match(function) is not None


def up_to_main(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the frames without those below `main`, as gdb shows them (`set backtrace past-main off`)."""
    names = [frame.function for frame in frames]
    if "main" not in names:
        return frames
    end = names.index("main") + 1
    return frames[:end] if all(is_root(name) for name in names[end:]) else frames


def frame_of(frame: WireFrame, modules: Modules) -> Frame | None:
    """Return a frame for users; None if it is not in code: the unwinder has lost its way there."""
    named = None
    if frame.function is None:
        if modules.mapping_at(frame.pc) is None:
            return None
        named = modules.code_at(frame.pc)
    if named is not None:
        return Frame(function=named.function, file=named.file or None, line=named.line, address=frame.pc)
    module = modules.name_at(frame.pc)
    return Frame(
        function=clean_line(frame.function, _NAME_LENGTH) if frame.function else f"{frame.pc:#x}",
        file=clean_line(frame.file) if frame.file else None,
        line=frame.line,
        column=frame.column,
        inlined=frame.inlined,
        module=clean_line(module) if module else None,
        address=frame.pc,
        local_variables=tuple(clean_line(value) for value in frame.values),
    )


def unwound(frames: Sequence[Frame | None], *, whole: bool) -> Unwound:
    """Return a stack of the frames up to the first that is missing."""
    made: list[Frame] = []
    for frame in frames:
        if frame is None:
            break
        made.append(frame)
    return Unwound(tuple(up_to_main(made)), whole and len(made) == len(frames))
