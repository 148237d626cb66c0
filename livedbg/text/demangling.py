"""Demangling of C++ names (Itanium C++ ABI, 5.1), and of Rust symbols of the newer mangling, `_R…` (RFC 2603, "v0").

C++ is done by `__cxa_demangle` of the C++ runtime, in this process. Names are data of the target, and that function has
no limits of its own: a substitution (`S_`) repeats earlier parts, so sixty letters can ask for gigabytes. A name is
therefore measured before the call, and the text is cut after it. Where no C++ runtime is installed, names stay mangled.

Invariants:
    demangling.G1. Any C++ name gives one clean line, and a name that is not understood gives itself, cleaned.
    demangling.G2. No C++ name costs more than some 50 MB and a few tenths of a second, nor a stack deeper than
        `_LONGEST_NAME` calls.
    demangling.R1. Any Rust symbol gives a name of at most `_LONGEST` letters or None, within `_MOST_STEPS` steps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final

from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_LIBRARIES: Final = ("libstdc++.so.6", "libc++abi.so.1")

_LONGEST_NAME: Final = 1024
"""Bytes of a mangled name. libstdc++ refuses longer ones itself; the recursion of libc++abi is bounded by it."""

_MOST_EXPANDED: Final = 1 << 24
"""Limit for `_expanded`; 46 of the 52,700 names that two big C++ libraries export are above it."""

_MOST_TEXT: Final = 1 << 14
"""Bytes of the demangled text that are read; `clean_line` shortens what it gets."""

_BEGINNING: Final = lazy_re(r"_Z[ZNLKrVRO]*(St)?(?=\d)")
_LENGTH: Final = lazy_re(r"\d{1,3}")
"""The beginning of a mangled name, up to the length of its first part, and such a length."""

_REFERENCE: Final = lazy_re(r"[ST][0-9A-Z]{0,12}_")
_PACK: Final = lazy_re(r"(?:Dp|sp)(?![KORPV]*T[0-9A-Z]*_)")  # of a mere parameter it costs as a reference does
_CLOSING: Final = lazy_re(r"(?<!operator)(?<!operator-)> (?=>)")

_Demangle = Callable[..., int | None]


@lru_cache(maxsize=1024)
def demangled_type(name: str) -> str:
    """Return the name of a type, from its `std::type_info`; cleaned only if it can't be demangled."""
    name = name.removeprefix("*")  # names of types that are local to a file (libstdc++, tinfo.cc)
    text = _demangled("_ZTI" + name).removeprefix("typeinfo for ")
    return text.replace("decltype(nullptr)", "std::nullptr_t") or clean_line(name)


@lru_cache(maxsize=1024)
def short_symbol(name: str) -> str:
    """Return the readable part of a name that stayed mangled: `pybind11::cpp_function::initialize…`; else the name
    itself.
    """
    found = _BEGINNING.match(name)
    if found is None:
        return name
    at, parts = found.end(), list[str]()
    while (length := _LENGTH.match(name, at)) is not None:
        at = length.end() + int(length[0])
        if at > len(name) or not name[length.end() : at].isidentifier():
            break
        parts.append(name[length.end() : at])
    words = ["(anonymous namespace)" if part.startswith("_GLOBAL__N") else part for part in parts]
    return f"{'std::' if found[1] else ''}{'::'.join(words)}…" if words else name


@lru_cache(maxsize=1024)
def demangled_symbol(name: str) -> str:
    """Return the name of a function or variable; cleaned only if it can't be demangled."""
    return _demangled(name) or clean_line(name)


def _demangled(name: str) -> str:
    mangled = name.encode("utf-8", "replace")
    if not mangled.startswith(b"_Z") or b"\0" in mangled or len(mangled) > _LONGEST_NAME:
        return ""
    if _expanded(name) > _MOST_EXPANDED:
        return ""
    text = _call(mangled).decode("utf-8", "replace")
    return clean_line(_CLOSING.sub(">", text.replace("std::__1::", "std::")))


def _expanded(name: str) -> int:
    """Return an upper bound of the number of pieces in the text of a name.

    A reference repeats at most the largest part that is complete before it. Parts with more than one reference are
    complete at an `E`. So `n` references in the stretch up to an `E` make the largest part at most `1 + n` times as
    large. The expansion of a pack repeats its pattern for each element. Letters of identifiers are counted too, which
    makes the bound larger, never smaller.
    """
    pieces = len(name)
    for stretch in name.split("E"):
        pieces *= 1 + len(_REFERENCE.findall(stretch))
    if "J" in name or "II" in name:  # there are packs
        pieces *= len(name) ** len(_PACK.findall(name))
    return pieces


def _call(mangled: bytes) -> bytes:
    """Call the runtime for a name that has been measured; b"" for an invalid one, or without a runtime."""
    demangle, free = _runtime()
    if demangle is None:
        return b""
    size, status = ctypes.c_size_t(), ctypes.c_int()
    text = demangle(mangled, None, ctypes.byref(size), ctypes.byref(status))
    if text is None:
        return b""  # status -1: no memory; -2: not a mangled name
    try:
        if status.value != 0:
            return b""
        return ctypes.string_at(text, min(size.value, _MOST_TEXT)).partition(b"\0")[0]
    finally:
        free(text)


@cache
def _runtime() -> tuple[_Demangle | None, Callable[[int], Any]]:
    """Return `__cxa_demangle` of the first installed C++ runtime (None without any), and `free`."""
    free = ctypes.CDLL(None).free
    free.argtypes, free.restype = (ctypes.c_void_p,), None
    for library in _LIBRARIES:
        try:
            demangle = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        demangle.restype = ctypes.c_void_p
        return demangle, free
    return None, free


_LONGEST: Final = 1 << 12
_DEEPEST: Final = 128
_LONGEST_NUMBER: Final = 32  # hexadecimal digits
_MOST_STEPS: Final = 1 << 14
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BASIC: Final = {
    "a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize", "j": "usize",
    "l": "i32", "m": "u32", "n": "i128", "o": "u128", "p": "_", "s": "i16", "t": "u16", "u": "()", "v": "...",
    "x": "i64", "y": "u64", "z": "!",
}  # fmt: skip
_SPECIAL: Final = {"C": "closure", "S": "shim"}


@lru_cache(maxsize=1 << 12)
def demangled_rust(symbol: str) -> str | None:
    """Return the demangled name, without the hashes of crates; None for another symbol.

    Example:
        >>> demangled_rust("_RNvCsc0W65ysIEon_5waits4main")
        'waits::main'
    """
    if not symbol.startswith("_R") or not symbol.isascii():
        return None
    try:
        return _Reader(symbol[2:].partition(".")[0]).path()[:_LONGEST]
    except (_NotRust, IndexError, RecursionError):
        return None


class _NotRust(ValueError):
    """The text is not what the grammar allows, or costs too much."""


class _Reader:
    """A parser of one symbol; each method parses one production of the grammar and returns its text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._steps = _MOST_STEPS

    def path(self) -> str:
        """Parse a path, with its arguments as gdb writes them: `Vec<u8>::push`."""
        return self._deeper(self._path)

    def _path(self) -> str:
        kind = self._next()
        if kind == "C":
            self._base62_after("s")
            return self._name()
        if kind == "N":
            return self._nested(self._next(), self.path())
        if kind in "MX":
            self._base62_after("s")
            self.path()
        if kind in "MXY":  # a trait is said of types only that have no name
            made = self._type()
            trait = "" if kind == "M" else self.path()
            if made[:1].isalpha() and not made.startswith(("dyn ", "fn(", "unsafe ", "extern ")):
                return made
            return f"<{made} as {trait}>" if trait else f"<{made}>"
        if kind == "I":
            return self._short(f"{self.path()}<{', '.join(self._until_end(self._argument))}>")
        if kind == "B":
            return self._again(self.path)
        raise _NotRust

    def _nested(self, space: str, outer: str) -> str:
        number = self._base62_after("s")
        name = self._name()
        if space.isupper():
            inner = f"{_SPECIAL.get(space, space)}{':' if name else ''}{name}#{number}"
            return self._short(f"{outer}::{{{inner}}}")
        return self._short(f"{outer}::{name}") if name else outer

    def _argument(self) -> str:
        if self._skip("L"):
            self._base62()
            return "'_"
        return self._constant() if self._skip("K") else self._type()

    def _type(self) -> str:
        return self._deeper(self._one_type)

    def _one_type(self) -> str:
        kind = self._next()
        if kind in _BASIC:
            return _BASIC[kind]
        if kind == "A":
            return self._short(f"[{self._type()}; {self._constant()}]")
        if kind == "S":
            return f"[{self._type()}]"
        if kind == "T":
            parts = self._until_end(self._type)
            return self._short(f"({', '.join(parts)}{',' if len(parts) == 1 else ''})")
        if kind in "RQ":
            if self._skip("L"):
                self._base62()
            return f"&{'mut ' if kind == 'Q' else ''}{self._type()}"
        if kind in "PO":
            return f"*{'const' if kind == 'P' else 'mut'} {self._type()}"
        if kind == "F":
            return self._function()
        if kind == "D":
            return self._dynamic()
        if kind == "B":
            return self._again(self._type)
        self._at -= 1
        return self.path()

    def _function(self) -> str:
        self._base62_after("G")
        unsafe = "unsafe " if self._skip("U") else ""
        abi = ""
        if self._skip("K"):
            abi = 'extern "C" ' if self._skip("C") else f'extern "{self._name().replace("_", "-")}" '
        parameters = ", ".join(self._until_end(self._type))
        result = self._type()
        return self._short(f"{unsafe}{abi}fn({parameters}){'' if result == '()' else f' -> {result}'}")

    def _dynamic(self) -> str:
        self._base62_after("G")
        bounds = " + ".join(self._until_end(self._bound))
        if self._skip("L"):
            self._base62()
        return self._short(f"dyn {bounds}")

    def _bound(self) -> str:
        made = self.path()
        bindings = []
        while self._skip("p"):
            bindings.append(f"{self._name()} = {self._type()}")
        if not bindings:
            return made
        joined = ", ".join(bindings)
        return f"{made[:-1]}, {joined}>" if made.endswith(">") else f"{made}<{joined}>"

    def _constant(self) -> str:
        if self._skip("B"):
            return self._again(self._constant)
        kind = self._next()
        if kind == "p":
            return "_"
        minus = "-" if self._skip("n") else ""
        end = self._text.index("_", self._at) if "_" in self._text[self._at :] else -1
        digits = self._text[self._at : end]
        if end < 0 or kind not in _BASIC or digits.strip("0123456789abcdef"):
            raise _NotRust
        self._at = end + 1
        if len(digits) > _LONGEST_NUMBER:
            return f"{minus}0x{digits}"
        value = int(digits or "0", 16)
        if kind == "b":
            return "true" if value else "false"
        if kind == "c":
            return repr(chr(value)) if value < 0x110000 else "_"
        return f"{minus}{value}"

    def _name(self) -> str:
        puny = self._skip("u")
        begin = self._at
        while self._at < len(self._text) and self._text[self._at].isdigit():
            self._at += 1
            if self._text[begin] == "0":
                break
        length = int(self._text[begin : self._at] or "-1")
        self._skip("_")
        name = self._text[self._at : self._at + length]
        if length < 0 or len(name) < length:
            raise _NotRust
        self._at += length
        if not puny:
            return name
        head, _, tail = name.rpartition("_")
        try:
            return f"{head}-{tail}".lstrip("-").encode().decode("punycode")
        except UnicodeError:
            raise _NotRust from None

    def _base62_after(self, letter: str) -> int:
        """Parse the number after an optional letter: 0 without the letter, so the first one is 1."""
        return self._base62() + 1 if self._skip(letter) else 0

    def _base62(self) -> int:
        value, first = 0, self._at
        while (letter := self._next()) != "_":
            place = _DIGITS.find(letter)
            if place < 0 or self._at - first > 12:
                raise _NotRust
            value = value * 62 + place
        return value + 1 if self._at - first > 1 else 0

    def _again(self, read: Callable[[], str]) -> str:
        origin = self._at - 1
        target, back = self._base62(), self._at
        if target >= origin:
            raise _NotRust
        self._at = target
        text = read()
        self._at = back
        return text

    def _until_end(self, read: Callable[[], str]) -> list[str]:
        made: list[str] = []
        while not self._skip("E"):
            made.append(read())
        return made

    def _deeper(self, read: Callable[[], str]) -> str:
        self._depth += 1
        self._steps -= 1
        if self._depth > _DEEPEST or self._steps < 0:
            raise _NotRust
        text = self._short(read())
        self._depth -= 1
        return text

    def _short(self, text: str) -> str:
        if len(text) > _LONGEST:
            raise _NotRust
        return text

    def _skip(self, letter: str) -> bool:
        found = self._text.startswith(letter, self._at)
        self._at += found
        return found

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]


_REST: Final = lazy_re(r"^(?!_Z)(?=\w{0,1000}EE)(?=\w{0,1000}(?:S\d?_|Li\d{1,6}E))\w{8,}$")


def is_rest_of_symbol(name: str) -> bool:
    """Return whether a name is the rest of a mangled one, whose beginning is not there."""
    return _REST.match(name) is not None
