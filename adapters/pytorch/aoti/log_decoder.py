"""Decode AOTInductor's value printer in logs: find the first NaN or infinity and the kernel that shows it.

Invariants:
    aoti_logs.G1. A buffer's content before a launch counts only if an earlier launch wrote it, or it is an input.
    aoti_logs.G2. Infinity alone is a note: models use it on purpose, as in masks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar, Final

from msgspec import Struct, field

from livedbg.adapters.pytorch.aoti.printed import Value, begins, take
from livedbg.logs.decoder import LogDecoder
from livedbg.model import Diagnostic, Evidence, LogRecord, LogSource, Severity
from livedbg.model.events import DiagnosticSeen, Event, Stamp
from livedbg.model.facts import MessageFacts

NAN: Final = "aoti-nan"
INFINITE: Final = "aoti-infinite"
_WRITERS: Final = 256


class _Stream(Struct):
    """The values that one writer of a log has printed."""

    value: Value | None = None
    line: int | None = None
    known: set[str] = field(default_factory=set)  # arguments whose content was written
    before: list[Value] = field(default_factory=list)  # those of the launch that is printed
    told: set[str] = field(default_factory=set)


class PrintedDecoder(LogDecoder):
    """Reports the first bad value of each kind as a diagnostic."""

    name = "pytorch"
    triggers: ClassVar[tuple[bytes, ...]] = (
        *(b"_launch - ", b"[  aoti_model_inputs - ", b"Mean value: ", b"Min value: ", b"Max value: "),
    )

    def __init__(self) -> None:
        self._sources: dict[str, LogSource] = {}
        self._streams: dict[tuple[str, str], _Stream] = {}

    def opened(self, source: LogSource) -> None:
        self._sources[source.id] = source

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        source = self._sources.get(record.source)
        writer = record.writer
        if source is None or (len(self._streams) >= _WRITERS and (record.source, writer) not in self._streams):
            return (), ()
        stream = self._streams.setdefault((record.source, writer), _Stream())
        found: list[Event] = []
        for number, line in enumerate(record.text.split("\n")):
            at = record.line_at(number)
            if (sentence := _line(stream, line, at)) and (value := stream.value) is not None:
                proof = Evidence(
                    kind="log",
                    text=value.told,
                    file=source.name,
                    line=stream.line,
                    at_wall_ns=record.wall_ns,
                    log=record.source,
                )
                found.append(DiagnosticSeen(diagnostic=_diagnostic(sentence, value, proof, writer), **stamp))
        return found, ()


def _line(stream: _Stream, line: str, at: int | None) -> str:
    """Process one line; return a sentence if the stream's value is the first bad one of its kind; else ""."""
    begun = begins(line)
    if begun is not None:
        _complete_value(stream, begun)
        stream.value, stream.line = begun, at
    elif (value := stream.value) is not None:
        take(line, value)
        if value.bad and value.bad not in stream.told and (sentence := _sentence(stream, value)):
            stream.told.add(value.bad)
            return sentence
    return ""


def _complete_value(stream: _Stream, begun: Value) -> None:
    """Update the stream when the statistics of a value are complete."""
    value = stream.value
    if value is not None and value.when == "before":
        stream.before.append(value)
    elif value is not None:
        stream.known.add(value.argument)
    if begun.when == "before" and value is not None and (value.when != "before" or value.kernel != begun.kernel):
        stream.before = []


def _sentence(stream: _Stream, value: Value) -> str:
    """Return the sentence for a bad value; "" if it means nothing (G1)."""
    if value.when == "input":
        return f"The model gets {value.bad}: its input {value.argument}"
    if value.when == "before":
        if value.argument not in stream.known:
            return ""
        return f"Kernel {value.kernel} gets {value.bad} in {value.argument}"
    got = [one.argument for one in stream.before if one.bad == value.bad and one.argument in stream.known]
    if got:
        return f"Kernel {value.kernel} gets {value.bad} in {got[0]}"
    unsure = [one.argument for one in stream.before if one.bad == value.bad and one.argument != value.argument]
    if unsure:
        more = f"; {unsure[0]} may have had it"
    else:
        more = "; what it is printed to read has none" if stream.before else ""
    return f"{value.bad} is first seen after kernel {value.kernel}, in {value.argument}{more}"


def _diagnostic(sentence: str, value: Value, proof: Evidence, writer: str) -> Diagnostic:
    code = NAN if value.bad == "NaN" else INFINITE
    digest = hashlib.blake2b(f"{proof.log}\n{writer}\n{code}".encode(), digest_size=6).hexdigest()
    setting = f"--set kernel={value.kernel} " if value.kernel else ""
    command = f"livedbg aoti --step 3 {setting}-- CMD"
    return Diagnostic(
        id=f"diagnostic:pytorch/{digest}",
        system="pytorch",
        code=code,
        severity=Severity.ERROR if code == NAN else Severity.WARNING,
        sentence=sentence,
        facts=MessageFacts(steps=(f"{command}   (with its code and lines)",)),
        evidence=(proof,),
        at_wall_ns=proof.at_wall_ns,
        writer=writer,
    )
