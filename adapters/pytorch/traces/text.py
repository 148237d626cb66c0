"""Parse the text of TORCH_LOGS and of torch.compile's default log: one line each, with the compilation in brackets.

torch/_logging/_internal.py (TorchLogsFormatter), torch/_dynamo/{convert_frame,guards,symbolic_convert}.py and
torch/_inductor/compile_worker/subproc_pool.py of 2.6 to 2.15; before 2.7 the limit was called `cache_size_limit`.

A graph break is `Graph break in user code at FILE:LINE`, a reason, and a traceback of the user's code
(torch/_dynamo/symbolic_convert.py, log_graph_break, of 2.6 to 2.15). The same text is in TORCH_TRACE's artifact
`dynamo_graph_break_reason` and in TORCH_LOGS=graph_breaks.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.pytorch.traces.program import Place, Program
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

BEGINS: Final = lazy_re(r"Graph break (?:\(.{1,60}?\) )?in user code at (?P<file>[^\n]{1,1000}):(?P<line>\d{1,9})$")
_BREAKS_REASON: Final = lazy_re(r"(?:Graph Break )?Reason: (?P<text>.*)")
_GENERAL: Final = ("Encountered graph break when", "Graph break due to unsupported")
_EXPLAINED: Final = lazy_re(r" *Explanation: (?P<text>.*)")
_FRAME: Final = lazy_re(r' *File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9}), in (?P<name>.{1,200})')
_BREAKS_LIMIT: Final = 300


class BreakReader:
    """Reads one graph break of a compilation (`0/0`), line by line."""

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
        begins = BEGINS.match(line)
        if begins is not None:
            self._file, self._line = begins["file"], int(begins["line"])
            return
        reason = _BREAKS_REASON.match(line)
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
        """Record the break in a program, as far as read."""
        if self._file:
            reason = ": ".join(part.rstrip(":. ") for part in (self._reason, self._explanation) if part)
            place = Place(clean_line(self._function, 200), clean_line(self._file, 400), self._line)
            program.breaks_at(self._key, place, clean_line(reason, _BREAKS_LIMIT), self._wall_ns)


TRIGGERS: Final = (
    b" [__graph_breaks] ", b" [__recompiles", b"torch._dynamo hit config.", b"]    function: '", b"]    last reason: ",
    b"torchdynamo start tracing ", b" run_gc_after_compile: ", b"] SubprocPool unclean exit",
)  # fmt: skip
"""What the lines contain that are read."""

_LOST: Final = "SubprocPool unclean exit"  # the pool's process has ended before its program

_PHASE: Final = "entire_frame_compile"
_LIMIT: Final = 400
_REASON: Final = 800  # of a guard: it may quote the code and give a hint
_MESSAGE: Final = lazy_re(
    r"(?:\[(?P<key>!?\d{1,9}(?:/\d{1,9}){0,2})(?:_(?P<attempt>\d{1,9}))?\] )?"
    r"(?:\[__(?P<artifact>\w{1,60})\] )?(?P<text>.*)"
)
_AT: Final = r"(?P<file>.{1,1000}):(?P<line>\d{1,9})"
_STARTS: Final = lazy_re(rf"(?:Step 1: )?torchdynamo start tracing (?P<name>\S{{1,200}}) {_AT}")
_RECOMPILES: Final = lazy_re(rf"Recompiling function (?P<name>\S{{1,200}}) in {_AT}")
_GUARD: Final = lazy_re(r" *- +(?P<text>!?\d{1,9}(?:/\d{1,9}){1,2}: .+)")
_HIT: Final = lazy_re(r"torch\._dynamo hit config\.(?P<setting>\w{1,60}) \((?P<limit>\d{1,9})\)")
_OF: Final = lazy_re(rf" *function: '(?P<name>[^']{{1,200}})' \({_AT}\)")
_LAST: Final = lazy_re(r" *last reason: (?P<text>.+)")


class Text:
    """Reads the lines of one process in one log."""

    def __init__(self) -> None:
        self._break: tuple[str, BreakReader] | None = None
        self._again = ""  # the compilation whose guards follow

    def take(self, message: str, wall_ns: int | None, program: Program) -> None:
        """Process one line, without its header."""
        match = _MESSAGE.match(message)
        if match is None:
            return
        key, text = match["key"] or "", match["text"]
        artifact = match["artifact"] or ""
        if artifact == "graph_breaks":
            self._of_break(key, text, wall_ns, program)
        elif artifact.startswith("recompiles"):
            self._of_recompilation(key, text, wall_ns, program)
        elif not artifact and key:
            self._plain(key, int(match["attempt"] or 0), text, wall_ns, program)
        if text.startswith(_LOST):
            program.lost_workers.setdefault(text[:_LIMIT], wall_ns)

    def _of_break(self, key: str, text: str, wall_ns: int | None, program: Program) -> None:
        if BEGINS.match(text):
            self._break = key, BreakReader(key, wall_ns)
        if self._break is not None and self._break[0] == key:
            self._break[1].take(text)
            self._break[1].tell(program)

    def _of_recompilation(self, key: str, text: str, wall_ns: int | None, program: Program) -> None:
        function, guard = _RECOMPILES.match(text), _GUARD.match(text)
        if function is not None:
            self._again = key
            program.starts(key, _place(function))
            program.recompiles(key, "", wall_ns)
        elif guard is not None and self._again == key:
            self._again = ""  # the guards of earlier compilations follow
            program.recompiles(key, clean_line(guard["text"], _REASON), wall_ns)

    def _plain(self, key: str, attempt: int, text: str, wall_ns: int | None, program: Program) -> None:
        starts, hit = _STARTS.match(text), _HIT.match(text)
        of, last = _OF.match(text), _LAST.match(text)
        if starts is not None:
            program.starts(key, _place(starts), attempt)
            if not program.trace and wall_ns is not None and not attempt:
                program.begins(key, _PHASE, wall_ns)
        elif text.startswith("run_gc_after_compile: ") and not program.trace and wall_ns is not None:
            program.ends(key, _PHASE, wall_ns)
        elif hit is not None:
            program.recompiles(key, "", wall_ns)
            program.reaches_limit(key, hit["setting"], int(hit["limit"]))
        elif of is not None:
            program.starts(key, _place(of))
        elif last is not None:
            program.recompiles(key, clean_line(last["text"], _REASON), wall_ns)


def _place(match: re.Match[str]) -> Place:
    return Place(clean_line(match["name"], 200), clean_line(match["file"], _LIMIT), int(match["line"]))
