"""What Python's `subprocess` says of a command that failed, without its arguments."""

from __future__ import annotations

import re
from typing import Final

from livedbg.text.patterns import lazy_re

_SAID: Final = lazy_re(
    r"Command (?P<quote>['\"])(?P<command>\[?[^\n]{1,4000}?\]?)(?P=quote) "
    r"(?:returned non-zero exit status (?P<status>\d{1,10})"
    r"|died with (?:<Signals\.)?(?P<signal>\w{1,40}(?: signal \d{1,3})?)"
    r"(?:: \d{1,3}>)?|(?P<late>timed out after [\d.]{1,20} seconds))"
)
_CUT: Final = lazy_re(r"Command ['\"](?P<command>\['[^\n]{1,4000})$")
_WORD: Final = lazy_re(r"\"((?:[^\"\\]|\\.){0,4000})\"|'((?:[^'\\]|\\.){0,4000})'|([^\s'\",\[\]]{1,4000})")
_SETS: Final = lazy_re(r"\w{1,100}=")
_INTERPRETER: Final = lazy_re(
    r"(?:python|pypy)[\d.]{0,10}$|(?:ba|da|z|k)?sh$|perl$|ruby$|env$|sudo$|nice$|timeout$|time$"
)
_SHORT: Final = 40  # characters of a command that is said as it is
_LOOKED_AT: Final = 30  # words


def with_brief_commands(text: str) -> str:
    """Return `ptxas returned exit status 255` for `Command '[…]' returned non-zero exit status 255`; a short command
    stays as it is.
    """
    if "Command '" not in text and 'Command "' not in text:
        return text
    brief = _SAID.sub(
        lambda said: (
            said[0]
            if len(said["command"]) <= _SHORT
            else f"{program_of(said['command'])} {said['late'] or _ended(said['status'], said['signal'])}"
        ),
        text,
    )
    return _CUT.sub(lambda cut: f"Command {program_of(cut['command'])} …", brief)


def _ended(status: str | None, signal: str | None) -> str:
    return f"returned exit status {status}" if status else f"died of {signal}"


def program_of(command: str) -> str:
    """Return the name of a command's program, without its folder; after an interpreter, that of the script too.

    The command is a line for a shell, or the `repr` of a list.
    """
    words: list[str] = []
    for word in _WORD.finditer(command):
        text = word[1] or word[2] or word[3] or ""
        if words and words[-1] != "-m" and text[:1] == "-":
            if text != "-m":
                continue
        elif _SETS.match(text) is not None or not text:
            continue
        words.append(text if text == "-m" else re.split(r"[/\\]", text)[-1])
        if len(words) == _LOOKED_AT or (words[-1] != "-m" and _INTERPRETER.match(words[-1]) is None):
            break
    return " ".join(words) or "a command"
