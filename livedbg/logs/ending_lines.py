"""Lines with which programs of any kind end by an error, and what is printed after such a line.

They count only at the end of a log: the same words stand in the midst of logs of programs that go on.

Sources of the forms: getopt's and argparse's `NAME: error: …`, GNU's `NAME: cannot …`, glibc's dynamic loader
(elf/dl-error-skeleton.c, rtld.c), bash's `FILE: line N: …`, git's `fatal: …`, cmake, ctest, pip, R, test programs
(`&&&& FAILED`), and the place that checking macros of C, C++ and Rust print.

Invariants:
    ending_lines.G1. What is tried again, ignored or only warned of is no end.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.error_lines import EXPLICIT
from livedbg.logs.milestones import step_of
from livedbg.logs.testruns import ends_tests
from livedbg.model import LogRecord, Severity

__all__ = ["ends_a_program", "follows_an_end", "printed_at_an_end"]

_LONGEST: Final = 400
_SOURCES: Final = (
    r"(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|hip|inl|ipp|mm?|rs|go|py|pyx|f90|F90|f|jl|mlir|java|scala|kt|cs|js|ts|swift)"
)
_PLACE: Final = rf"(?<![\w.])[\w./+\\-]{{1,300}}\.{_SOURCES}[:(]\d{{1,9}}\b"
_FAILED: Final = re.compile(
    r"\b(?:fail(?:ed|ure)?(?!\.)|errors?(?!\.)|assert(?:ion)?|abort(?:ed|ing)?|panic(?:ked)?|fatal|check|invalid|unhandled|uncaught"
    r"|illegal|out of memory|exception)\b|[a-z]Error\b|[a-z]Exception\b|\w_ASSERT\b|_ERROR\b",
    re.IGNORECASE,
)
_PLACED: Final = re.compile(_PLACE)
_BEGINS: Final = re.compile(
    r"(?:(?:[\w.+-]{1,60}(?:/[\w.+-]{1,80}){0,12}|[\w.-]{1,40} [\w-]{1,30}): ){0,2}"
    r"(?:fatal error|fatal|panic|error|Error|ERROR|FATAL|Fatal)(?: -|:) ?(?!\d|[Nn]one\b|True|False|null)\S"
    r"|[A-Za-z][\w ]{2,60} (?:error|failed): [A-Za-z]\S* (?:\S+ )\S"
    r"|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|NotFound)\b: ?\S"
    r"|Error in .{1,200} : |Execution halted$|CMake Error\b|Errors while running CTest|&&&& FAILED\b"
    r"|Unhandled exception\b|Uncaught exception\b|unhandled exception\b|Aborting\b"
)
"""What a line without a header begins with."""
_ANYWHERE: Final = re.compile(
    r"error while loading shared libraries: |symbol lookup error: |: version `[^'\n]{1,80}' not found"
    r"|: line \d{1,9}: .{1,200}: "
    r"(?:command not found|Permission denied|No such file or directory|cannot execute.{0,300})$"
    r"|: (?:command not found|cannot execute binary file.{0,300}|Exec format error|No space left on device)$"
    r"|can't open file '.{1,300}': \[Errno \d|\baborting(?:\.| now|!)?$|\bAborting\b|\bcannot continue\b"
    r"|\b(?:unrecoverable|irrecoverable)\b|\bexiting\.{0,3}$|\bgiving up\b"
)
_LEVEL: Final = re.compile(r"(?<![\w=`'\"$/.-])(?<!level )(?<!level: )(?:FATAL|CRITICAL|PANIC)\b[\]:) ]")
_HEADED: Final = re.compile(
    r"\balready in use\b|\bshutdown\b"
    r"|\bexit(?:s|ed|ing)?\b|\babort|\bterminat(?:ed|ing)\b|\bcannot continue\b|\bshutting down\b|\bgiving up\b"
    r"|\bfail(?:ed|ure|s)? (?:to|in) (?:start|init|load|launch|creat|connect|open|alloc|build|run|compil|execut|bring)"
    r"|\b(?:start|load|build|execution|compilation|launch|inference|job|task|training) failed\b"
    r"|\binitiali[sz](?:ation|ing|e) (?:error|fail)|\bunrecoverable\b|\b(?:died|dead|killed|crashed)\b|\bException\b"
    r"|\bexception\b|\bFatal\b|\bfatal\b|\bpanic|\bout of memory\b|\bAssertion\b|\bhalted\b|\btimed? ?out\b"
    r"|\b(?:could not|can(?:no|')t|unable to) (?:start|init|load|open|creat|alloc|connect|launch|run|find)"
)
"""What a logger's line at the level of errors must say."""
_NO_END: Final = re.compile(
    r"\bretr(?:y|ies|ying)\b|\bagain\b|\bignor(?:e|ed|ing)\b|\bskip(?:ped|ping)?\b|\bfall(?:ing)? ?back\b|\bwarning\b"
    r"|\bnon-?fatal\b|\bcaught\b|\bhandled\b|\bexpected\b|\bcontinu(?:e|es|ing)\b(?<!cannot continue)|\bdeprecat"
    r"|not a git repository|dependency resolver does not|\b0 (?:errors?|fail)|\bno errors?\b|\berrors?: ?0\b"
    r"|\bthread '(?!main)|\bsucce(?:ss|eded)|\btelemetry\b|\bPASS(?:ED)?\b|\boptional\b|\bnote: "
    r"|^srun: error: \S+: tasks?\b|^\[?[IWD]\d{3,8} \d\d:|^\[[IWD] [\w./]{1,100}:\d|^\[ ?\d+\] |^at "
    r"|^Exception raised from |\bpanicked at\b|\bdebug(?:ging)?\b:|\bhealth ?check\b",
    re.IGNORECASE,
)
_POST_MORTEM: Final = re.compile(
    r"error|exit|fail|abort|kill|signal|terminat|crash|exception|warn|leak|traceback|core|dump|cancel|interrupt|stop"
    r"|shut|clean|destroy|clos|finish|done|elapsed|total\b|summar|history|sync|upload|saved|report|see |wandb|srun"
    r"|slurm|make|root cause|host|rank|worker|process|pid|returned|status|code|^(?:real|user|sys|at|in|from|#\d+|0x)\b"
    r"|assert|backtrace|stack|thread|debug|environ|version|https?://|memory|alloc|import |module"
    r"|\w:\d+:\d+ \[\d+\] \w+ info\b"
    r"|^(?:for|set|you|please|try|use|run|compile|consider|search|note|hint|if|to|and|frame)\b"
    r"|^[\w.]+ = |\bfd\.|^\w[\w:~<>]*\(.*\)$|[;{}]\s*$"
    r"|attempted to trace the following|compilation metrics"
    r"|\] (?:\]|  \* .+:\d+|Function, Runtimes .+|[\w.]+, \d+\.\d{4})$"
    r"|^[^\w\[(<]|^\s*$",
    re.IGNORECASE,
)
"""Words of lines that programs, launchers, runtimes and shells print after a crash; tables, advice and source text."""


def ends_a_program(line: str, severity: Severity, headed: bool, proven: bool = False) -> bool:
    """Whether a line, at the end of a log, is an error by which a program ends.

    Args:
        line: without its header, where it has one.
        severity: of its record.
        headed: a logger wrote it: then the words alone don't say that it is the end.
        proven: a launcher says below it that something failed: then what calls itself an error is one.
    """
    text = line[:_LONGEST].strip()
    if not text or (line[:1].isspace() and not headed):
        return False  # a part of something
    if severity is Severity.WARNING or severity is Severity.DEBUG or _NO_END.search(text) is not None:
        return False
    if proven and (severity.rank >= Severity.ERROR.rank or EXPLICIT.search(text) is not None):
        return True
    if headed:
        if severity is Severity.CRITICAL:
            return True
        return severity is Severity.ERROR and _HEADED.search(text) is not None
    if _BEGINS.match(text) is not None or _ANYWHERE.search(text) is not None:
        return True
    return _LEVEL.search(text) is not None or (_PLACED.search(text) is not None and _FAILED.search(text) is not None)


def printed_at_an_end(line: str) -> bool:
    """Whether a line may be printed after an end: it is no sign that a program goes on."""
    return _POST_MORTEM.search(line) is not None


def follows_an_end(record: LogRecord) -> bool:
    """Whether a record is what is printed after an end, and no sign that a program goes on."""
    if step_of(record.text) is not None or ends_tests(record.text):
        return False
    if record.head and record.severity.rank <= Severity.INFO.rank:
        return _HEADED.search(record.text, record.head, record.head + _LONGEST) is not None
    return printed_at_an_end(record.text[:_LONGEST])
