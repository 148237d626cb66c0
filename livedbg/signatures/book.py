"""The signatures of some files, and their matches in a text.

Invariants:
    book.B1. A pattern is compiled when one of its words was found, not before.
    book.B2. A file that can't be used is reported with its name, the signature and what to do; the other files count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType
from typing import Final

import msgspec
import tomli
from ahocorasick_rs import AhoCorasick
from msgspec import Struct

from livedbg.model import Frame, Severity
from livedbg.model.errors import UsageError
from livedbg.model.facts import MessageFacts
from livedbg.signatures.blocks import BLOCKS, HERE, Block
from livedbg.signatures.functions import FUNCTIONS
from livedbg.signatures.literals import derived
from livedbg.signatures.model import Case, Ends, Let, Signature, SignatureFile
from livedbg.signatures.said import Said
from livedbg.signatures.templates import render
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready

GIVEN: Final = frozenset({"above", "record", "whole_line", "level", "owner", "writer_rank", "source", "process"})
"""Values that no signature makes: the text of the record, the lines near it that come before the match, the line that
is matched, and what its log says of it."""

_LINE: Final = 4_000
_DIGITS: Final = 19  # a number of more is no pid
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_FIELDS: Final = ("kind", "cause", "ends", "severity", "sentence", "who", "exception", "key", "next", "marks")


class Room(Struct, frozen=True):
    """A file of signatures."""

    system: str
    name: str
    file: SignatureFile


def parse(system: str, name: str, text: bytes | str) -> Room:
    """Parse a file.

    Raises:
        UsageError: it is no file of signatures.
    """
    try:
        words = text if isinstance(text, str) else text.decode()
        file = msgspec.convert(tomli.loads(words), ready(SignatureFile), str_keys=True)
    except (ValueError, RecursionError) as error:  # those of both libraries are ValueErrors
        raise UsageError(
            clean_line(f"{name}: {error}."), "docs/signatures.md has a complete example", "usage"
        ) from None
    return Room(system, name, file)


class Found(Struct, frozen=True):
    """A message in a text, from `begin` to `end`."""

    entry: Entry
    said: Said
    begin: int
    end: int


class Entry:
    """A signature, ready for use."""

    def __init__(self, room: Room, signature: Signature) -> None:
        self.room = room
        self.signature = signature
        shared = room.file.defaults
        self._merged = [(case, _merged(shared, signature, case)) for case in self.cases]
        self._merged.append((Case(), _merged(shared, signature, Case())))

    @property
    def name(self) -> str:
        """Return `hosts/slurm-node`."""
        return f"{self.room.system}/{self.signature.id}"

    @property
    def cases(self) -> Sequence[Case]:
        """The signature's own cases, or the file's cases that it names."""
        named = self.signature.cases
        return self.room.file.cases.get(named, ()) if isinstance(named, str) else named

    @property
    def usual(self) -> Case:
        """Return the default if no case fits."""
        return self._merged[-1][1]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Return words of which one is in each matching text."""
        if self.signature.words:
            return self.signature.words
        found = [derived(pattern).words for pattern in self.signature.patterns]
        return tuple(sorted(frozenset[str]().union(*found))) if all(found) else ()

    @cached_property
    def parts(self) -> tuple[str, ...]:
        if self.signature.parts or self.signature.words:
            return self.signature.parts
        found = [derived(pattern).parts for pattern in self.signature.patterns]
        return tuple(sorted(frozenset[str]().union(*found)))

    @cached_property
    def lines(self) -> bool:
        """True if the matched text may have several lines, or parts above."""
        return bool(self.signature.parts) or any(derived(pattern).lines for pattern in self.signature.patterns)

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(pattern, re.MULTILINE) for pattern in self.signature.patterns)

    @cached_property
    def _unless(self) -> re.Pattern[str] | None:
        return re.compile(self.signature.unless, re.MULTILINE) if self.signature.unless else None

    def found(self, text: str, begin: int = 0, given: Mapping[str, str] = _NOTHING) -> Iterator[Found]:
        """Yield the messages in a text that end after `begin`; `given` are values that are not in the text."""
        for pattern in self.patterns:
            for match in pattern.finditer(text):
                if (
                    match.end() <= begin
                    or _in_source(text, match.start())
                    or (self._unless is not None and self._unless.search(text) is not None)
                ):
                    continue
                said = self.said(match, {"record": text[begin:], **given})
                if said is not None:
                    yield Found(self, said, match.start(), match.end())
                    if self.signature.first:
                        return

    def said(self, match: re.Match[str], given: Mapping[str, str] = _NOTHING) -> Said | None:
        values = {"whole_line": _line(match.string, match.start()), "above": match.string[: match.start()], **given}
        values |= {name: value for name, value in match.groupdict().items() if value is not None}
        if self.signature.function:
            more = FUNCTIONS[self.signature.function].make(match)
            if more is None:
                return None
            values.update(more)
        block = self._block(match)
        if block is None:
            return None
        values.update(block.values)
        self._let(self.signature.let, values)
        case = next(merged for case, merged in self._merged if not (case.when or case.has) or _fits(case, values))
        if case.none:
            return None
        self._let(case.let, values)
        self._let(self.room.file.defaults.let, values, missing=True)
        named = [self.room.file.steps[step[1:]] if step.startswith("@") else step for step in case.next or ()]
        steps = [render(step, values) for step in named]
        kept = {name: render(text, values) for name, text in case.attributes.items()}
        pid = kept.pop("pid", values.get("pid", ""))
        return Said(
            system=self.room.system,
            code=case.kind or self.signature.id,
            key=render(case.key, values) if case.key is not None else match[0],
            sentence=render(case.sentence, values) if case.sentence else "",
            who=render(case.who, values) if case.who else "",
            exception=render(case.exception, values) if case.exception else "",
            stack=(*_frame_here(values), *block.stack) if self.signature.block == HERE else block.stack,
            related=values.get("related", ""),
            raised=block.raised,
            severity=case.severity or Severity.ERROR,
            writer=f"rank {int(values['rank'])}" if values.get("rank", "").isdigit() else "",
            cause=case.cause,
            late="late" in (case.marks or ()),
            facts=MessageFacts(
                signature=self.signature.id,
                ends=(case.ends or Ends.NOTHING).value,
                pid=(int(pid) or None) if pid.isdecimal() and len(pid) < _DIGITS else None,
                steps=tuple(step for one in steps for step in one.split("\n") if step),
                marks=tuple(mark for mark in case.marks or () if mark != "late"),
                values=kept,
            ),
        )

    def _block(self, match: re.Match[str]) -> Block | None:
        read = BLOCKS.get(self.signature.block)
        return Block() if read is None else read(match.string, match.start())

    def _let(self, given: Mapping[str, str | Let], values: dict[str, str], *, missing: bool = False) -> None:
        for name, let in given.items():
            if not (missing and values.get(name)):
                values[name] = render(let, values) if isinstance(let, str) else self._value(let, values)

    def _value(self, let: Let, values: Mapping[str, str]) -> str:
        text = render(let.of, values)
        if let.find:
            known = self.room.file.maps[let.find]
            text = max(
                (name for name, value in known.items() if value in text), key=lambda name: len(known[name]), default=""
            )
        if let.match:
            match = _compiled(let.match).search(text)
            text = "" if match is None else match[min(match.re.groups, 1)] or ""
        table = self.room.file.maps[let.map] if isinstance(let.map, str) else let.map
        if not (table or let.otherwise):
            return text
        return render(table.get(text, let.otherwise), values)


def _frame_here(values: Mapping[str, str]) -> tuple[Frame, ...]:
    function, line = values.get("function"), values.get("line", "")
    if not function:
        return ()
    file = values.get("file", "").replace("\\", "/") or None
    number = int(line) if line.isdigit() else None
    return (Frame(function=function, file=file, line=number, language=values.get("language", "native")),)


def _line(text: str, position: int) -> str:
    begin = text.rfind("\n", 0, position) + 1
    return text[begin : begin + _LINE].partition("\n")[0]


def _in_source(text: str, position: int) -> bool:
    """Return whether a position is in source: in a comment, or in a string in the line that a traceback shows."""
    before = text[text.rfind("\n", 0, position) + 1 : position]
    begun = before.lstrip()
    return "// " in before or begun.startswith(("# ", "* ", "/*")) or (before[:4].isspace() and before[-1:] in "'\"")


_compiled = cache(re.compile)  # re's own cache is smaller than the signatures are many


def _merged(shared: Case, signature: Case, case: Case) -> Case:
    said: dict[str, object] = {}
    for name in _FIELDS:
        given = (getattr(one, name) for one in (case, signature, shared))
        said[name] = next((value for value in given if value is not None), None)
    attributes = {**shared.attributes, **signature.attributes, **case.attributes}
    return msgspec.structs.replace(case, attributes=attributes, **said)


def _fits(case: Case, values: Mapping[str, str]) -> bool:
    whole = (_compiled(pattern).fullmatch(values.get(name, "")) for name, pattern in case.when.items())
    inside = (_compiled(pattern).search(values.get(name, "")) for name, pattern in case.has.items())
    return all(match is not None for matches in (whole, inside) for match in matches)


class Book:
    """All signatures of a session."""

    def __init__(self, rooms: Iterable[Room]) -> None:
        self.rooms = tuple(rooms)
        self.entries = tuple(Entry(room, one) for room in self.rooms for one in room.file.signatures)
        self._words = [(word, number) for number, entry in enumerate(self.entries) for word in entry.words]
        self._matcher = AhoCorasick([word for word, _ in self._words])

    @cached_property
    def triggers(self) -> tuple[bytes, ...]:
        """Return the byte strings of which relevant records have one."""
        words = dict.fromkeys(word for word, _ in self._words)
        words |= dict.fromkeys(part for entry in self.entries for part in entry.parts)
        quiet = [room.file.quiet for room in self.rooms if room.file.quiet is not None]
        words |= dict.fromkeys(word for one in quiet for word in one.words)
        return tuple(word.encode() for word in words)

    @cached_property
    def exact(self) -> Mapping[bytes, re.Pattern[bytes]]:
        """Return patterns that must match where a word begins, for words in many ordinary lines."""
        forms = [(word, form) for entry in self.entries for word, form in entry.signature.exact.items()]
        plain = {word for entry in self.entries for word in entry.words if word not in entry.signature.exact}
        return {word.encode(): re.compile(form.encode()) for word, form in forms if word not in plain}

    @cached_property
    def opens(self) -> tuple[bytes, ...]:
        """Return words of messages that continue in other lines, or may soon be over."""
        ends = (entry for entry in self.entries if entry.signature.over and not entry.parts)
        entries = (*ends, *(entry for entry in self.entries if entry.signature.follows))
        return tuple(word.encode() for entry in entries for word in entry.words)

    def of_words(self, text: str) -> tuple[int, ...]:
        """Return the numbers of the signatures with a word in a text, in order."""
        hits = self._matcher.find_matches_as_indexes(text, overlapping=True)
        return tuple(sorted({self._words[word][1] for word, _, _ in hits}))

    def found(self, text: str, system: str = "") -> list[Found]:
        """Return the messages of a text without writers' prefixes, as one record, by all signatures or one system's."""
        entries = (self.entries[number] for number in self.of_words(text))
        return [one for entry in entries if system in ("", entry.room.system) for one in entry.found(text)]
