"""Short names of places in code: `Engine::step (server.cpp:31)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from livedbg.model import Frame
from livedbg.text.demangling import short_symbol
from livedbg.text.patterns import lazy_re

_SEPARATOR: Final = lazy_re(r"[/\\]")
_POINTER: Final = lazy_re(r"(?:&|\*const |\*mut |mut |dyn |'\w+ )+")
_PATH: Final = lazy_re(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*(?=$|[<+ ])")
_NO_TYPE: Final = frozenset({"fn", "for", "unsafe", "extern", "impl"})
_DEEPEST: Final = 8
_PERIOD: Final = 8  # functions that call each other in a circle, at most
_TIMES: Final = 4  # how often they must come to be a circle


def plain_path(name: str, depth: int = 0) -> str:
    """Replace each part of a path in angle brackets by the name of its type, or remove it.

    Generic arguments (`push::<u8>`) and an implementation (`<impl Work for u8>`) after a path are removed. A type
    without a name (a slice, a tuple) gives the trait's name. Names of other languages stay as they are. `depth` is the
    nesting depth.
    """
    if "<" not in name or depth > _DEEPEST:
        return name
    if name.startswith("<"):
        end = _end(name, 0)
        if name.startswith("::", end):
            named = _type_name(name[1 : end - 1], depth)
            name = f"{named}{name[end:]}" if named else name[end + 2 :]
    at = name.find("::<")
    while at >= 0:
        end = _end(name, at + 2)
        if end < 0:
            return name
        kept = "::lambda" if name.startswith("lambda(", at + 3) else ""  # as GCC writes one of C++
        name = f"{name[:at]}{kept}{name[end:]}"
        at = name.find("::<", at)
    return name


def _type_name(inside: str, depth: int) -> str:
    if inside.startswith("lambda("):
        return "lambda"
    type_, _, trait = inside.partition(" as ") if not inside.startswith("<") else _split(inside)
    return _named(type_, depth) or _named(trait, depth)


def _split(inside: str) -> tuple[str, str, str]:
    end = max(_end(inside, 0), 0)
    head, sign, trait = inside[end:].partition(" as ")
    return inside[:end] + head, sign, trait


def _named(type_: str, depth: int) -> str:
    pointer = _POINTER.match(type_)
    type_ = type_[pointer.end() :] if pointer is not None else type_
    if type_.startswith("<"):
        type_ = plain_path(type_, depth + 1)
    found = _PATH.match(type_)
    return found[0] if found is not None and found[0] not in _NO_TYPE else ""


def _end(name: str, at: int) -> int:
    depth = 0
    for place in range(at, len(name)):
        letter = name[place]
        if letter == "<":
            depth += 1
        elif letter == ">" and name[place - 1] != "-":
            depth -= 1
            if depth == 0:
                return place + 1
    return -1


_LAMBDA: Final = lazy_re(r"\{lambda\([^{}]*\)#\d+\}|<lambda\([^<>]*\)>|\{lambda#\d+\}")
_TAIL: Final = lazy_re(
    r"(?: const| volatile| &{1,2}| noexcept| ?\[clone [^\]]{0,100}\]|\[abi:\w{1,100}\]| \(\.\w[\w.]{0,100}\)){1,20}$"
)
_SUFFIX: Final = lazy_re(r"\.(?:constprop|isra|part|cold|lto_priv)\.?\d*")
_OPERATOR: Final = lazy_re(r"(?<![\w])operator(\(\)|\[\]|[-+*/%^&|~!=<>,]{1,3})")
_CALL: Final = "::operator()"
_MARKED: Final = {ord(letter): 0xE000 + place for place, letter in enumerate("()[]<>*& ")}
_UNMARKED: Final = {mark: letter for letter, mark in _MARKED.items()}
_OF_FORTRAN: Final = lazy_re(r"__\w{1,100}_MOD_(?=\w)")
_INNER: Final = lazy_re(r"(?:\.<locals>)?\.<(?:list|set|dict)comp>|(?:\.<locals>)?\.<genexpr>")
_BASE_62: Final = lazy_re(r"[0-9A-Za-z]{0,11}_")
_LENGTH: Final = lazy_re(r"([1-9]\d{0,3})_?")
_LONGEST: Final = 40
_SHORT: Final = 24
_MOST: Final = 2000
"""Characters of a mangled name's text that are read."""


class Placed(Protocol):
    """A frame."""

    @property
    def function(self) -> str:
        """The function."""
        ...

    @property
    def file(self) -> str | None:
        """The source file."""
        ...

    @property
    def line(self) -> int | None:
        """The line in the source file."""
        ...

    @property
    def module(self) -> str | None:
        """The ELF file, or Python module."""
        ...

    @property
    def language(self) -> str:
        """Return `python` or `native`."""
        ...


@lru_cache(maxsize=8192)
def function_name(function: str, language: str = "native") -> str:
    """Return the short name of a function: `holder`, `Engine::step`, `main::lambda`; one word."""
    name = _NAMES.get(language, _native)(function)
    name = name.replace(" ", "")
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def line_of(frame: Placed) -> str:
    """Return `server.cpp:31`, `pump/__init__.py:9`; "" if the line is not known."""
    parts = _SEPARATOR.split(frame.file) if frame.file and frame.line else []
    named = parts[-2:] if parts[-1:] == ["__init__.py"] else parts[-1:]
    return f"{'/'.join(named)}:{frame.line}" if parts else ""


def place_text(frame: Placed) -> str:
    """Return `step (server.cpp:31)` or `engine_step (libengine.so)`; only the line for code outside of functions."""
    where = line_of(frame) or (frame.module or frame.file or "").rpartition("/")[2]
    name = function_name(frame.function, frame.language)
    if frame.function == "<module>" and where:
        return where
    return f"{name} ({where})" if where else name


@lru_cache(maxsize=8192)
def plain_name(function: str) -> str:
    """Return the qualified name of a native function, without parameters and return type: `app::Engine::run`."""
    name = function[:_MOST].replace("(anonymous namespace)::", "").replace("{anonymous}::", "")
    name = _LAMBDA.sub("lambda", plain_path(name))
    name = name.replace(f"::lambda{_CALL}", "::lambda").replace("::lambda::_FUN", "::lambda")
    name = re.sub(r"^lambda(?:::operator\(\)|::_FUN)", "lambda", name)
    name = _OPERATOR.sub(_marked, name)
    plain = _without_arguments(name)
    plain = _TAIL.sub("", plain.strip())
    plain = _SUFFIX.sub("", plain).rpartition(" ")[2].lstrip("*&")
    return plain.translate(_UNMARKED)


def rust_name(function: str) -> str:
    """Return the path in a mangled Rust name (v0 form), or the name itself for others.

    Generic arguments are not read.
    """
    if not function.startswith("_R") or function.startswith("_RI"):
        return function
    parts, at = [], 2
    while at < min(len(function), _MOST):
        letter = function[at]
        if letter in "Bs" and (tail := _BASE_62.match(function, at + 1)):  # a back reference, or a number of equals
            at = tail.end()
        elif found := _LENGTH.match(function, at):
            end = found.end() + int(found[1])
            parts.append(function[found.end() : end])
            at = end
        elif letter == "I":
            break
        else:
            at += 1
    return "::".join(part for part in parts if part) or function


def _python(function: str) -> str:
    return _INNER.sub("", function).rpartition("<locals>.")[2]


def _go(function: str) -> str:
    return function.rpartition("/")[2]


def _native(function: str) -> str:
    plain = _OF_FORTRAN.sub("", plain_name(short_symbol(rust_name(function))))
    parts = [part for part in plain.split("::") if part]
    short = "::".join(parts[-2:]) if len(plain) > _SHORT else "::".join(parts)
    return short or function


_NAMES: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType({"python": _python, "go": _go})


def _marked(found: re.Match[str]) -> str:
    return f"operator{found[1].translate(_MARKED)}"


def _without_arguments(name: str) -> str:
    """Strip the text in parentheses and angle brackets; return the name itself if these don't match."""
    kept: list[str] = []
    depth = 0
    for letter in name:
        if letter in "(<":
            depth += 1
        elif letter in ")>":
            depth -= 1
        elif not depth:
            kept.append(letter)
        if depth < 0:
            return name.partition("(")[0]
    return "".join(kept) if not depth else name.partition("(")[0]


class FrameRun(NamedTuple):
    """Frames that come again and again: `period` of them, `times` times, from `start` on."""

    start: int
    period: int
    times: int


def repeated_frames(frames: Sequence[Frame]) -> FrameRun | None:
    """Return the longest run of repeated frames in a stack, of functions that call themselves or each other."""
    shown = [(frame.function, frame.file, frame.line) for frame in frames]
    found: FrameRun | None = None
    for period in range(1, _PERIOD + 1):
        start = 0
        while start + 2 * period <= len(shown):
            end = start + period
            while end < len(shown) and shown[end] == shown[end - period]:
                end += 1
            run = FrameRun(start, period, (end - start) // period)
            if run.times >= _TIMES and (found is None or run.times * period > found.times * found.period):
                found = run
            start = max(start + 1, end - period + 1)
    return found
