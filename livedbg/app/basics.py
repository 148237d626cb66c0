"""Typed keys, notices, the clipboard, files, and the last word after a bug.

Keys and pasted text reach the app one at a time, each when all that the one before it opened is there. Textual gives a
key to the widget that has the focus when the key comes. What a key opens (a prompt, the palette, a sheet, another
screen) has the focus only some turns of the loop later, and keys that came meanwhile went to the widget below, as
commands. Here what is typed waits in one queue, whatever opens: nothing has to be declared for a prompt.

Invariants:
    basics.H1. What is typed behind a key goes to what that key opens, in order, Escape and Enter included, however
        early it came.
    basics.H2. Pasted text (bracketed paste) is text for a field where text is typed, and nothing elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from pathlib import Path
from typing import Final

from rich.text import Text
from textual import events
from textual.command import CommandPalette
from textual.message_pump import MessagePump

from livedbg.app.cell_updates import CellUpdatesApp
from livedbg.panels.draw_context import EMPTY_CONTEXT, DrawContext
from livedbg.session.view import Update
from livedbg.text.private_files import write_private
from livedbg.text.sanitize import clean, clean_line
from livedbg.text.wording import many

_ROUNDS: Final = 3
"""How often all who may have got a key are waited for: the key goes up once, what its action says (the message of a
panel or of a field) goes up once more, and what the app does then (to move the focus) may be a message to itself."""

_LOOK_S: Final = 0.005
"""How often what was opened is looked at until it can take keys."""

_LEAVING: Final = frozenset({"escape", "ctrl+c"})
"""Who presses these chooses nothing any more."""

_CHOOSING: Final = frozenset({"enter", "up", "down", "pageup", "pagedown"})
"""In the palette: of what was found. Letters need not wait for that."""


class OneAtATimeApp(CellUpdatesApp):
    """The part of the app that queues typed keys."""

    _typing: asyncio.Task[None] | None = None
    _ahead: deque[events.Key | events.Paste]

    def __init__(self) -> None:
        super().__init__()
        self._ahead = deque()

    async def on_event(self, event: events.Event) -> None:
        """Queue typed keys until their turn comes; handle other events at once."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self._ahead.append(event)
            if self._typing is None or self._typing.done():
                self._typing = asyncio.create_task(self._take_typed(), name="livedbg-typed")
        else:
            await super().on_event(event)

    async def _take_typed(self) -> None:
        while self._ahead and self.is_running:
            event = self._ahead[0]
            while self._must_wait(event):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(_LOOK_S)
            self._ahead.popleft()
            if self._is_choice(event) and self._is_given_up():
                continue
            above = (self.focused or self.screen).ancestors_with_self
            if not await _passed(self, self._hand_over, event):
                return
            for _ in range(_ROUNDS):
                for node in above:
                    await _passed(node)

    async def _hand_over(self, event: events.Event) -> None:
        await super().on_event(event)

    def _must_wait(self, event: events.Event) -> bool:
        sought = self._is_choice(event) and not self._is_given_up()
        return not self._is_built() or (sought and self._is_searching())

    def _is_built(self) -> bool:
        """Return whether the top screen can take keys; nothing has the focus while the terminal has none."""
        top = self.screen
        placed = top.focused is not None or not self.app_focus
        return len(self.screen_stack) == 1 or placed or (top.is_mounted and not top.focus_chain)

    def _is_choice(self, event: events.Event) -> bool:
        """Return whether a key chooses from the palette's results, and does not edit its text."""
        return isinstance(self.screen, CommandPalette) and isinstance(event, events.Key) and event.key in _CHOOSING

    def _is_searching(self) -> bool:
        return any(worker.node is self.screen and not worker.is_finished for worker in self.workers)

    def _is_given_up(self) -> bool:
        return any(isinstance(event, events.Key) and event.key in _LEAVING for event in self._ahead)


async def _passed(node: MessagePump, *call: object) -> bool:
    """Wait until a node has handled all its present messages and then `call`, a coroutine function with arguments;
    return False if the node is gone.
    """
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def reached() -> None:
        try:
            if call:
                await call[0](*call[1:])  # type: ignore[operator]
        finally:
            if not done.done():
                done.set_result(None)

    if not node.call_later(reached):
        return False
    life = node._task
    await asyncio.wait([done, life] if life is not None else [done], return_when=asyncio.FIRST_COMPLETED)
    return done.done()


_BUG = "Please report this bug; LIVEDBG_DEBUG=1 prints a traceback. `livedbg report` works without the app."


class BasicApp(OneAtATimeApp):
    """The part of the app that knows nothing of screens."""

    context: DrawContext = EMPTY_CONTEXT
    notice_s: float = 5.0
    """How long a notice stays."""

    def say(self, text: str, severity: str = "information") -> None:
        """Show a notice; never parsed as markup."""
        level = "warning" if severity == "warning" else "error" if severity == "error" else "information"
        self.notify(clean(text), severity=level, timeout=self.notice_s, markup=False)  # type: ignore[arg-type]

    def copy_text(self, text: str) -> None:
        """Copy to the clipboard, cleaned; the terminal gets it as OSC 52, which is our own."""
        lines = clean(text).splitlines()
        if lines:
            self.copy_to_clipboard("\n".join(lines))
            more = f" and {many(len(lines) - 1, 'more line')}" if len(lines) > 1 else ""
            self.say(f"Copied: {clean_line(' '.join(lines[0].split()), 48)}{more}")

    def action_export(self) -> None:
        """Export everything into files in the current directory."""
        self._write("json", "md", "svg")

    def action_export_as(self, suffix: str) -> None:
        self._write(suffix)

    def _write(self, *suffixes: str) -> None:
        written: list[Path] = []
        try:
            for suffix in suffixes:
                if suffix == "svg":
                    path = _free_path(suffix)
                    write_private(path, self.export_screenshot(title="livedbg"))
                else:
                    path = _write_report(self.context.update, suffix)
                written.append(path)
        except OSError as error:
            self.say(f"Can't write to {Path.cwd()}: {error.strerror}", "error")
        if written:
            self.say(f"Written to {written[0].parent}: {', '.join(path.name for path in written)}")

    def _fatal_error(self) -> None:
        """Show a bug in a panel in short; the whole trace with LIVEDBG_DEBUG."""
        if os.environ.get("LIVEDBG_DEBUG"):
            super()._fatal_error()
            return
        error = self._exception
        what = clean_line(f"{type(error).__name__}: {error}")
        self.panic(Text(f"The terminal app failed ({what}). The target keeps running.\n{_BUG}"))


def _free_path(suffix: str) -> Path:
    """Return a path in the current directory that is not taken: `livedbg-20260101-120354.json`."""
    folder = Path.cwd()
    stem = time.strftime("livedbg-%Y%m%d-%H%M%S")
    path, number = folder / f"{stem}.{suffix}", 1
    while path.exists():
        path, number = folder / f"{stem}-{number}.{suffix}", number + 1
    return path


def _write_report(update: Update, suffix: str) -> Path:
    """Write the report of an update, as `json` or `md`, into the current directory.

    Raises:
        OSError: it can't be written.
    """
    from livedbg.report.build import build
    from livedbg.report.text import to_markdown
    from livedbg.text.json_text import json_bytes

    made = build(update)
    text = json_bytes(made, pretty=True) if suffix == "json" else to_markdown(made).encode()
    path = _free_path(suffix)
    write_private(path, text)
    return path
