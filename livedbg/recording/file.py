"""Reads the event stream in a file: zstd-compressed lines of JSON, appended and readable meanwhile.

Layout: zstd frames of text lines. The first frame is one line, the header (`Header`); each line of the further ones is
an event (livedbg.model.events). livedbg.recording.recorder writes it.

Events of old recordings are translated to today's: names of sources, counters and engines; where evidence was read;
kinds of waits; facts of resources.

Invariants:
    recording.R2. A truncated recording gives its events up to the last whole one, a damaged one those of the frames
        before the damage; both say so.
    recording.R3. An event that this version doesn't know is skipped and counted; a recording of another schema version
        is refused with what to do.
    recording.R5. Who reads a recording that grows gets each event once and in order, also where its oldest part is
        dropped meanwhile: the new file takes the place of the old one, and says how much of it is gone.
    recording.R4. Reading never runs anything from the file and keeps at most one line of it beside the events.
    recording.O1. A recording made before a rename replays as one made after it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import zstandard
from msgspec import structs

from livedbg import __version__
from livedbg.model import Diagnostic, Evidence, Resource, Thread, WaitKind
from livedbg.model.errors import RecordingError
from livedbg.model.events import (
    SCHEMA_VERSION,
    CatchpointSeen,
    CounterSeen,
    DiagnosticSeen,
    Event,
    ResourcesSeen,
    StacksSeen,
    ThreadsSeen,
)
from livedbg.model.facts import DescriptorFacts, Facts, GroupFacts, LockFacts, MessageFacts, facts_from
from livedbg.model.gate import gated_line
from livedbg.model.launches import TRACED, TRACED_TO
from livedbg.text.json_text import clean_value
from livedbg.text.patterns import lazy_re
from livedbg.text.typed import ready

_SOURCES: Final = {"zero": "no stop", "zero+py-spy": "no stop+py-spy"}
_COUNTERS: Final = {"launches heard": TRACED, "launches heard to": TRACED_TO}
_ENGINES: Final = {"listen": "probes"}
_WAITS: Final = (
    (r"sleep\b", WaitKind.SLEEP),
    (r"sigwait|sigsuspend|pause|read of signalfd", WaitKind.SIGNAL),
    (r"(?:poll|select) of|epoll_wait", WaitKind.POLL),
    (r"pthread_mutex|lock of a stdio", WaitKind.MUTEX),
    (r"pthread_rwlock", WaitKind.RWLOCK),
    (r"pthread_cond", WaitKind.CONDITION),
    (r"pthread_barrier", WaitKind.BARRIER),
    (r"pthread_join", WaitKind.JOIN),
    (r"sem_", WaitKind.SEMAPHORE),
    (r"futex", WaitKind.FUTEX),
    (r"accept on", WaitKind.ACCEPT),
    (r"connect of", WaitKind.CONNECT),
    (r"(?:read of|recv on|splice from|tee from|vmsplice of)", WaitKind.READ),
    (r"(?:write to|send on|sendfile to)", WaitKind.WRITE),
    (r"open of", WaitKind.OPEN),
    (r"wait(?:p?id)|vfork", WaitKind.CHILD),
    (r"flock|fcntl", WaitKind.FILE_LOCK),
    (r"(?:receive from|send to)", WaitKind.MESSAGE_QUEUE),
    (r"(?:msgrcv|msgsnd|semop)", WaitKind.SYSTEM_V),
    (r"page fault", WaitKind.FAULT),
    (r"stopped|a freeze", WaitKind.STOP),
)
"""How `Thread.waits_in` begins -> what kind of wait that is: recordings of before 0.2 have the words alone."""
_SLEEP: Final = lazy_re(r"sleep ([\d.]+(?:e[+-]?\d+)?) s")

_FACTS: Final[dict[str, type[Facts]]] = {
    "cgroup": GroupFacts,
    "descriptors": DescriptorFacts,
    **dict.fromkeys(("mutex", "rwlock", "pylock"), LockFacts),
}
_MESSAGE: Final = {"signature": "signature", "ends": "ends", "order": "first", "until": "last", "count": "count"}
_ADVICE: Final = {"order", "source", "next", "dispatch", "kernel", "argument"}
"""What a message that no signature found says, beside its fields."""
_DIGITS: Final = 19  # a number of more is no line, and no recording can hold it


def wait_kind(words: str | None) -> WaitKind | None:
    """Return the kind of wait that a text of `Thread.waits_in` names."""
    if words is None:
        return None
    return next((kind for begin, kind in _WAITS if re.match(begin, words)), WaitKind.UNKNOWN)


def sleeps_s(words: str | None) -> float | None:
    """Return the requested seconds of a sleep in a text of `Thread.waits_in`."""
    asleep = _SLEEP.match(words or "")
    return float(asleep[1]) if asleep is not None else None


def _with_kind(thread: Thread) -> Thread:
    return structs.replace(thread, wait=wait_kind(thread.waits_in), sleeps_s=sleeps_s(thread.waits_in))


def renamed(event: Event) -> Event:
    """Return the event with today's names."""
    match event:
        case StacksSeen() if any(stack.source in _SOURCES for stack in event.stacks):
            stacks = (structs.replace(s, source=_SOURCES.get(s.source, s.source)) for s in event.stacks)
            return structs.replace(event, stacks=tuple(stacks))
        case CounterSeen() if event.name in _COUNTERS:
            return structs.replace(event, name=_COUNTERS[event.name])
        case ThreadsSeen() if any(thread.waits_in is not None and thread.wait is None for thread in event.threads):
            return structs.replace(event, threads=tuple(map(_with_kind, event.threads)))
        case CatchpointSeen() if event.catchpoint.engine in _ENGINES:
            point = structs.replace(event.catchpoint, engine=_ENGINES[event.catchpoint.engine])
            return structs.replace(event, catchpoint=point)
        case ResourcesSeen() if any(one.attributes for one in event.resources):
            return structs.replace(event, resources=tuple(map(_resource, event.resources)))
        case DiagnosticSeen():
            return structs.replace(event, diagnostic=_as_fields(event.diagnostic))
        case _:
            return event


def _resource(resource: Resource) -> Resource:
    text = dict(resource.attributes)
    facts = resource.facts
    if facts is None and (kind := _FACTS.get(resource.kind)) is not None:
        owner, _, ended = text.pop("owner", "").partition(" ")
        said = {
            **{name: value for name, value in text.items() if name not in ("memory_limit", "memory_used")},
            **({"ended_owner": owner} if ended == "(exited)" else {}),
            **({"inherited": text["evidence"]} if "evidence" in text else {}),
        }
        known = facts_from(said, kind)
        facts = known if known != kind() else None
    return structs.replace(
        resource,
        outside=resource.outside or text.pop("outside", ""),
        idle=resource.idle or text.pop("idle", ""),
        lost=resource.lost or text.pop("lost", ""),
        listening=resource.listening or text.pop("listening", "") == "yes",
        wakes_itself=resource.wakes_itself or bool(text.pop("wake-up", "")),
        facts=facts,
        attributes={} if isinstance(facts, GroupFacts) else text,
    )


def _as_fields(said: Diagnostic) -> Diagnostic:
    texts = dict(said.attributes)
    resolved, late = (texts.pop(name, "") == "yes" for name in ("resolved", "late"))
    message = said.facts is None and ("signature" in texts or ("next" in texts and texts.keys() <= _ADVICE))
    return structs.replace(
        said,
        evidence=tuple(map(_with_line, said.evidence)),
        facts=_message(texts) if message else said.facts,
        attributes={} if message else texts,
        resolved=said.resolved or resolved,
        late=said.late or late,
    )


def _message(texts: dict[str, str]) -> MessageFacts:
    """Return the facts of a message that were texts: marks were those that say `yes`."""
    return facts_from(
        {
            **{name: texts.get(old, "") for old, name in _MESSAGE.items()},
            "pid": pid if (pid := texts.get("pid", "")).isdecimal() else "",
            "steps": [step for step in texts.get("next", "").split("\n") if step],
            "over": "over" in texts,
            "warned": "warned" in texts,
            "marks": [name for name, text in texts.items() if text == "yes"],
            "values": texts,
        },
        MessageFacts,
    )


def _with_line(proof: Evidence) -> Evidence:
    """Return evidence whose place was one text, `err.txt:214`, with file and line."""
    name, colon, number = proof.source.rpartition(":")
    if proof.kind in ("log", "file") and name and colon and number.isdecimal() and len(number) < _DIGITS:
        return structs.replace(proof, source="", file=name, line=int(number))
    return proof


MAGIC: Final = "livedbg.recording"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_MOST_HELD: Final = 100_000  # lines of one frame that wait for its checksum
_READ: Final = 1 << 13  # what a hostile file unpacks from one read stays below some 300 MB
_LONGEST_LINE: Final = 64 << 20
_LONGEST_HEADER: Final = 1 << 20


class Header(msgspec.Struct, frozen=True):
    """The first line of a recording.

    Attributes:
        schema: version of the event schema (livedbg.model.events.SCHEMA_VERSION).
        livedbg: version of the program that wrote it.
        dropped: a sentence that says since when it has events and why, or "".
        begins_at: bytes of events that were dropped before the first kept one.
    """

    format: str
    schema: int
    livedbg: str
    host: str
    title: str
    started_wall_ns: int
    dropped: str = ""
    begins_at: int = 0


class RecordingReader:
    """Reads a recording, also one that is being written.

    Raises:
        RecordingError: it can't be opened, is no recording, or of another schema version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        self.damage = ""
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise RecordingError(
                f"{path} can't be read: {error.strerror}.", "check the path and its permissions", "unreadable"
            ) from None
        self._header_size = 0
        self._lines = self._read_lines()
        try:
            self.header = self._read_header()
        except RecordingError:
            self._file.close()
            raise

    def events(self) -> Iterator[Event]:
        """Yield the events since the last call; call it again when the file has grown."""
        for line in self._lines:
            if line is None:
                return
            try:
                yield renamed(gated_line(line))
            except (ValueError, RecursionError):  # msgspec's errors are the former
                self.skipped += 1

    @property
    def incomplete(self) -> str:
        """A sentence on damage and on dropped or skipped events, or ""."""
        parts = [part for part in (self.header.dropped, self.damage) if part]
        if self.skipped:
            events = "1 event is" if self.skipped == 1 else f"{self.skipped} events are"
            parts.append(f"{events} of a kind that this version does not know, and skipped.")
        return " ".join(parts)

    @property
    def size(self) -> int:
        """Present size of the file in bytes."""
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        self._file.close()

    def _read_header(self) -> Header:
        hint = "create one: livedbg record TARGET -o FILE"
        line = next(self._lines)
        if line is None:
            raise RecordingError(f"{self.path} is not a livedbg recording.", hint, "not-a-recording")
        try:
            start = msgspec.json.decode(line, type=dict[str, object])
            if start.get("format") != MAGIC:
                raise RecordingError(f"{self.path} is not a livedbg recording.", hint, "not-a-recording")
            header = msgspec.convert(clean_value(start), ready(Header))
        except (ValueError, RecursionError):
            raise RecordingError(f"{self.path} is not a livedbg recording.", hint, "not-a-recording") from None
        if header.schema != SCHEMA_VERSION:
            raise RecordingError(
                f"{self.path} has event schema {header.schema}; livedbg {__version__} reads {SCHEMA_VERSION}.",
                f"read it with the livedbg that wrote it: pip install livedbg=={header.livedbg}",
                "schema",
            )
        return header

    def _read_lines(self) -> Iterator[bytes | None]:
        """Yield whole lines; None whenever there is no whole line yet. A frame with a wrong checksum gives none."""
        unpack = zstandard.ZstdDecompressor().decompressobj()
        packed = self._file.read(_READ)
        rest = b""  # of what was unpacked, the line that has not ended
        begun = False  # a frame that has not ended
        held: list[bytes] = []  # lines of a frame that has not ended
        if packed[:4] != _ZSTD_MAGIC:
            while True:
                yield None
        while True:
            if not packed and (following := self._follow()) is not None:
                packed, begun = self._file.read(_READ), begun and following
                if not following:  # more was dropped than had been read: it begins with the whole state
                    unpack, rest, held = zstandard.ZstdDecompressor().decompressobj(), b"", []
            if not packed:
                yield from held
                held = []
                self._note_end(rest, inside=begun)
                yield None
            try:
                begun = begun or bool(packed)
                *lines, rest = (rest + unpack.decompress(packed)).split(b"\n")
                ended, packed = unpack.eof, unpack.unused_data
            except zstandard.ZstdError:
                self.damage = "The recording is damaged; events before the damage are shown."
                break
            held += lines
            if ended or len(held) > _MOST_HELD:
                yield from held
                held = []
            if ended:
                begun = False
                self._header_size = self._header_size or self._file.tell() - len(packed)
                unpack = zstandard.ZstdDecompressor().decompressobj()
            if len(rest) > _LONGEST_LINE:
                self.damage = "The recording is damaged: a line without an end."
                yield from held
                break
            packed = packed or self._file.read(_READ)
        while True:
            yield None

    def _follow(self) -> bool | None:
        """Continue in the file that has replaced this one since its oldest part was dropped (R5).

        Return None if there is none; else whether it continues where the former one ended.
        """
        try:
            if not self._header_size:
                return None
            fresh = self.path.open("rb")
        except OSError:
            return None
        if os.path.samestat(os.fstat(fresh.fileno()), os.fstat(self._file.fileno())):
            fresh.close()
            return None
        header, size = _first_frame(fresh)
        if header is None or (header.host, header.title) != (self.header.host, self.header.title):
            fresh.close()
            return None
        at = self.header.begins_at + self._file.tell() - self._header_size
        goes_on = self.header.begins_at < header.begins_at <= at
        if not goes_on and header.begins_at <= at:  # another recording
            fresh.close()
            return None
        fresh.seek(size + (at - header.begins_at if goes_on else 0))
        self._file.close()
        self._file, self.header, self._header_size = fresh, header, size
        return goes_on

    def _note_end(self, rest: bytes, *, inside: bool) -> None:
        if rest:
            self.damage = "The recording ends in the middle of an event; events before it are shown."
        elif inside:
            self.damage = (
                "The recording has no end: it is still being written, or was truncated. Its events so far are shown."
            )
        else:
            self.damage = ""


def _first_frame(file: BinaryIO) -> tuple[Header | None, int]:
    unpack, text, size = zstandard.ZstdDecompressor().decompressobj(), b"", 0
    try:
        while not unpack.eof and size < _LONGEST_HEADER and (data := file.read(_READ)):
            text += unpack.decompress(data)
            size += len(data)
        header = msgspec.convert(clean_value(msgspec.json.decode(text, type=dict[str, object])), ready(Header))
    except (zstandard.ZstdError, ValueError, RecursionError):
        return None, 0
    known = unpack.eof and header.format == MAGIC and header.schema == SCHEMA_VERSION
    return (header if known else None), size - len(unpack.unused_data)


def is_recording(path: Path) -> bool:
    """Return whether a file begins like a recording."""
    try:
        with path.open("rb") as opened:
            return opened.read(4) == _ZSTD_MAGIC
    except OSError:
        return False
