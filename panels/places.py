"""Where in the user's code a thread is, for the screens."""

from __future__ import annotations

from livedbg.analysis.place_names import function_name, line_of, place_text
from livedbg.panels.draw_context import DrawContext


def at(context: DrawContext, thread: str) -> str:
    """`step (server.cpp:31)`; "" where no stack of the thread is known, or nothing in it is worth a name."""
    frame = context.diagnosis.code.frame(context.snapshot.stacks.get(thread))
    return place_text(frame) if frame is not None else ""


def line_first(context: DrawContext, thread: str) -> str:
    """`server.cpp:31 step`: the same for a narrow column, where the function may be cut; without a line, as `at`."""
    frame = context.diagnosis.code.frame(context.snapshot.stacks.get(thread))
    if frame is None or not line_of(frame):
        return place_text(frame) if frame is not None else ""
    return f"{line_of(frame)} {function_name(frame.function, frame.language)}"
