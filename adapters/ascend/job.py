"""A job as its logs and files show it: its current run and failures.

A job has one log (or a host and a device log with the same pid) and runs one task graph after another.
`handlers.handle` applies the messages of its log in order, `emission.Emitter` makes events of changes. Both import
this module, not vice versa.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from livedbg.adapters.ascend.dumps.scope_stats import ScopeStats
from livedbg.adapters.ascend.live.state import Progress
from livedbg.adapters.ascend.messages import NOWHERE, Mark
from livedbg.adapters.ascend.names import KernelNames, Names
from livedbg.adapters.ascend.run import Run
from livedbg.adapters.ascend.stalls import StallReader
from livedbg.adapters.ascend.trouble import Crash, Trouble
from livedbg.adapters.ascend.watchdogs import LoadHistory, Timeouts
from livedbg.graphs.declared import LostOrders, TaskGraph
from livedbg.graphs.lost import lost_orders
from livedbg.model import Diagnostic, Edge, EdgeKey

QUIET_NS: Final = 10_000_000_000
"""A run whose log said nothing for this long is quiet (the scheduler's own watchdog has the same limit)."""

_SKEW_NS: Final = 2_000_000_000
"""So far the times of a file server may be behind those of the machine that logs."""

_SIGNALS: Final = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV"}


class Suspicion(Struct, frozen=True):
    """The blocking tasks of a run.

    Attributes:
        tasks: their ids; several if the log can't tell them apart.
        certain: a log line names them.
        reason: why they are suspected.
    """

    tasks: tuple[int, ...] = ()
    certain: bool = False
    reason: str = ""


class MemoryView:
    """The run as seen in process memory; this base class is for memory that is not read."""

    def __init__(self) -> None:
        self.progress = Progress()

    @property
    def speaks(self) -> bool:
        """Return whether there is a run with a known state."""
        return False

    @property
    def open_tasks(self) -> Iterable[int]:
        """Return the ids of the tasks that have a slot."""
        return ()

    def suspicion(self) -> Suspicion:
        """Return the blocking tasks."""
        return Suspicion()

    def edges(self) -> tuple[Iterable[Edge], Iterable[EdgeKey]]:
        """Return the edges changed since the last call, and the removed ones."""
        return (), ()

    def statements(self) -> Iterator[Diagnostic]:
        """Yield its diagnostics."""
        return iter(())


NO_MEMORY: Final = MemoryView()


class Job:
    """One job.

    Args:
        place: the folder of its log, for users.
        loads: samples of the machine's load.

    Attributes:
        chips: device by pid, for the chip processes that write to this log.
        chips_at_work: pids with an open run.
        chips_begun: pids whose run has begun.
        stuck_chip: pid of the only one at work when a watchdog reported tasks.
        scopes: content of its scope_stats.jsonl.
        started_wall_ns: start of its process, if known.
        process: id of the process that writes the log; "" for none.
        environment: start environment of that process; None if not known.
        ended: its process has ended, with a known status.
        runs_done: completed runs of its graph, as far as known.
        numbered: `runs_done` follows the numbers in the host's spans, not observation.
        at_once: concurrent cases of its test run; 0 if no line says it.
        run_ended: callback with the former run when a new one begins.
    """

    def __init__(self, names: Names, place: str = "", loads: LoadHistory | None = None) -> None:
        self.names = names
        self.place = place
        self.loads = loads if loads is not None else LoadHistory()
        self.kernels = KernelNames()
        self.graph: TaskGraph | None = None
        self.graph_mark: Mark = NOWHERE
        self.scopes_mark: Mark = NOWHERE
        self.started_wall_ns: int | None = None
        self.lost: LostOrders = LostOrders((), ())
        self.scopes: ScopeStats | None = None
        self.last_mark: Mark = NOWHERE
        self.first_wall_ns: int | None = None
        self.last_wall_ns: int | None = None
        self.written_wall_ns: int | None = None
        self.quiet = False
        self.stale = False
        self.chips: dict[int, int] = {}
        self.chips_at_work: set[int] = set()
        self.chips_begun: set[int] = set()
        self.stuck_chip: int | None = None
        self.process = ""
        self.environment: dict[str, str] | None = None
        self.ended = False
        self.timeouts = Timeouts()
        self.runs_done = 0
        self.numbered = False
        self.at_once = 0
        self.live: MemoryView = NO_MEMORY
        self.run_ended: Callable[[Run], None] = _nothing
        self._start()

    def _start(self) -> None:
        self.run = Run(self.names, self.kernels)
        self.stalls = StallReader(self.run)
        self.trouble = Trouble()
        self.suspicion = Suspicion()
        self.timeouts.fired.clear()
        if self.graph is not None:
            self.run.use_graph(self.graph)

    def log_goes_on(self, mark: Mark, *, idle: bool = False) -> None:
        """Note a log line; an `idle` line says that nothing happens, and is no activity of the run."""
        if idle and self.last_wall_ns is not None:
            self.last_mark = mark
            return
        if mark.wall_ns is not None:
            if mark.exact:
                self.first_wall_ns = min(mark.wall_ns, self.first_wall_ns or mark.wall_ns)
            self.last_wall_ns = max(mark.wall_ns, self.last_wall_ns or 0)
        self.last_mark = mark
        if self.quiet:
            self.quiet, self.stale = False, True

    def begin(self, *, on_device: bool) -> None:
        """Begin a run, on the host or on the device; a former ended run is replaced."""
        if self.shared:
            self.run.phase = "running"  # several chips share this log: whose run begins isn't known
        elif self.run.phase in {"completed", "failed"} or (self.run.phase == "running" and on_device):
            former = self.run
            self.runs_done += former.phase == "completed" and not self.numbered
            self._start()
            self.run_ended(former)
        if self.run.phase in {"unknown", "starting"}:
            self.run.phase = "running" if on_device else "starting"
        if self.run.orchestrator == "unknown":
            self.run.orchestrator = "submitting"

    @property
    def still_since_wall_ns(self) -> int | None:
        """Return since when nothing has happened, as far as known.

        Without logged dispatches, memory counts from the first sample on.
        """
        live = self.live
        still_ns = live.progress.still_since_wall_ns
        if not live.speaks or self.run.shows_dispatches or still_ns is None:
            return self.last_wall_ns
        return max(still_ns, self.last_wall_ns or 0)

    def runs(self) -> None:
        """Note a run whose begin is not in the log."""
        if self.run.phase in {"unknown", "starting"}:
            self.run.phase = "running"

    @property
    def failed(self) -> bool:
        """Return whether the log shows a failed run, or one that a watchdog ended."""
        trouble, stall = self.trouble, self.stalls.stall
        ended = stall is not None and stall.exit
        return ended or bool(trouble.status or trouble.fatal or trouble.crash)

    @property
    def shared(self) -> bool:
        """Return whether several chips write to this log: then a line without a pid is ambiguous."""
        return len(self.chips) > 1

    def watchdog_reports(self) -> None:
        """Note stuck tasks of an unknown pid: they belong to the only chip at work, if there is just one."""
        if self.shared and len(self.chips_begun) > 1:
            self.stuck_chip = next(iter(self.chips_at_work)) if len(self.chips_at_work) == 1 else None

    def end(self, mark: Mark, pid: int | None = None) -> None:
        """End the run, successfully unless the log says otherwise; of several chips (`pid`) all must have ended."""
        if pid is not None:
            self.chips_at_work.discard(pid)
        if self.shared and (pid is None or self.chips_at_work):
            return
        if self.trouble.status or self.trouble.fatal or (self.stalls.stall and self.stalls.stall.exit):
            self.run.phase = "failed"
        elif self.run.phase != "completed":
            self.run.finish(mark)

    def use_graph(self, graph: TaskGraph, mark: Mark) -> bool:
        """Set the graph from a `deps.json`; return whether it fits the logged run."""
        if self._older(mark) or not self.run.fits(graph):
            return False
        self.graph, self.graph_mark = graph, mark
        self.lost = lost_orders(graph)
        self.run.use_graph(graph)
        self.stale = True
        return True

    def starved(self, idle: int, a_second: int) -> bool:
        """Return whether the scheduler's idle loop ran too seldom before its watchdog fired: it had no CPU."""
        fired = next((fired for fired in self.timeouts.fired if fired.key == "scheduler"), None)
        limit_s = fired.limit(self.environment).seconds if fired is not None else 0.0
        return 0 < idle < a_second * limit_s

    def drop_contradicted_graph(self) -> TaskGraph | None:
        """Drop and return a graph that the log contradicts (an older run's file)."""
        if self.scopes is not None and self._older(self.scopes_mark):
            self.scopes = None
        if self.graph is None or self.run.graph is None:
            return None
        if self.run.fits(self.graph) and not self._older(self.graph_mark):
            return None
        dropped, self.graph, self.run.graph = self.graph, None, None
        self.lost = LostOrders((), ())
        return dropped

    def _older(self, file: Mark) -> bool:
        """Return whether a file predates the job's process or log, so belongs to another run."""
        begun = max(self.started_wall_ns or 0, self.first_wall_ns or 0)
        return file.wall_ns is not None and file.wall_ns < begun - _SKEW_NS

    def use_names(self, found: dict[int, str]) -> None:
        if self.kernels.learn(found):
            self.run.changed.update(self.run.tasks)
            self.stale = True

    def use_scopes(self, scopes: ScopeStats, mark: Mark) -> None:
        if self.scopes != scopes and not self._older(mark):
            self.scopes, self.scopes_mark = scopes, mark
            self.stale = True

    def exited(self, status: int, mark: Mark) -> None:
        """Note the process's exit status (128+N or -N: by signal N)."""
        self.stale = True
        signal = -status if status < 0 else status - 128 if status > 128 else 0
        if signal in _SIGNALS and self.trouble.crash is None:
            self.trouble.crash = Crash(_SIGNALS[signal], "", mark)
        if status == 0 and self.run.phase in {"starting", "running"} and not self.stalls.stall:
            self.run.finish(mark)

    def be_quiet(self, now_wall_ns: int) -> None:
        """Mark the job as quiet after a long silence, so that open tasks count as waiting.

        A log whose lines have no time is as old as its file.
        """
        if self.last_wall_ns is None and self.run.phase != "unknown":
            self.last_wall_ns = self.written_wall_ns
        since_wall_ns = self.still_since_wall_ns
        if self.quiet or self.run.phase not in {"starting", "running"} or since_wall_ns is None:
            return
        if now_wall_ns - since_wall_ns >= QUIET_NS:
            self.quiet = self.stale = True


def _nothing(_: Run) -> None: ...
