"""What is searched for, as it stands in the JSON strings of a container's log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

__all__ = ["with_escaped"]

_GO: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
_BEGIN: Final = b'{"log":"'


def with_escaped(words: Iterable[bytes]) -> tuple[bytes, ...]:
    """Words and their forms in JSON: as Go writes them, and with all that is not ASCII escaped.

    A word that begins with a newline stands at the beginning of a line, which here is that of a string.
    """
    found: dict[bytes, None] = {}
    for word in words:
        found[word] = None
        body = word.removeprefix(b"\n")
        before = _BEGIN if body != word else b""
        text = body.decode("utf-8", "replace")
        for plain in (False, True):
            quoted = json.dumps(text, ensure_ascii=plain)[1:-1]
            found[before + quoted.encode()] = None
            found[before + quoted.translate(_GO).encode()] = None
    return tuple(found)
