"""What a `deps.json` has to look like to be read, and in which way one does not.

Source of the shape: simpler, docs/dfx/dep-gen.md §4 (August 2026), and the same of June 2026.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.text.sanitize import clean_line

__all__ = ["SHAPE_HELP", "OtherShape", "refusal"]

SHAPE_HELP: Final = (
    'what is read: {"tasks":[{"task_id":"0","args":[{"idx":0,"type":"INPUT","tensor_id":"7"}]}],'
    '"edges":[{"pred":"0","succ":"1"}]}, as simpler has written it since June 2026 (docs/dfx/dep-gen.md); '
    "capture it with such a runtime (--enable-dep-gen), or write it in this shape"
)
"""What to do where a file has another shape."""

_PLACE: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_ELEMENT: Final = re.compile(r"\.(?P<list>task|tensor|edge)s\[(?P<number>\d+)\](?P<rest>.*)")
_MISSING: Final = re.compile(r"missing required field `(\w+)`")
_TYPES: Final = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_WORDS: Final = {
    "int": "a whole number",
    "str": "text",
    "array": "a list",
    "object": "an object",
    "bool": "true or false",
}
_KEYS: Final = 8  # that are named


class OtherShape(ValueError):
    """Whole JSON, and no `deps.json` as it is known."""


def refusal(error: str, found: object = None, element: str = "") -> str:
    """Why something is refused: `key "idx" of args[0] of task 3 is missing`.

    Args:
        error: what msgspec says (`Expected …, got …`, `Object missing required field …`).
        found: the element; where a key of its own is missing, those that it has are named.
        element: what it is: `task 3`; by default as the path in `error` says.
    """
    parts = _PLACE.fullmatch(error)
    what, path = (parts["what"], parts["path"] or "") if parts is not None else (error, "")
    if not element and (inside := _ELEMENT.fullmatch(path)) is not None:
        element, path = f"{inside['list']} {inside['number']}", inside["rest"]
    path = path.removeprefix(".")
    within = f" of {element}" if element else ""
    if (missing := _MISSING.search(what)) is not None:
        said = f'key "{missing[1]}"{f" of {path}" if path else ""}{within} is missing{"" if path else _keys(found)}'
    else:
        subject = f'key "{path}"{within}' if path else element or "all of it"
        types = _TYPES.search(what)
        said = f"{subject}: {what}" if types is None else f"{subject} is {_word(types[2])}, not {_word(types[1])}"
    return clean_line(said, 400)


def _word(types: str) -> str:
    return " or ".join(_WORDS.get(word, word) for word in types.split(" | "))


def _keys(found: object) -> str:
    if not isinstance(found, dict) or not found:
        return ""
    names = ", ".join(clean_line(str(key), 40) for key in list(found)[:_KEYS])
    return f"; it has {names}{' …' if len(found) > _KEYS else ''}"
