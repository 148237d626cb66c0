"""Feeds a folder of logs and files through the Ascend decoder, the file watch and the store; lines to feed."""

# ruff: noqa: E501, PLR0917 (log lines stand as the runtime prints them)

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from livedbg.adapters.ascend.adapter import FileWatch
from livedbg.adapters.ascend.decoder import AscendDecoder
from livedbg.adapters.ascend.model import AscendModel
from livedbg.adapters.ascend.rules import rules
from livedbg.analysis.diagnosis import Finding
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.rules.base import RuleInput
from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import Line
from livedbg.logs.records import RecordAssembler
from livedbg.model import LogRecord, LogSource
from livedbg.model.events import LogSourceSeen, LogsSeen, Stamp
from livedbg.model.snapshot import Snapshot
from livedbg.session.filereaders import known_log_formats
from livedbg.state.store import Store
from livedbg.text.sanitize import clean_bytes

NOW: Stamp = {"host": "box", "mono_ns": 10_000_000_000_000, "wall_ns": 1_800_000_000_000_000_000}


class Replay:
    """A decoder, its model and a store, fed by hand."""

    def __init__(self, stamp: Stamp = NOW) -> None:
        self.model = AscendModel()
        self.decoder = AscendDecoder(self.model)
        self.store = Store()
        self.stamp = stamp
        self.assemblers: dict[str, RecordAssembler] = {}
        self.lines: dict[str, int] = {}

    def open(self, path: Path) -> str:
        source = LogSource(id=f"log:box/{path}", name=path.name, path=str(path))
        self.decoder.opened(source)
        self.store.apply(LogSourceSeen(source=source, **self.stamp))
        self.assemblers[source.id] = RecordAssembler(
            source.id, SourceClock(reference_ns=self.stamp["wall_ns"]), known_log_formats()
        )
        self.lines[source.id] = 0
        return source.id

    def read(self, path: Path, data: bytes | None = None) -> str:
        """Read one log to its end, which may go on later; by default what its file holds. Returns its id."""
        source = self.open(path)
        self.feed(source, path.read_bytes() if data is None else data)
        self.end(source)
        return source

    def feed(self, source: str, data: bytes) -> None:
        """Lines of one log."""
        assembler = self.assemblers[source]
        for raw in data.split(b"\n"):
            self.lines[source] += 1
            text = clean_bytes(raw.rstrip(b"\r"))
            for record in assembler.feed([Line(text, 0, self.lines[source])]):
                self._record(record)

    def end(self, source: str) -> None:
        for record in self.assemblers[source].flush():
            self._record(record)

    def _record(self, record: LogRecord) -> None:
        events, _ = self.decoder.feed(record, self.stamp)
        self.store.apply_all([LogsSeen(records=(record,), **self.stamp), *events])

    def flush(self) -> Snapshot:
        self.store.apply_all(self.decoder.flush(self.stamp))
        return self.store.snapshot()

    def files(self, folder: Path) -> None:
        for file in FileWatch().scan([folder]):
            self.model.take(file)


def replay_folder(folder: Path, *, files_first: bool = False, stamp: Stamp = NOW) -> Snapshot:
    """The state after one look at everything below `folder`."""
    replay = Replay(stamp)
    replay.model.named = (folder,)
    if files_first:
        replay.files(folder)
        replay.flush()
    logs = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in {".txt", ".log", ""})
    for path in logs:
        replay.read(path)
    if not files_first:
        replay.files(folder)
    return replay.flush()


def replay_lines(lines: Iterable[str] | bytes, *, stamp: Stamp = NOW) -> Snapshot:
    """The state after the lines of one log in a folder of its own."""
    replay = Replay(stamp)
    replay.read(Path("/nowhere/job/err.txt"), lines if isinstance(lines, bytes) else "\n".join(lines).encode())
    return replay.flush()


def findings(snapshot: Snapshot) -> dict[str, Finding]:
    """What the Ascend rules find, by rule (the first of each)."""
    found: dict[str, Finding] = {}
    for rule in rules():
        for finding in rule.apply(RuleInput(snapshot, GraphKeeper().graph_of(snapshot))):
            assert finding.rule == rule.name
            assert rule.doc
            found.setdefault(finding.rule, finding)
    return found


# lines as the runtime writes them

BEGIN = "[INFO] init: [aicpu_executor.cpp:241] AicpuExecutor: Initializing"
DONE = "[INFO] run: [aicpu_executor.cpp:846] Thread 3: Orchestrator completed"
ANCHOR = (
    "[mono_ns=1000000000][T0x7f][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=7 "
    "mono_ns=1000000000 wall_ns=1790000000000000000"
)


def dispatched(
    raw: int, core: int, kernels: str = "-1,2,-1", *, thread: int = 0, slot: str = "idle", block: str = "0/1"
) -> str:
    index, total = block.split("/")
    return (
        f"[DEBUG] prepare_subtask_to_core: [scheduler_dispatch.cpp:205] Thread {thread}: Dispatched {slot} aiv0 task {raw} "
        f"kernel_id=[{kernels}] block_idx={index}/total_blocks={total} to core_offset=1 core_id={core} reg_task_id=1"
    )


def stall(
    text: str, *, idle: int = 480_000, thread: int = 0, level: str = "INFO", func: str = "log_stall_diagnostics"
) -> str:
    return f"[{level}] {func}: [scheduler_cold_path.cpp:274] [STALL thread={thread} idle_iterations={idle}] {text}"


def task_line(raw: int, state: str, met: str, *, aiv0: int = 2, tail: str = "", name: str = "fanin_refcount") -> str:
    return (
        f"TASK ring={raw >> 32} task_id={raw} state={state:<7} {name}={met} kernels=[aic:-1 aiv0:{aiv0} aiv1:-1]{tail}"
    )


def summary(done: str, ready: int, waiting: int, running: int) -> str:
    return f"SUMMARY completed={done} last_progress_iteration=0 scan_ready={ready} scan_waiting={waiting} scan_running={running}"


def timeout(
    sub: str, done: str, running: int, ready: int, waiting: int, task: int = -1, core: int = -1, idle: int = 480_000
) -> str:
    return stall(
        f"TIMEOUT_EXIT after_idle_iterations={idle} sub_class={sub} completed={done} running={running} ready={ready} "
        f"waiting={waiting} orch_done=1 stuck_task_id={task} stuck_core={core}",
        level="ERROR",
        func="handle_timeout_exit",
        idle=idle,
    )


RING = [
    f"[DEBUG] mark_done: [pto_orchestrator.cpp:1369] === [Orchestrator] ring 0: total_tasks={n} ===" for n in range(12)
]
