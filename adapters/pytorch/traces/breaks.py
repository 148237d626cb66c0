"""The text of a graph break: `Graph break in user code at FILE:LINE`, a reason, and a traceback of the user's code.

torch/_dynamo/symbolic_convert.py (log_graph_break) of 2.6 to 2.15; the same text is in TORCH_TRACE's artifact
`dynamo_graph_break_reason` and in TORCH_LOGS=graph_breaks.
"""

from __future__ import annotations

from typing import Final

from livedbg.adapters.pytorch.traces.program import Place, Program
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

BEGINS: Final = lazy_re(r"Graph break (?:\(.{1,60}?\) )?in user code at (?P<file>[^\n]{1,1000}):(?P<line>\d{1,9})$")
_REASON: Final = lazy_re(r"(?:Graph Break )?Reason: (?P<text>.*)")
_GENERAL: Final = ("Encountered graph break when", "Graph break due to unsupported")
_EXPLAINED: Final = lazy_re(r" *Explanation: (?P<text>.*)")
_FRAME: Final = lazy_re(r' *File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9}), in (?P<name>.{1,200})')
_LIMIT: Final = 300


class BreakReader:
    """Reads one graph break, line by line.

    Args:
        key: the compilation, `0/0`.
        wall_ns: when.
    """

    def __init__(self, key: str, wall_ns: int | None) -> None:
        self._key = key
        self._wall_ns = wall_ns
        self._file = ""
        self._line = 0
        self._function = ""
        self._reason = ""
        self._wants_reason = False
        self._explanation = ""

    def take(self, line: str) -> None:
        """Take a line."""
        begins = BEGINS.match(line)
        if begins is not None:
            self._file, self._line = begins["file"], int(begins["line"])
            return
        reason = _REASON.match(line)
        if reason is not None and not self._reason:
            self._wants_reason = reason["text"].startswith(_GENERAL)
            self._reason = "" if self._wants_reason else reason["text"]
            return
        explained = _EXPLAINED.match(line)
        if explained is not None:
            self._explanation = self._explanation or explained["text"]
            return
        frame = _FRAME.match(line)
        if frame is not None:
            if frame["file"] == self._file and int(frame["line"]) == self._line:
                self._function = frame["name"]
            return
        if self._wants_reason and line.strip():
            self._reason, self._wants_reason = line.strip(), False

    def tell(self, program: Program) -> None:
        """Say what was read so far."""
        if self._file:
            reason = ": ".join(part.rstrip(":. ") for part in (self._reason, self._explanation) if part)
            place = Place(clean_line(self._function, 200), clean_line(self._file, 400), self._line)
            program.breaks_at(self._key, place, clean_line(reason, _LIMIT), self._wall_ns)
