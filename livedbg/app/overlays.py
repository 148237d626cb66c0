"""What lies over a screen: sheets of text, questions, the findings of a guide's step, and the line where text is typed.

Questions come before what can't be taken back: actions that stop threads, and the end of a command that it started.

Invariants:
    asking.K1. What stops or resumes a thread of a target is sent only after somebody said yes to it.
    asking.K2. Yes is said only by a key that came after the question was on the screen, and not on the heels of another
        key: text that is pasted or typed ahead never says it. No (Escape) is said at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.suggester import SuggestFromList
from textual.widgets import Input

from livedbg.app.basics import BasicApp
from livedbg.app.options import LEFT_RUNNING, NEXT_STEP, AppOptions, GuideKeys
from livedbg.app.views import Values
from livedbg.model.errors import UsageError
from livedbg.model.intents import Catch, CompareValues, DumpDevice, Glance, Intent, Resume
from livedbg.panels.base import Key, LinePanel, bindings
from livedbg.panels.catchpoints import catch_hint, catch_words, process_to_catch_in
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.logs import LogsPanel
from livedbg.panels.sheet import Sheet, SheetLine, SheetPanel
from livedbg.session.catch_options import typed_catch
from livedbg.session.view import SessionView
from livedbg.themes import Role

_SHEET_KEYS = (Key("escape,q,backspace", "Esc q", "dismiss", "go back"), Key("y", "y", "copy", "copy the text"))

_LEAVING = frozenset({"escape", "ctrl+c"})
"""Keys of the app that work while something is typed."""


class SheetScreen(ModalScreen[None]):
    """A sheet over the screen; Escape goes back."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("sheet", _SHEET_KEYS)

    def __init__(
        self, sheet: Sheet, context: DrawContext, *, lead: int = SheetPanel.LEAD, entity: str | None = None
    ) -> None:
        super().__init__()
        self.panel = SheetPanel(sheet, lead=lead)
        self._drawn = context
        self.entity = entity

    def compose(self) -> ComposeResult:
        yield self.panel

    def on_mount(self) -> None:
        self.show(self._drawn)
        self.panel.focus()

    def show(self, context: DrawContext) -> None:
        self.panel.show(context)

    def action_copy(self) -> None:
        self.post_message(Copied(self.panel.copy_text()))


@dataclass
class Copied(Message):
    """The user copies text from a sheet."""

    text: str


class Prompt(Input):
    """The input line for a filter, a search or a catchpoint: Enter keeps it, Escape drops it."""

    def __init__(self) -> None:
        super().__init__(id="prompt", select_on_focus=True)
        self.can_focus = False

    def open(self, text: str, hint: str, words: Sequence[str] = ()) -> None:
        """Take the focus; `words` complete the input (the right arrow accepts the completion)."""
        self.placeholder = hint
        self.suggester = SuggestFromList(words) if words else None
        self.value = text
        self.can_focus = True
        self.add_class("-open")
        self.screen.add_class("-prompting")  # the line of screens makes room
        self.focus()

    def on_key(self, event: events.Key) -> None:
        """Keep all keys but those of the field itself and those that leave it."""
        if event.key not in _LEAVING and event.key not in self._bindings.key_to_bindings:
            event.stop()

    def close(self) -> None:
        """Give up the focus."""
        self.remove_class("-open")
        self.screen.remove_class("-prompting")
        self.can_focus = False


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
    """Return what an intent does to the target, for a question; "" if it stops and resumes nothing."""
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


class GuideActions(AskingApp):
    """The part of the app that follows a guide."""

    def open_sheet(self, sheet: Sheet, *, entity: str | None = None) -> None:
        """Open a sheet over the screen; `entity` is its subject."""
        self.push_screen(SheetScreen(sheet, self.context, entity=entity))

    def greet(self) -> None:
        """Say which step this is, and its keys."""
        guide = self.options.guide
        if guide is not None:
            after = "; ^n goes on to the next one" if guide.following else ""
            self.say(f"{guide.title}. ^g shows what was found so far{after}.")

    def show_step(self) -> None:
        """Show the findings of the step, as soon as they were read."""
        if isinstance(self.focused, Input) or isinstance(self.screen, QuestionScreen):
            return  # what is typed there is not taken away
        guide = self.options.guide
        found = guide.found() if guide is not None else None
        if guide is None or found is None:
            return
        if isinstance(self.screen, SheetScreen):
            self.pop_screen()
        self.open_sheet(_sheet(guide, found))

    def action_step_found(self) -> None:
        """Ask for the findings so far."""
        if self.options.guide is not None:
            self.options.guide.look()

    def action_next_step(self) -> None:
        """End, and ask for the next step."""
        guide = self.options.guide
        if guide is None:
            return
        if guide.following:
            self.exit(NEXT_STEP)
        else:
            self.say(guide.ending)


def _sheet(guide: GuideKeys, found: Sequence[tuple[str, str]]) -> Sheet:
    lines = [SheetLine(text, lead=lead, bold=lead == "found") for lead, text in found]
    key = f"^n goes on to {guide.following}" if guide.following else guide.ending
    return lambda _context: (guide.title, [*lines, SheetLine(), SheetLine(key, Role.HEADING)])


class PromptingApp(AskingApp):
    """The part of the app that takes typed text."""

    main: Screen[object]
    _prompted: LinePanel | None = None
    _answer: Callable[[str], None] | None = None
    _led_from: str = ""
    """The screen from which a key has led to the one that is shown."""

    @property
    def focused_panel(self) -> LinePanel | None:
        """The panel that has the focus."""
        focused = self.screen.focused
        return focused if isinstance(focused, LinePanel) else None

    async def action_view(self, name: str) -> None:
        """Show another screen."""
        raise NotImplementedError

    def action_prompt(self) -> None:
        """Type a filter for the focused panel."""
        panel = self.focused_panel
        if panel is None or isinstance(self.screen, SheetScreen):
            return
        self._prompted, self._answer = panel, None
        searching = isinstance(panel, LogsPanel)
        hint = "regular expression to search for, then Enter" if searching else "show only rows that contain this text"
        self.main.query_one(Prompt).open("", hint)

    def action_catch(self) -> None:
        """Type what to catch in the process of the selection."""
        panel = self.focused_panel
        if panel is None or isinstance(self.screen, SheetScreen):
            return
        if self.view.timeline is not None:
            self.say("Catchpoints need a live target; this is a recording.", "warning")
            return
        process = process_to_catch_in(self.context)
        if process is None:
            self.say("Select a thread of the target process first (4 shows the threads).", "warning")
            return
        self._prompted, self._answer = panel, lambda text: self._catch(text, process)
        self.main.query_one(Prompt).open("", catch_hint(), catch_words(self.context))

    def _catch(self, text: str, process: str) -> None:
        if not text.strip():
            return
        try:
            intent = typed_catch(text, process)
        except UsageError as error:
            self.say(f"{error} {error.remedy}".rstrip(), "warning")
            return
        said = f"Setting a catchpoint on {intent.pattern} in {self.context.names.label(process)}"
        self.order(intent, said=said, then=lambda: self.call_next(self.action_view, "exceptions"))

    def action_golden(self) -> None:
        """Type what to compare the dump under the cursor with."""
        panel, values = self.focused_panel, self.main.query(Values)
        dump = values.first().dump if values else None
        if panel is None or isinstance(self.screen, SheetScreen):
            return
        if self.view.timeline is not None or dump is None:
            why = "This is a recording; its comparisons are in it." if dump is not None else "There is no dump yet."
            self.say(why, "warning")
            return
        self._prompted, self._answer = panel, lambda text: self._compare(text, dump)
        self.main.query_one(Prompt).open("", "a run, an args_dump, or a folder with in/ and out/")

    def _compare(self, text: str, dump: str) -> None:
        if text.strip():
            self.order(CompareValues(path=dump, golden=text.strip()), said="Comparing")

    def action_resume_thread(self) -> None:
        """Resume all threads that stopped at a catchpoint."""
        stopped = [point for point in self.context.snapshot.catchpoints.values() if point.stopped_thread is not None]
        if not stopped:
            self.say("No thread is stopped at a catchpoint.")
            return
        labels = ", ".join(self.context.names.label(point.stopped_thread or "") for point in stopped)
        self.order(*(Resume(catchpoint=point.id) for point in stopped), said=f"Resuming {labels}")

    @on(Input.Changed, "#prompt")
    def _typed(self, message: Input.Changed) -> None:
        panel = self._prompted
        if panel is not None and self._answer is None and not isinstance(panel, LogsPanel):
            panel.filter(message.value)

    @on(Input.Submitted, "#prompt")
    def _submitted(self, message: Input.Submitted) -> None:
        panel, answer = self._prompted, self._answer
        self._prompted = self._answer = None
        self.main.query_one(Prompt).close()
        if panel is not None:
            panel.focus()
        if answer is not None:
            answer(message.value)
        elif panel is not None:
            panel.filter(message.value)

    def action_go_back(self) -> None:
        """Close the prompt, give up a search, clear a filter; else go back to the screen that led here."""
        prompt = self.main.query_one(Prompt)
        panel, answer = self._prompted or self.focused_panel, self._answer
        self._prompted = self._answer = None
        if prompt.has_class("-open"):
            prompt.close()
            if panel is not None:
                panel.focus()
        elif self._led_from and not isinstance(panel, LogsPanel) and not getattr(panel, "needle", ""):
            self.call_next(self.action_view, self._led_from)
            return
        if answer is None and panel is not None and not (isinstance(panel, LogsPanel) and panel.give_up()):
            panel.filter("")
