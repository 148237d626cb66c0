"""The messages of the `simpler` runtime: what a line of its log says (data/messages.toml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.adapters.ascend.forms import Form, Forms, read_data

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
