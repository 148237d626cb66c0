"""The screens of the app: which panels each has, mounted when it is first shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container

from livedbg.analysis.ranks import ranked
from livedbg.model.snapshot import Snapshot
from livedbg.panels.base import FunctionsAsked, LinePanel, Pointed, bindings
from livedbg.panels.catchpoints import CatchpointsPanel
from livedbg.panels.details import AboutPanel
from livedbg.panels.device import DevicePanel, DeviceThreadPanel
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.exceptions import HitsPanel, HitStackPanel
from livedbg.panels.graph import GraphPanel
from livedbg.panels.ledger import LedgerPanel, SourcesPanel
from livedbg.panels.log import LogPanel
from livedbg.panels.logs import LogsPanel
from livedbg.panels.measured import FUNCTIONS_KEY, LAUNCH_KEYS, FunctionsPanel, LaunchesPanel
from livedbg.panels.ranks import RanksPanel
from livedbg.panels.stack import VALUES_KEYS, CodePanel, StackPanel
from livedbg.panels.tasks import TasksPanel
from livedbg.panels.threads import ThreadsPanel
from livedbg.panels.values import GOLDEN_KEYS, TensorPanel, ValuesPanel
from livedbg.panels.verdict import VerdictPanel, code_place
from livedbg.panels.waits import WaitsPanel

Kind = type[LinePanel]
Arrangement = tuple[Kind | tuple[Kind, ...], ...]
"""Panels from top to bottom; those in a tuple share the middle, side by side where it is wide."""


class View(Container):
    """A screen with its panels."""

    def __init__(self, name: str, arrangement: Arrangement) -> None:
        super().__init__(id=name, classes="view")
        self._arrangement = arrangement

    def compose(self) -> ComposeResult:
        for part in self._arrangement:
            if isinstance(part, tuple):
                yield Container(*(kind() for kind in part), classes="pair")
            else:
                yield part()

    def panels(self) -> Iterator[LinePanel]:
        """Yield the visible panels."""
        for panel in self.query(LinePanel):
            if not panel.has_class("hidden"):
                yield panel

    def show(self, context: DrawContext) -> None:
        for panel in self.panels():
            panel.show(context)

    def focus_first(self) -> None:
        """Focus the main panel."""
        for panel in self.panels():
            if not isinstance(panel, VerdictPanel | CodePanel):
                panel.focus()
                return


class Overview(View):
    """The first screen: the culprit's code if there is one, and tasks where a runtime reports any, else threads."""

    def show(self, context: DrawContext) -> None:
        """Choose between tasks and threads, with or without code, then show."""
        coded = code_place(context) is not None
        self.query_one(CodePanel).set_class(not coded, "hidden")
        self.set_class(coded, "-coded")
        tasks, threads = self.query_one(TasksPanel), self.query_one(ThreadsPanel)
        has_tasks = bool(context.snapshot.tasks)
        hidden, shown = (threads, tasks) if has_tasks else (tasks, threads)
        had_keys = hidden.has_focus
        tasks.set_class(not has_tasks, "hidden")
        threads.set_class(has_tasks, "hidden")
        if had_keys:
            shown.focus()
        super().show(context)

    @on(FunctionsAsked)
    async def _functions(self) -> None:
        await self.app.run_action("view('threads')")
        self.app.query_one(Threads).action_functions()


class Threads(View):
    """The threads and the stack of the selected one, or the functions that take the CPU time."""

    BINDINGS = bindings("threads-view", (*VALUES_KEYS, FUNCTIONS_KEY))

    def on_mount(self) -> None:
        self.query_one(FunctionsPanel).add_class("hidden")

    def focus_first(self) -> None:
        """Show the threads when coming from another screen."""
        self._show_functions(False)

    @property
    def has_functions(self) -> bool:
        """True if the functions are shown."""
        return not self.query_one(FunctionsPanel).has_class("hidden")

    @on(FunctionsAsked)
    def action_functions(self) -> None:
        """Show functions in place of threads, or threads again."""
        self._show_functions(not self.has_functions)

    def _show_functions(self, on: bool) -> None:
        context = next(self.panels()).context
        for panel in self.query(LinePanel):
            panel.set_class(on is not isinstance(panel, FunctionsPanel), "hidden")
        self.show(context)
        super().focus_first()

    def action_values(self) -> None:
        """Show variables of the selected thread, whichever panel has the focus."""
        self.query_one(StackPanel).action_values()


class Pointing(View):
    """Rows, and beside them the details of the one under the cursor."""

    ROWS: ClassVar[type[HitsPanel | ValuesPanel | DevicePanel]]
    BESIDE: ClassVar[type[HitStackPanel | TensorPanel | DeviceThreadPanel]]

    def show(self, context: DrawContext) -> None:
        super().show(context)
        self.query_one(self.BESIDE).point(self.query_one(self.ROWS).pointed)

    @on(Pointed)
    def _pointed(self, message: Pointed) -> None:
        self.query_one(self.BESIDE).point(message.hit)


class Exceptions(Pointing):
    """Catchpoints, what they caught, and the stack of the selected hit."""

    ROWS, BESIDE = HitsPanel, HitStackPanel

    def focus_first(self) -> None:
        self.query_one(HitsPanel).focus()


class Values(Pointing):
    """Dumped tensors, and the one under the cursor."""

    ROWS, BESIDE = ValuesPanel, TensorPanel
    BINDINGS = bindings("values-view", GOLDEN_KEYS)

    def action_divergence(self) -> None:
        """Go to the first task that diverges, whichever panel has the focus."""
        self.query_one(ValuesPanel).action_divergence()

    async def action_golden(self) -> None:
        await self.app.run_action("golden")

    @property
    def dump(self) -> str | None:
        """Path of the dump under the cursor."""
        return self.query_one(ValuesPanel).dump


class Device(Pointing):
    """Kernels on devices, a thread of the selected one, and launches."""

    ROWS, BESIDE = DevicePanel, DeviceThreadPanel
    BINDINGS = bindings("device", LAUNCH_KEYS)

    def action_launches(self) -> None:
        """Start or stop tracing launches, whichever panel has the focus."""
        self.query_one(LaunchesPanel).action_launches()


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """An entry in the list of screens.

    Attributes:
        key: the digit that shows it (F and the digit too; F10 for 0).
        question: the one question that it answers, for the help.
        short: its label where there is little room.
        shown: returns whether it has anything to show; the bar of screens leaves it out otherwise.
    """

    key: str
    name: str
    label: str
    question: str
    arrangement: Arrangement
    make: type[View] = View
    short: str = ""
    shown: Callable[[Snapshot], bool] | None = None

    @property
    def kinds(self) -> list[Kind]:
        """All panels, in reading order."""
        return [kind for part in self.arrangement for kind in (part if isinstance(part, tuple) else (part,))]

    def build(self) -> View:
        return self.make(self.name, self.arrangement)


VIEWS = (
    ViewSpec(
        "1", "overview", "Overview", "What is stuck, since when, what does it wait for, and what to do next?",
        (VerdictPanel, CodePanel, (TasksPanel, ThreadsPanel, WaitsPanel), LogPanel), Overview, short="Over",
    ),
    ViewSpec(
        "2", "tasks", "Tasks", "What does each task do, and what waits for it?",
        ((TasksPanel, WaitsPanel), AboutPanel), short="Task",
    ),
    ViewSpec("3", "graph", "Graph", "Who waits for whom around the selection?", (GraphPanel, AboutPanel)),
    ViewSpec(
        "4", "threads", "Threads", "What does each thread do, and where in the code?",
        ((ThreadsPanel, StackPanel, FunctionsPanel),), Threads, short="Thrds",
    ),
    ViewSpec(
        "5", "exceptions", "Exceptions", "Which exceptions are thrown, how often, and where?",
        (CatchpointsPanel, (HitsPanel, HitStackPanel)), Exceptions, short="Exc",
    ),
    ViewSpec("6", "logs", "Logs", "What was logged, and when?", (LogsPanel,)),
    ViewSpec(
        "7", "ranks", "Ranks", "Which rank is missing or behind, and where is it?",
        ((RanksPanel, StackPanel),), short="Rank", shown=ranked,
    ),
    ViewSpec(
        "8", "values", "Values", "What did each task compute, and which one diverges first?",
        ((ValuesPanel, TensorPanel),), Values, short="Vals",
    ),
    ViewSpec(
        "9", "ledger", "Ledger", "What did livedbg do to the target, and what can it not see?",
        (LedgerPanel, SourcesPanel), short="Ledg",
    ),
    ViewSpec(
        "0", "device", "Device", "Which kernels run on the GPUs, and where are their warps?",
        ((DevicePanel, DeviceThreadPanel), LaunchesPanel), Device, short="Dev",
    ),
)  # fmt: skip
"""All screens, in order."""
