"""What one line of a log says for how its run ended: an error that ends it, what follows such an end, progress, a wait.

They are words that any program writes, so most count only at the end of a log: the same words stand in the midst of
logs of programs that go on. livedbg.analysis.postmortem puts them together.

Sources of the forms: getopt's and argparse's `NAME: error: …`, GNU's `NAME: cannot …`, glibc's dynamic loader
(elf/dl-error-skeleton.c, rtld.c), bash's `FILE: line N: …`, git's `fatal: …`, cmake, ctest, pip, R, and the
place that checking macros of C, C++ and Rust print. Of collectors: logfmt (`ts=… level=info msg="stored" line="…"`:
Loki, Prometheus exporters; JSON comes in that form, too), Fluentd's stdout (`TIME TAG: {"…`).

Invariants:
    last_words.G1. What is tried again, ignored or only warned of is no end.
    last_words.M1. A line that only names a step (an option, a plan, an error at a step) has no number of a step.
    last_words.W1. A line that says that a wait is over, or that names one that is yet to come, is no wait.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise, takewhile
from types import MappingProxyType
from typing import Final

from ahocorasick_rs import AhoCorasick
from msgspec import Struct

from livedbg.logs.assertions import STACK, without_plea
from livedbg.logs.error_lines import EXPLICIT
from livedbg.logs.shapes import severity_of_word
from livedbg.model import LogRecord, Severity
from livedbg.text.patterns import lazy_re

_LONGEST: Final = 400


class Words(Struct, frozen=True):
    """What words of a line say.

    Attributes:
        said: they are there; capital letters don't count.
        unless: they say something else where these are there too.
    """

    said: re.Pattern[str]
    unless: re.Pattern[str] | None = None

    def __call__(self, line: str) -> bool:
        """True if the beginning of a line says it."""
        text = line[:_LONGEST]
        return self.said.search(text) is not None and (self.unless is None or self.unless.search(text) is None)


def _words(said: str, unless: str = "", flags: int = re.IGNORECASE) -> Words:
    return Words(lazy_re(said, flags), lazy_re(unless, re.IGNORECASE) if unless else None)


# errors by which programs end, and what is printed after one

_SOURCES: Final = (
    r"(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|hip|inl|ipp|mm?|rs|go|py|pyx|f90|F90|f|jl|mlir|java|scala|kt|cs|js|ts|swift)"
)
_PLACE: Final = rf"(?<![\w.])[\w./+\\-]{{1,300}}\.{_SOURCES}[:(]\d{{1,9}}\b"
_FAILED: Final = lazy_re(
    r"\b(?:fail(?:ed|ure)?(?!\.)|errors?(?!\.)|assert(?:ion)?|abort(?:ed|ing)?|panic(?:ked)?|fatal|check|invalid|unhandled|uncaught"
    r"|illegal|out of memory|exception)\b|[a-z]Error\b|[a-z]Exception\b|\w_ASSERT\b|_ERROR\b",
    re.IGNORECASE,
)
_PLACED: Final = lazy_re(_PLACE)
_BEGINS: Final = lazy_re(
    r"(?:(?:[\w.+-]{1,60}(?:/[\w.+-]{1,80}){0,12}|[\w.-]{1,40} [\w-]{1,30}): ){0,2}"
    r"(?:fatal error|fatal|panic|error|Error|ERROR|FATAL|Fatal)(?:\[\w{1,12}\])?(?: -|:) {0,4}"
    r"(?!\d|[Nn]one\b|True|False|null)\S"
    r"|[\w.-]{1,40}: [Ff]atal error (?:in|at|on|while|during) \S|Error termination\b"
    r"|flag provided but not defined: "
    r"|(?:[\w./-]{1,80}: )?(?:unknown|unrecogni[sz]ed|invalid|illegal) (?:option|flag|argument)s?\b"
    r"|[A-Za-z][\w ]{2,60} (?:[Ee]rror|ERROR|failed): {1,4}[A-Za-z]\S* (?:\S+ )\S|\*\* \([A-Z][\w.]{1,80}\) \S"
    r"|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|NotFound)\b: ?(?:\S|$)"
    r"|(?:[-=*!>#]{2,5} ?)?(?:[A-Z]\w{1,20} )?(?:FATAL|Fatal) (?:\w{1,10} )?(?:ERROR|Error)\b"
    r"|(?:[\w.-]{1,40}: )?Error (?!rate|count|code|bound|bars?\b)[a-z][\w ]{2,60}: [A-Za-z'\"]\S* \S"
    r"|Error using \S{1,200}$"
    r"|Error in (?:.{1,200} :(?: |$)|\S{1,100} \(line \d{1,6}\)$)|Execution halted$|CMake Error\b"
    r"|Errors while running CTest"
    r"|An? (?:[a-z]+ )?error (?:has )?occurred\b|E: (?=[A-Z])"
    r"|Unhandled exception\b|Uncaught exception\b|unhandled exception\b|Aborting\b"
)
"""What a line without a header begins with."""
_ANYWHERE: Final = lazy_re(
    r"error while loading shared libraries: |symbol lookup error: |: version `[^'\n]{1,80}' not found"
    r"|: line \d{1,9}: .{1,200}: "
    r"(?:command not found|Permission denied|No such file or directory|cannot execute.{0,300})$"
    r"|: (?:command not found|cannot execute binary file.{0,300}|Exec format error)$"
    r"|(?:: |\bbecause )(?i:no space left on device|disk quota exceeded|read-only file system"
    r"|stale (?:nfs )?file handle|input/output error)[\"')\]]{0,3}$"
    r"|can't open file '.{1,300}': \[Errno \d|\baborting(?:\.| now|!)?$|\bAborting\b|\bcannot continue\b"
    r"|\b(?:unrecoverable|irrecoverable)\b|\bgiving up\b"
)
_FRAME: Final = "\u2502\u2503\u2551"
"""What stands before each line of a box."""
ends_without_reason: Final = _words(
    r"\b(?:exiting(?: now)?|execution halted|bailing out|(?<!early )stopping)[.! ]{0,3}$"
)
"""It says that its program ends, and not why: what ends well says so, too. The reason stands in the same line before
it, or above, or there is none."""
aborts: Final = _words(r"^\W{0,5}abort(?:ing|ed)?[.! ]{0,3}$")
"""It says the same, and nothing more: the reason can't stand in it."""
_LEVEL: Final = lazy_re(
    r"(?<![\w=`'\"$/.-])(?<!level )(?<!level: )(?:FATAL|CRITICAL|PANIC)\b[\]:) ]"
    r"|\blevel=\"?(?:fatal|panic|crit(?:ical)?|emerg)\b"
)
_BRACKETED: Final = lazy_re(
    r"(?:[\w.-]{1,30}: )?(?:\[[\w .:/-]{1,60}\] ?){0,3}"
    r"\[(?:\w{1,20}:)?"
    r"(?P<level>trace|debug|info|notice|warn|warning|err|error|crit|critical|alert|emerg|fatal|[VDIWEF])\] "
)
"""A level in brackets, as spdlog and its kin write it."""
_ANNOUNCES: Final = lazy_re(
    r"Error using \S{1,200}$"
    r"|(?:[-=*!>#]{2,5} ?)?(?:[A-Z]\w{1,20} )?(?:FATAL|Fatal) (?:\w{1,10} )?(?:ERROR|Error):? ?(?:\([^)]{1,60}\))?$"
    r"|ERROR in \S{1,200}(?: [\d:-]{1,20})?$"
)
_REASON: Final = lazy_re(
    r"\balready in use\b|\bdenied\b|\bno such (?:file|host|device|option|table|key)\b|\bnot found\b"
    r"|\bdoes(?: not|n't) exist\b"
    r"|\binvalid \w|\bunsupported \w|\bnot supported\b|\bunknown (?:option|flag|argument|key|type)\b"
    r"|\bmissing \w|\bis required\b"
    r"|\bis not (?:a|an|in|valid)\b"
    r"|(?<![\w-])error(?! ?(?:rate|bound|bar|count|code)s?\b)(?!\W{0,3}[\d.-])(?= [a-z])",
    re.IGNORECASE,
)
"""What a program that ends says of the reason without calling it an error."""
_HEADED: Final = lazy_re(
    r"\balready in use\b|\b[Ss]hutdown\b|\b(?:[Ss]hutting|[Ss]hut) down\b|[Nn]ow exiting\b"
    r"|\bexit(?:s|ed|ing)?\b|\babort|\bterminat(?:ed|ing)\b|\bcannot continue\b|\bgiving up\b"
    r"|\bfail(?:ed|ure|s)? (?:to|in) (?:start|init|load|launch|creat|connect|open|alloc|build|run|compil|execut|bring)"
    r"|\b(?:start|load|build|execution|compilation|launch|inference|job|task|training) failed\b"
    r"|\binitiali[sz](?:ation|ing|e) (?:error|fail)|\bunrecoverable\b|\b(?:died|dead|killed|crashed)\b|\bException\b"
    r"|\bexception\b|\bFatal\b|\bfatal\b|\bpanic|\bout of memory\b|\bAssertion\b|\bhalted\b|\btimed? ?out\b"
    r"|\b(?:could not|can(?:no|')t|unable to) (?:start|init|load|open|creat|alloc|connect|launch|run|find)"
)
"""What a logger's line at the level of errors must say."""
_NO_END: Final = lazy_re(
    r"\bretr(?:y|ies|ying)\b|\bagain\b|\bignor(?:e|ed|ing)\b|\bskip(?:ped|ping)?\b|\bfall(?:ing)? ?back\b|\bwarning\b"
    r"|\bnon-?fatal\b|\bcaught\b|\bhandled\b|\bexpected\b|\bcontinu(?:e|es|ing)\b(?<!cannot continue)|\bdeprecat"
    r"|not a git repository|dependency resolver does not|\b0 (?:errors?|fail)|\bno errors?\b|\berrors?: ?0\b"
    r"|\bthread '(?!main)|(?<!not )(?<!not complete )(?<!not completed )\bsucce(?:ss|eded)"
    r"|\btelemetry\b|\bPASS(?:ED)?\b|\boptional\b|\bnote: "
    r"|^srun: error: \S+: tasks?\b|^\[?[IWD]\d{3,8} \d\d:|^\[[IWD] [\w./]{1,100}:\d|^\[ ?\d+\] |^at "
    r"|^=> (?:ERROR|CANCELED) \["
    r"|^Exception raised from |\bpanicked at\b|\bdebug(?:ging)?\b:|\bhealth ?check\b"
    r"|^FAILED: (?:\[code=\d{1,3}\] )?\S{1,200}(?: [^\s./]{0,80}[./]\S{0,200}){0,9} ?$",
    re.IGNORECASE,
)
printed_at_an_end: Final = _words(
    r"error|exit|fail|abort|kill|signal|terminat|crash|exception|warn|leak|traceback|core|dump|cancel|interrupt|stop"
    r"|shut|clean|destroy|clos|finish|done|elapsed|total\b|summar|history|sync|upload|saved|saving|report|see |wandb"
    r"|srun|slurm|make"
    r"|root cause|host|rank|worker|process|pid|returned|status|code|^(?:real|user|sys|at|in|from|#\d+|0x)\b"
    r"|assert|backtrace|stack|thread|debug|skip|disabled test|environ|version|https?://|memory|alloc|import |module"
    r"|\w:\d+:\d+ \[\d+\] \w+ info\b"
    r"|^(?:usage|for|set|you|please|try|use|run|compile|consider|search|note|hint|if|to|and|frame)\b"
    r"|^[\w.]+ = |\bfd\.|^\w[\w:~<>]*\(.*\)$|[;{}]\s*$"
    r"|\[<[0-9a-f]{8,16}>\]|\+0x[0-9a-f]+/0x[0-9a-f]+|(?:^|\] )\s{0,4}(?:[0-9a-f]{8,16} ){2,8}[0-9a-f]{8,16}$"
    r"|\bcall trace:|hung_task_timeout"
    r"|attempted to trace the following|compilation metrics"
    r"|\] (?:\]|  \* .+:\d+|Function, Runtimes .+|[\w.]+, \d+\.\d{4})$"
    r"|^[^\w\[(<]|^\d{1,6} +\||^\s*$"
)
"""It may be printed after an end, and is no sign that a program goes on: words of programs, launchers, runtimes and
shells; tables, advice, source text and the call traces of kernels."""

_DETAIL: Final = lazy_re(
    r" ?[A-Z][A-Za-z]{1,30}(?: [A-Za-z]{1,30}){0,3}(?: \([^()\n]{1,60}\))?"
    r"(?: ?:(?: {1,20}(?![-+.\d]+%?\s*$|ok\b|OK\b)\S|$)|(?P<table> {2,20}: )\S)"
)
"""What programs print below an error of what they did then: a label, and what is no mere number."""

_TESTS: Final = lazy_re(
    r"^=* ?(?:\d+ [a-z]+, )*\d+ (?:passed|failed|skipped|errors?|warnings?) in \d+\.\d+ ?s\b"
    r"|^\[={10}\] \d+ tests? from \d+ test (?:suites?|cases?) ran\."
    r"|^\[  FAILED  \] \d+ tests?, listed below:"
    r"|^Ran \d+ tests? in \d+\.\d+s|^\d{1,3}% tests passed, \d+ tests? failed out of \d+"
    r"|(?:^|[ :=])\d+ passed,? (?:and )?\d+ failed\b"
    r"|^Test Suites: {1,4}\d[^\n]{0,100} total$|^ {1,4}Test Files {1,4}\d[^\n]{0,100}$|^ {1,8}\d+ passing \("
    r"|^Tests: \d+, Assertions: \d|^OK \(\d+ tests?, "
    r"|^\d+ (?:examples?|tests?|runs), (?:\d+ assertions, )?\d+ failures?\b|\bTests run: \d+, Failures: \d+, Errors: \d"
    r"|^\d+ tests? completed, \d+ failed|^(?:Failed|Passed)! +- Failed: |^(?:\[doctest\] )?test cases: +\d+ \|"
    r"|^All tests passed \(|^Failed Tests \(\d+\):$|^Fail: {15}\d+ *$|^# fail +\d+$|^ℹ fail \d+$"
    r"|^\*\*\* (?:No errors|\d+ failures?)\b|\bExecuted \d+ (?:tests?, with|out of)\b|^Result: (?:FAIL|PASS)$"
    r"|^(?:ok|FAILED) \| \d+ passed|^# FAIL: +\d+$|^\d+ passed; \d+ skipped; \d+ failed",
    re.MULTILINE,
)
"""The lines with which the summary of a run of tests begins."""
_IN_EACH: Final = (
    *(" in ", " ran.", " passed", "Test Suites", "Test Files", "Tests (", "ests: ", "passing (", "OK (", "fail"),
    *("listed below:", "Failed: ", "est cases: ", "Fail: ", "Executed ", "Result: ", "FAIL: ", "*** No errors"),
)


def ends_a_program(line: str, severity: Severity, headed: bool, proven: bool = False) -> bool:
    """Whether a line, at the end of a log, is an error by which a program ends.

    Args:
        line: without its header, where it has one.
        severity: of its record.
        headed: a logger wrote it: then the words alone don't say that it is the end.
        proven: a launcher says below it that something failed: then what calls itself an error is one, and so is what
            speaks of a failure.
    """
    text = unframed(line[:_LONGEST]).strip()
    if not text or (not headed and (line[:1] == "\t" or line[:2].isspace())):
        return False  # a part of something; Fortran begins each line with one space
    level = None if headed else _BRACKETED.match(text)
    if level is not None:
        severity, headed = severity_of_word(level["level"]), True
    if severity is Severity.WARNING or severity is Severity.DEBUG or _NO_END.search(text) is not None:
        return False
    explicit = severity.rank >= Severity.ERROR.rank or EXPLICIT.search(text) is not None
    if proven and (explicit or _speaks(text) or _REASON.search(text) is not None):
        return True
    if headed:
        if severity is Severity.CRITICAL:
            return True
        return severity is Severity.ERROR and _HEADED.search(text) is not None
    if _BEGINS.match(text) is not None or _ANYWHERE.search(text) is not None:
        return True
    if ends_without_reason(text) and (_speaks(text) or _FAILED.search(text) is not None):
        return True
    return _LEVEL.search(text) is not None or (_PLACED.search(text) is not None and _FAILED.search(text) is not None)


_STATUS: Final = lazy_re(
    r"\b(?:exit(?:ed)?[ _]?(?:with )?(?:exit )?(?:code|status)|code|Error)[ :=(]{1,3}'?(?P<code>-?\d{1,3})\b"
    r"|\bsignal(?: number)?[ :=(]{1,3}(?P<signal>\d{1,2})\b"
    r"|\b(?P<name>SIG[A-Z]{2,5}|Segmentation fault|Bus error|Killed|Illegal instruction|Floating point exception)\b",
    re.IGNORECASE,
)
_FROM_OUTSIDE: Final = frozenset((signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV))
"""No program ends itself by one of these for an error that it has printed."""
_EXIT_SAID: Final = lazy_re(
    r"\b[Ee]xit(?:ed|s)?\b(?: abnormally| unexpectedly)?(?: with)?(?: an?)?(?: non-?zero)?(?: exit| return| error)?"
    r"(?: code| status| value)(?: of| was| is)?[ :=(]{1,3}['\"]?-?[1-9]\d{0,9}\b(?![.%]\d)"
    r"|\bExit [Cc]ode ?[:=] ?[1-9]|\bexited with (?:errors?\b|non-?zero|[1-9]\d{0,2}$)|^ ?Error termination\b"
    r"|\b(?:[Cc]ompil|[Cc]omplet|[Ff]inish|[Ee]nd|[Ff]ail)ed with "
    r"(?:errors?\b|[1-9]\d{0,5} (?:error|failure|problem)s?\b)"
    r"|\([1-9]\d{0,5} errors?, \d{1,6} warnings?\)|\breturned (?:a )?non-?zero (?:exit )?(?:code|status|value)\b"
)
"""Who says that something ended with a status that is not 0, or with errors."""
_ASKED: Final = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
_WORDS_OF: Final[Mapping[str, int]] = MappingProxyType(
    {
        "SEGMENTATION FAULT": signal.SIGSEGV,
        "BUS ERROR": signal.SIGBUS,
        "KILLED": signal.SIGKILL,
        "ILLEGAL INSTRUCTION": signal.SIGILL,
        "FLOATING POINT EXCEPTION": signal.SIGFPE,
    }
)
may_end_by_signal: Final = _words(r"memory|oom|kill|signal|fault|corrupt|stack|abort|evict|preempt")
"""It speaks of what a signal comes from."""


def ended_by_signal(text: str) -> bool | None:
    """Whether an account says that a signal ended something which no program sends itself.

    None for an account that says no status, or of what was asked to end.
    """
    found = _STATUS.search(text)
    if found is None:
        return None
    if found["name"]:
        name = found["name"].upper()
        number = int(getattr(signal, name)) if hasattr(signal, name) else _WORDS_OF.get(name, 0)
    elif found["signal"]:
        number = int(found["signal"])
    else:
        code = int(found["code"])
        number = -code if code < 0 else code - 128
    return None if number in _ASKED else number in _FROM_OUTSIDE


def says_exit(record: LogRecord) -> bool:
    """Whether a record says that something ended with a status that is not 0, whoever writes it."""
    if record.head and record.severity.rank <= Severity.INFO.rank:
        return False
    line = record.text[record.head : record.head + _LONGEST].partition("\n")[0]
    return _EXIT_SAID.search(line) is not None and _NO_END.search(line) is None


def unframed(line: str) -> str:
    """A line without the frame of a box before it."""
    return line.lstrip(_FRAME)


def announces(line: str) -> bool:
    """Whether what an error line says stands in the line below it."""
    return line.rstrip().endswith(":") or _ANNOUNCES.match(line) is not None


def cells_of(text: str) -> str:
    """The cells of a row of a table, of which long ones go on in the lines below; any other text as it is."""
    rows = [line.strip() for line in text.strip().split("\n")]
    if not all(len(row) > 2 and row[0] == row[-1] == "|" for row in rows):
        return text
    columns = [row[1:-1].split("|") for row in rows]
    if any(len(cells) != len(columns[0]) for cells in columns):
        return text
    joined = ("".join(cells[number][1:-1] for cells in columns) for number in range(len(columns[0])))
    return ", ".join(filter(None, (" ".join(cell.split()) for cell in joined)))


def ends_tests(text: str) -> bool:
    """Whether a run of tests ends in a text."""
    return any(word in text for word in _IN_EACH) and _TESTS.search(text) is not None


def detail(record: LogRecord) -> str:
    """`line` for one that names something of the error above it (`Last command: run 10000`), `row` for one of a table
    of such ones; "" for any other record."""
    line, more, _ = record.text.partition("\n")
    if record.head or (more and not line.endswith(":")) or step_of(line) is not None or begins(line):
        return ""
    found = _DETAIL.match(line)
    if found is None or _NO_END.search(record.text[:_LONGEST]) is not None:
        return ""
    return "row" if found["table"] else "line"


_CLOSES: Final = lazy_re(r"(?:stopp(?:ed|ing)|clos(?:ed|ing))\b", re.IGNORECASE)


def follows_an_end(record: LogRecord) -> bool:
    """Whether a record is what is printed after an end, and no sign that a program goes on."""
    if step_of(record.text) is not None or ends_tests(record.text):
        return False
    if record.head and record.severity.rank <= Severity.INFO.rank:
        said = record.text[record.head : record.head + _LONGEST]
        return _HEADED.search(said) is not None or _CLOSES.match(said) is not None
    return printed_at_an_end(record.text[:_LONGEST])


# how far a run is: steps and progress bars, workers that are started again

_BAR: Final = lazy_re(r"\b\d{1,3}%\|[^|]{0,200}\| *(\d{1,12})/\d{1,12} ?\[")
_FULL: Final = lazy_re(r"\b100%\|[^|]{0,200}\| *(\d{1,12})/\1 ?\[")
_STEP: Final = lazy_re(
    r"(?<![\w-])(?:global[_ ])?(?:step|iter|iteration|update|epoch|batch)[ _]?(?:no\.?|num(?:ber)?)?['\"]?\s{0,2}"
    r"[:=\[#]?\s{0,10}(\d{1,12}(?:\.\d{1,6})?)(?![\w.-])",
    re.IGNORECASE,
)
_NO_STEP: Final = lazy_re(
    r"error|exception|fail|abort|resum|restor|load|every|max|total|checkpoint|kill", re.IGNORECASE
)
begins: Final = _words(
    r"\b(?:start(?:ed|ing)|beginning|launching|loading(?! best)|initiali[sz]ing|building|resuming|running"
    r"|entering|processing|(?<!done )waiting for)\b"
)
"""It says that something begins or is waited for."""
shuts_down: Final = _words(
    r"\b(?:shutting down|shut down|exiting|exited|terminated|terminating|killed|giving up|gave up|cancell?ed|aborted"
    r"|stopped|received signal|received SIG[A-Z]+)\b"
)
"""It says that the program ends, or has ended."""
restarts: Final = _words(
    r"will restart worker group|\brestart_count=[1-9]\d{0,5}\b|\brestarting (?:the )?workers?(?: group)?\b"
    r"|\bscheduled restart job, restart counter is at \d"
    r"|\b(?:starting|beginning|launching|running) attempt (?:#|no\.? ?)?(?:[2-9]|[1-9]\d)\b|\bre-?submitted process\b"
)
"""It says that a launcher starts the workers again."""
gives_up: Final = _words(r"repeated too quickly|start-limit-hit|\bfailed to start\b|entered FATAL state")
"""It says that what was started again and again is started no more."""
says_caught: Final = _words(
    r"\bretr(?:y|ying)\b|\btr(?:y|ying) again\b|\b(?:ignor|skipp|continu)ing\b|\bwas never retrieved\b",
    unless=r"\bgiv(?:e|ing) up\b|\bno more\b|\bexhausted\b|\blast attempt\b",
)
"""Above an exception, it says that the program goes on with it."""


def step_of(line: str) -> float | None:
    """The number of the step, the epoch or the progress bar that a line reports."""
    line = line[:_LONGEST]
    bar = _BAR.search(line) if "%|" in line else None
    if bar is not None:
        return float(bar[1])
    if _NO_STEP.search(line) is not None:
        return None
    found = list(_STEP.finditer(line))
    return float(found[-1][1]) if found else None


serves: Final = _words(
    r"\b(?:GET|POST|PUT|PATCH|DELETE) (?!\S{0,40}(?:health|metric|ready|live|ping))/\S{0,400}"
    r"(?: HTTP/[\d.]{1,3})?\"?:? (?:status=)?[23]\d\d\b"
    r"|\bmethod=\"?(?:GET|POST|PUT|PATCH|DELETE)\b(?!.{0,200}(?:health|metric|ready|live|ping))"
    r".{0,200} status=\"?[23]\d\d\b",
    flags=0,
)
"""It says that a server answered a request well, which is no probe of whether it lives."""


def is_full(line: str) -> bool:
    """Whether a line is a progress bar at its end, which is drawn once more when all is over."""
    return "100%|" in line and _FULL.search(line[:_LONGEST]) is not None


# who waits

waits: Final = _words(
    r"\b(?:still )?(?:waiting|awaiting|waits|blocked|pending|queued|polling)\b"
    r"|\bnot (?:yet )?(?:ready|available|reachable|joined|up|connected)\b"
    r"|\b(?:retrying|trying again|reconnecting|connecting to|no response|unreachable)\b"
    r"|\byet to (?:join|arrive|respond)\b",
    unless=r"\b(?:done|finished|stopped|no longer|without|after|stop) (?:waiting|being blocked|polling)"
    r"|\bif\b|\bwhen\b",
)
"""It says that somebody waits, or tries again what did not work."""
_BARRIER: Final = (
    r"(?: at| in| into| for| on| the| a| all| ranks| of){0,4}[ :'\"]{1,3}"
    r"(?P<name>(?:[\w./:-]{1,40} ){0,3}?barrier\b[^\n]{0,40})"
)
_ENTERS: Final = lazy_re(
    rf"\b(?:enter(?:s|ed|ing)?|reach(?:es|ed|ing)?|arriv(?:es|ed|ing)|wait(?:s|ing)?|before){_BARRIER}", re.IGNORECASE
)
_RANK: Final = lazy_re(r"[^A-Za-z]{0,40}\[?[Rr]ank[ =:_-]?(?P<rank>\d{1,6})\b")
_NUMBER: Final = lazy_re(r"\d+")


def enters(line: str) -> str:
    """The barrier that a line says to be entered or waited in; "" for none."""
    match = _ENTERS.search(line[:_LONGEST])
    return match["name"].strip(" .") if match is not None else ""


def rank_in(line: str) -> int | None:
    """The rank that a line begins with, behind a time; None for none."""
    match = _RANK.match(line[:_LONGEST])
    return int(match["rank"]) if match is not None else None


def without_numbers(line: str) -> str:
    """What is equal of lines that differ by times and counts."""
    return _NUMBER.sub("0", line[:_LONGEST].strip())


# failures that don't call themselves errors

_MI: Final = r'(?:\d*(?:\^(?:done|error|running|connected|exit)\b|[*=+][a-z-]{1,40},|[~@&]"))'
"""Records of gdb/MI: what a debugger read in a program that may go on."""
is_of_a_debugger: Final = _words(rf"^{_MI}", flags=0)
_speaks: Final = _words(
    r"(?<![\w-])(?:fail(?:ed|ure|s)?|severe|fatal|abort(?:ed|ing)|unable to|could not|can(?:no|')t|refused|timed out"
    r"|killed|lost|crash(?:ed)?|panic(?:ked)?|terminated|unreachable|corrupted|evicted)(?![\w=-])(?! ?[:=] ?0\b)"
    r"|\bexit(?:ed)?(?: with)? (?:code|status) [1-9-]|\b(?:result|rc|ret|retcode|errno|status)[ =:]{1,3}-\d"
    r"|\b(?:[Ee]xit [Cc]ode|Reason): +(?!0\b|Completed)\w|\b(?:CrashLoopBackOff|NodeLost)\b"
    r"|\b(?:no|lack of|missed|lost) (?:\w+ )?heart-?beats?\b",
    unless=r"\b0 (?:(?!has |was )\w{1,40}s )?(?:fail|crash|abort|lost)"
    r"|\b(?:fail\w{0,5}|crash\w{0,3}|abort\w{0,3}|lost) ?[:=]? ?0\b(?![.,]?\d)"
    r"|\b(?:no|none|not|never|without|if|skip\w*|retry\w*|n't) (?:\w+ )?(?:fail|crash|abort|lost)"
    rf"|\bcaught\b(?! signal)|\bhandled\b|^{_MI}",
)
_CODES: Final = tuple(f"{name}{sign}" for name in ("result", "rc", "ret", "code", "errno", "status") for sign in " =:")
_WORDS: Final = AhoCorasick(
    (
        *("fail", "severe", "fatal", "abort", "unable to", "could not", "cannot", "can't", "refused", "timed out"),
        *("killed", "lost", "crash", "panic", "terminated", "unreachable", "corrupted", "evicted", "exit", "reason:"),
        *("heartbeat", "heart-beat", *_CODES),
    )
)
"""One of these, in small letters, is in whatever `_speaks` finds; most lines have none."""


def speaks_of_failure(text: str) -> int | None:
    """Number of the first line that speaks of a failure; None for a text without one."""
    if not _WORDS.find_matches_as_indexes(text.lower()):
        return None
    for number, line in enumerate(text.split("\n")):
        if _speaks(line):
            return number
    return None


# messages of several lines, and processes that lines name

_SAYS_WHAT: Final = lazy_re(r"\berror\b|\w(?:Error|Exception)\b|\bfailed\b", re.IGNORECASE)
_QUOTED: Final = lazy_re(r"\b(?:error|fatal) {0,4}: |\w(?:Error|Exception): |^Mismatched elements: ", re.IGNORECASE)
_ANNOUNCED: Final = lazy_re(r"[\w ]{0,40}\berror:$", re.IGNORECASE)  # the line below it is the error
_KIND: Final = lazy_re(r"[\w.]{1,100}(?:Error|Exception): ")
_SHOWN: Final = 300


_GRAPH_STACK: Final = lazy_re(
    r"^Detected at node [^\n]{0,400}\n"
    r"(?:(?![ \t]{0,8}\(\d)(?:[ \t][^\n]{0,1000}|Node: [^\n]{0,400}|\d{1,4} root error[^\n]{0,40}|)\n){0,400}",
    re.MULTILINE,
)
"""Where a node of a graph was made, which TensorFlow quotes above the reason."""


def telling_line(message: str) -> str:
    """What says most of a message of several lines, without what an assertion says of every failure."""
    if "Detected at node" in message:
        message = _GRAPH_STACK.sub("", message) or message
    told = takewhile(lambda line: STACK.match(line) is None, without_plea(message).split("\n"))
    lines = [line.strip() for line in told if line.strip()]
    if len(lines) < 2:
        return "".join(lines)
    first, rest = lines[0], lines[1:]
    announced = next((below for line, below in pairwise(rest) if _ANNOUNCED.match(line)), "")
    if announced:
        kind = _KIND.match(first)
        return f"{kind[0] if kind is not None else ''}{announced}"[:_SHOWN]
    quoted = next((line for line in rest if _QUOTED.search(line)), "")
    more = next((line for line in rest if _SAYS_WHAT.search(line)), rest[0] if first.endswith(":") else "")
    if not quoted and (not more or (_SAYS_WHAT.search(first) and not first.endswith(":"))):
        return first
    more = quoted or more
    return f"{first.rstrip('.')}{'' if first.endswith(':') else ';'} {more}"[:_SHOWN]


_REFERS: Final = lazy_re(
    r"[.;, ]{0,3}\b(?:[Rr]efer to|[Ss]ee)(?: the)? (['\"`])(?P<title>[^'\"`\n]{4,80})\1[^\n]{0,80}$"
)


def referred_to(message: str) -> tuple[str, str]:
    """What a message says before it refers to a section of the log, and the title of that; the title is "" for none."""
    refers = _REFERS.search(message)
    return (message[: refers.start()], refers["title"]) if refers is not None else (message, "")


@lru_cache(maxsize=64)
def _naming(pid: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:pid|process|worker)\W{{0,3}}{pid}\b|[\[(]{pid}[\])]", re.IGNORECASE)


def names_process(text: str, pid: str) -> bool:
    """Whether a text names a process by its pid."""
    return _naming(pid).search(text) is not None


_LOGFMT: Final = lazy_re(
    r"(?:[\w.]{1,30}=(?:\"(?:[^\"\\]|\\.){0,500}\"|[^\s\"]{0,200}) ){0,12}?"
    r"level=\"?(?:trace|debug|info|notice)\b",
    re.IGNORECASE,
)
_KEY: Final = 30
_PAIR: Final = lazy_re(rf"[\w.]{{1,{_KEY}}}=\S")
_FLUENTD: Final = lazy_re(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [+-]\d{4} [\w.*-]{1,200}: \{\"")


def may_store_others(text: str) -> bool:
    """Whether one of many lines can be a collector's: a quick look at all of them."""
    return "=" in text or "{" in text


def stores_others(line: str) -> bool:
    """Whether a line is a collector's, which says that nothing is wrong with it."""
    if line.find("=", 1, _KEY + 1) > 0 and _PAIR.match(line) is not None:
        return _LOGFMT.match(line) is not None
    return line[:2] == "20" and ': {"' in line and _FLUENTD.match(line) is not None
