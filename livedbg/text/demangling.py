"""Demangling of C++ names (Itanium C++ ABI, 5.1).

It is done by `__cxa_demangle` of the C++ runtime, in this process. Names are data of the target, and that function has
no limits of its own: a substitution (`S_`) repeats earlier parts, so sixty letters can ask for gigabytes. A name is
therefore measured before the call, and the text is cut after it. Where no C++ runtime is installed, names stay mangled.

Invariants:
    demangling.G1. Any name gives one clean line, and a name that is not understood gives itself, cleaned.
    demangling.G2. No name costs more than some 50 MB and a few tenths of a second, nor a stack deeper than
        `_LONGEST_NAME` calls.
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
