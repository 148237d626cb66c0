"""Functions that torch.compile leaves uncompiled, with a traceback in its log: no crash, the program goes on.

torch/_dynamo/convert_frame.py logs `WON'T CONVERT function file line N`, `due to:` and a traceback, each line with a
header of level I (at a limit of recompilations, or a frame that it refuses) or W (`suppress_errors`).
"""

from __future__ import annotations

from typing import Final

from livedbg.adapters.pytorch.facts import CompileFacts, compile_facts
from livedbg.adapters.pytorch.traces.program import Again, Compilation, Place, frame_of
from livedbg.model import Diagnostic, Evidence, ExceptionHit, LogRecord, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_GUARD: Final = lazy_re(r"(?P<of>!?\d+(?:/\d+){1,2}): (?P<text>.*)")
_EXPECTED: Final = lazy_re(r"[.,;:]? {1,20}expected (?P<expected>.{1,500}?),? (?:actual|but got|got) (?P<actual>.+)")
_COMMENT: Final = lazy_re(r" {1,20}# .*")


def place_words(place: Place) -> str:
    """Return `big (model.py:20)`; "" if nothing is known."""
    file = place.file.rpartition("/")[2]
    where = f"{file}:{place.line}" if file and place.line else file
    return f"{place.function} ({where})" if place.function and where else place.function or where


def frame_words(one: Compilation) -> str:
    """Return `frame 0/1 of big (model.py:20)`."""
    where = place_words(one.place)
    if not one.key:
        return "a model by AOTInductor or export"
    return f"frame {one.key}" + (f" of {where}" if where else "")


def guard_words(guard: str) -> str:
    """Return `guard of 0/7 failed: tensor 'x' size mismatch at index 0: expected 8, got 9`."""
    match = _GUARD.match(guard)
    of, text = (f" of {match['of']}", match["text"]) if match is not None else ("", guard)
    text = _COMMENT.sub("", text).strip()
    compared = _EXPECTED.search(text)
    if compared is not None:
        head = text[: compared.start()]
        return f"guard{of} failed: {head}: expected {compared['expected']}, got {compared['actual'].rstrip('.')}"
    return f"guard{of} failed: {text}"


def recompilation_words(again: Again, place: Place) -> str:
    """Return a sentence on a recompiled frame."""
    where = place_words(place)
    of = f" of {where}" if where else ""
    guard = guard_words(again.guard) if again.guard else ""
    if again.limit or again.setting:
        limit = f"{again.setting or 'its limit'} ({again.limit})" if again.limit else again.setting
        last = f"; the last {guard}" if guard else ""
        frame = frame_of(again.key) or again.key
        return f"Frame {frame}{of} has reached {limit} and is not compiled any more{last}."
    often = f", {again.times} times in all" if again.times > 1 else ""
    return f"Frame {again.key}{of} was compiled again{often}" + (f": {guard}." if guard else ".")


def failure_words(one: Compilation) -> str:
    """Return a sentence on a failed compilation."""
    said = f": {one.reason.rstrip('.')}" if one.reason else ""
    return f"torch.compile failed on {frame_words(one)}: {one.error}{said}."


LEFT_OUT: Final = "compile-left-out"
TRIGGERS: Final = (b"] WON'T CONVERT ", b"] Traceback (most recent call last):")

_FUNCTION: Final = lazy_re(r"WON'T CONVERT (?P<name>\S{1,200}) (?P<file>.{1,1000}) line (?P<line>\d{1,9})")
_TRACEBACK: Final = "Traceback (most recent call last):"
_LINES: Final = 500  # of tracebacks in a log that are remembered, the newest


class LeftOut:
    """Finds left-out functions in one log."""

    def __init__(self) -> None:
        self._place = Place()
        self._lines: list[int] = []

    def take(self, header: str, text: str, record: LogRecord) -> Diagnostic | None:
        """Process a line of torch, split into header (level first) and text; return the updated diagnostic, if any."""
        function = _FUNCTION.match(text)
        if function is not None:
            file = clean_line(function["file"], 400)
            self._place = Place(clean_line(function["name"], 200), file, int(function["line"]))
            return None
        if not text.startswith(_TRACEBACK) or header[0] not in "VIW" or record.line is None:
            return None
        self._lines = [*self._lines[-_LINES:], record.last_line or record.line]
        where = place_words(self._place) or "a function"
        return Diagnostic(
            id=f"pytorch/{LEFT_OUT}/{record.source}",
            system="pytorch",
            code=LEFT_OUT,
            severity=Severity.INFO,
            sentence=f"torch.compile leaves {where} uncompiled; the program goes on.",
            facts=CompileFacts(lines=tuple(self._lines), place=where, pid=record.pid or 0),
            evidence=(
                Evidence(kind="log", file="log", text="a traceback that torch logged", at_wall_ns=record.wall_ns),
            ),
            at_wall_ns=record.wall_ns,
        )


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether torch.compile logged an exception and went on."""
    said = snapshot.diagnostics.get(f"pytorch/{LEFT_OUT}/{hit.source}")
    return said is not None and hit.line in compile_facts(said).lines
