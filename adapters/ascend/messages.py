"""The messages of the `simpler` runtime: what a line of its log says (data/messages.toml)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, field

from livedbg.signatures.templates import render
from livedbg.text.typed import ready

T = TypeVar("T")


class Form(Struct, frozen=True, forbid_unknown_fields=True):
    """One form.

    Attributes:
        kind: what such a line says.
        word: stands in each such line.
        pattern: of the line; its named groups are fields.
        bare: it counts in lines without the runtime's level tag too.
        weak: such words stand in lines of anybody.
        exact: what must match where the word begins, for a word that other programs print as well.
        given: fields that its words mean.
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
        """The fields of a line; None where it does not look so."""
        match = _compiled(self.pattern).search(text)
        return None if match is None else {**self.given, **match.groupdict()}


class Forms:
    """The forms of one file.

    Args:
        forms: in the order in which they are tried.
    """

    def __init__(self, forms: Iterable[Form]) -> None:
        self._by_word: dict[str, list[Form]] = {}
        for form in forms:
            self._by_word.setdefault(form.word, []).append(form)

    @property
    def words(self) -> tuple[bytes, ...]:
        """One of them stands in each line that has one of the forms."""
        return tuple(word.encode() for word in self._by_word)

    @property
    def exact(self) -> Mapping[bytes, re.Pattern[bytes]]:
        """As `LogDecoder.exact`."""
        return {form.word.encode(): re.compile(form.exact.encode()) for form in self if form.exact}

    def __iter__(self) -> Iterator[Form]:
        """All of them."""
        return (form for forms in self._by_word.values() for form in forms)

    def fields(self, kind: str, text: str) -> dict[str, str | None] | None:
        """The fields of a line, if it has a form of this kind."""
        found = (form.fields(text) for form in self if form.kind == kind)
        return next((fields for fields in found if fields is not None), None)

    def of(self, text: str) -> Iterator[Form]:
        """The forms whose words stand in a line, in the order of the file."""
        for word, forms in self._by_word.items():
            if word in text:
                yield from forms


class Line(Struct, frozen=True, forbid_unknown_fields=True):
    """A text that is written where its conditions hold.

    Attributes:
        text: template (livedbg.signatures.templates); an empty text is left out.
        kinds: of these only; of all by default.
        needs: names of values that must be known.
        lacks: names of values that must not be known.
    """

    text: str
    kinds: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    def holds(self, kind: str, values: Mapping[str, str]) -> bool:
        """Whether it is written."""
        known = all(map(values.get, self.needs)) and not any(map(values.get, self.lacks))
        return known and (not self.kinds or kind in self.kinds)


def lines(table: Iterable[Line], kind: str, values: Mapping[str, str]) -> Iterator[str]:
    """The texts of those whose conditions hold."""
    return filter(None, (render(line.text, values) for line in table if line.holds(kind, values)))


_compiled = cache(re.compile)


def read_data(name: str, kind: type[T]) -> T:
    """A file of the room's data."""
    data = files("livedbg.adapters.ascend").joinpath("data", name).read_bytes()
    return msgspec.toml.decode(data, type=ready(kind))


BEATS: Final = (b"[mono_ns=", b"][T0x")
"""Byte strings, one of which stands in every other line that carries a time."""

_BITS: Final = 64
_STATUS: Final = b"rc="  # of a job script, in any line

Fields = dict[str, str | None]


class Message(NamedTuple):
    """A message that was understood.

    Attributes:
        kind: which one it is (`handlers`).
        fields: the named groups of its form.
    """

    kind: str
    fields: Fields


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    forms: tuple[Form, ...] = field(name="form")


@cache
def forms() -> Forms:
    """The forms of its lines."""
    return Forms(read_data("messages.toml", _File).forms)


def triggers() -> tuple[bytes, ...]:
    """Byte strings, one of which stands in every line that says something."""
    return (*forms().words, _STATUS)


def exact() -> Mapping[bytes, re.Pattern[bytes]]:
    """What of them stands in lines of other programs too, and with what behind it it counts."""
    return {**forms().exact, _STATUS: re.compile(rb"(?<!\w)(?<![,;] )rc=-?\d")}


def classify(message: str, tagged: bool) -> Message | None:
    """What a message says, or None when it is none of ours.

    Args:
        message: one line (without its head when it is tagged).
        tagged: the line carries the runtime's level tag.
    """
    for form in sorted(forms().of(message), key=lambda form: message.find(form.word)):
        if tagged or form.bare:
            fields = form.fields(message)
            if fields is not None:
                return Message(form.kind, fields)
    return None


def number(fields: Fields, name: str) -> int:
    """A field that must be there, as a number.

    Raises:
        ValueError: no field of the runtime is that wide: the line is damaged.
    """
    return _narrow(int(fields[name] or 0))


def optional_number(fields: Fields, name: str) -> int | None:
    """A field as a number, or None where the form has it not.

    Raises:
        ValueError: as `number`.
    """
    value = fields.get(name)
    return _narrow(int(value)) if value else None


def _narrow(value: int) -> int:
    if value.bit_length() > _BITS:
        raise ValueError(f"a number of {value.bit_length()} bits")
    return value
