"""The Textual app: screens, the shared selection, keys. It reads a SessionView and sends intents.

Invariants:
    application.A1. All panels show one DrawContext: one update, one selection.
    application.A2. Frozen means: updates go on being taken in, and are not shown.
    application.A3. The session is started after the first paint, in another thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.css.query import NoMatches
from textual.events import Event, InputEvent
from textual.filter import LineFilter
from textual.message import Message
from textual.screen import Screen
from textual.theme import Theme
from textual.timer import Timer

from livedbg.app.bars import Chosen, FooterBar, HeaderBar, Sought, TimelineBar
from livedbg.app.cell_updates import AsciiOnly, FewColours, Guard
from livedbg.app.commands import APP_KEYS, GUIDE_KEYS, REPLAY_KEYS, Commands, help_sheet
from livedbg.app.feed import Feed
from livedbg.app.options import AppOptions, Colours
from livedbg.app.overlays import Copied, GuideActions, Prompt, PromptingApp, SheetScreen
from livedbg.app.views import VIEWS, Threads, View
from livedbg.model import ids
from livedbg.model.intents import Refresh, SampleFaster
from livedbg.panels.base import Asked, Led, Noticed, Opened, Picked, Unfolded, bindings
from livedbg.panels.details import caught_sheet, details, evidence
from livedbg.panels.draw_context import ASCII, UNICODE, DrawContext, ink_of
from livedbg.panels.log import record_sheet
from livedbg.panels.logs import LogsPanel
from livedbg.session.view import SessionView, Timeline, Update
from livedbg.themes import DEFAULT, PALETTES, STYLE_SHEET, Palette, Role


def faster_samples(screen: Screen[object], view: View, context: DrawContext) -> SampleFaster | None:
    """Return the request for faster samples; None if no samples are shown, or they are of a recording."""
    if context.recorded:
        return None
    if isinstance(screen, SheetScreen):
        of, profiles = screen.entity, context.snapshot.profiles
        shown = of is not None and any(of in (thread, ids.process_of(thread)) for thread in profiles)
        return SampleFaster(of=of) if shown else None
    return SampleFaster() if isinstance(view, Threads) and view.has_functions else None


def as_theme(palette: Palette) -> Theme:
    """Return the theme `livedbg-NAME`."""
    role = palette.roles
    return Theme(
        name=f"livedbg-{palette.name}",
        primary=role[Role.ACCENT],
        secondary=role[Role.HEADING],
        accent=role[Role.ACCENT],
        warning=role[Role.WARN],
        error=role[Role.BAD],
        success=role[Role.GOOD],
        foreground=role[Role.TEXT],
        background=palette.background,
        surface=palette.raised,
        panel=palette.raised,
        dark=True,
        variables={
            "lb-background": palette.background,
            "lb-raised": palette.raised,
            "lb-border": palette.border,
            "lb-focus": palette.focus,
            "lb-selection": palette.selection,
            "lb-selection-text": palette.selection_text,
            "lb-text": role[Role.TEXT],
            "lb-dim": role[Role.DIM],
            "lb-heading": role[Role.HEADING],
            "lb-accent": role[Role.ACCENT],
            "lb-bad": role[Role.BAD],
            "block-cursor-background": palette.selection,
            "block-cursor-foreground": palette.selection_text,
            "input-selection-background": palette.selection,
        },
    )


_CLOCK_S: Final = 1.0
"""Time between two ticks of the header's clock; longer on a slow line."""


class _Woken(Message):
    """An update waits in the feed."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, _Woken)


class LivedbgApp(GuideActions, PromptingApp):
    """The terminal app; `interval_s` is the least time between two paints of new state."""

    CSS_PATH = str(STYLE_SHEET)
    ENABLE_COMMAND_PALETTE = True
    COMMANDS = {Commands}  # noqa: RUF012 (Textual's own declaration)
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("app", APP_KEYS),
        *bindings("replay", REPLAY_KEYS),
        *bindings("guide", GUIDE_KEYS, priority=True),  # over a sheet too
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (20, "-short"), (32, "-tall")]  # noqa: RUF012
    ESCAPE_TO_MINIMIZE = False

    def __init__(
        self,
        view: SessionView,
        options: AppOptions,
        *,
        interval_s: float = 0.25,
        ascii_only: bool = False,
        colours: Colours = Colours.FULL,
    ) -> None:
        super().__init__()
        self.view = view
        self.options = options
        self.feed = Feed(view, self._wake, interval_s)
        self._interval_s = interval_s
        self.frozen = False
        self.colours = colours
        self.ascii_only = ascii_only
        name = options.theme if options.theme in PALETTES else DEFAULT
        for palette in PALETTES.values():
            self.register_theme(as_theme(palette))
        self._line_filters: dict[str, Sequence[LineFilter]] = {}
        self.context = DrawContext(
            ink=ink_of(name), glyphs=ASCII if ascii_only else UNICODE, recorded=view.timeline is not None
        )
        self._newest: Update | None = None
        self._chose = False
        self._pending: Timer | None = None
        self.theme = f"livedbg-{name}"
        self.animation_level = "none"

    # building

    def compose(self) -> ComposeResult:
        yield HeaderBar()
        if self.view.timeline is not None:
            yield TimelineBar()
        yield Container(VIEWS[0].build(), id="views")
        yield Prompt()
        yield FooterBar(VIEWS)

    def on_mount(self) -> None:
        """Show the empty state at once; then start the session."""
        self.set_class(self.ascii_only, "-ascii")
        self.set_class(self.colours is Colours.NONE, "-no-colour")
        self.main = self.screen
        self.query_one(FooterBar).current = VIEWS[0].name
        self.current = self.query_one("#overview", View)
        self.render_shown()
        self.current.focus_first()
        self.set_interval(max(_CLOCK_S, 4 * self._interval_s), self._beat)
        self.call_after_refresh(self.feed.start)
        self.greet()
        if self.options.start != VIEWS[0].name:
            self.call_next(self.action_view, self.options.start)

    def on_unmount(self) -> None:
        self.feed.stop()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters of every line that is written."""
        key = self.context.ink.palette.name
        if key not in self._line_filters:
            filters: list[LineFilter] = [Guard()]
            if self.ascii_only:
                filters.append(AsciiOnly())
            if self.colours is not Colours.FULL:
                filters.append(FewColours(PALETTES[key], none=self.colours is Colours.NONE))
            self._line_filters[key] = filters
        return self._line_filters[key]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return colours that the style sheet names, for Textual's own themes."""
        return as_theme(PALETTES[DEFAULT]).variables

    @property
    def timeline(self) -> Timeline | None:
        return self.view.timeline

    # state

    async def on_event(self, event: Event) -> None:
        """Note that somebody uses the app: it is drawn more often then."""
        if isinstance(event, InputEvent):
            self.feed.used()
        await super().on_event(event)

    def _wake(self) -> None:
        self.post_message(_Woken())

    @on(_Woken)
    def _woken(self) -> None:
        if self._pending is not None:
            self._pending.stop()
            self._pending = None
        due_s = self.feed.due()
        if due_s == 0:
            self._take_update()
        elif due_s is not None:
            self._pending = self.set_timer(due_s, self._take_update)

    def _beat(self) -> None:
        """Tick the clock; moving numbers are shown with it."""
        if not self.is_running:
            return  # panels are gone one after the other
        self.show_step()
        if not self.frozen and (wanted := faster_samples(self.screen, self.current, self.context)) is not None:
            self.view.send(wanted)
        if self._pending is None and (self.feed.calm() or not self._take_update()):
            self.tick()

    def _take_update(self) -> bool:
        self._pending = None
        if not self.is_running:
            return False
        if self.feed.error is not None:
            self.exit(1)
            return True
        update = self.feed.take()
        if update is None:
            return False
        if update.notice:
            self.say(update.notice, "warning")
        self._newest = update
        if not self.frozen:
            self.change(update=update)
        return not self.frozen

    def change(self, *, update: Update | None = None, selection: str | None = None, theme: str | None = None) -> None:
        """Set a new state, selection or theme, and show it everywhere."""
        old = self.context
        update = update or old.update
        selection = selection or old.selection
        roots = update.diagnosis.verdict.roots
        if selection is None or (not self._chose and roots and selection not in roots):
            selection = next(iter(roots), None)
        ink = ink_of(theme) if theme else old.ink
        self.context = DrawContext(update, selection, ink, old.glyphs, old.recorded)
        self.render_shown()

    def render_shown(self) -> None:
        """Draw everything that can be seen; nothing when the app is about to end."""
        if not self.main.is_attached or not self.main.query(FooterBar):
            return
        with self.batch_update():
            self.tick()
            self.main.query_one(FooterBar).show(self.context)
            for panel in self.current.query(LogsPanel):
                panel.reader = self.view.logs
            self.current.show(self.context)
            if isinstance(self.screen, SheetScreen):
                self.screen.show(self.context)

    def tick(self) -> None:
        """Update the clock of the header, and the time line."""
        try:
            header = self.main.query_one(HeaderBar)
        except NoMatches:
            return
        header.what, header.mode, header.frozen = self.view.title, self.view.mode, self.frozen
        line = self.timeline
        header.now_ns = line.position_wall_ns if line is not None else self.options.clock()
        header.show(self.context)
        for bar in self.main.query(TimelineBar):
            bar.timeline = line
            bar.show(self.context)

    # what panels say

    @on(Picked)
    def _picked(self, message: Picked) -> None:
        if message.entity != self.context.selection:
            self._chose = True
            self.change(selection=message.entity)

    @on(Opened)
    def _opened(self, message: Opened) -> None:
        self.open_sheet(caught_sheet(self.context, message.entity) or details(message.entity), entity=message.entity)

    @on(Unfolded)
    def _unfolded(self, message: Unfolded) -> None:
        self.open_sheet(record_sheet(message.record))

    @on(Led)
    async def _led(self, message: Led) -> None:
        self._chose = True
        self.change(selection=message.entity)
        origin = self.current.id or ""
        await self.action_view(message.view)
        self._led_from = origin
        for panel in [*self.current.panels()][:1]:
            if isinstance(panel, LogsPanel):
                self.say(panel.lead_to(message.entity, message.at_wall_ns))
                continue
            if panel.find(message.entity) is None:
                panel.filter("")
            panel.follow(message.entity)

    @on(Asked)
    def _asked(self, message: Asked) -> None:
        self.order(message.intent, said=message.notice)

    @on(Noticed)
    def _noticed(self, message: Noticed) -> None:
        self.say(message.text, message.severity)

    @on(Copied)
    def _copied(self, message: Copied) -> None:
        self.copy_text(message.text)

    @on(Chosen)
    async def _footer_chosen(self, message: Chosen) -> None:
        await self.run_action(message.action)

    @on(Sought)
    def _sought(self, message: Sought) -> None:
        self.seek(message.share)

    # screens and sheets

    async def action_view(self, name: str) -> None:
        """Show another screen, which is mounted on first use."""
        self._led_from = ""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        spec = next(spec for spec in VIEWS if spec.name == name)
        try:
            wanted = self.main.query_one(f"#{name}", View)
        except NoMatches:
            wanted = spec.build()
            await self.main.query_one("#views", Container).mount(wanted)
        self.current.display = False
        wanted.display = True
        self.current = wanted
        self.main.query_one(FooterBar).current = name
        self.render_shown()
        wanted.focus_first()

    def action_evidence(self) -> None:
        self.open_sheet(evidence)

    def action_help(self) -> None:
        spec = next(spec for spec in VIEWS if spec.name == self.current.id)
        self.open_sheet(help_sheet(spec, replay=self.timeline is not None, guide=self.options.guide is not None))

    # commands

    def action_copy(self) -> None:
        panel = self.focused_panel
        if panel is not None:
            self.copy_text(panel.copy_text())

    def action_freeze(self) -> None:
        """Freeze, or show the latest state again."""
        self.frozen = not self.frozen
        if not self.frozen and self._newest is not None:
            self.change(update=self._newest)
        self.tick()

    def action_refresh_now(self) -> None:
        self.order(Refresh(), said="Scanning all sources")

    def action_next_theme(self) -> None:
        names = list(PALETTES)
        self.action_use_theme(names[(names.index(self.context.ink.palette.name) + 1) % len(names)])

    def action_use_theme(self, name: str) -> None:
        self.change(theme=name)
        self.theme = f"livedbg-{name}"
        self.say(f"Theme {name}: {PALETTES[name].title}")

    def get_default_screen(self) -> Screen[object]:
        """Return the one screen under all sheets."""
        return Screen(id="main")

    # a recording

    def action_play(self) -> None:
        """Play or pause."""
        if (line := self.timeline) is not None:
            line.pause() if line.playing else line.play()
            self.tick()

    def action_step(self, count: int) -> None:
        """Step forward or back."""
        if (line := self.timeline) is not None:
            line.pause()
            line.step(count)
            self.tick()

    def seek(self, share: float) -> None:
        """Go to a part of the recording: 0 is its beginning, 1 its end."""
        if (line := self.timeline) is not None:
            length = line.end_wall_ns - line.start_wall_ns
            line.seek(line.start_wall_ns + round(min(max(share, 0.0), 1.0) * length))
            self.tick()

    def action_seek(self, parts: int) -> None:
        """Seek by twentieths of the recording."""
        if (line := self.timeline) is not None:
            length = line.end_wall_ns - line.start_wall_ns
            wanted = line.position_wall_ns + parts * length // 20
            line.seek(min(max(wanted, line.start_wall_ns), line.end_wall_ns))
            self.tick()

    def action_rewind(self) -> None:
        self.seek(0)

    def action_speed(self, factor: float) -> None:
        if (line := self.timeline) is not None:
            line.set_speed(min(max(line.speed * factor, 1 / 64), 1024))
            self.tick()
