"""Reads a log as a session does: lines, records, the session's decoders, the state, its diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from livedbg.adapters.cuda.adapter import CudaDecoder
from livedbg.adapters.logfiles.decoding import Decoding
from livedbg.analysis.diagnosis import Diagnosis, Finding
from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.model import LogRecord, LogSource, Process, ids
from livedbg.model.events import Event, LogsSeen, ProcessSeen, Stamper
from livedbg.model.snapshot import Snapshot
from livedbg.session.filereaders import known_log_formats
from livedbg.session.rulebook import diagnose
from livedbg.session.signatures import book
from livedbg.signatures.crashes import CrashDecoder
from livedbg.signatures.decoder import SignatureDecoder
from livedbg.state.store import Store

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cuda"
HOST, PID = "box", 4711
STAMP = Stamper(HOST)


@dataclass(frozen=True)
class Read:
    """What became of a log."""

    snapshot: Snapshot
    diagnosis: Diagnosis

    @property
    def chief(self) -> Finding:
        """The finding that comes first."""
        return self.diagnosis.findings["F1"]

    @property
    def findings(self) -> list[Finding]:
        """All of them."""
        return list(self.diagnosis.findings.values())


def read(*logs: bytes, process: Process | None = None, step: int = 1 << 16, before: Sequence[Event] = ()) -> Read:
    """What livedbg makes of logs; with a process that writes them, and other events before, if given."""
    store = Store()
    store.apply_all(before)
    if process is not None:
        store.apply(ProcessSeen(process=process, **STAMP()))
    decoding = Decoding((CrashDecoder(), CudaDecoder(), SignatureDecoder(lambda: book()[0])))
    for number, data in enumerate(logs):
        source = LogSource(id=f"log:{HOST}/{number}", name=f"{number}.txt", path=f"/logs/{number}.txt",
                           process=process.id if process is not None else None)  # fmt: skip
        decoding.opened(source, STAMP())
        assembler, cutter = RecordAssembler(source.id, SourceClock(), known_log_formats()), LineCutter()
        for begin in range(0, len(data), step):
            records = assembler.feed(cutter.feed(data[begin : begin + step]))
            _take(store, decoding.feed(records, STAMP()), decoding.take())
        rest = [*assembler.feed(cutter.flush()), *assembler.flush()]
        _take(store, decoding.feed(rest, STAMP()), decoding.take())
    decoding.flush(STAMP())
    _take(store, [], decoding.take())
    snapshot = store.snapshot()
    assert not snapshot.statuses, snapshot.statuses  # no decoder failed
    return Read(snapshot, diagnose(snapshot))


def _take(store: Store, records: Sequence[LogRecord], events: Sequence[Event]) -> None:
    if records:
        store.apply(LogsSeen(records=tuple(records), **STAMP()))
    store.apply_all(events)


def fixture(name: str) -> bytes:
    """A log of tests/fixtures/cuda."""
    return (FIXTURES / f"{name}.txt").read_bytes()


def target(exited: bool = False, **environment: str) -> Process:
    """A process that writes the log."""
    return Process(
        id=ids.process(HOST, PID), host=HOST, pid=PID, command=("train",), environment=environment, exited=exited
    )
