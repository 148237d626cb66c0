"""Reads logs of torch.compile into a state, as a session does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from livedbg.adapters.logfiles.decoding import Decoding
from livedbg.adapters.pytorch.traces.adapter import CompileDecoder
from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.model import LogSource
from livedbg.model import events as ev
from livedbg.signatures.crashes import CrashDecoder
from tests.analysis.world import SECOND, World

FIXTURES = Path(__file__).parents[2] / "fixtures" / "pytorch" / "traces"
BEGUN_NS = 1_795_474_998_807_952_384
"""When the compilation of killed.log began."""


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}.log").read_bytes()


def at(world: World, wall_ns: int) -> World:
    """Set the clock of a world."""
    world.now_ns = wall_ns - 10**18
    return world


class Logs:
    """The logs of a session, read on as they grow."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world if world is not None else at(World(), BEGUN_NS + 20 * SECOND)
        self._decoding = Decoding((CompileDecoder(), CrashDecoder()))
        self._cutters: dict[str, tuple[LineCutter, RecordAssembler]] = {}

    def read(self, data: bytes, name: str = "t.log", process: str | None = None) -> World:
        source = LogSource(id=f"log:box/{name}", name=name, path=f"/home/me/{name}", process=process)
        if name not in self._cutters:
            clock = SourceClock(BEGUN_NS)
            self._cutters[name] = LineCutter(), RecordAssembler(source.id, clock)
            self._decoding.opened(source, self.world.stamp())
        cutter, assembler = self._cutters[name]
        records = assembler.feed(cutter.feed(data)) + assembler.flush()
        self._decoding.feed(records, self.world.stamp())
        self._decoding.flush(self.world.stamp())
        return self._apply(self._decoding.take())

    def _apply(self, events: Iterable[ev.Event]) -> World:
        for event in events:
            assert not isinstance(event, ev.StatusSeen), event.status.sentence
            self.world.store.apply(event)
        return self.world


def read(name: str) -> World:
    """One captured log of a run that has ended."""
    return Logs().read(fixture(name))
