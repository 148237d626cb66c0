"""Continuation lines: which lines without a header belong to the record before them.

`Continuation` is a small state machine over the lines of one record. It knows Python tracebacks (chained ones,
exception groups, faulthandler dumps), details that libraries print below an error (`System.continuations`), C++ stack
listings (gdb, glog, glibc, absl), `terminate called` with its `what():`, messages whose quoted text continues in the
next line, reports of the compilers' sanitizers, and indentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

from livedbg.logs.assertions import awaits_reason
from livedbg.logs.shapes import IGNORED
from livedbg.logs.tracebacks import (
    BOX_BEGIN,
    BOX_END,
    BOX_LINE,
    CUT_FRAME,
    HEADLESS,
    INVERTED,
    NAMED_ALONE,
    NAMES_EXCEPTION,
    NOTEBOOK_BEGIN,
    QUOTED,
    RAY_BEGIN,
)
from livedbg.text.patterns import lazy_re

MAX_LINES = 5_000
"""A record of more lines is cut: no unterminated construct can swallow a log."""

_MAX_QUOTED: Final = 300
"""So many lines, at most, has a record with a traceback that does not say where it ends."""
_MAX_INDENTED: Final = 100
"""So many lines can hang on one by their indentation alone: what a tool runs is often printed below its heading."""

_TRACEBACK = lazy_re(
    r"\s{0,100}(?:[+|] {0,40}){0,40}(?:Exception Group )?Traceback \(most recent call (?:last|first)\):"
)
_EMBEDDED = lazy_re(  # what stands between an exception and the traceback that it quotes
    r"Original Traceback \(most recent call last\):|-- Process \d+ terminated with the following error:|\"\"\"$"
)
_FAULT = lazy_re(
    r"Timeout \(\d|(?:Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):"
    r'|\s{0,8}File "[^"\n]{1,400}", line \d{1,9} in \S'
)
"""A dump of faulthandler; its head may not have been copied."""
_FAULT_LINE = lazy_re(
    r"(?:Current thread|Thread) 0x|Python runtime state|Extension modules: |Current thread's C stack"
    r"|  |\s?File |Garbage-collecting|<|\[?(?:\.{3,6}|\u2026)\]?\s{0,9}$"
)
_LINK = lazy_re(r"During handling of the above exception, another|The above exception was the direct cause of")
_VALIDATION = lazy_re(r"\S+: \d{1,4} validation errors? for \S+$")
_FRAMES_A_HEADING = lazy_re(r"[-=*]{16,200}$")
_CARET = lazy_re(r"[ \t]{0,1000}\^[\^~]{0,200}$")
_OF_OCAML: Final = (r"Raised (?:at|by) ", r"Re-raised at ", r"Called from ")
_OF_OCTAVE: Final = "error: called from$"
_OF_RUST: Final = (r"Message: {2}\S", r"Location: \S{1,300}:\d{1,9}$")
_ERROR_DETAILS: Final = (
    *(r"OOM when allocating", r"Detected at node", r"frame #\d+", r"#\d+ ", r"Rank \d+ "),
    r"Status: [A-Z][A-Z_]{4,20}: |Native API failed\. ",
    r"SyntaxError: [^\n]{1,300}, line \d{1,9}\)$",  # of a file that could not be imported
    r"IndentationError: [^\n]{1,300}, line \d{1,9}\)$",
    *(
        r"Mismatched elements: \d",
        r"Not equal to tolerance ",
        r"Arrays are not ",
        r"Absolute difference: ",
        r"Expected \S{1,80} but got ",
        r"Greatest (?:abs|rel)",
        r"Max (?:abs|rel)",
    ),
    r"Invoked with(?: types)?: \S",  # of pybind11 and nanobind, below the signatures that a function has
    *(*_OF_OCAML, *_OF_RUST, _OF_OCTAVE),
)
_VISUAL_STUDIO: Final = r"(?:\[Inline Frame\] )?[^\s!(]{1,100}\.(?:exe|dll)!\S"
_WINDOWS = lazy_re(rf"[>\s]{{0,8}}{_VISUAL_STUDIO}")
_NATIVE_STACK = lazy_re(
    r"#\d+ +(?:0x|\S)|frame #\d+|\*\*\* (?:Check failure|Aborted|SIG|Signal|Begin|BEGIN|End|END|Process)|PC: @|@ +0x"
    r"|stack backtrace:$|\[0x[0-9a-f]+\]|/\S{1,300}\(\S{0,1000}0x[0-9a-f]{1,16}\) ?\[0x|Stack trace"
    r"|Backtrace|======= (?:Backtrace|Memory map)"
    r"|==== backtrace (?:\(tid|====)|={19,40}$"
    r"|\d{1,3} +(?:0x[0-9a-f]{8,16} \S|/\S{1,300}\(\S{0,1000}\+0x[0-9a-f]{1,16}\) \[0x)"
    rf"|{_VISUAL_STUDIO}|--Type <(?:RET|return)> "
)
_REPORT = lazy_re(r"(?:==\d+==)?(?:ERROR|WARNING): \w+Sanitizer: ")
_REPORT_LINE = lazy_re(  # compiler-rt: asan_errors.cpp, asan_descriptions.cpp, lsan_common.cpp, hwasan_report.cpp
    r"[ \t]|=>|==\d+==(?!ERROR|WARNING)|=== \S|SCARINESS: |(?:READ|WRITE) of size"
    r"|0x[0-9a-f]+ is located|\[0x|Address 0x"
    r"|(?:freed|(?:previously )?allocated) by |Thread T\d+|(?:HINT|Hint|SUMMARY|Cause): |\w+Sanitizer can not"
    r"|Shadow byte|(?:Ind|D)irect leak of|Objects leaked above|This frame has|Memory tags around|Tags for short"
)


_REPORT_FRAME = lazy_re(r" {2,8}#\d{1,4} 0x[0-9a-f]{4,16} ")
_ROW = lazy_re(r"\|[^|\n]{1,200}\|(?:[^|\n]{0,2000}\|){1,20}\s*$")
_ROW_LINE = lazy_re(r"\| {2,200}\|(?:[^|\n]{0,2000}\|){1,20}\s*$")
"""A row of a table, and a line in which a long cell of it goes on."""
_JAVA_LINE = lazy_re(r"Caused by: [\w.$]{1,200}(?:: |$)|Driver stacktrace:")
_GO_LINE = lazy_re(
    r"\[signal |goroutine \d|running tests:$|\t| {4}|created by |[\w./*()-]{1,500}\(.*\)$|\.\.\.|\[recovered\]"
)
_CAUGHT_PANIC: Final = ("Caught panic:", "Caught goroutine panic:")
_MAX_CAUGHT: Final = 8
_BY_R: Final = " *** caught "
_R_LINE = lazy_re(r"address \S|Traceback:$| {0,4}\d{1,4}: ")
_TABLE = lazy_re(r"Image {2,40}PC {2,40}Routine {2,40}Line {2,40}Source\s*$")
_TABLE_LINE = lazy_re(r"\S{1,100} {1,40}[0-9A-F]{8,16}  ")
"""Intel Fortran's table of a stack, below an error."""
_GOROUTINE = lazy_re(r"goroutine \d{1,12} [^\n]{0,40}\[[a-z][^\]\n]{0,100}\]:$")
_JULIA_SIGNAL = lazy_re(r"(?:\[\d+\] )?signal (?:\(\d+(?:\.\d+)?\)|\d+ \(\d+\)): \w")
_JULIA_LINE = lazy_re(  # Julia src/signal-handling.c, src/stackwalk.c
    r" {1,6}\[\d+\] | +@ |in expression starting at |unknown function \(ip: |Allocations: \d"
    r"|\S.{0,1000} at [^\s:]{1,1000}(?::-?\d+(?: \[inlined\])?| \(unknown line\))$"
)
_ANNOUNCES: Final = ("At line ", "Fortran runtime error: ", "ERROR STOP", "[Switching to ")
"""With these words begin lines that runtimes put before an error or a stack."""
_OF_BINDINGS: Final = "At:"
"""What pybind11 puts between Python's exception and its frames, after an empty line."""
_PLACED = lazy_re(r"(?:[\w.+-]{1,60}: )?[^\s:]{1,300}\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|inc):\d{1,9}: {0,8}$")
"""A line that ends behind the place of an assertion, which its author wrapped; its condition is in the next ones."""
_WRAPPED: Final = 6
_PARAGRAPHS: Final = ("CMake Error", "CMake Warning")
"""With these words begin messages whose indented paragraphs have empty lines between them."""
_LISTING: Final = ("Error termination. Backtrace:", "Backtrace for this error:")
"""What libgfortran puts above a stack, after an empty line."""
_NATIVE_FIRST = frozenset("#f*P@[/SsB=")  # what a line that `_NATIVE_STACK` matches, or a rule, can begin with
_STOPPED = lazy_re(
    r"(?:Program|Thread [\d.]{1,12}\b[^\n]{0,80}?) (?:received|terminated with) signal \w{1,20}, "
    r"|Thread [\d.]{1,12}\b[^\n]{0,80}? hit Catchpoint "
    r"|Catchpoint \d{1,6} \(exception (?:thrown|caught|rethrown)\)|\* thread #\d{1,6},[^\n]{0,200} stop reason = "
)
_OF_STOP = lazy_re(
    r"[ \t]|#\d{1,6} "
    r"|\((?:[a-z]{2,8}-)?(?:gdb|lldb)\) (?!(?:r|run|start|c|cont|continue|attach|file|target|q|quit|kill)\b)\w"
    r"|Download(?:ing|ed| failed)\b|warning: "
    r"|\[Switching |\[Current thread is |Missing separate debuginfo|0x[0-9a-f]{1,16} in "
    r"|\d{1,6}(?:\t| {2,8}\S)|\* thread #|-> {1,4}0x|[^\s`]{1,100}`[^\n]{1,300}:$"
    r"|\(More stack frames|[A-Za-z_][\w:~<>]{0,300} \((?:\w{1,60}=|\) (?:at|from) )"
)
_THROWN: Final = 'C++ exception with description "'
_FAILURE = lazy_re(r"(?:unknown file|[^\s:]{1,300}:\d{1,9}): Failure$")
_CAUGHT: Final = '" thrown in '
"""How GoogleTest quotes what a test threw (googletest/src/gtest.cc, FormatCxxExceptionMessage)."""
_RUNNER: Final = ("[  FAILED  ]", "[ RUN      ]", "[----------]", "[==========]", "[       OK ]", "[  PASSED  ]")
_PAUSED: Final = "Exception has occurred: "
"""With it a debugger of Python in an editor says where it paused; the message is in the next line, then the frames."""
_ANNOUNCED: Final = "terminate called after "
_WHAT = lazy_re(r"what\(\):|['\u2019]\s{0,8}$")
"""Of an uncaught exception of C++, where a page took the blanks before it."""
_PIECES = lazy_re(r"what\(\):|terminate called after |[\w:<>, ]{0,200}['\u2019]\s{0,8}$")
"""The rest of the announcements of such exceptions that several processes wrote into each other."""
_WHOLE = lazy_re(r"[^'\u2018\n]{1,80}['\u2018][^'\u2019\n]{1,4000}['\u2019]\s{0,8}$")
"""One that no other process wrote into."""
_RULE = "========="  # what some tools begin each line of a report with
_PYTHON_SHAPES = frozenset({"python", "dated", "glog", "bracketed"})


class ErrorDetails(NamedTuple):
    """Patterns of lines that continue the error above them, and their first characters. Made by `error_details`."""

    pattern: re.Pattern[str]
    firsts: frozenset[str]


def error_details(expressions: Iterable[str] = ()) -> ErrorDetails:
    """Return the core's details and some more.

    Args:
        expressions: regular expressions, each of which begins with a literal character (`System.continuations`).

    Raises:
        ValueError: a pattern does not.
        re.error: a pattern is no regular expression.
    """
    known = (*_ERROR_DETAILS, *expressions)
    pattern = re.compile("|".join(f"(?:{expression})" for expression in known))
    return ErrorDetails(pattern, frozenset(map(_first_character, known)))


def _first_character(expression: str) -> str:
    match = re.match(r"\\(\W)|([^\\.^$*+?{}\[\]|()])", expression)
    if match is None:
        raise ValueError(f"{expression!r} does not begin with a literal character")
    return match[1] or match[2]


class _State(Enum):
    SINGLE = auto()  # a record of one line so far
    FRAMES = auto()  # inside a traceback, before its exception line
    RAISED = auto()  # after the exception line of a traceback
    GAP = auto()  # an empty line after that
    LINKED = auto()  # "During handling of the above exception, …" after that
    FAULT = auto()  # a faulthandler dump
    NATIVE = auto()  # a C++ stack listing
    QUOTE = auto()  # inside a quoted message
    REPORT = auto()  # a sanitizer's report
    JULIA = auto()  # the stack of a signal of Julia
    UNQUOTED = auto()  # a header whose quoted message comes in the next line
    BOX = auto()  # inside the box of a traceback
    BOXED = auto()  # after it, before its exception line
    GO = auto()  # the stacks of a panic of Go
    PANIC = auto()  # above them, in a program that prints them itself
    OF_R = auto()  # what R says of a signal
    TABLE = auto()  # a stack as a table
    NOTEBOOK = auto()  # inside a notebook's traceback
    DEBUGGER = auto()  # where a debugger says that a program stopped
    FAILURE = auto()  # what failed in a test
    THROWN = auto()  # the exception that a test threw, in quotes
    NODES = auto()  # where the nodes of a graph were made, before the reason
    QUOTED = auto()  # inside a traceback that a message quotes, whose source may stand at the beginning of lines
    NAMED = auto()  # after the line that names an exception, and an empty one
    SECTIONS = auto()  # below a name without a message: sections with framed headings
    BANNER = auto()  # below a name without a message: a rule, and the message as the paragraph below it
    HEADLESS = auto()  # inside a traceback whose head is cut off


def _awaited_of(announcement: str) -> re.Pattern[str]:
    """Return what goes on with the announcement of an exception of C++."""
    return _PIECES if _WHOLE.match(announcement) is None else _WHAT


class Continuation:
    """The lines of one record.

    Args:
        shape: name of the shape of its header, or `plain`.
        severe: it is a warning or worse: a traceback follows the line of `logging.exception`.
        quoted: see `Header.quoted`.
    """

    __slots__ = (
        *(
            "_announced",
            "_awaits",
            "_banner",
            "_begun",
            "_cut",
            "_details",
            "_headed",
            "_indented",
            "_indents",
            "_listed",
            "_named_alone",
            "_names",
            "_open",
            "_paragraphs",
            "_placed",
            "_plain",
            "_raises",
            "_row",
        ),
        *("_ruled", "_state", "_strays", "_thrown", "_traceback_follows", "held_traceback", "lines"),
    )

    def __init__(self, message: str, shape: str, severe: bool, details: ErrorDetails, quoted: bool = False) -> None:
        self._details = details
        # what goes on with the error, or a panic of Rust, says that more comes in the next line
        self._listed = message.startswith(_ANNOUNCES) or "received signal SIG" in message
        self._announced = self._listed or (" panicked at " in message and message.endswith(":"))
        self._state = _State.SINGLE
        self._open = False  # the last line ends with a colon or an open bracket: what it announces follows
        self._indents = False  # the text that it announces is indented, and may have empty lines
        self._banner = False  # the exception's name ends with a colon: its message may stand below a frame or a rule
        self._raises = ""  # the type that a notebook's traceback ends with
        self._strays = False  # the line below the frames names no exception: another program's may stand between them
        self._traceback_follows = (severe and shape in _PYTHON_SHAPES) or message.startswith(IGNORED)
        self._ruled = message.startswith(_RULE)
        self._awaits = awaits_reason(message)
        self._thrown = _awaited_of(message) if message.startswith(_ANNOUNCED) else None
        self._begun = message if self._thrown is _WHAT else ""
        self._plain = shape == "plain"
        self._row = self._plain and message[:1] == "|" and _ROW.match(message) is not None
        self._indented = self._plain and message[:1].isspace()
        self._headed = self._plain and '", line ' in message  # its first frame may be cut in two, or lack its blanks
        self._cut = message[:1].isspace()  # it may be of a traceback whose head is cut off
        self._paragraphs = self._plain and message.startswith(_PARAGRAPHS)
        self._placed = _WRAPPED if self._plain and _PLACED.match(message) is not None else 0
        self._named_alone = self._plain and NAMES_EXCEPTION.match(message) is not None
        self._names = self._named_alone or "Error: " in message
        self._names |= self._plain and message.startswith("Assertion failed: ")
        self.lines = 1
        self.held_traceback = False
        if quoted:
            quotes = message.count('"')
            if quotes % 2:
                self._state = _State.QUOTE
            elif not quotes:
                self._state = _State.UNQUOTED
        self._enter(message)

    @property
    def in_report(self) -> bool:
        """Return whether the lines so far are of a sanitizer's report."""
        return self._state is _State.REPORT

    def lists(self, line: str) -> bool:
        """Return whether `line` is a frame of such a report."""
        return self.in_report and _REPORT_FRAME.match(line) is not None

    def takes(self, line: str) -> bool:
        """Count `line` (without header) if it belongs to this record; return whether it does."""
        placed = self._placed > 0 and line.strip() != "" and ": error: " not in line
        self._placed = self._placed - 1 if placed and not line.endswith("' failed.") else 0
        thrown = self._thrown is not None and (self._thrown.match(line) is not None or line == self._begun)
        awaited = placed or self._awaits or thrown
        if self.lines >= MAX_LINES or not (self._belongs(line) or (awaited and _TRACEBACK.match(line) is None)):
            return False
        self._awaits = awaits_reason(line)
        self.lines += 1
        return True

    def follows(self, message: str) -> bool:
        """Do the same for the text of a line that repeats the header of the record."""
        if self._state is not _State.SINGLE or self._announced or message[:1].isspace():
            return self.takes(message)
        caused = self.lines > 1 and _JAVA_LINE.match(message) is not None
        return (caused or _TRACEBACK.match(message) is not None) and self.takes(message)

    def _enter(self, line: str) -> bool:
        if line.startswith(("panic: ", "fatal error: all goroutines")):
            self._state = _State.GO
            return True
        if line in _CAUGHT_PANIC or line.startswith(_BY_R):
            self._state = _State.OF_R if line.startswith(_BY_R) else _State.PANIC
            return True
        if line.startswith(("Thread ", "Program ", "Catchpoint ", "* thread #")) and _STOPPED.match(line) is not None:
            self._state = _State.DEBUGGER
            return True
        if line.endswith(": Failure") and _FAILURE.match(line) is not None:
            self._state = _State.FAILURE
            return True
        if line.startswith(_THROWN) and _CAUGHT not in line:
            self._state = _State.THROWN
            return True
        if "Sanitizer: " in line and _REPORT.match(line) is not None:
            self._state = _State.REPORT
            return True
        if "ray::" in line and RAY_BEGIN.match(line) is not None:
            self._state = _State.FRAMES
            self.held_traceback = True
            return True
        if "signal " in line and _JULIA_SIGNAL.match(line) is not None:
            self._state = _State.JULIA
            return True
        framed = '", line ' in line and (self._cut or self._headed) and HEADLESS.match(line) is not None
        if framed or line.startswith(_PAUSED) or (self._headed and CUT_FRAME.match(line) is not None):
            self._state = _State.HEADLESS
            self._open = line.startswith(('File "', _PAUSED))  # its source, or the message, may begin the next line
            return True
        if "(most recent call" not in line and "atal " not in line and not line.startswith("Timeout ("):
            return self._enter_frames(line)
        if QUOTED.match(line) is not None:
            self._state = _State.QUOTED
            return True
        if _TRACEBACK.search(line) is not None:
            self._state = _State.FRAMES
            self.held_traceback = True
            return True
        notebook = NOTEBOOK_BEGIN.match(line)
        if notebook is not None or BOX_BEGIN.match(line) is not None:
            self._state = _State.BOX if notebook is None else _State.NOTEBOOK
            self._raises = notebook[1] if notebook is not None else ""
            self.held_traceback = True
            return True
        fatal = "Fatal Python error: " in line or line.startswith("Windows fatal exception: ")
        if fatal or _FAULT.match(line) is not None:  # also behind a progress bar
            self._state = _State.FAULT
            return True
        return False

    def _enter_frames(self, line: str) -> bool:
        """Enter a stack whose heading was not copied."""
        if "!" in line and _WINDOWS.match(line) is not None:
            self._state = _State.NATIVE
        elif '", line ' in line and _FAULT.match(line) is not None:
            self._state = _State.FAULT
        else:
            return False
        return True

    def _belongs(self, line: str) -> bool:
        state = self._state
        if state is _State.SINGLE:
            return self._first_more(line)
        if state is _State.FRAMES:
            if line.startswith('File "'):
                self._state = _State.QUOTED  # pasted without its indentation
            elif line[:1] not in " \t|+" and line:
                self._raised(line)
            return True
        if state in (_State.QUOTED, _State.HEADLESS, _State.NODES, _State.NAMED):
            return self._without_end(line, state)
        if state in (_State.BOX, _State.BOXED, _State.NOTEBOOK, _State.THROWN, _State.FAILURE, _State.DEBUGGER):
            return self._other_form(line, state)
        if state in (_State.RAISED, _State.GAP, _State.LINKED):
            return self._after_exception(line, state)
        if state is _State.FAULT:
            return not line or _FAULT_LINE.match(line) is not None
        if state in (_State.JULIA, _State.TABLE, _State.GO, _State.PANIC, _State.OF_R, _State.NATIVE):
            return self._of_stack(line, state)
        if state in (_State.SECTIONS, _State.BANNER):
            before, self._open = self._open, bool(line) is (state is _State.BANNER)
            ends = not line if state is _State.BANNER else _FRAMES_A_HEADING.match(line) is None
            return not (before and ends)
        if state is _State.REPORT:
            return not line or _REPORT_LINE.match(line) is not None
        if state is _State.UNQUOTED:
            if line[:1] != '"':
                return self._single(line)
            self._state = _State.SINGLE if line.count('"') % 2 == 0 else _State.QUOTE
            return True
        if line.rstrip().endswith('"'):
            self._state = _State.SINGLE
        return self.lines < 200

    def _of_stack(self, line: str, state: _State) -> bool:
        """Take a line of a stack, or between the announcement of one and its frames."""
        if state is _State.PANIC:
            self._state = _State.GO if line.startswith("goroutine ") else state
            return self.lines < _MAX_CAUGHT
        if state is _State.NATIVE:
            if self._listed and line[:1] != "#":  # two threads announce their stacks before either lists its own
                return not line or line.startswith(_LISTING) or "received signal SIG" in line
            self._listed = False
            return (line[:1] in " \t" and bool(line)) or _NATIVE_STACK.match(line) is not None
        if state is _State.GO:
            return not line or _GO_LINE.match(line) is not None
        if state is _State.OF_R:
            return not line or _R_LINE.match(line) is not None
        if state is _State.JULIA:
            return _JULIA_LINE.match(line) is not None
        return _TABLE_LINE.match(line) is not None

    def _raised(self, line: str) -> None:
        """Take the line that names the exception; text that it quotes may follow."""
        self._state = _State.RAISED
        self._strays = NAMES_EXCEPTION.match(line) is None
        self._banner = line.rstrip().endswith(":") and ": " not in line
        self._open = ": " in line and line.rstrip().endswith((":", "(")) and not line.rstrip().endswith("Error:")
        self._open |= "validation error" in line and _VALIDATION.match(line) is not None
        if "ray::" in line or "(most recent call" in line:
            self._enter(line)

    def _without_end(self, line: str, state: _State) -> bool:
        """Take a line of a traceback that ends only at the name of the exception, or begins with it; of nodes, at the
        reason.
        """
        if state is _State.NAMED and line == _OF_BINDINGS:
            self._state = _State.SINGLE
            return True
        if state is _State.NAMED and self._named_alone and _LINK.match(line) is not None:
            self._state = _State.LINKED
            return True
        if state is _State.NAMED and self._enter_frames(line):
            return True
        if state is _State.NAMED:
            self.held_traceback = line == INVERTED
            self._state = _State.FRAMES if self.held_traceback else _State.SINGLE
            return self.held_traceback or (bool(line) and self._continues(line))
        if state is _State.NODES:
            if line and line[:1] not in " \t" and not line.startswith(("Detected at node", "Node: ")):
                self._state = _State.RAISED
            return self.lines < _MAX_QUOTED
        if NAMES_EXCEPTION.match(line) is not None:
            self.held_traceback = self.held_traceback or state is _State.HEADLESS
            self._raised(line)
            return True
        if state is _State.HEADLESS:
            source, self._open = self._open, line.startswith('File "') and HEADLESS.match(line) is not None
            return bool(line) and (line[:1] in " \t" or source or self._open or _CARET.match(line) is not None)
        return self.lines < _MAX_QUOTED and (QUOTED.match(line) is not None or _TRACEBACK.match(line) is None)

    def _other_form(self, line: str, state: _State) -> bool:
        """Take a line of a boxed or a notebook's traceback, or of a test's exception."""
        if state is _State.DEBUGGER:
            return not line or _OF_STOP.match(line) is not None
        if state is _State.FAILURE:
            if not line or line.startswith(_RUNNER) or _FAILURE.match(line) is not None:
                return False
            self._enter(line)
            return True
        if state is _State.THROWN:
            self._state = _State.SINGLE if _CAUGHT in line else state
            return not line.startswith(_RUNNER)
        if state is _State.BOX:
            if BOX_LINE.match(line) is None:
                self._raised(line)
            elif BOX_END.match(line) is not None:
                self._state = _State.BOXED
        elif line and (state is _State.BOXED or line.partition(":")[0].rpartition(".")[2] == self._raises):
            self._raised(line)
        return True

    def _single(self, line: str) -> bool:
        self._state = _State.SINGLE
        return self._first_more(line)

    def _first_more(self, line: str) -> bool:
        if not line:
            self._announced = False
            if self._names:
                self._state = _State.NAMED
            return self._listed or self._names or self._paragraphs
        if "(most recent call" in line and QUOTED.match(line) is not None:
            return self._enter(line)
        if self._listed and line.startswith(_LISTING):
            self._state = _State.NATIVE
            return True
        if line == "Stacktrace:" or (line.startswith("Image ") and _TABLE.match(line) is not None):
            self._state = _State.JULIA if line == "Stacktrace:" else _State.TABLE
            return True
        if line == "CallStack (from HasCallStack):":
            return self._plain
        if line[:1] in " \t":
            if (
                self._indented
                or self.lines >= _MAX_INDENTED
                or "%|" in line  # a bar, padded to three columns
                or (self._plain and HEADLESS.match(line) is not None)
                or (not self._traceback_follows and line.startswith("  + Exception Group Traceback"))
            ):
                return False
            self._enter(line)
            return True
        if self._traceback_follows and _TRACEBACK.match(line) is not None:
            return self._enter(line)
        if self._row:
            return _ROW_LINE.match(line) is not None
        if line.startswith("goroutine ") and _GOROUTINE.match(line) is not None:
            self._state = _State.GO
            return True
        if line[0] in _NATIVE_FIRST:
            if _NATIVE_STACK.match(line) is not None:
                self._state = _State.NATIVE
                return True
            if self._ruled and line.startswith(_RULE):
                return True
        return self._continues(line)

    def _continues(self, line: str) -> bool:
        if self._announced:
            self._announced = line.startswith(_ANNOUNCES)
            return True
        if line[0] in "CD" and _JAVA_LINE.match(line) is not None:
            return self.lines > 1
        if line.startswith("E  "):
            line = line[1:].lstrip() or line  # pytest's margin
        continues = line[0] in self._details.firsts and self._details.pattern.match(line) is not None
        self._announced = continues and line.rstrip().endswith(":")
        return continues

    def _after_exception(self, line: str, state: _State) -> bool:
        announced, self._open = self._open, False
        if self._strays and state is _State.RAISED and line[:1] == " " and HEADLESS.match(line) is not None:
            self._state = _State.FRAMES
            return True
        if not line:
            self._open = announced
            if state is _State.RAISED:
                self._state = _State.GAP
            return state is not _State.GAP
        if "(most recent call" in line and QUOTED.match(line) is not None:
            return self._enter(line)
        if _EMBEDDED.match(line) is not None:
            self._state = _State.FRAMES if line.startswith("Original") else _State.LINKED
            self._state = _State.RAISED if line == '"""' else self._state
            return True
        if _LINK.match(line) is not None:
            self._state = _State.LINKED
            return True
        if self._banner and state is _State.RAISED and _FRAMES_A_HEADING.match(line) is not None:
            self._state = _State.BANNER
            return True
        if state is _State.LINKED and NAMED_ALONE.match(line) is not None:  # its traceback was left out
            self._raised(line)
            return True
        linked = announced or state is _State.LINKED
        if linked and any(begin.match(line) is not None for begin in (_TRACEBACK, BOX_BEGIN, NOTEBOOK_BEGIN)):
            return self._enter(line)
        if line.startswith("Detected at node"):
            self._state = _State.NODES
            return True
        self._open = _CARET.match(line) is not None  # the reason stands below what a message quotes of a source
        if announced:
            self._open |= line.rstrip().endswith(":")
            self._indents = line.startswith("    ")
            self._state = _State.SECTIONS if _FRAMES_A_HEADING.match(line) is not None else _State.RAISED
            return True
        if (self._indents and line.startswith("    ")) or self._continues(line):
            self._state = _State.RAISED
            return True
        return (line[:1] in " \t" or self._open) and state is _State.RAISED and "%|" not in line
