"""A frame of a stack as one line of text."""

from __future__ import annotations

from livedbg.model import Frame


def frame_text(frame: Frame) -> str:
    """One frame in one line."""
    inside = frame.file or frame.module
    where = f" at {frame.file}:{frame.line}" if frame.file and frame.line else f" in {inside}" if inside else ""
    sign = "py " if frame.language == "python" else "   "
    values = f"  [{', '.join(frame.local_variables)}]" if frame.local_variables else ""
    return f"{sign}{frame.function}{where}{values}"
