"""Rust's paths without what is in angle brackets: `<app::Queue<u8> as app::Work>::run` is `app::Queue::run`."""

from __future__ import annotations

from typing import Final

from livedbg.text.patterns import lazy_re

_POINTER: Final = lazy_re(r"(?:&|\*const |\*mut |mut |dyn |'\w+ )+")
_PATH: Final = lazy_re(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*(?=$|[<+ ])")
_NO_TYPE: Final = frozenset({"fn", "for", "unsafe", "extern", "impl"})
_DEEPEST: Final = 8


def plain_path(name: str, depth: int = 0) -> str:
    """A path with each part in angle brackets replaced by the name of its type, or left out.

    A part of arguments (`push::<u8>`) and one of an implementation (`<impl Work for u8>`) behind a path are left out. A
    type without a name (a slice, a tuple) gives the trait's name. Names of other languages stay as they are.

    Args:
        name: the path.
        depth: how deep it lies in other paths.
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
    """The name of the type in `A as T`, or of the trait; "" where neither has one."""
    if inside.startswith("lambda("):
        return "lambda"
    type_, _, trait = inside.partition(" as ") if not inside.startswith("<") else _split(inside)
    return _named(type_, depth) or _named(trait, depth)


def _split(inside: str) -> tuple[str, str, str]:
    """The same for a type that is itself in angle brackets: `<A as I>::Item as T`."""
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
    """Behind the bracket that closes the one at a place; -1 where none does."""
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
