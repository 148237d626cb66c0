"""Parse the text of TORCH_LOGS and of torch.compile's default log: one line each, with the compilation in brackets.

torch/_logging/_internal.py (TorchLogsFormatter), torch/_dynamo/{convert_frame,guards,symbolic_convert}.py and
torch/_inductor/compile_worker/subproc_pool.py of 2.6 to 2.15; before 2.7 the limit was called `cache_size_limit`.

A graph break is `Graph break in user code at FILE:LINE`, a reason, and a traceback of the user's code
(torch/_dynamo/symbolic_convert.py, log_graph_break, of 2.6 to 2.15). The same text is in TORCH_TRACE's artifact
`dynamo_graph_break_reason` and in TORCH_LOGS=graph_breaks.

Where a function is left uncompiled, torch/_dynamo/convert_frame.py logs `WON'T CONVERT function file line N`, `due to:`
and a traceback, each line with a header of level I (at a limit of recompilations, or a frame that it refuses) or W
(`suppress_errors`): no crash, the program goes on.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.pytorch.facts import CompileFacts, compile_facts
from livedbg.adapters.pytorch.traces.program import Again, Compilation, Place, Program, frame_of
from livedbg.model import Diagnostic, Evidence, ExceptionHit, LogRecord, Severity
from livedbg.model.snapshot import Snapshot
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
    b"] WON'T CONVERT ", b"] Traceback (most recent call last):",
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


_FAILED_GUARD: Final = lazy_re(r"(?P<of>!?\d+(?:/\d+){1,2}): (?P<text>.*)")
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
    match = _FAILED_GUARD.match(guard)
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
