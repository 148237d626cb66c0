"""Translates events of old recordings to today's: names of sources, counters and engines; where evidence was read.

Invariants:
    old_names.O1. A recording made before a rename replays as one made after it.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from livedbg.model import Diagnostic, Evidence
from livedbg.model.events import CatchpointSeen, CounterSeen, DiagnosticSeen, Event, StacksSeen
from livedbg.model.launches import TRACED, TRACED_TO

__all__ = ["renamed"]

_SOURCES: Final = {"zero": "no stop", "zero+py-spy": "no stop+py-spy"}
_COUNTERS: Final = {"launches heard": TRACED, "launches heard to": TRACED_TO}
_ENGINES: Final = {"listen": "probes"}
_DIGITS: Final = 19  # a number of more is no line, and no recording can hold it


def renamed(event: Event) -> Event:
    """The event with today's names."""
    match event:
        case StacksSeen() if any(stack.source in _SOURCES for stack in event.stacks):
            stacks = (structs.replace(s, source=_SOURCES.get(s.source, s.source)) for s in event.stacks)
            return structs.replace(event, stacks=tuple(stacks))
        case CounterSeen() if event.name in _COUNTERS:
            return structs.replace(event, name=_COUNTERS[event.name])
        case CatchpointSeen() if event.catchpoint.engine in _ENGINES:
            point = structs.replace(event.catchpoint, engine=_ENGINES[event.catchpoint.engine])
            return structs.replace(event, catchpoint=point)
        case DiagnosticSeen():
            return structs.replace(event, diagnostic=_as_fields(event.diagnostic))
        case _:
            return event


def _as_fields(said: Diagnostic) -> Diagnostic:
    """A diagnostic whose flags were words among its attributes, and whose evidence had its line in a text."""
    evidence = tuple(map(_with_line, said.evidence))
    resolved, late = (said.attributes.get(name) == "yes" for name in ("resolved", "late"))
    attributes = {name: text for name, text in said.attributes.items() if name not in ("resolved", "late")}
    return structs.replace(
        said, evidence=evidence, attributes=attributes, resolved=said.resolved or resolved, late=said.late or late
    )


def _with_line(proof: Evidence) -> Evidence:
    """Evidence whose place was one text, `err.txt:214`, with file and line."""
    name, colon, number = proof.source.rpartition(":")
    if proof.kind in ("log", "file") and name and colon and number.isdecimal() and len(number) < _DIGITS:
        return structs.replace(proof, source="", file=name, line=int(number))
    return proof
