"""Stacks of threads that somebody printed: with py-spy, faulthandler, gdb, pstack, lldb or Visual Studio."""

from __future__ import annotations

import sys
from typing import Final

from msgspec.structs import replace

from livedbg.logs.stack_listings import listed
from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

_WRAPPED: Final = lazy_re(r"\n {4,20}(?=\S)(?!frame #)")
"A frame of gdb goes on in the next line."
_INLINED: Final = lazy_re(r"^.{0,400}\[inlined\] ")
_FORMS: Final = ("faulthandler", "py-spy", "visual-studio")


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
