"""The line where text is typed (a filter, a search, a catchpoint), and what is done with the text."""

from __future__ import annotations

from collections.abc import Callable

from textual import on
from textual.screen import Screen
from textual.widgets import Input

from livedbg.app.asking import AskingApp
from livedbg.app.overlays import Prompt, SheetScreen
from livedbg.app.views import Values
from livedbg.model.errors import UsageError
from livedbg.model.intents import CompareValues, Resume
from livedbg.panels.base import LinePanel
from livedbg.panels.catchpoints import catch_hint, catch_words, process_to_catch_in
from livedbg.panels.logs import LogsPanel
from livedbg.session.catch_options import typed_catch


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
        """Prompt for an exception to catch in the selected process."""
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
        """Prompt for data to compare the dump under the cursor with."""
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
