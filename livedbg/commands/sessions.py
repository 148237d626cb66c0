"""Sessions that end with the command that started them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from livedbg.commands.messages import warn
from livedbg.commands.signals import signals_held
from livedbg.session.adapter import Request
from livedbg.session.live import LiveView
from livedbg.session.session import EventSink

__all__ = ["running", "started"]


@contextlib.contextmanager
def running(request: Request, *, title: str | None = None, sink: EventSink | None = None) -> Iterator[LiveView]:
    """A live session, stopped at the end whatever happens."""
    with started(LiveView(request, title=title, sink=sink)) as view:
        yield view


@contextlib.contextmanager
def started(view: LiveView) -> Iterator[LiveView]:
    """A session that was made already; stopped at the end whatever happens."""
    try:
        with signals_held():  # a signal amid the start of a thread can leave one of its locks taken
            view.start()
        yield view
    finally:
        view.stop()
        if view.stuck:
            warn("A source did not stop in time and was abandoned.", "please report this as a bug")
