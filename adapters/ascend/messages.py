"""Parse log messages of the `simpler` runtime (data/messages.toml).

A `Mark` says where and when one stands, as evidence for the model's claims.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, field

from livedbg.model import Evidence
from livedbg.signatures.templates import render
from livedbg.text.typed import ready


class Mark(Struct, frozen=True):
    """One line of one source.

    Attributes:
        name: of the log, file or other source.
        wall_ns: its time, or that of the nearest earlier line that has one.
        exact: the time is its own.
        kind: `log` or `file`.
        seen: it was read as it was written, so `wall_ns` is accurate to a second.
        log: id of its log.
        line: from 1.
        counted: its time comes from the runtime's nanosecond counter, not from a date, which a log collector may write
            later or by another clock.
    """

    name: str
    text: str
    wall_ns: int | None = None
    exact: bool = False
    kind: str = "log"
    seen: bool = False
    log: str = ""
    counted: bool = False
    line: int | None = None

    @property
    def source(self) -> str:
        """Return `err.txt:214`."""
        return self.evidence().place

    def evidence(self) -> Evidence:
        """Return it as evidence of a diagnostic."""
        at = self.wall_ns if self.exact or self.seen or self.kind == "file" else None
        if self.kind in ("log", "file"):
            return Evidence(kind=self.kind, text=self.text, file=self.name, line=self.line, at_wall_ns=at, log=self.log)
        return Evidence(kind=self.kind, text=self.text, source=self.name, at_wall_ns=at)


NOWHERE = Mark("", "")
"""For what follows from no single line."""


T = TypeVar("T")


class Form(Struct, frozen=True, forbid_unknown_fields=True):
    """One form of log line.

    Attributes:
        kind: meaning of such a line.
        word: occurs in each such line.
        pattern: its named groups are fields.
        bare: lines without the runtime's level tag count too.
        weak: such words may be printed by any program.
        exact: must match at the word, for a word that other programs print as well.
        given: fields implied by the form.
        examples: such lines.
    """

    kind: str
    word: str
    pattern: str
    bare: bool = False
    weak: bool = False
    exact: str = ""
    given: dict[str, str] = field(default_factory=dict)
    examples: tuple[str, ...] = ()

    def fields(self, text: str) -> dict[str, str | None] | None:
        """Return the fields of a line; None if it doesn't match."""
        match = _compiled(self.pattern).search(text)
        return None if match is None else {**self.given, **match.groupdict()}


class Forms:
    """The forms of one file, in match order."""

    def __init__(self, forms: Iterable[Form]) -> None:
        self._by_word: dict[str, list[Form]] = {}
        for form in forms:
            self._by_word.setdefault(form.word, []).append(form)

    @property
    def words(self) -> tuple[bytes, ...]:
        """Return the trigger words: each matching line has one."""
        return tuple(word.encode() for word in self._by_word)

    @property
    def exact(self) -> Mapping[bytes, re.Pattern[bytes]]:
        """Return patterns as for `LogDecoder.exact`."""
        return {form.word.encode(): re.compile(form.exact.encode()) for form in self if form.exact}

    def __iter__(self) -> Iterator[Form]:
        return (form for forms in self._by_word.values() for form in forms)

    def fields(self, kind: str, text: str) -> dict[str, str | None] | None:
        """Return the fields of a line that has a form of this kind; None otherwise."""
        found = (form.fields(text) for form in self if form.kind == kind)
        return next((fields for fields in found if fields is not None), None)

    def of(self, text: str) -> Iterator[Form]:
        """Yield the forms whose word is in a line, in file order."""
        for word, forms in self._by_word.items():
            if word in text:
                yield from forms


class Line(Struct, frozen=True, forbid_unknown_fields=True):
    """A text with conditions.

    Attributes:
        text: template (livedbg.signatures.templates); an empty result is left out.
        kinds: restricts it to these; () for all.
        needs: names of values that must be known.
        lacks: names of values that must not be known.
    """

    text: str
    kinds: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    def holds(self, kind: str, values: Mapping[str, str]) -> bool:
        """Return whether the conditions hold."""
        known = all(map(values.get, self.needs)) and not any(map(values.get, self.lacks))
        return known and (not self.kinds or kind in self.kinds)


def lines(table: Iterable[Line], kind: str, values: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts whose conditions hold."""
    return filter(None, (render(line.text, values) for line in table if line.holds(kind, values)))


_compiled = cache(re.compile)


def read_data(name: str, kind: type[T]) -> T:
    """Parse a data file of the Ascend room."""
    data = files("livedbg.adapters.ascend").joinpath("data", name).read_bytes()
    return msgspec.toml.decode(data, type=ready(kind))


BEATS: Final = (b"[mono_ns=", b"][T0x")
"""Byte strings, one of which stands in every other line that carries a time."""

_BITS: Final = 64
_STATUS: Final = b"rc="  # of a job script, in any line

Fields = dict[str, str | None]


class Message(NamedTuple):
    """A decoded message: its kind (`handlers`), and the named groups of its form."""

    kind: str
    fields: Fields


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    forms: tuple[Form, ...] = field(name="form")


@cache
def forms() -> Forms:
    """Return the forms of the runtime's lines."""
    return Forms(read_data("messages.toml", _File).forms)


def triggers() -> tuple[bytes, ...]:
    """Return trigger words, one of which is in every meaningful line."""
    return (*forms().words, _STATUS)


def exact() -> Mapping[bytes, re.Pattern[bytes]]:
    """Return patterns that distinguish triggers from other programs' text."""
    return {**forms().exact, _STATUS: re.compile(rb"(?<!\w)(?<![,;] )rc=-?\d")}


def classify(message: str, tagged: bool) -> Message | None:
    """Return the message of a line, without its head if it has the runtime's tag; None if it is not the runtime's."""
    for form in sorted(forms().of(message), key=lambda form: message.find(form.word)):
        if tagged or form.bare:
            fields = form.fields(message)
            if fields is not None:
                return Message(form.kind, fields)
    return None


def number(fields: Fields, name: str) -> int:
    """Return a required field as a number; raise ValueError if it is too wide: then the line is damaged."""
    return _narrow(int(fields[name] or 0))


def optional_number(fields: Fields, name: str) -> int | None:
    """Return a field as a number, None if the form doesn't have it; raise ValueError as `number` does."""
    value = fields.get(name)
    return _narrow(int(value)) if value else None


def _narrow(value: int) -> int:
    if value.bit_length() > _BITS:
        raise ValueError(f"a number of {value.bit_length()} bits")
    return value
