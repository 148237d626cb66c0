"""Stacks of threads that somebody printed: with py-spy, faulthandler, gdb, pstack, lldb or Visual Studio."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from livedbg.logs.stack_listings import listed
from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

_WRAPPED: Final = lazy_re(r"\n {4,20}(?=\S)(?!frame #)")
"A frame of gdb goes on in the next line."
_INLINED: Final = lazy_re(r"^.{0,400}\[inlined\] ")
_CALLS: Final = lazy_re(
    r"(?:P?MPIX?_[A-Z]|p?(?:nccl|cuda|cu|hip|aclrt|acl|Hccl|nvshmem|cudnn|cublas)[A-Z]|iree_\w{1,60}_wait\b)"
)
"""Names of the functions of libraries that a program calls; those in them only do it."""
_FORMS: Final = ("faulthandler", "py-spy", "visual-studio")


def library_call(frames: Sequence[Frame]) -> int | None:
    """Return the index of the outermost function by which a known library is called, or None."""
    return next((at for at in range(len(frames) - 1, -1, -1) if _CALLS.match(frames[at].function)), None)


def printed_frames(text: str) -> tuple[Frame, ...]:
    """Return the frames of one printed stack, innermost first."""
    frames = listed("lldb", text) or listed("native", _WRAPPED.sub(" ", text))
    return tuple(map(_plain, frames or next(filter(None, (listed(form, text) for form in _FORMS)), ())))


def _plain(frame: Frame) -> Frame:
    """Return a frame without its arguments, with its library where it has no line, and its whole path if cut."""
    file, module = frame.file, frame.module
    if file and frame.line is None:
        module, file = file.rpartition("/")[2], None
    python = frame.language == "python" and (file or "").endswith((".py", ">"))
    return replace(
        frame,
        function=_INLINED.sub("", frame.function).partition(" (")[0],
        file=_whole_path(file) if file and python else file,
        module=module,
        language="native" if frame.language == "python" and not python else frame.language,
    )


def _whole_path(file: str) -> str:
    """Return a path with the folder of sys.path that py-spy leaves out, as far as its name tells it."""
    if file.partition("/")[0].removesuffix(".py") in sys.stdlib_module_names:
        return f"/lib/python3/{file}"
    return file if file.startswith(("/", "<")) or "/" not in file else f"/{file}"
