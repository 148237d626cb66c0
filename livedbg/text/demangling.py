"""C++ names as a programmer writes them, from those that the linker has (Itanium C++ ABI, 5.1)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from itanium_demangler import parse

from livedbg.text.sanitize import clean_line

__all__ = ["demangled_symbol", "demangled_type"]

_NOT_UNDERSTOOD: Final = (
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What the parser raises at a name that is none, or is of a kind that it doesn't know (found by random names)."""


@lru_cache(maxsize=1024)
def demangled_type(name: str) -> str:
    """The name of a type, from its `std::type_info`; what can't be demangled stays as it is, sanitised."""
    name = name.removeprefix("*")  # names of types that are local to a file (libstdc++, tinfo.cc)
    return _parsed("_ZTI" + name).removeprefix("typeinfo for ") or clean_line(name)


@lru_cache(maxsize=1024)
def demangled_symbol(name: str) -> str:
    """The name of a function or variable; what can't be demangled stays as it is, sanitised."""
    return _parsed(name) or clean_line(name)


def _parsed(name: str) -> str:
    if not name.startswith("_Z"):
        return ""
    try:
        parsed = parse(name)
        text = "" if parsed is None else str(parsed)
    except _NOT_UNDERSTOOD:
        return ""
    return clean_line(text.replace("_GLOBAL__N_1", "(anonymous namespace)").replace("std::__1::", "std::"))
