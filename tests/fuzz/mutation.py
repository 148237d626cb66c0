"""Makes damaged and hostile inputs of good ones. The same seed gives the same input."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

__all__ = ["mutated"]

_LONGEST: Final = 1 << 18
_NUMBER: Final = re.compile(rb"\d+")
_WORD: Final = re.compile(rb"[\w.]+")

_PIECES: Final = (
    b"9" * 5000, b"-1", b"0", b"18446744073709551616", b"0x" + b"f" * 40, b"1e999", b"NaN", "\u0663".encode(),
    b"[" * 20_000, b"{" * 3000, b"(" * 5000, b"<" * 5000, b'{"a":' * 3000, b'"', b"\\", b"\\u0000", b"\\ud800", b"'",
    b"\xff", b"\xc2\x9b31m", b"\xe2\x80\xa8", b"\xc2\x85", b"\x0b", b"\x1b]0;t\x07", b"\r", b"\n", b"\0",
    b"\t", b" " * 5000,
    b"%s%n", b"../" * 50, b"a" * 5000, b"\xed\xa0\x80", b",", b"}", b"]", b"=", b":", b"S_",
    b"S_IS_S0_E" * 40, b"DpT_", b"_Z",
)  # fmt: skip
_LIMITS: Final = tuple(
    value.to_bytes(size, "little")
    for size in (1, 2, 4, 8)
    for value in (0, 1, (1 << 8 * size) - 1, 1 << 8 * size - 1, (1 << 8 * size - 1) - 1, (1 << 8 * size) - 64)
)


def mutated(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One input: a seed, after some changes. One of twenty is a seed itself, one of twenty noise."""
    data = chance.choice(seeds) if seeds else b""
    kind = chance.random()
    if kind < 0.05:
        return data
    if kind < 0.1:
        return chance.randbytes(chance.randrange(600))
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5, 9))):
        data = chance.choice(_CHANGES)(chance, data, seeds)[:_LONGEST]
    return data


def _place(chance: random.Random, data: bytes) -> int:
    """Anywhere; one of three times in the first hundred bytes, where headers are."""
    return chance.randrange(min(len(data), 100) + 1 if chance.random() < 0.33 else len(data) + 1)


def _flip(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    made = bytearray(data or b"\0")
    for _ in range(chance.choice((1, 1, 2, 8, 40))):
        made[min(_place(chance, data), len(made) - 1)] = chance.randrange(256)
    return bytes(made)


def _insert(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    at = _place(chance, data)
    return data[:at] + chance.choice(_PIECES) + data[at:]


def _limit(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    at, value = _place(chance, data), chance.choice(_LIMITS)
    return data[:at] + value + data[at + len(value) :]


def _cut(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    return data[: _place(chance, data)]


def _remove(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    at = _place(chance, data)
    return data[:at] + data[at + chance.choice((1, 4, 40, 400)) :]


def _repeat(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    at = _place(chance, data)
    piece = data[at : at + chance.choice((1, 3, 20, 200))]
    return data[:at] + piece * chance.choice((2, 10, 300)) + data[at:]


def _splice(chance: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    other = chance.choice(seeds) if seeds else b""
    return data[: _place(chance, data)] + other[_place(chance, other) :]


def _number(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    """Another number for one of the first thousand."""
    found = [match.span() for match, _ in zip(_NUMBER.finditer(data), range(1000), strict=False)]
    if not found:
        return data
    begin, end = chance.choice(found)
    numbers = (
        b"9" * 5000,
        b"0",
        b"-1",
        b"4294967296",
        b"99999999999999999999",
        str(chance.randrange(1 << 40)).encode(),
    )
    return data[:begin] + chance.choice(numbers) + data[end:]


def _word(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    """Something else for a word."""
    found = [match.span() for match, _ in zip(_WORD.finditer(data), range(1000), strict=False)]
    if not found:
        return data
    begin, end = chance.choice(found)
    return data[:begin] + chance.choice(_PIECES) + data[end:]


def _lines(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    """Lines in another order, twice, or left out."""
    lines = data.split(b"\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    kind = chance.randrange(3)
    if kind == 0:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 1:
        lines[at:at] = lines[other : other + 5] * chance.choice((1, 50))
    else:
        del lines[at : at + chance.choice((1, 1, 5))]
    return b"\n".join(lines)


_CHANGES: Final = (
    _flip,
    _flip,
    _insert,
    _insert,
    _limit,
    _cut,
    _remove,
    _repeat,
    _splice,
    _number,
    _number,
    _word,
    _lines,
)
