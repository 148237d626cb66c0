"""Feeds a folder of logs and files through the Ascend decoder, the file watch and the store."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from livedbg.adapters.ascend.adapter import FileWatch
from livedbg.adapters.ascend.decoder import AscendDecoder
from livedbg.adapters.ascend.model import AscendModel
from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import Line
from livedbg.logs.records import RecordAssembler
from livedbg.model import LogSource
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
        self.links: list[tuple[str, ...]] = []

    def open(self, path: Path) -> str:
        source = LogSource(id=f"log:box/{path}", name=path.name, path=str(path))
        self.decoder.opened(source)
        self.store.apply(LogSourceSeen(source=source, **self.stamp))
        self.assemblers[source.id] = RecordAssembler(
            source.id, SourceClock(reference_ns=self.stamp["wall_ns"]), known_log_formats()
        )
        self.lines[source.id] = 0
        return source.id

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

    def _record(self, record: object) -> None:
        from livedbg.model import LogRecord

        assert isinstance(record, LogRecord)
        events, links = self.decoder.feed(record, self.stamp)
        self.links.append(links)
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
        source = replay.open(path)
        replay.feed(source, path.read_bytes())
        replay.end(source)
    if not files_first:
        replay.files(folder)
    return replay.flush()


def replay_lines(lines: Iterable[str], *, stamp: Stamp = NOW, name: str = "err.txt") -> Snapshot:
    """The state after the lines of one log in a folder of its own."""
    replay = Replay(stamp)
    source = replay.open(Path("/nowhere/job") / name)
    replay.feed(source, "\n".join(lines).encode())
    replay.end(source)
    return replay.flush()
