"""Words of command lines that livedbg prints for the user to paste into a shell."""

from __future__ import annotations

import shlex
from pathlib import PurePath

from livedbg.text.sanitize import clean_line


def shell_word(word: object) -> str:
    """Quote a path, a name or a number as one word of a POSIX shell, without controls; a path is never an option."""
    text = clean_line(str(word))
    if isinstance(word, PurePath) and text.startswith("-"):
        text = f"./{text}"
    return shlex.quote(text)
