"""Questions before what can't be taken back: actions that stop threads, and the end of a command that livedbg started.

Invariants:
    asking.K1. What stops or resumes a thread of a target is sent only after somebody said yes to it.
    asking.K2. Yes is said only by a key that came after the question was on the screen, and not on the heels of another
        key: text that is pasted or typed ahead never says it. No (Escape) is said at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events

from livedbg.app.basics import BasicApp
from livedbg.app.options import LEFT_RUNNING, AppOptions
from livedbg.app.overlays import SheetScreen
from livedbg.model.intents import Catch, DumpDevice, Glance, Intent, Resume
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.sheet import Sheet, SheetLine
from livedbg.session.view import SessionView

PAUSE_S = 0.3
"""How long before a yes nothing may have been typed: a hand that answers has read the question."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A key that answers a question, its meaning, and its action."""

    key: str
    text: str
    do: Callable[[], object]


class QuestionScreen(SheetScreen):
    """A question over the screen. It gets all keys; Escape is always an answer, and does nothing."""

    def __init__(self, sheet: Sheet, context: DrawContext, answers: Sequence[Answer]) -> None:
        super().__init__(sheet, context, lead=6)
        self._answers = {answer.key: answer for answer in answers}
        self._typed_s: float | None = None
        """When it was drawn, or when a key came after that; None before."""

    def on_mount(self) -> None:
        self.call_after_refresh(self._seen)

    def _seen(self) -> None:
        self._typed_s = time.monotonic()

    def on_key(self, event: events.Key) -> None:
        """Take the answer (K2); every other key does nothing."""
        event.stop()
        if event.key == "escape":
            self.dismiss()
            return
        before, self._typed_s = self._typed_s, None if self._typed_s is None else max(self._typed_s, event.time)
        answer = self._answers.get(event.key)
        if answer is not None and before is not None and event.time - before >= PAUSE_S:
            self.dismiss()
            answer.do()


def to_ask(intent: Intent, label: Callable[[str], str]) -> str:
    """Return the effect of an intent on the target, for a question; "" if it stops and resumes nothing."""
    match intent:
        case Glance():
            return f"Each running thread of {label(intent.process)} is stopped for about 0.1 ms to take its stack."
        case DumpDevice():
            return f"The driver stops the kernels of {label(intent.process)} while it writes a GPU core dump."
        case Catch() if intent.stop:
            return f"gdb is attached to {label(intent.process)}, and stops each thread that throws {intent.pattern}."
        case Resume():
            return "The thread that stopped at the catchpoint goes on."
    return ""


class AskingApp(BasicApp):
    """The part of the app through which all intents go."""

    view: SessionView
    options: AppOptions

    def order(self, *intents: Intent, said: str = "", then: Callable[[], object] | None = None) -> None:
        """Send intents, with a notice, and then call `then`; ask first if they stop or resume threads (K1)."""

        def send() -> None:
            for intent in intents:
                self.view.send(intent)
            if said and not self.context.recorded:
                self.say(said)
            if then is not None:
                then()

        refused = self.context.recorded or self.view.mode == "read-only"  # nothing will come of it
        effects = [] if refused else [words for one in intents if (words := to_ask(one, self.context.names.label))]
        if effects:
            self.ask("Do it?", tuple(dict.fromkeys(effects)), (Answer("y", "yes", send),), "no")
        else:
            send()

    def ask(self, question: str, lines: Sequence[str], answers: Sequence[Answer], none: str) -> None:
        """Show a question over the screen; `none` is the meaning of Escape."""
        keys = [SheetLine(answer.text, lead=answer.key, bold=True) for answer in answers]
        shown = [*map(SheetLine, lines), SheetLine(), *keys, SheetLine(none, lead="Esc")]
        self.push_screen(QuestionScreen(lambda _context: (question, shown), self.context, answers))

    # the end

    def action_leave(self) -> None:
        """Quit; ask first what to do with a command that livedbg started and that still runs."""
        started = self.options.started
        if isinstance(self.screen, QuestionScreen):
            return  # it is asked already
        if started is None or not started.runs():
            self.exit(0)
            return
        leave = Answer("l", "leave it running, and quit", lambda: self.exit(LEFT_RUNNING))
        kill = Answer("k", "kill it, and quit", lambda: self.exit(0))
        self.ask(f"{started.name} is still running.", (started.note,), (leave, kill), "stay here")

    async def action_quit(self) -> None:
        """Quit by Textual's own key (^q)."""
        self.action_leave()
