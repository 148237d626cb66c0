"""Sessions that end with the command that started them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from livedbg.commands.output import warn
from livedbg.commands.signals import signals_held
from livedbg.commands.time_limit import TimeLimit
from livedbg.session.adapter import Request
from livedbg.session.live import LiveView
from livedbg.session.session import EventSink


@contextlib.contextmanager
def running(
    request: Request, *, title: str | None = None, sink: EventSink | None = None, limit: TimeLimit | None = None
) -> Iterator[LiveView]:
    """A live session, stopped at the end whatever happens."""
    with started(LiveView(request, title=title, sink=sink), limit) as view:
        yield view


@contextlib.contextmanager
def started(view: LiveView, limit: TimeLimit | None = None) -> Iterator[LiveView]:
    """A session that was made already; stopped at the end whatever happens.

    Args:
        view: the session.
        limit: by when; None: whenever it has detached.
    """
    limit = TimeLimit(None) if limit is None else limit
    limit.begin()
    try:
        with signals_held():  # a signal amid the start of a thread can leave one of its locks taken
            view.start()
        yield view
    finally:
        limit.stop(view)
        if view.stuck and not limit.hurried:
            warn("A source did not stop in time and was abandoned.", "please report this as a bug")
