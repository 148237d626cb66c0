"""A world that has read logs, with the decoders of all rooms, as a session has them."""

from __future__ import annotations

from msgspec.structs import replace

from livedbg.adapters.logfiles.decoding import Decoding
from livedbg.analysis.diagnosis import Finding, Verdict
from livedbg.logs.clock import SourceClock
from livedbg.logs.decoder import LogDecoder
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.model import LogSource, SourceStatus
from livedbg.model.events import LogSourceSeen, LogsSeen, StatusSeen
from livedbg.model.request import Request
from livedbg.session.filereaders import known_log_formats
from livedbg.session.registry import adapter_classes
from livedbg.session.rulebook import diagnose
from tests.analysis.world import World

__all__ = ["decoders", "found", "read", "verdict"]

_REQUEST = Request(host="box", logs=("/logs",), once=True)


def decoders() -> list[LogDecoder]:
    """Those of all rooms."""
    adapters = [adapter() for adapter in adapter_classes(once=True).values() if adapter.applies(_REQUEST)]
    return [decoder for adapter in adapters for decoder in adapter.decoders(_REQUEST)]


def read(*logs: str, world: World | None = None) -> World:
    """A world that has read logs.

    Raises:
        AssertionError: a decoder failed.
    """
    world = world or World()
    decoding = Decoding(decoders())
    for number, text in enumerate(logs):
        source = LogSource(id=f"log:box/{number}", name=f"{number}.log", path=f"/logs/{number}.log")
        decoding.opened(source, world.stamp())
        assembler, cutter = RecordAssembler(source.id, SourceClock(), known_log_formats()), LineCutter()
        records = [*assembler.feed([*cutter.feed(text.encode()), *cutter.flush()]), *assembler.flush()]
        fed = decoding.feed(records, world.stamp())
        world.store.apply(LogsSeen(records=tuple(fed), **world.stamp()))
        lines = text.count("\n")
        errors = decoding.errors(source.id)
        if errors.count:
            source = replace(source, errors=errors.count, first_error_line=errors.first, last_error=errors.last)
        world.store.apply(LogSourceSeen(source=replace(source, lines=lines), **world.stamp()))
    decoding.flush(world.stamp())
    events = decoding.take()
    failed: list[SourceStatus] = [event.status for event in events if isinstance(event, StatusSeen)]
    assert not failed, failed
    world.store.apply_all(events)
    return world


def verdict(*logs: str) -> Verdict:
    """The verdict after reading logs."""
    return diagnose(read(*logs).snapshot()).verdict


def found(rule: str, *logs: str, world: World | None = None) -> list[Finding]:
    """What one rule finds, the chief finding first."""
    return [one for one in diagnose(read(*logs, world=world).snapshot()).findings.values() if one.rule == rule]
