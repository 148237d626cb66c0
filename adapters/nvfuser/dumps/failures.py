"""Parse nvFuser's error texts: failure, group, place and C++ stack.

The form: NVIDIA/Fuser csrc/exceptions.cpp (`nvfError`, whose `what()` ends with its backtrace) and
csrc/runtime/fusion_kernel_runtime.cpp: when groups are compiled in parallel, one error has the messages of all threads,
each after `Error from segmentation group N:`; at run time the failed one is rethrown with the same words.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct, field

from livedbg.logs.assertions import MARK, asserted_in, reason_of
from livedbg.model import Frame
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_GROUP: Final = lazy_re(r"Error from segmentation group (\d{1,18}):\s?(.{0,4000})$")
_ASSERT: Final = lazy_re(r"INTERNAL ASSERT FAILED at \"{0,2}([^\s\",]+?)\"{0,2}:(\d{1,18})")  # doubled in CSV
_OTHERS: Final = ("```", "[ RUN      ]", "[  FAILED  ]", "[       OK ]", "[----------]")
_WHAT: Final = lazy_re(r"^(?:\s{1,8}what\(\): {1,4}|C\+\+ exception with description \")")  # of C++'s runtime; gtest's
_PROMPT: Final = lazy_re(r"^E {2,10}")  # pytest's
_TEST: Final = lazy_re(r"^FAILED [^\s:]{1,300}\.py::\S.{0,300}? - ")  # in its short summary
_RAISED: Final = lazy_re(
    r"Exception raised from (\S.{0,4000}?) at ([^\s:]{1,2000}):(\d{1,18}) \(most recent call first\):"
)
_FRAME: Final = lazy_re(
    r"frame #\d{1,18}: (.{1,4000}?)(?: \+ 0x[0-9a-f]{1,16})? \((0x[0-9a-f]{1,16}) in ([^()]{1,1000})\)"
)
_OUTER: Final = lazy_re(r"Use NVFUSER_DISABLE=parallel_compile")
_TYPE: Final = lazy_re(r"^(?:E\s+)?((?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)): ?")
_NOTE: Final = lazy_re(
    r"(?:: (?:fatal )?error[: ]|; error {1,6}: |\berrors? detected in|CUDA error|CUDA_ERROR_|ptxas (?:error|fatal))"
)
_OURS: Final = lazy_re(
    r"Fuser/|nvfuser|/csrc/jit/codegen/cuda/|(?<!torch)/csrc/(?:device_lower|host_ir|id_model|ir|multidevice|preseg_passes"
    r"|runtime|scheduler|serde|python_frontend|val_graph\w{0,40}|(?:fusion|transform|tensor|iter|logical|kernel|index|expr"
    r"|contiguity|compute|predicate|dynamic|non_divisible|alias|swizzle|vectorization|parallel|executor)\w{0,40})[/.]"
)
"""Its sources. Others have a csrc, too: PyTorch, in a folder of which nvFuser was until 2022, and extensions."""
_REPORT: Final = "repro script to NVFuser"  # in each of its checks (csrc/exceptions.h); PyTorch's are alike up to here
_QUOTED: Final = lazy_re(r"\d*[\^*+=][a-z-]+(?:,|$)|[~@&]\"|.{0,60}\b(?:Input|Actual message): '")
"""A record of GDB/MI (GDB manual, "GDB/MI Output Syntax"): a text in it was read from memory, not printed. What
`pytest.raises` compared with its pattern (_pytest/raises.py): it was caught.
"""
_CHECKS: Final = lazy_re(
    r"\bnvf\w{0,20}Fail \(func=(?:0x[0-9a-f]{1,16} )?\"(?P<function>[^\"\n]{1,400})\",\s{1,20}"
    r"file=(?:0x[0-9a-f]{1,16} )?\"(?P<file>[^\"\n]{1,1000})\", line=(?P<line>\d{1,9}),"
)
"""A frame of its functions that throw, with their arguments, as gdb prints it in a stack."""
_ARGUMENT: Final = lazy_re(
    r"\b(?P<name>userMsg|condMsg|msg)=(?:0x[0-9a-f]{1,16} )?\"(?P<text>(?:[^\"\\\n]|\\.){0,4000})\"(?P<cut>\.{3})?"
)
"""`msg` is the whole message, which gdb cuts; `userMsg` is the reason in words."""
_ESCAPE: Final = lazy_re(r"\\([nt\"\\])")
_SHORT_ESCAPES: Final = {"n": "\n", "t": "\t"}
_KERNEL: Final = lazy_re(r"(?:\b|__tmp_)nvfuser_\w{1,1000}?_f\d{1,18}_c\d{1,18}_r\d{1,18}_g(\d{1,18})\b")
_EXTENT: Final = lazy_re(r"\{\( [^{}]{1,300} \)\}")
"""`{( ceilDiv(128, 4) )}` (csrc/ir/internal_nodes.cpp, IterDomain::toString)."""
_DOMAINS: Final = lazy_re(r"(?<=\w)\[ [^\[\]]{60,2000} \]")
_ANNOTATION: Final = lazy_re(r" (?:ca|produce|compute_at)_pos\( ?\d{1,9} ?\)")
"""How deep a tensor is inlined, or is produced (csrc/ir/nodes.cpp, TensorView::toString)."""
_OPERATION: Final = lazy_re(r"\] = (?:\w{1,60}\(|-?T\d)")
_TENSOR: Final = lazy_re(r"\b(T\d{1,9})_\w{1,60}\[[^\[\]]{0,4000}\]")
_LIST: Final = lazy_re(r", \{[^{}]{0,1000}\}")
_ROOM: Final = lazy_re(r"(?<=\() | (?=\))")
_SUM: Final = lazy_re(r"thread_pool_error_message\.empty\(\)")
_LINES: Final = 60  # of one message that are kept
_NOTES: Final = 12
_FRAMES: Final = 100
_LONG: Final = 2_000  # characters of a line
_GAP: Final = 3  # empty lines that may come inside an error text
_FOREIGN: Final = 200  # lines of others that may come in the middle of an error that gathers several
_FRAME_LINES: Final = 6  # over which gdb prints a frame
_LONGEST: Final = 50_000  # lines after which an error text without an end is over


class Failure(Struct):
    """One error.

    Attributes:
        group: its segmentation group, if given.
        lines: its message, cut at some length.
        notes: later lines that name the cause (a compiler's errors).
        function, file, line: where it was thrown.
        exception: type of the Python exception.
        at_line: number of its first line in its log.
        parts: the messages of the single groups, if it collects them.
        ours: nvFuser threw it, not a library below.
        complete: its text was complete.
    """

    group: int | None = None
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    function: str = ""
    file: str = ""
    line: int = 0
    frames: list[Frame] = field(default_factory=list)
    exception: str = ""
    at_line: int | None = None
    parts: list[Failure] = field(default_factory=list)
    ours: bool = False
    complete: bool = False

    @property
    def message(self) -> str:
        """Return the message without the stack."""
        return "\n".join(self.lines).strip()

    @property
    def place(self) -> str:
        """Return `csrc/index_compute.cpp:1983`, or ""."""
        return f"{short_path(self.file)}:{self.line}" if self.file else ""

    @property
    def thrown(self) -> str:
        """Return ` (thrown in compile at csrc/runtime/executor.cpp:98)`, as far as known and not in the summary."""
        if not self.file or (not self.function and str(self.line) in self.summary):
            return ""
        return f" (thrown in {self.function} at {self.place})" if self.function else f" (at {self.place})"

    @property
    def summary(self) -> str:
        """Return the most telling line, without the extents and the domains of its tensors."""
        if self.notes and MARK not in self.notes[0]:
            return reason_of(self.notes[:1])
        found = asserted_in(self.message)
        said = found.reason if found is not None else reason_of([_PROMPT.sub("", line) for line in self.lines])
        said = _ANNOTATION.sub("", said)
        if _OPERATION.search(said) is not None:
            return _ROOM.sub("", _LIST.sub("", _TENSOR.sub(r"\1", _EXTENT.sub("", said))))
        return _DOMAINS.sub("[…]", _EXTENT.sub("", said))


def short_path(path: str) -> str:
    """Return a path of nvFuser's sources from `csrc` on."""
    cut = path.find("csrc/")
    return path[cut:] if cut >= 0 else path.rpartition("/")[2]


def begins(line: str) -> bool:
    """Return whether a line begins or contains an error text."""
    if "sg=" in line and _ARGUMENT.search(line) is not None:
        return any(one["name"] == "userMsg" and bool(one["text"].strip()) for one in _ARGUMENT.finditer(line))
    if "Error from segmentation group" in line or "INTERNAL ASSERT FAILED at" in line or _RAISED.search(line):
        return _QUOTED.match(line) is None and "\\nException raised from " not in line  # what quotes one is none
    return False


class FailureReader:
    """Reads the lines of one error text, given its first line and the lines above, which may have a check's message."""

    def __init__(self, line: str, number: int | None, before: list[str]) -> None:
        self._first = number
        self._outer: Failure | None = None
        self._parts: list[Failure] = []
        self._now: Failure | None = None
        self._in_frames = False
        self._gap = 0
        self._foreign = 0
        self._count = 0
        if "userMsg=" in line and (said := _in_debugger(line, before, number)) is not None:
            self._now, self._outer, self._count = said, said, _LONGEST  # one line
            return
        if _RAISED.search(line) and "INTERNAL ASSERT" not in line:
            message = _above(before)
            self._open(message[0] if message else "", number)
            for above in message[1:]:
                self._text(above)
        self.feed(line, number)

    def feed(self, line: str, number: int | None) -> bool:
        """Process a line; return False if it is not part of the error text."""
        self._count += 1
        if self._count > _LONGEST or line.startswith(_OTHERS):
            return False
        group = _GROUP.search(line) if "Error from segmentation group" in line else None
        if group is not None:
            self._begin_group(int(group[1]), group[2], number)
            return True
        raised = _RAISED.search(line) if "Exception raised from " in line else None
        if raised is not None:
            self._raised(raised)
            return True
        if line.startswith("Traceback (most recent call last)") and self._now is not None and not self._sums_up():
            return False  # another exception
        if self._in_frames:
            return self._below(line)
        if self._now is None:
            self._open(line, number)
        else:
            self._text(line)
        return True

    def end(self) -> Failure | None:
        """Return the error; None if it is not nvFuser's."""
        parts = self._parts
        found = self._outer or (parts[0] if len(parts) == 1 else Failure(at_line=self._first) if parts else None)
        if found is None:
            return None
        if found is self._outer or len(parts) > 1:
            found.parts = parts
        ours = bool(parts) or found.ours
        return found if ours else None

    def _sums_up(self) -> bool:
        """Return whether its end is still to come: other output in between is ignored."""
        return self._outer is not None and bool(self._parts) and not self._outer.complete

    def _begin_group(self, group: int, rest: str, number: int | None) -> None:
        if self._outer is None and self._now is not None and _SUM.search(self._now.message):
            self._outer = self._now
        elif self._outer is None and self._now is not None and self._now.group is None and not self._parts:
            self._outer = self._now if self._now.function or len(self._now.lines) > 1 else None
        exception = self._now.exception if self._now is not None and self._outer is None else ""
        self._now = Failure(group=group, at_line=number, exception=exception)
        self._parts.append(self._now)
        self._in_frames, self._gap = False, 0
        if rest.strip():
            self._text(rest)

    def _open(self, line: str, number: int | None) -> None:
        line = _TEST.sub("", line)
        kind = _TYPE.match(line)
        self._now = Failure(at_line=number, exception=kind[1] if kind is not None else "")
        self._outer = self._now
        self._text(line[kind.end() :] if kind is not None else line)

    def _text(self, line: str) -> None:
        now = self._now
        if now is None:
            return
        line = clean_line(line, _LONG)
        if len(now.lines) < _LINES or (len(now.lines) == _LINES and "__global__ void" in line):  # the kernel's name
            now.lines.append(line)
        may_note = "rror" in line or "CUDA_ERROR_" in line or "ptxas fatal" in line  # what _NOTE asks for
        if may_note and len(now.notes) < _NOTES and _NOTE.search(line) and not _SUM.search(line):
            now.notes.append(line.strip())
        place = _ASSERT.search(line) if "INTERNAL ASSERT" in line else None
        if place is not None:
            now.ours = now.ours or _REPORT in line or _OURS.search(place[1]) is not None
            if not now.file:
                now.file, now.line = place[1], int(place[2])

    def _raised(self, match: re.Match[str]) -> None:
        now = self._now
        if now is not None and now.group is not None and now.function:
            now = self._now = self._outer  # the one that gathers them ends after all of them
        if now is None:
            now = self._now = self._outer = Failure(at_line=self._first)
        now.function, now.file, now.line = clean_line(match[1]), clean_line(match[2]), int(match[3])
        now.ours = now.ours or bool(_OURS.search(match[2]))
        now.complete = True
        self._in_frames, self._gap = True, 0

    def _below(self, line: str) -> bool:
        frame = _FRAME.match(line, max(line.find("frame #"), 0))  # from one place only: a line may be all of such words
        if frame is not None and self._now is not None:
            self._gap = 0
            if len(self._now.frames) < _FRAMES:
                self._now.frames.append(_frame(frame))
            return True
        if line.lstrip().startswith(("frame #", "<omitting python frames>")):
            return True
        if not line.strip():
            self._gap += 1
            return self._gap <= _GAP
        if _OUTER.search(line) is not None and self._parts:
            return True
        self._foreign += 1  # the end is known to come: what others print meanwhile is passed over
        return self._outer is not None and not self._outer.complete and self._foreign <= _FOREIGN


def _frame(match: re.Match[str]) -> Frame:
    function = match[1].replace(
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"
    )
    return Frame(
        function=clean_line(match[2] if function == "<unknown function>" else function),
        module=clean_line(match[3].rpartition("/")[2]),
        address=int(match[2], 16),
    )


def _in_debugger(line: str, before: list[str], number: int | None) -> Failure | None:
    """Return the failure of a check whose arguments a debugger printed in a stack, or None."""
    found = [one for one in _ARGUMENT.finditer(line) if one["name"] == "userMsg"]
    frames = list(_CHECKS.finditer("\n".join((*before[-_FRAME_LINES:], line))))
    if not found or not frames:
        return None
    text = _ESCAPE.sub(lambda one: _SHORT_ESCAPES.get(one[1], one[1]), found[0]["text"])
    lines = [clean_line(one, _LONG) for one in text.split("\n") if one.strip()][:_LINES]
    if found[0]["cut"] and lines:
        lines[-1] += "…"
    failure = Failure(at_line=number, lines=lines, ours=True, complete=True)
    failure.function, failure.file, failure.line = frames[-1]["function"], frames[-1]["file"], int(frames[-1]["line"])
    return failure


def _above(before: list[str]) -> list[str]:
    """Return the message lines above `Exception raised from`."""
    found: list[str] = []
    for line in reversed(before[:-1] if before and not before[-1].strip() else before):
        if (what := _WHAT.match(line)) is not None:
            return [line[what.end() :], *found]
        if not line.strip() or line.startswith((" ", "\t", "frame #", "Traceback")):
            break
        found.insert(0, line)
        if _TYPE.match(line) or line.startswith("Expected "):
            break
    return found


def groups_in(failure: Failure) -> set[int]:
    """Return the groups whose kernels a message names (`nvfuser_reduction_f0_c1_r0_g1`)."""
    return {int(match[1][:9]) for line in (*failure.notes, *failure.lines) for match in _KERNEL.finditer(line)}


def parts_of(failure: Failure) -> list[Failure]:
    """Return the errors of single groups in an error, or the error itself."""
    return failure.parts or [failure]
