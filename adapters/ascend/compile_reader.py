"""Finds errors of pypto's compiler and of ptoas in the lines of a log, of a traceback or of report/codegen_errors.txt.

A state machine over lines: what an error says stands in several of them. Bounded: it remembers a few lines and at most
`MOST` errors. Sources of the texts: see `compile_errors`.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from livedbg.adapters.ascend.compile_errors import CompileError, Stage, split_place
from livedbg.adapters.ascend.passes import Place
from livedbg.text.sanitize import clean_line

__all__ = ["EXACT", "KEYWORDS", "MOST", "OPENS", "CompileReader"]

MOST: Final = 50
"""Different errors that are kept; of further ones only the number."""

KEYWORDS: Final = (
    b"  --> ", b" = help: ", b"Check failed: ", b"Failed to compile ", b"failed to compile:", b"erification failed ",
    b"] ERROR - ", b"  Message: ", b"  Location: ", b"Full details: ", b"Error: ", b"ptoas compilation ",
    b"AicpuExecutor: Initializing", b"): error: ", *(b"%d: error: " % digit for digit in range(10)),
)  # fmt: skip
"""Byte strings, one of which stands in every line that begins or completes an error, but for those behind OPENS."""

OPENS: Final = (b"  --> ", b"failed to compile:", b"Failed to compile ")
"""Behind these come lines of the program, the table of functions and the sections of the report."""

EXACT: Final = {b"Error: ": re.compile(rb"(?<=[A-Za-z_])Error: |Error: (?![ \d+.-]|None\b)")}
"""What of the keywords must begin with more than themselves: not a metric of that name."""

_BEFORE: Final = 12  # lines between `Error:` and its arrow, or an exception and the check that failed
_ROWS: Final = 50  # lines of one row of the table of functions
_NAME: Final = r"[\w.<>$-]{1,200}"
_TEXT_LIMIT: Final = 600

_ERROR: Final = re.compile(r"^Error: (?P<text>.+)")
_ARROW: Final = re.compile(r"^ {2}--> (?P<file>[^\n]{1,400}?):(?P<line>\d{1,9})(?::(?P<column>\d{1,9}))?$")
_SNIPPET: Final = re.compile(r"^ *(?P<line>\d{1,9}) \| ?(?P<code>.*)$")
_HELP: Final = re.compile(r"^ +=+ help: (?P<text>.+)")
_CHECK: Final = re.compile(
    r"^Check failed: .* at (?P<file>\S+\.(?:cpp|h)):(?P<line>\d{1,9})(?: at (?P<at>\S+:\d{1,9}:-?\d{1,9})$)?"
)
_RAISED: Final = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)): (?P<text>.*)")
_VERIFIED: Final = re.compile(
    rf"(?P<when>Verification failed after|Post-verification failed after pass|Pre-verification failed before pass)"
    rf" '(?P<name>{_NAME})'"
)
_RULE: Final = re.compile(rf"^\[(?P<number>\d{{1,6}})\] ERROR - (?P<name>{_NAME})")
_MESSAGE: Final = re.compile(r"^ {2}Message: (?P<text>.*)")
_LOCATION: Final = re.compile(r"^ {2}Location: (?P<file>.*):(?P<line>\d{1,9}):(?P<column>-?\d{1,9})$")
_FUNCTION: Final = re.compile(
    rf"Failed to compile (?:function|group) '(?P<name>{_NAME})'(?: \[[^\]]{{0,2000}}\])?:(?: (?P<rest>.{{0,4000}}))?$"
)
_SECTION: Final = re.compile(rf"^ {{2}}\[(?P<name>{_NAME})\]$")
_PTOAS: Final = re.compile(r"ptoas compilation (?P<how>failed:|timed out after \S+)\s*(?P<rest>.*)")
_MLIR: Final = re.compile(
    r"(?:loc\((?P<quote>\"?)(?P<file>[^\"\n]{1,400}?)(?P=quote)(?::(?P<line>\d{1,9}):(?P<column>\d{1,9}))?\)"
    r"|(?<![\w/.\"-])(?P<file2>[\w./-]{1,400}\.(?:pto|py|mlir)):(?P<line2>\d{1,9}):(?P<column2>\d{1,9}))"
    r": error: (?P<text>.*)"
)
_TABLE: Final = re.compile(r"(?P<count>\d{1,6}) function\(s\) failed to compile:")
_ROW: Final = re.compile(rf"^ {{2}}(?P<name>{_NAME})? *\| (?P<text>.*)$")
_DETAILS: Final = re.compile(r"^ *Full details: (?P<path>\S.*)$")
_RUNS: Final = "AicpuExecutor: Initializing"
_INTERNAL: Final = ("InternalError", "AssertionError")


class CompileReader:
    """The errors of one log.

    Attributes:
        errors: by what makes them different, in the order of the log.
        beyond: how many more there were than are kept.
        overtaken: a run began after them: they did not end the program.
    """

    def __init__(self) -> None:
        self.errors: dict[tuple[str, str, str], CompileError] = {}
        self.beyond = 0
        self.overtaken = False
        self._lines: deque[str] = deque(maxlen=_BEFORE)
        self._open: CompileError | None = None
        self._function = ""
        self._in_ptoas = False
        self._in_section = False
        self._table = False
        self._row: tuple[str, list[str]] | None = None
        self._after = self._before = ""
        self._where: tuple[tuple[str, int | None], str] = (("", None), "")
        self._wall_ns: int | None = None

    def take(self, line: str, where: tuple[str, int | None], wall_ns: int | None) -> bool:
        """Take one line.

        Args:
            line: sanitised, without its newline.
            where: name of the log, and number of the line.
            wall_ns: its time.

        Returns:
            whether something was learnt.
        """
        self._where, self._wall_ns = (where, line), wall_ns
        learnt = self._of_table(line) if self._table else None
        if learnt is None:
            learnt = self._begin(line) or self._go_on(line)
        self._lines.append(line)
        return learnt

    # what begins an error

    def _begin(self, line: str) -> bool:
        if _RUNS in line:
            news, self.overtaken = bool(self.errors) and not self.overtaken, bool(self.errors)
            return news
        arrow = _ARROW.match(line)
        if arrow is not None:
            return self._parser(arrow)
        check = _CHECK.match(line)
        if check is not None:
            return self._check(check)
        function = _FUNCTION.search(line)
        if function is not None:
            self._enter(function["name"])
            return self._rest(function["rest"] or "")
        section = _SECTION.match(line)
        if section is not None:
            self._enter(section["name"])
            self._in_section = True
            return False
        verified = _VERIFIED.search(line)
        if verified is not None:
            self._after, self._before = (
                (verified["name"], "") if "after" in verified["when"] else ("", verified["name"])
            )
            return False
        rule = _RULE.match(line)
        if rule is not None:
            return self._rule(rule)
        mlir = _MLIR.search(line)
        if mlir is not None and (self._in_ptoas or "pto" in line):
            return self._mlir(mlir)
        if _TABLE.search(line):
            self._table, self._row = True, None
            return False
        return self._raised(line)

    def _parser(self, arrow: re.Match[str]) -> bool:
        """`  --> file:line:column` behind an `Error: …` of one or more lines."""
        said: list[str] = []
        for line in reversed(self._lines):
            said.append(line)
            begun = _ERROR.match(line)
            if begun is not None:
                said[-1] = begun["text"]
                break
        else:
            return False
        if not arrow["file"].endswith(".py") and not arrow["file"].startswith("<"):
            return False  # another compiler's arrow
        message, inner = split_place(" ".join(part.strip() for part in reversed(said)))
        place = Place(arrow["file"], int(arrow["line"]), int(arrow["column"] or 0))
        return self._add(CompileError(Stage.PARSER, message, *self._where, self._wall_ns, place=place or inner))

    def _check(self, check: re.Match[str]) -> bool:
        """`Check failed: … at src/x.cpp:1` behind the message of an exception."""
        if not re.search(r"(?:^|/)(?:src|include|python)/", check["file"]):
            return False
        said, kind = [], ""
        for line in reversed(self._lines):
            raised = _RAISED.match(line)
            said.append(raised["text"] if raised is not None else line)
            if raised is not None:
                kind = raised["type"]
                break
            if (self._in_section and _SECTION.match(line)) or _FUNCTION.search(line):
                said[-1] = ""
                break
        message, place = split_place(" ".join(part.strip() for part in reversed(said)))
        if check["at"]:
            place = split_place(f"[{check['at']}]")[1] or place
        known = self._same(message)
        stage = Stage.CODEGEN if self._function or re.search(r"src/(?:codegen|backend)/", check["file"]) else Stage.PASS
        error = known or CompileError(stage, message, *self._where, self._wall_ns, function=self._function, place=place)
        error.check = f"{check['file']}:{check['line']}"
        error.internal = kind.rpartition(".")[2] in _INTERNAL or error.internal
        return known is not None or self._add(error)

    def _same(self, message: str) -> CompileError | None:
        """The error that the lines before have made already of the same text."""
        error = self._open
        return error if error is not None and error.message and error.message[:60] == message[:60] else None

    def _raised(self, line: str) -> bool:
        """`ValueError: message [model.py:12:5]`: an exception that carries a place in a program."""
        raised = _RAISED.match(line)
        if raised is None:
            return False
        message, place = split_place(raised["text"])
        if place is None or place.generated:
            return False
        error = CompileError(Stage.PASS, message, *self._where, self._wall_ns, place=place, after=self._after)
        error.internal = raised["type"].rpartition(".")[2] in _INTERNAL
        return self._add(error)

    def _rule(self, rule: re.Match[str]) -> bool:
        """`[1] ERROR - Rule` of a verifier's report."""
        if int(rule["number"]) > 1 and self._open is not None and self._open.stage is Stage.VERIFIER:
            self._open.more += 1
            return True
        error = CompileError(
            Stage.VERIFIER, "", *self._where, self._wall_ns, rule=rule["name"], after=self._after, before=self._before
        )
        self._open = error
        return False

    def _enter(self, function: str) -> None:
        self._function, self._in_ptoas, self._in_section, self._open = clean_line(function, 200), False, False, None

    def _rest(self, rest: str) -> bool:
        """What stands behind the name of a function that failed."""
        ptoas = _PTOAS.search(rest)
        if ptoas is None:
            message, place = split_place(rest)
            self._in_ptoas = False
            if not message:
                return False
            error = CompileError(Stage.CODEGEN, message, *self._where, self._wall_ns, self._function, place)
            return self._add(error)
        self._in_ptoas = True
        mlir = _MLIR.search(rest)
        if mlir is not None:
            return self._mlir(mlir)
        text = clean_line(ptoas[0], _TEXT_LIMIT)
        return self._add(CompileError(Stage.PTOAS, text, *self._where, self._wall_ns, self._function))

    def _mlir(self, found: re.Match[str]) -> bool:
        """One diagnostic of ptoas."""
        file, line = found["file"] or found["file2"], found["line"] or found["line2"]
        column = found["column"] or found["column2"]
        place = Place(clean_line(file, 400), int(line), int(column or 0)) if line else None
        message = clean_line(found["text"].strip(), _TEXT_LIMIT)
        begun = self._open
        if begun is not None and begun.stage is Stage.PTOAS and begun.message.startswith("ptoas compilation"):
            self.errors.pop(begun.key, None)  # the line that says what it was comes here
        return self._add(CompileError(Stage.PTOAS, message, *self._where, self._wall_ns, self._function, place))

    def _add(self, error: CompileError) -> bool:
        for known in self.errors.values():
            same = known.function == error.function or not known.function or not error.function
            if same and known.message[:60] == error.message[:60]:
                known.function = known.function or error.function
                known.place = known.place or error.place
                self._open = known
                return False
        if len(self.errors) >= MOST:
            self.beyond += 1
            return False
        self.errors[error.key] = self._open = error
        self.overtaken = False
        return True

    # what goes on with one

    def _go_on(self, line: str) -> bool:
        details = _DETAILS.match(line)
        if details is not None:
            for error in self.errors.values():
                error.report = error.report or clean_line(details["path"], 400)
            return True
        if self._in_section and line.strip() and not _SECTION.match(line):
            self._in_section = False
            return self._rest(line.strip())
        begun = self._open
        if begun is None:
            return False
        if begun.stage is Stage.VERIFIER:
            return self._of_report(begun, line)
        snippet = _SNIPPET.match(line)
        if snippet is not None and begun.place is not None and int(snippet["line"]) == begun.place.line:
            begun.code = begun.code or clean_line(snippet["code"].strip(), 200)
            return True
        said = _HELP.match(line)
        if said is not None:
            begun.help = clean_line(said["text"], 300)
            return True
        return False

    def _of_report(self, error: CompileError, line: str) -> bool:
        message = _MESSAGE.match(line)
        if message is not None and not error.message:
            error.message, error.place = split_place(message["text"])
            return self._add(error) or True
        place = _LOCATION.match(line)
        if place is not None and error.message and not error.more and place["file"]:
            error.place = Place(clean_line(place["file"], 400), int(place["line"]), int(place["column"]))
            return True
        return False

    def _of_table(self, line: str) -> bool | None:
        """Rows of the table of functions: those of which nothing else was said; None for a line behind it."""
        row = _ROW.match(line)
        if row is None:
            if line.strip() and not line.lstrip().startswith("-"):
                self._table = False
                self._close_row()
                return None
            return False
        if row["name"] == "Function":
            return False
        if row["name"]:
            self._close_row()
            self._row = (row["name"], [])
        if self._row is not None and len(self._row[1]) < _ROWS:
            self._row[1].append(row["text"].strip())
        return False

    def _close_row(self) -> None:
        row, self._row = self._row, None
        if row is not None and all(error.function != row[0] for error in self.errors.values()):
            self._enter(row[0])
            self._rest(" ".join(row[1]))
