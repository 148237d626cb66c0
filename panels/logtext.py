"""The text of a log record without what stands in its columns already: its time and its severity."""

from __future__ import annotations

import re
from typing import Final

from livedbg.model import LogRecord
from livedbg.text.sanitize import clean_line

_LEVEL: Final = r"(?:DEBUG|TRACE|VERBOSE|INFO|NOTICE|TIMING|WARN|WARNING|ERROR|ERR|CRITICAL|FATAL|PANIC)"
_CLOCK: Final = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_TOLD: Final = re.compile(
    r"\[mono_ns=\d+\]|[\[(]? {0,6}\d{1,9}\.\d{6}\] ?"
    rf"|[\[(]?(?:\d{{4}}[-/]\d\d[-/]\d\d|\d\d-\d\d|[A-Z][a-z]{{2}} +\d{{1,2}}|\d{{4}})?[T :-]?{_CLOCK}[.\d]*"
    r" ?(?:Z|[+-]\d\d:?\d\d)?[\])]?"
    rf"|[\[(<|]? ?\b{_LEVEL}\b ?[\])>|]?:?|^\[?[VIWEFC](?=\d{{4}} |\d{{8}} )(?:\d{{8}}|\d{{4}}) |^\[[VIWEF] ",
    re.IGNORECASE,
)
_FIRST_WORD: Final = re.compile(rf"[\s\[(<|:-]*\b{_LEVEL}\b[\])>|]?[\s:|-]*")
_NAMED: Final = re.compile(  # `name - ERROR - message`, `worker[1] INFO message`, `name | [WARNING] message`
    rf"^([^\s]{{1,80}} ?(?:[-|:]|(?<=[\])])))\s*[\[(<|]?\b{_LEVEL}\b[\])>|]?(?:\s*[-|:]+)?\s+"
)
_LOOSE: Final = re.compile(r"^[\s|:,-]+")
_SPACES: Final = re.compile(r" {2,}")


def message_of(record: LogRecord) -> str:
    """The record on one line, without time and severity where its header has them.

    What else the header says (thread, file and line, logger) stays.
    """
    text = clean_line(record.text)
    if not record.head:
        return text
    head, body = text[: record.head], text[record.head :]
    kept = _SPACES.sub(" ", _LOOSE.sub("", _TOLD.sub(" ", head))).rstrip()
    body = body.lstrip()
    level = _FIRST_WORD.match(body)
    if level is not None and level.end() < len(body):
        body = body[level.end() :]
    else:
        body = _NAMED.sub(lambda found: f"{found[1]} ", body, count=1)
    return f"{kept} {body.lstrip()}" if kept else body
