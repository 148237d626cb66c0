"""Names of functions as a programmer writes them, from what debug information and symbol tables have.

Debug information has the last part of a name only (`run<int>`); the symbol has all of it, and more: a result type and
parameters (`void app::Engine::run<int>(int)`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from livedbg.text.demangling import demangled_symbol
from livedbg.text.rust_demangling import demangled_rust

_OPERATOR: Final = re.compile(
    r"operator(?:\(\)|\[\]|->\*?|<=>|<<=?|>>=?|&&|\|\||\+\+|--|[-+*/%^&|~!=<>]=?|,|\"\" ?\w+)"
)
_QUALIFIER: Final = re.compile(r" (?:const|volatile|noexcept|&|\[)")
_RUST_HASH: Final = re.compile(r"::h[0-9a-f]{16}$")
_RUST_ESCAPE: Final = re.compile(r"\$(?:(SP|BP|RF|LT|GT|LP|RP|C)|u([0-9a-f]{1,6}))\$")
_RUST_LETTERS: Final = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}


@lru_cache(maxsize=1 << 14)
def symbol_name(symbol: str) -> str:
    """The function that a symbol means: demangled, without its version (`read@@GLIBC_2.2.5`)."""
    bare = symbol.partition("@")[0] or symbol
    if bare.startswith("_R"):
        return demangled_rust(bare) or bare
    name = demangled_symbol(bare)
    if bare.startswith("_ZN") and _RUST_HASH.search(name):
        return _rust(_RUST_HASH.sub("", name))
    return name


@lru_cache(maxsize=1 << 14)
def full_name(function: str | None, symbol: str | None) -> str | None:
    """The name of a function.

    Args:
        function: its name in debug information; None where there is none.
        symbol: its symbol; None where there is none.

    Returns:
        None where it has neither.
    """
    if function is None or symbol is None:
        return function if symbol is None else symbol_name(symbol)
    if symbol.startswith("_R"):
        return demangled_rust(symbol) or function
    if not symbol.startswith("_Z"):
        return function
    name = symbol_name(symbol)
    if "(" not in name:  # Rust's have no parameters
        return name if _last_part(name) == _base(function) else function
    return _without_parameters(name, _base(function)) or function


def _rust(name: str) -> str:
    """A name of Rust's older mangling, which only looks like one of C++ (rustc_symbol_mangling, legacy)."""

    def letter(match: re.Match[str]) -> str:
        code = int(match[2], 16) if match[2] else 0
        return _RUST_LETTERS[match[1]] if match[1] else chr(code) if 0x20 <= code < 0x7F else match[0]

    return _RUST_ESCAPE.sub(letter, name.replace("::_$", "::$")).replace("..", "::")


def _base(function: str) -> str:
    """A name without its template arguments."""
    operator = _OPERATOR.match(function)
    return operator[0] if operator else function.partition("<")[0]


def _last_part(name: str) -> str:
    return _base(name.rpartition("::")[2])


def _without_parameters(name: str, base: str) -> str | None:
    """The demangled name of a function without its result and its parameters; None where it is of another one."""
    found: tuple[int, int] | None = None
    spaces: list[int] = []
    depth = at = 0
    while at < len(name):
        operator = _OPERATOR.match(name, at)
        begins = depth == 0 and (at == 0 or name[at - 1] in ": *&")
        if begins and name.startswith(base, at):
            end = _behind_arguments(name, at + len(base))
            if name.startswith("(", end):
                found = at, end
        if operator is not None:
            at = operator.end()
            continue
        letter = name[at]
        if letter in "<([{":
            depth += 1
        elif letter in ">)]}":
            depth = max(0, depth - 1)
        elif letter == " " and depth == 0 and not _QUALIFIER.match(name, at):
            spaces.append(at)
        at += 1
    if found is None:
        return None
    result = max((space for space in spaces if space < found[0]), default=-1)
    return name[result + 1 : found[1]].lstrip("*&")


def _behind_arguments(name: str, at: int) -> int:
    """Where the template arguments that begin at a place end; that place where none do."""
    if not name.startswith("<", at):
        return at
    depth = 0
    for place in range(at, len(name)):
        depth += (name[place] == "<") - (name[place] == ">" and name[place - 1] != "-")
        if depth == 0:
            return place + 1
    return at
