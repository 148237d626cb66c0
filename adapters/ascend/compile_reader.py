"""Find errors of pypto's compiler and of ptoas in a log, a traceback or report/codegen_errors.txt.

A state machine over lines, since an error spans several. Bounded: it keeps a few lines and at most `MOST` errors.
data/compile_lines.toml has the line patterns.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from functools import cache
from typing import Final

from msgspec import Struct, field

from livedbg.adapters.ascend.messages import Fields, Form, Forms, number, read_data
from livedbg.adapters.ascend.passes import PassChange, Place
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

MOST: Final = 50
"""Different errors that are kept; of further ones only the number."""

_BEFORE: Final = 12  # lines between `Error:` and its arrow, or an exception and the check that failed
_ROWS: Final = 50  # lines of one row of the table of functions
_INTERNAL: Final = ("InternalError", "AssertionError")
_TEXT_LIMIT: Final = 600
_SHAPES_SHOWN: Final = 4

_OP: Final = lazy_re(
    r"\b((?:pto|tile|tensor|array|system|prefetch|builtin|pl|pld|func|scf|arith|memref)(?:\.[A-Za-z_]\w*){1,3})\b"
)
_QUOTED_OP: Final = lazy_re(r"'([a-z_]\w*(?:\.[A-Za-z_]\w*)+)'")
_NO_OP: Final = (".py", ".pto", ".cpp", ".h", ".mlir")
_SHAPE: Final = lazy_re(
    r"\[\s*+-?\w++(?:\s*+,\s*+-?\w++)*+\s*+(?:,\s*+)?\]|\(\s*+\d{1,18}(?:\s*+,\s*+\d{1,18})++\s*+\)"
    r"|(?<![\w.])\d{1,18}(?:x\d{1,18})+(?:x[a-z]\w*)?(?!\w)"
)
_PLACE: Final = lazy_re(
    r"\s{0,100}\[(?P<file>[^\[\]\s][^\[\]]{0,2000}):(?P<line>\d{1,9}):(?P<column>-?\d{1,18})\]\s{0,100}$"
)

_PYPTO: Final = lazy_re(r"\bpypto\b|\bbuild_output/|(?:\b|/)_jit_")
"""What pypto and its folders are called."""


class Stage(StrEnum):
    """Stage of the compiler that failed."""

    PARSER = "parser"
    PASS = "pass"
    VERIFIER = "verifier"
    CODEGEN = "codegen"
    PTOAS = "ptoas"


class CompileError(Struct):
    """One compiler error.

    Attributes:
        message: one line.
        where: name of the log, and line number.
        function: the compiled function (kernel) or group.
        code: text of that line, if quoted.
        origin: program line from which a generated line was made.
        help: the compiler's own advice.
        after: the pass whose result was wrong.
        before: the pass whose input was wrong.
        internal: a check of the compiler itself failed: its bug, not the program's.
        check: the check's place in the compiler's source.
        rule: the verifier's rule.
        more: further errors in the same report.
        report: the file with the full text.
        change: what the last pass before it changed, if the dumps show it.
    """

    stage: Stage
    message: str
    where: tuple[str, int | None]
    text: str
    wall_ns: int | None = None
    function: str = ""
    place: Place | None = None
    code: str = ""
    origin: Place | None = None
    help: str = ""
    after: str = ""
    before: str = ""
    internal: bool = False
    check: str = ""
    rule: str = ""
    more: int = 0
    report: str = ""
    change: PassChange | None = None

    @property
    def op(self) -> str:
        """Return its operation, or ""."""
        return op_of(self.message) or op_of(self.code)

    @property
    def shapes(self) -> str:
        """Return its shapes as text, or ""."""
        return ", ".join(shapes_of(self.message) or (shapes_of(self.code) if self.stage is Stage.PTOAS else []))

    @property
    def key(self) -> tuple[str, str, str]:
        """Return a key for duplicates: an error is repeated in a table, a file and a traceback."""
        return (self.stage, self.function, self.message[:80])


def op_of(text: str) -> str:
    """Return the first operation that a text names: `tile.matmul`, `pto.tadd`."""
    for match in (*_QUOTED_OP.finditer(text), *_OP.finditer(text)):
        name = match[1]
        if not name.endswith(_NO_OP):
            return name
    return ""


def shapes_of(text: str) -> list[str]:
    """Return the shapes that a text names, each once: `[64, 128]`, `(64, 128)`, `64x128xf32`."""
    text = _PLACE.sub("", text)
    found = dict.fromkeys(match[0] for match in _SHAPE.finditer(text) if any(c.isdigit() for c in match[0]))
    return [shape for shape in found if len(shape) < 80][:_SHAPES_SHOWN]


def split_place(text: str) -> tuple[str, Place | None]:
    """Split `message [file:line:column]`; implausible lines and columns stay in the text."""
    match = _PLACE.search(text)
    if match is None or len(match["line"]) > 9:
        return clean_line(text.strip(), _TEXT_LIMIT), None
    column = int(match["column"]) if len(match["column"]) < 9 else 0
    return clean_line(text[: match.start()].strip(), _TEXT_LIMIT), Place(match["file"], int(match["line"]), column)


class _Lines(Struct, frozen=True, forbid_unknown_fields=True):
    """data/compile_lines.toml."""

    words: tuple[str, ...]
    opens: tuple[str, ...]
    exact: dict[str, str]
    forms: tuple[Form, ...] = field(name="form")


@cache
def compile_lines() -> _Lines:
    """Return the parsed file."""
    return read_data("compile_lines.toml", _Lines)


@cache
def _forms() -> Forms:
    return Forms(compile_lines().forms)


class CompileReader:
    """Collects the errors of one log.

    Attributes:
        errors: by key, in log order.
        beyond: number of dropped errors.
        overtaken: a run began after them: they did not end the program.
        by_pypto: the log names pypto, or one of its folders: others use ptoas, too.
    """

    def __init__(self) -> None:
        self.errors: dict[tuple[str, str, str], CompileError] = {}
        self.beyond = 0
        self.overtaken = self.by_pypto = False
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
        """Process one sanitised line; return whether something new was found."""
        self._where, self._wall_ns = (where, line), wall_ns
        self.by_pypto = self.by_pypto or _PYPTO.search(line) is not None
        learnt = self._of_table(line) if self._table else None
        if learnt is None:
            learnt = self._begin(line) or self._go_on(line)
        self._lines.append(line)
        return learnt

    # what begins an error

    def _begin(self, line: str) -> bool:
        for form in _forms().of(line):
            take, fields = getattr(self, f"_take_{form.kind}", None), form.fields(line)
            learnt = take(fields) if take is not None and fields is not None else None
            if learnt is not None:
                return bool(learnt)
        return False

    def _take_runs(self, fields: Fields) -> bool:
        news, self.overtaken = bool(self.errors) and not self.overtaken, bool(self.errors)
        return news

    def _take_function(self, fields: Fields) -> bool:
        self._enter(fields["name"] or "")
        return self._rest(fields["rest"] or "")

    def _take_section(self, fields: Fields) -> bool:
        self._enter(fields["name"] or "")
        self._in_section = True
        return False

    def _take_verified(self, fields: Fields) -> bool:
        name, after = fields["name"] or "", "after" in (fields["when"] or "")
        self._after, self._before = (name, "") if after else ("", name)
        return False

    def _take_table(self, fields: Fields) -> bool:
        self._table, self._row = True, None
        return False

    def _take_arrow(self, fields: Fields) -> bool:
        """Handle `  --> file:line:column` after an `Error: …` of one or more lines."""
        said: list[str] = []
        for line in reversed(self._lines):
            said.append(line)
            begun = _forms().fields("error", line)
            if begun is not None:
                said[-1] = begun["text"] or ""
                break
        else:
            return False
        file = fields["file"] or ""
        if not file.endswith(".py") and not file.startswith("<"):
            return False  # another compiler's arrow
        message, inner = split_place(" ".join(part.strip() for part in reversed(said)))
        place = Place(file, number(fields, "line"), number(fields, "column"))
        return self._add(CompileError(Stage.PARSER, message, *self._where, self._wall_ns, place=place or inner))

    def _take_check(self, fields: Fields) -> bool:
        """Handle `Check failed: … at src/x.cpp:1` after an exception's message."""
        said, kind, file = [], "", fields["file"] or ""
        for line in reversed(self._lines):
            raised = _forms().fields("raised", line)
            said.append(line if raised is None else raised["text"] or "")
            if raised is not None:
                kind = raised["type"] or ""
                break
            if (self._in_section and _forms().fields("section", line)) or _forms().fields("function", line):
                said[-1] = ""
                break
        message, place = split_place(" ".join(part.strip() for part in reversed(said)))
        if fields["at"]:
            place = split_place(f"[{fields['at']}]")[1] or place
        known = self._same(message)
        generates = bool(self._function) or "src/codegen/" in file or "src/backend/" in file
        stage = Stage.CODEGEN if generates else Stage.PASS
        error = known or CompileError(stage, message, *self._where, self._wall_ns, function=self._function, place=place)
        error.check = f"{file}:{fields['line']}"
        error.internal = kind.rpartition(".")[2] in _INTERNAL or error.internal
        return known is not None or self._add(error)

    def _same(self, message: str) -> CompileError | None:
        """Return the open error if it has the same text."""
        error = self._open
        return error if error is not None and error.message and error.message[:60] == message[:60] else None

    def _take_raised(self, fields: Fields) -> bool:
        """Handle `ValueError: message [model.py:12:5]`: an exception with a place in a program."""
        message, place = split_place(fields["text"] or "")
        if place is None or place.generated:
            return False
        error = CompileError(Stage.PASS, message, *self._where, self._wall_ns, place=place, after=self._after)
        error.internal = (fields["type"] or "").rpartition(".")[2] in _INTERNAL
        return self._add(error)

    def _take_rule(self, fields: Fields) -> bool:
        """Handle `[1] ERROR - Rule` of a verifier's report."""
        if number(fields, "number") > 1 and self._open is not None and self._open.stage is Stage.VERIFIER:
            self._open.more += 1
            return True
        error = CompileError(Stage.VERIFIER, "", *self._where, self._wall_ns, after=self._after, before=self._before)
        error.rule = fields["name"] or ""
        self._open = error
        return False

    def _enter(self, function: str) -> None:
        self._function, self._in_ptoas, self._in_section, self._open = clean_line(function, 200), False, False, None

    def _rest(self, rest: str) -> bool:
        """Parse the text after the name of a failed function."""
        ptoas = _forms().fields("ptoas", rest)
        if ptoas is None:
            message, place = split_place(rest)
            self._in_ptoas = False
            if not message:
                return False
            error = CompileError(Stage.CODEGEN, message, *self._where, self._wall_ns, self._function, place)
            return self._add(error)
        self._in_ptoas = True
        mlir = _forms().fields("mlir", rest)
        if mlir is not None:
            return self._mlir(mlir)
        text = clean_line(ptoas["text"] or "", _TEXT_LIMIT)
        return self._add(CompileError(Stage.PTOAS, text, *self._where, self._wall_ns, self._function))

    def _take_mlir(self, fields: Fields) -> bool | None:
        return self._mlir(fields) if self._in_ptoas or "pto" in self._where[1] else None

    def _mlir(self, fields: Fields) -> bool:
        file, line, column = (fields[name] or fields[f"{name}2"] for name in ("file", "line", "column"))
        place = Place(clean_line(file or "", 400), int(line), int(column or 0)) if line else None
        message = clean_line((fields["text"] or "").strip(), _TEXT_LIMIT)
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
        details = _forms().fields("details", line)
        if details is not None:
            for error in self.errors.values():
                error.report = error.report or clean_line(details["path"] or "", 400)
            return True
        if self._in_section and line.strip() and _forms().fields("section", line) is None:
            self._in_section = False
            return self._rest(line.strip())
        begun = self._open
        if begun is None:
            return False
        if begun.stage is Stage.VERIFIER:
            return self._of_report(begun, line)
        snippet, said = _forms().fields("snippet", line), _forms().fields("help", line)
        if snippet is not None and begun.place is not None and number(snippet, "line") == begun.place.line:
            begun.code = begun.code or clean_line((snippet["code"] or "").strip(), 200)
            return True
        if said is not None:
            begun.help = clean_line(said["text"] or "", 300)
        return said is not None

    def _of_report(self, error: CompileError, line: str) -> bool:
        message, place = _forms().fields("message", line), _forms().fields("location", line)
        if message is not None and not error.message:
            error.message, error.place = split_place(message["text"] or "")
            return self._add(error) or True
        if place is not None and error.message and error.place is None and place["file"]:
            error.place = Place(clean_line(place["file"], 400), number(place, "line"), number(place, "column"))
            return True
        return False

    def _of_table(self, line: str) -> bool | None:
        """Parse rows of the function table for functions without other errors; None after its end."""
        row = _forms().fields("row", line)
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
            self._row[1].append((row["text"] or "").strip())
        return False

    def _close_row(self) -> None:
        row, self._row = self._row, None
        if row is not None and all(error.function != row[0] for error in self.errors.values()):
            self._enter(row[0])
            self._rest(" ".join(row[1]))
