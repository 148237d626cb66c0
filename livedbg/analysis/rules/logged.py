"""How an exception that a log shows is said: what it was, whose, and where in the user's own code."""

from __future__ import annotations

import re
from typing import Final

from livedbg.analysis.place_names import place_text
from livedbg.analysis.user_code import UserCode
from livedbg.logs.crashes import FAILED_TESTS
from livedbg.logs.sanitizers import place_of
from livedbg.model import Evidence, ExceptionHit
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case

__all__ = ["crashed_where", "exception_text", "log_evidence"]

_PLACED: Final = ("traceback", "terminate", "assert", "signal", "glibc-abort")
_SAYS_WHAT: Final = re.compile(r"\berror\b|\w(?:Error|Exception)\b|\bfailed\b", re.IGNORECASE)
_QUOTED: Final = re.compile(r"\b(?:error|fatal) {0,4}: |\w(?:Error|Exception): ", re.IGNORECASE)
_LONGEST: Final = 300
_WHOLE: Final = 1_500  # characters of a message that are shown as evidence
_CALLERS: Final = 12


def exception_text(hit: ExceptionHit, placed: bool = False) -> str:
    """`KeyError: 'input_ids'`, of a message of several lines what says most.

    Args:
        hit: the exception.
        placed: say the place that its report names.
    """
    place = place_of(hit.stack) if placed else ""
    what = f"{hit.type}, in {place}" if place else hit.type
    said = _message(hit.message)
    return f"{what}: {said}" if said else what


def _message(message: str) -> str:
    lines = [line.strip() for line in message.split("\n") if line.strip()]
    if len(lines) < 2:
        return "".join(lines)
    first, rest = lines[0], lines[1:]
    quoted = next((line for line in rest if _QUOTED.search(line)), "")
    more = next((line for line in rest if _SAYS_WHAT.search(line)), rest[0] if first.endswith(":") else "")
    if not quoted and (not more or (_SAYS_WHAT.search(first) and not first.endswith(":"))):
        return first
    more = quoted or more
    return f"{first.rstrip('.')}{'' if first.endswith(':') else ';'} {more}"[:_LONGEST]


def crashed_where(hit: ExceptionHit, kind: str, code: UserCode) -> str:
    """`Rank 3 crashed in collate (train.py:31)`; `Crashed` where neither is known."""
    if kind == FAILED_TESTS:
        return "The test run failed"
    frame = code.frame_of(hit.stack) if kind in _PLACED else None
    where = f" in {place_text(frame)}" if frame is not None and frame.file else ""
    return f"{sentence_case(hit.writer)} crashed{where}" if hit.writer else f"Crashed{where}"


def log_evidence(hit: ExceptionHit, text: str, snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The line of the log that names the exception, the rest of its message, and who called what raised it."""
    source = snapshot.log_sources.get(hit.source or "")
    if source is None:
        return (Evidence(kind="log", source=hit.catchpoint or "log", text=text, at_wall_ns=hit.at_wall_ns),)
    name, line = source.name, hit.raised_line or hit.line
    whole = f"{hit.type}: {hit.message.strip()}"[:_WHOLE] if "\n" in hit.message.strip() else text
    proofs = [Evidence(kind="log", text=whole, file=name, line=line, at_wall_ns=hit.at_wall_ns, log=source.id)]
    if any(frame.function != "?" for frame in hit.stack):
        called = " < ".join(place_text(frame) for frame in hit.stack[:_CALLERS])
        proofs.append(Evidence(kind="stack", text=called, file=name, line=line, at_wall_ns=hit.at_wall_ns))
    return tuple(proofs)
