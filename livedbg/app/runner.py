"""Runs the app in this terminal, and leaves the terminal clean however it ends.

Invariants:
    runner.R1. After any exit (key, signal, exception) the terminal has its modes and its screen back.
    runner.R2. A terminal that is gone (SIGHUP) never leaves a process behind: after LAST_WORD_S it ends itself.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from typing import Final

from livedbg.app.application import LivedbgApp
from livedbg.app.options import AppOptions, check_terminal, colours_of, interval_of, wants_ascii
from livedbg.session.view import SessionView

LAST_WORD_S: Final = 10.0
"""Long enough to put a terminal that is there after all in order, on a busy machine too."""

SETTLED_S: Final = 2.0
"""When the screens are built: what is there then is left out of later garbage collections, each of which would stop
the screen for some 40 ms."""

SWITCH_S: Final = 0.0005
"""How long another thread may keep Python's lock while the screen waits for it. With the usual 5 ms a paint,
which gives it up at each write, takes several times as long while a log floods in (docs/performance.md)."""

COLLECT: Final = (2_000, 10, 500)
"""Garbage collection: the young often and quickly, all seldom. By default everything is gone through as soon as
a quarter is new, and after `gc.freeze` what counts as old is little: twice a second, while a log floods in."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def run_app(view: SessionView, options: AppOptions) -> int:
    """Show the app until it ends; see livedbg.app.run."""
    check_terminal(os.environ, is_terminal=sys.stdin.isatty() and sys.stdout.isatty())
    app = LivedbgApp(
        view,
        options,
        interval_s=interval_of(options, os.environ),
        ascii_only=wants_ascii(options),
        colours=colours_of(options, os.environ),
    )
    ended_by: list[int] = []
    sys.setswitchinterval(SWITCH_S)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(SETTLED_S, gc.freeze)
        gc.set_threshold(*COLLECT)

        def end(number: int) -> None:
            ended_by.append(number)
            app.exit(128 + number)

        for number in _SIGNALS:
            loop.add_signal_handler(number, end, int(number))
        signal.signal(signal.SIGHUP, lambda number, _frame: _hang_up(loop, end, number))
        try:
            await app.run_async(mouse=not options.no_mouse)
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    try:
        asyncio.run(main())
    finally:
        app.feed.stop()
        view.stop()
    if app.feed.error is not None:
        raise app.feed.error
    if ended_by:
        return 128 + ended_by[0]
    return app.return_value if app.return_value is not None else app.return_code or 0


def _hang_up(loop: asyncio.AbstractEventLoop, end, number: int) -> None:  # type: ignore[no-untyped-def]
    """End soon: the terminal is gone, and writing to it may block for ever."""
    watchdog = threading.Timer(LAST_WORD_S, os._exit, (128 + number,))
    watchdog.daemon = True
    watchdog.start()
    loop.call_soon_threadsafe(end, number)
