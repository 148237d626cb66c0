"""Lines as data (data/*.toml): how those of logs look, and which fields they have; what livedbg writes, and when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import TypeVar

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
