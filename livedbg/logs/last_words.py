"""The meaning of a log line for how its run ended: a fatal error, output after an end, progress, a wait.

Any program writes such words, so most count only at the end of a log: logs of programs that go on have them too.
`last_words.toml` has them as data, by meaning; here is what takes more than words. livedbg.analysis.postmortem combines
them.

Invariants:
    last_words.G1. An error that is retried, ignored or only warned of is no end.
    last_words.M1. A line that only mentions a step (an option, a plan, an error at a step) has no number of a step.
    last_words.M2. What stands below another error, or below a failed assertion, is of that one: its place too.
    last_words.W1. A line about a wait that is over, or yet to come, is no wait.
"""

from __future__ import annotations

import re
import signal
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import pairwise, takewhile
from types import MappingProxyType
from typing import Final

from livedbg.logs.assertions import STACK, without_plea
from livedbg.logs.error_lines import EXPLICIT
from livedbg.logs.shapes import severity_of_word
from livedbg.model import LogRecord, Severity
from livedbg.text.commands import with_brief_commands
from livedbg.text.demangling import demangled_symbol, short_symbol
from livedbg.text.patterns import lazy_re
from livedbg.text.refused_calls import refused_call

_LONGEST: Final = 400


class Words:
    """A matcher for words of a line: a table of `last_words.toml`, which says what they mean."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, line: str) -> bool:
        (said, unless), hints = self._patterns, self.form.get("hints")
        text = line if "lines" in self.form else line[:_LONGEST]
        if hints is not None and not any(map((text if "case" in self.form else text.lower()).__contains__, hints)):
            return False
        return said.search(text) is not None and (unless is None or unless.search(text) is None)

    @cached_property
    def form(self) -> dict[str, list[str]]:
        return forms()[self._name]

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
        flags = (0 if "case" in self.form else re.IGNORECASE) | (re.MULTILINE if "lines" in self.form else 0)
        unless = self.form.get("unless")
        return re.compile("|".join(self.form["said"]), flags), re.compile("|".join(unless), flags) if unless else None


@cache
def forms() -> dict[str, dict[str, list[str]]]:
    """Return the tables of words, by name."""
    return tomllib.loads(files("livedbg.logs").joinpath("last_words.toml").read_text("utf-8"))


aborts: Final = Words("aborts")
announces: Final = Words("announces")
answers_requests: Final = Words("answers_requests")
asks_a_debugger: Final = Words("asks_a_debugger")
begins: Final = Words("begins")
ends_without_reason: Final = Words("ends_without_reason")
ends_tests: Final = Words("ends_tests")
explains: Final = Words("explains")
gives_up: Final = Words("gives_up")
is_asked: Final = Words("is_asked")
is_aside: Final = Words("is_aside")
goes_on: Final = Words("goes_on")
is_thrown: Final = Words("is_thrown")
has_reason: Final = Words("has_reason")
is_a_debuggers_prompt: Final = Words("is_a_debuggers_prompt")
is_of_a_debugger: Final = Words("is_of_a_debugger")
is_rule: Final = Words("is_rule")
may_end_by_signal: Final = Words("may_end_by_signal")
only_failed: Final = Words("only_failed")
points_up: Final = Words("points_up")
failed_in_another_process: Final = Words("failed_in_another_process")
printed_at_an_end: Final = Words("printed_at_an_end")
restarts: Final = Words("restarts")
says_caught: Final = Words("says_caught")
says_passed: Final = Words("says_passed")
serves: Final = Words("serves")
shuts_down: Final = Words("shuts_down")
stops_itself: Final = Words("stops_itself")
throws: Final = Words("throws")
waits: Final = Words("waits")

_chains: Final = Words("chains")
_closes: Final = Words("closes")
_ends: Final = Words("ends")
_ends_logged: Final = Words("ends_logged")
_failed: Final = Words("failed")
_is_no_end: Final = Words("is_no_end")
_names_no_step: Final = Words("names_no_step")
_placed: Final = Words("placed")
_placed_in_words: Final = Words("placed_in_words")
_raised: Final = Words("raised")
_reasons: Final = Words("reasons")
_says_exit: Final = Words("says_exit")
_speaks: Final = Words("speaks")

# errors by which programs end, and what is printed after one

_FRAME: Final = "\u2502\u2503\u2551"
"""What stands before each line of a box."""
_BRACKETED: Final = lazy_re(
    r"(?:[\w.-]{1,30}: )?(?:\[[\w .:/-]{1,60}\] ?){0,3}\[(?:\w{1,20}:)?"
    r"(?P<level>trace|debug|info|notice|warn|warning|err|error|crit|critical|alert|emerg|fatal|[VDIWEF])\] "
)
"""A level in brackets, as spdlog and its kin write it."""
_DETAIL: Final = lazy_re(
    r" ?[A-Z][A-Za-z]{1,30}(?: [A-Za-z]{1,30}){0,3}(?: \([^()\n]{1,60}\))?"
    r"(?: ?:(?: {1,20}(?![-+.\d]+%?\s*$|ok\b|OK\b)\S|$)|(?P<table> {2,20}: )\S)"
)
"""What programs print below an error of what they did then: a label, and what is no mere number."""


def ends_a_program(line: str, severity: Severity, headed: bool, proven: bool = False) -> bool:
    """Return whether a line, at the end of a log, is an error by which a program ends.

    Args:
        headed: a logger wrote it: then the words alone don't prove the end.
        proven: a launcher says below it that something failed: then any explicit error counts, and so does any line
            that mentions a failure or ends with the place that it comes from.
    """
    text = unframed(line[:_LONGEST]).strip()
    if not text or (not headed and (line[:1] == "\t" or line[:2].isspace())):
        return False  # a part of something; Fortran begins each line with one space
    level = None if headed else _BRACKETED.match(text)
    if level is not None:
        severity, headed = severity_of_word(level["level"]), True
    if severity is Severity.WARNING or severity is Severity.DEBUG or _is_no_end(text):
        return False
    explicit = severity.rank >= Severity.ERROR.rank or EXPLICIT.search(text) is not None
    if proven and (
        explicit
        or _speaks(text)
        or _reasons(text)
        or _raised(text)
        or (not headed and (_chains(text) or _fails_at(text)))
    ):
        return True
    if headed:
        if severity is Severity.CRITICAL:
            return True
        return severity is Severity.ERROR and _ends_logged(text)
    bare = ends_without_reason(text) and (_speaks(text) or _failed(text))
    return bare or _ends(text) or (_placed(text) and _failed(text))


def _fails_at(text: str) -> bool:
    """Return whether a line names a place of the source, and is none of a logger below the level of errors."""
    placed = (_placed(text) or _placed_in_words(text)) and not begins(text)
    return placed and _CALM.search(text, 0, _LEVEL_CHARACTERS) is None


_STATUS: Final = lazy_re(
    r"\b(?:exit(?:ed)?[ _]?(?:with )?(?:exit )?(?:code|status)|code|Error)[ :=(]{1,3}'?(?P<code>-?\d{1,3})\b"
    r"|\bsignal(?: number)?[ :=(]{1,3}(?P<signal>\d{1,2})\b"
    r"|\b(?P<name>SIG[A-Z]{2,5}|Segmentation fault|Bus error|Killed|Illegal instruction|Floating point exception)\b",
    re.IGNORECASE,
)
_FROM_OUTSIDE: Final = frozenset((signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV))
"""No program ends itself by one of these for an error that it has printed."""
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


def ended_by_signal(text: str) -> bool | None:
    """Return whether an account says that something was ended by a signal that no program sends itself.

    None for an account without a status, or about a requested end.
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


_DATE: Final = lazy_re(r"[\[(]?\d[\d/:., TZ+-]{7,40}[\])]?\s*$")
_CALM: Final = lazy_re(r"\b(?:info(?:rmation)?|inf|notice|debug|trace|verbose)\b", re.IGNORECASE)
_LEVEL_CHARACTERS: Final = 120


def is_headed(record: LogRecord) -> bool:
    """Return whether a logger wrote a record: a time alone before it, as Go's `log` writes, says nothing of a level."""
    if not record.head or record.severity.rank > Severity.INFO.rank:
        return record.head > 0
    begun = record.text[record.head : record.head + _LEVEL_CHARACTERS].partition("\n")[0]
    return _DATE.match(record.text[: record.head]) is None or _CALM.search(begun) is not None


def says_exit(record: LogRecord) -> bool:
    """Return whether a record says that something ended with a non-zero status, whoever writes it."""
    if record.severity.rank <= Severity.INFO.rank and is_headed(record):
        return False
    line = record.text[record.head : record.head + _LONGEST].partition("\n")[0]
    return _says_exit(line) and not _is_no_end(line)


_TRACED: Final = lazy_re(
    r"\+{1,4} (?:(?P<own>\w{1,100}=\S{0,1000}$|(?:\[|:|\.|\(\(|echo|printf|set|cd|pushd|popd|export|declare|local|unset"
    r"|shift|source|shopt|trap|true|false|test|read|return|exit|wait|sleep|case|for)(?:\s|$))"
    r"|(?P<command>[^\s+][^\n]{0,2000}))"
)


def traced_command(line: str) -> str | None:
    """Return the command that a shell traced (`set -x`: `+ ./fill 3`); "" for one of the shell's own, None for none."""
    traced = _TRACED.match(line)
    return None if traced is None else traced["command"] or ""


_UNIT: Final = lazy_re(
    r"\b(?P<kind>rule|recipe|step|task|job|target|stage|op) "
    r"(?:['\"`](?P<name>[^'\"`\s]{1,80})['\"`]|(?!(?:errors?|failures?|has|was|execution)\b)"
    r"(?P<name_2>[A-Za-z_][\w./-]{1,80})(?=:$| failed\b| errored\b))",
    re.IGNORECASE,
)


def failed_unit(record: LogRecord) -> str:
    """Return the part of a workflow that an account names as failed (`rule align`); "" if it names none."""
    for line in record.text[: 2 * _LONGEST].split("\n"):
        unit = _UNIT.search(line)
        if unit is not None and (_speaks(line) or _failed(line)) and not _is_no_end(line):
            return f"{unit['kind'].lower()} {unit['name'] or unit['name_2']}"
    return ""


def unframed(line: str) -> str:
    """Strip the frame of a box before a line."""
    return line.lstrip(_FRAME)


def cells_of(text: str) -> str:
    """Return the joined cells of a table row, of which long ones continue in the lines below; other text unchanged."""
    rows = [line.strip() for line in text.strip().split("\n")]
    if not all(len(row) > 2 and row[0] == row[-1] == "|" for row in rows):
        return text
    columns = [row[1:-1].split("|") for row in rows]
    if any(len(cells) != len(columns[0]) for cells in columns):
        return text
    joined = ("".join(cells[number][1:-1] for cells in columns) for number in range(len(columns[0])))
    return ", ".join(filter(None, (" ".join(cell.split()) for cell in joined)))


def detail(record: LogRecord) -> str:
    """Return `line` for a detail of the error above (`Last command: run 10000`), `row` for a table row of such; else
    "".
    """
    line, more, _ = record.text.partition("\n")
    if record.head or (more and not line.endswith(":")) or step_of(line) is not None or begins(line):
        return ""
    found = _DETAIL.match(line)
    if found is None or _is_no_end(record.text):
        return ""
    return "row" if found["table"] else "line"


_TO_LEVEL: Final = lazy_re(
    r"[^\n]{0,80}?\b(?:[Ii]nfo(?:rmation)?|INFO|INF|[Nn]otice|NOTICE)\b[\])>]?[\s|:-]{1,9}"
    r"(?:[\w./:-]{1,60}(?:\]|:| -|\|) )?"
)
_LEVEL_READ: Final = 200


def after_level(record: LogRecord) -> str:
    """Return the first line of a record without its head, nor the level and the name of a logger behind a time."""
    line = record.text[record.head :].partition("\n")[0]
    level = _TO_LEVEL.match(line[:_LEVEL_READ]) if record.head and record.severity.rank <= Severity.INFO.rank else None
    return line if level is None else line[level.end() :]


def follows_an_end(record: LogRecord) -> bool:
    """Return whether a record is output after an end, and no sign that a program goes on."""
    if step_of(record.text) is not None or ends_tests(record.text):
        return False
    if record.head and record.severity.rank <= Severity.INFO.rank:
        said = after_level(record)
        return _ends_logged(said) or _closes(said) or stops_itself(said)
    return printed_at_an_end(record.text)


# how far a run is: steps and progress bars, workers that are started again

_BAR: Final = lazy_re(
    r"\b\d{1,3}%\|[^|]{0,200}\| *(?P<done>\d{1,12}(?:\.\d{1,3})?)(?P<unit>[kKMGTP]?)i?B?/"
    r"\d{1,12}(?:\.\d{1,3})?[kKMGTP]?i?B? ?\["
)
_FULL: Final = lazy_re(r"\b100%\|[^|]{0,200}\| *(\d{1,12}(?:\.\d{1,3})?[kKMGTP]?i?B?)/\1 ?\[")
_UNITS: Final = MappingProxyType({unit: 1000.0 ** (1 + number) for number, unit in enumerate("KMGTP")})
_STEP: Final = lazy_re(
    r"(?<![\w-])(?:global[_ ])?(?:step|iter|iteration|update|epoch|batch)[ _]?(?:no\.?|num(?:ber)?)?['\"]?\s{0,2}"
    r"[:=\[#]?\s{0,10}(\d{1,12}(?:\.\d{1,6})?)(?![\w.-])",
    re.IGNORECASE,
)


def step_of(line: str) -> float | None:
    """Return the number of the step, the epoch or the progress bar that a line reports, or None."""
    line = line[:_LONGEST]
    bar = _BAR.search(line) if "%|" in line else None
    if bar is not None:
        return float(bar["done"]) * _UNITS.get(bar["unit"].upper(), 1)
    if _names_no_step(line):
        return None
    found = list(_STEP.finditer(line))
    return float(found[-1][1]) if found else None


_COUNTED: Final = lazy_re(r"\[ {0,5}(?P<done>\d{1,7})/(?P<all>[1-9]\d{0,6})\] {1,3}(?=[A-Z]|\S{1,40}/)")
"""What ninja, and its like, write before each command."""
_OF: Final = lazy_re(r" ?(?:/|of) ?([1-9]\d{0,12})(?![\w.-])")


def progress_of(line: str) -> tuple[str, float, str] | None:
    """Return what a line counts, how far it is, and how it is said: `("iter", 23.0, "iter 23")`; None for no progress.

    A build's count is no `step_of`: commands that run beside a failed one are counted on.
    """
    line = line[:_LONGEST]
    counted = _COUNTED.match(line)
    if counted is not None:
        return "/" + counted["all"], float(counted["done"]), f"{counted['done']} of {counted['all']}"
    number = step_of(line)
    found = None if number is None or "%|" in line else list(_STEP.finditer(line))[-1]
    if found is None or number is None:
        return None
    unit = next(word for word in re.findall(r"[a-z]+", found[0].lower()) if word != "global")
    total = _OF.match(line, found.end())
    return unit, number, f"{unit} {found[1]}" + (f" of {total[1]}" if total is not None else "")


_RESULT: Final = lazy_re(
    r"(?i)\W{0,8}(?:[\w-]{1,20}[ _]){0,3}(?:best|final|overall|average|avg|mean|median|total|throughput|elapsed)\b"
    r"(?!.{0,80}(?:/|\bof\b) ?\d)(?=.{0,80}(?:\b(?:acc|accuracy|loss|score|f1|bleu|rouge|auc|map|miou|wer|cer|ppl|psnr"
    r"|perplexity|time|latency|throughput|elapsed|duration|reward|return|error|rmse|mse|mae|r2)\b|/s\b))"
    r".{0,120}?[:=] ?-?\d"
)


def gives_result(line: str) -> bool:
    """Return whether a line gives a measured figure of a whole run: `Best epoch 6  Acc: 0.89`."""
    return _RESULT.match(line[:_LONGEST]) is not None


_SERVES: Final = lazy_re(
    r"(?<!not )(?<!n't )(?<!to )\b(?:[Ss]tart(?:ed|ing|s)|[Rr]unning|[Ss]erv(?:es|ing)|[Ll]isten(?:s|ing)|[Rr]eady)\b"
    r"(?:(?! not )[^\n:]){0,60}? (?:on|at):? (?P<address>https?://[\w.:/\[\]*-]{3,120}(?<![.:]))"
)


def serves_at(line: str) -> str:
    """Return the address at which a line says that a server starts, or ""."""
    found = _SERVES.search(line[:_LONGEST]) if "://" in line else None
    return found["address"] if found is not None else ""


def is_full(line: str) -> bool:
    """Return whether a line is a progress bar at its end, which is drawn once more when all is over."""
    return "100%|" in line and _FULL.search(line[:_LONGEST]) is not None


# who waits

_BARRIER: Final = (
    r"(?: at| in| into| for| on| the| a| all| ranks| of){0,4}[ :'\"]{1,3}"
    r"(?P<name>(?:[\w./:-]{1,40} ){0,3}?barrier\b[^\n]{0,40})"
)
_ENTERS: Final = lazy_re(
    rf"\b(?:enter(?:s|ed|ing)?|reach(?:es|ed|ing)?|arriv(?:es|ed|ing)|wait(?:s|ing)?|before){_BARRIER}", re.IGNORECASE
)
_RANK: Final = lazy_re(r"[^A-Za-z]{0,40}\[?[Rr]ank[ =:_-]?(?P<rank>\d{1,6})\b")
_NUMBER: Final = lazy_re(r"\d+")
_ADDRESS: Final = lazy_re(r"\b0x[0-9a-f]{1,16}\b")


def enters(line: str) -> str:
    """Return the barrier that a line reports to be entered or waited in, or ""."""
    match = _ENTERS.search(line[:_LONGEST])
    return match["name"].strip(" .") if match is not None else ""


def rank_in(line: str) -> int | None:
    """Return the rank that a line begins with, after a time, or None."""
    match = _RANK.match(line[:_LONGEST])
    return int(match["rank"]) if match is not None else None


def without_numbers(line: str) -> str:
    """Replace numbers, so that lines that differ by times and counts become equal."""
    return _NUMBER.sub("0", line[:_LONGEST].strip())


def without_addresses(text: str) -> str:
    """Remove addresses of memory, which differ from one process to the next."""
    return _ADDRESS.sub("", text)


# failures that don't call themselves errors


def speaks_of_failure(text: str) -> int | None:
    """Return the index of the first line that mentions a failure, or None."""
    return next((number for number, line in enumerate(text.split("\n")) if _speaks(line)), None)


# messages of several lines, and processes that lines name

_LINK: Final = lazy_re(r"\s{0,12}(?P<number>\d{1,2})[:.] {1,4}(?P<said>\S.*)")
_MADE_AT: Final = lazy_re(
    r"\W{0,12}(?:(?:Location|in file): {0,20}|Quitting from )?(?P<place>\S{1,300}:\d{1,9}(?:[:-]\d{1,9})?)(?:\s*$| \[)"
    r"|\s{1,8}in function [\w:~]{1,100}(?:\(\))?,? (?P<place_2>[\w./+-]{1,200}\.\w{1,5}\(\d{1,9}\))\s*$"
)


_OF_HEAD: Final = lazy_re(
    r"(?<![\w./])(?P<place>[\w./+-]{1,200}\.(?:go|rs|cc?|cpp|cxx|h|hpp|cu|f90|java|scala|kt|[jt]s):\d{1,9})\b"
)


def placed_by(record: LogRecord, said: str) -> str:
    """Return `, at plan.go:61`, the place of the source that a logger's head names, unless what is said has one."""
    found = _OF_HEAD.search(record.text, 0, record.head)
    return f", at {found['place']}" if found is not None and not _placed(said) else ""


_MADE: Final = ("Location:", "in file: ", "Quitting from ", "in function ")


def causes_in(texts: Sequence[str]) -> list[str]:
    """Return the causes listed below an error, the root last: numbered ones, or what follows `Caused by:`."""
    labelled = bool(texts) and texts[0].strip() == "Caused by:"
    listed = list(takewhile(lambda text: text[:1].isspace(), texts[1:] if labelled else texts))
    links = [found for found in map(_LINK.match, listed) if found is not None]
    if links and int(links[0]["number"]) < 2:
        counted = takewhile(lambda pair: int(pair[1]["number"]) == int(links[0]["number"]) + pair[0], enumerate(links))
        return [link["said"].strip() for _, link in counted]
    return [listed[0].strip()] if labelled and listed else []


_ASSERTED: Final = lazy_re(
    r"(?:\S{1,300}: ){0,2}(?:[Aa]ssert(?:ion)?|[Cc]heck|[Pp](?:re|ost)condition"
    r"|[A-Z_]{0,40}(?:ASSERT|CHECK)[A-Z_]{0,20})\b.{0,300}\bfail(?:ed|ure)\b"
)


def of_one_error(texts: Sequence[str]) -> list[str]:
    """Return the lines below an error up to one that is another error, or an assertion that failed (M2)."""
    return list(takewhile(lambda text: not _is_another(text), texts))


def _is_another(text: str) -> bool:
    if not text or text[0].isspace():
        return False
    return EXPLICIT.search(text[:_LONGEST]) is not None or _ends(text) or _ASSERTED.match(text) is not None


def made_at(texts: Sequence[str]) -> str:
    """Return `, at src/plan.rs:61`, where lines below an error say that it was made there; else ""."""
    label = next((at for at, text in enumerate(texts) if text.strip(" .\t").startswith(_MADE)), len(texts))
    place = next(
        (found["place"] or found["place_2"] for text in texts[label : label + 2] if (found := _MADE_AT.match(text))), ""
    )
    return f", at {place}" if place else ""


_SAYS_WHAT: Final = lazy_re(r"\berror\b|\w(?:Error|Exception)\b|\bfailed\b", re.IGNORECASE)
_QUOTED: Final = lazy_re(
    r"\b(?:error|fatal) {0,4}: |\w(?:Error|Exception): |^(?:Mismatched elements|Absolute difference): "
    r"|^(?:Actual message|Input): ['\"]",
    re.IGNORECASE,
)
_ANNOUNCED: Final = lazy_re(r"(?:\[\w{1,60}\] )?[\w ]{0,40}\berror:$", re.IGNORECASE)  # the line below it is the error
_KIND: Final = lazy_re(r"[\w.]{1,100}(?:Error|Exception): ")
_NOWHERE: Final = lazy_re(r"^[^\n<]{0,60}<unknown>:\d{1,9}: error: ")
"""A compiler's error that has no place."""
_STACK_HEADING: Final = lazy_re(r"[\w+ ]{0,30}\b[Ss]tacks?\b[^:]{0,60}:$")
_SHOWN: Final = 300


_GRAPH_STACK: Final = lazy_re(
    r"^Detected at node [^\n]{0,400}\n"
    r"(?:(?![ \t]{0,8}\(\d)(?:[ \t][^\n]{0,1000}|Node: [^\n]{0,400}|\d{1,4} root error[^\n]{0,40}|)\n){0,400}",
    re.MULTILINE,
)
"""Where a node of a graph was made, which TensorFlow quotes above the reason."""


_WARNED: Final = lazy_re(r"(?:[^\s:]{1,200}:\d{1,9}(?::\d{1,9})?: )?warning: ")


def telling_line(message: str) -> str:
    """Return the most telling line of a message, without the boilerplate of an assertion, and arguments of commands."""
    message = with_brief_commands(message)
    if "Detected at node" in message:
        message = _GRAPH_STACK.sub("", message) or message
    told = takewhile(lambda line: STACK.match(line) is None, without_plea(message).split("\n"))
    lines = [line.strip() for line in told if line.strip() and not is_rule(line.strip())]
    if len(lines) > 1 and lines[0].endswith("("):  # the text of an error, which had a line of its own
        lines[:2] = ["".join(lines[:2])]
    lines = [line for line in lines if _WARNED.match(line) is None] or lines
    if len(lines) < 2:
        return "".join(lines)
    if refused := refused_call(lines):
        return refused
    first, rest = lines[0], lines[1:]
    announced = next((below for line, below in pairwise(rest) if _ANNOUNCED.match(line)), "")
    if announced:
        kind = _KIND.match(first)
        return f"{kind[0] if kind is not None else ''}{announced}"[:_SHOWN]
    quoted = next((line for line in rest if _QUOTED.search(line)), "")
    if quoted and _STACK_HEADING.match(first) is not None:
        return quoted[:_SHOWN]
    more = next((line for line in rest if _SAYS_WHAT.search(line)), rest[0] if first.endswith(":") else "")
    if not quoted and (not more or (_SAYS_WHAT.search(first) and not first.endswith(":"))):
        return first
    more = quoted or more
    for below in rest[rest.index(more) + 1 :]:
        if not more.endswith(":"):
            break
        more = f"{more} {below}"
    more = _NOWHERE.sub("", more)
    return f"{first.rstrip('.;')}{'' if first.endswith(':') else ';'} {more}"[:_SHOWN]


_UNDEFINED: Final = lazy_re(
    r"(?:\b[A-Z][\w ]{2,60}: )?(?:[^\s:]{1,400}/)?(?P<file>[^\s:/]{1,200}\.so[\w.]{0,40}): undefined symbol: "
    r"(?P<symbol>\w{1,1000})(?:, version \S{1,100})?$"
)
"""What the dynamic loader says (glibc elf/dl-lookup.c), and what has called it before that."""
_OLD_STRING: Final = "std::string"
"""That of the newer ABI is `std::__cxx11::basic_string<…>` in symbols (libstdc++, "Dual ABI")."""


def in_words(said: str) -> str:
    """Return a message; of a library without one of its symbols in words, with the symbol's plain name."""
    found = _UNDEFINED.search(said) if "undefined symbol" in said else None
    if found is None:
        return said
    symbol = found["symbol"]
    whole = demangled_symbol(symbol)
    old = ", with the old ABI's std::string" if _OLD_STRING in whole else ""
    name = (whole if whole != symbol else short_symbol(symbol)).partition("(")[0].rstrip("…")
    lacks = f"{found['file']} does not fit the libraries it is loaded with: undefined symbol {name}{old}"
    return f"{said[: found.start()]}{lacks}"


_REFERS: Final = lazy_re(
    r"[.;, ]{0,3}\b(?:[Rr]efer to|[Ss]ee)(?: the)? (['\"`])(?P<title>[^'\"`\n]{4,80})\1[^\n]{0,80}$"
)


def referred_to(message: str) -> tuple[str, str]:
    """Return a message up to its reference to a section of the log, and the section's title or ""."""
    refers = _REFERS.search(message)
    return (message[: refers.start()], refers["title"]) if refers is not None else (message, "")


_SWITCH: Final = lazy_re(
    r"\b(?:[Uu]se|[Ss]et|[Pp]ass|[Ee]xport|(?:[Rr]e-?)?[Rr]un(?: \w{2,20})? with)(?: the)?"
    r"(?: (?:environment )?(?:variable|flag|option))? [`'\"]?"
    r"(?:(?P<variable>[A-Z][A-Z0-9_]{3,60}=[\w.+,:-]{0,60}\w)|(?P<option>--[a-z][\w-]{2,40}(?:=[\w-]{1,40})?))[`'\"]?"
    r"(?: (?:environment )?(?:variable|flag|option))? "
    r"(?:to (?:print|show|see|display|get|include|obtain|reveal)|for)\b"
    r"(?P<what>(?: (?:the|a|an|its|this|their|exception|error|underlying|actual|original|real|true|root"
    r"|(?P<more>more|full|complete|detailed|whole|further|additional|[a-z]{0,4}stack|internal)))"
    r"{0,5}(?: (?P<hidden>message|error|reason|cause|exception)"
    r"| (?:(?P<left_out>these|them)|messages|errors|reasons|causes|exceptions|traces?|tracebacks?|backtraces?|frames"
    r"|details|information|info|logs?|output)))(?=[.,;:)\s]|$)"
)


def switch_in(message: str) -> tuple[str, bool]:
    """Return the step that a message names to have its reason printed, and whether it says that this is hidden."""
    found = _SWITCH.search(message) if " to " in message or " for " in message else None
    if found is None:
        return "", False
    command = f"{found['variable']} COMMAND" if found["variable"] else f"COMMAND {found['option']}"
    words = "what was left out" if found["left_out"] else " ".join(found["what"].split())
    return f"{command}   prints {words}", found["hidden"] is not None and not found["more"]


@lru_cache(maxsize=64)
def _naming(pid: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:pid|process|worker)\W{{0,3}}{pid}\b|[\[(]{pid}[\])]", re.IGNORECASE)


def names_process(text: str, pid: str) -> bool:
    """Return whether a text names a process by its pid."""
    return _naming(pid).search(text) is not None


_PAIR: Final = lazy_re(r" ?\b[\w.@-]{1,40}=(?!\")\S{0,400}")
_HARMLESS: Final = lazy_re(r"(?:^| )level=\"?(?:trace|debug|info|notice)\b", re.IGNORECASE)
_FLUENTD: Final = lazy_re(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [+-]\d{4} [\w.*-]{1,200}: \{\"")


def message_of(record: LogRecord) -> str:
    """Return the first line of a record; of logfmt the message, without further keys and values."""
    line = record.text.partition("\n")[0]
    return _PAIR.sub("", line[record.head :]) if "level=" in line[: record.head] else line


def stores_others(record: LogRecord) -> bool:
    """Return whether a record is a harmless one of a collector: of logfmt, or Fluentd's."""
    if record.head and _HARMLESS.search(record.text, 0, record.head) is not None:
        return True
    return record.text[:2] == "20" and ': {"' in record.text and _FLUENTD.match(record.text) is not None
