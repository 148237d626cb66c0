"""One error of pypto's compiler or of ptoas: what its text says of the operation, the shapes and the source line.

Sources: hw-native-sys/pypto, August 2026: include/pypto/core/logging.h (`message [file:line:column]`, then
`Check failed: expression at file:line`), src/ir/op_registry.cpp (` at file:line:column` behind that),
src/ir/verifier/property_verifier_registry.cpp (the report), python/pypto/language/parser/diagnostics/renderer.py
(`Error: …`, `  --> file:line:column`), python/pypto/backend/pto_backend.py (`ptoas compilation failed: …`, the table of
functions, report/codegen_errors.txt); MLIR's diagnostics (`loc("file":line:column): error: …`).
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct

from livedbg.adapters.ascend.passes import PassChange, Place
from livedbg.text.sanitize import clean_line

__all__ = ["CompileError", "Stage", "op_of", "shapes_of", "split_place"]

_TEXT_LIMIT: Final = 600
_SHAPES_SHOWN: Final = 4

_OP: Final = re.compile(
    r"\b((?:pto|tile|tensor|array|system|prefetch|builtin|pl|pld|func|scf|arith|memref)(?:\.[A-Za-z_]\w*){1,3})\b"
)
_QUOTED_OP: Final = re.compile(r"'([a-z_]\w*(?:\.[A-Za-z_]\w*)+)'")
_NO_OP: Final = (".py", ".pto", ".cpp", ".h", ".mlir")
_SHAPE: Final = re.compile(
    r"\[\s*+-?\w++(?:\s*+,\s*+-?\w++)*+\s*+(?:,\s*+)?\]|\(\s*+\d{1,18}(?:\s*+,\s*+\d{1,18})++\s*+\)"
    r"|(?<![\w.])\d{1,18}(?:x\d{1,18})+(?:x[a-z]\w*)?(?!\w)"
)
_PLACE: Final = re.compile(
    r"\s{0,100}\[(?P<file>[^\[\]\s][^\[\]]{0,2000}):(?P<line>\d{1,9}):(?P<column>-?\d{1,18})\]\s{0,100}$"
)


class Stage(StrEnum):
    """Where in the compiler it failed."""

    PARSER = "parser"
    PASS = "pass"
    VERIFIER = "verifier"
    CODEGEN = "codegen"
    PTOAS = "ptoas"


class CompileError(Struct):
    """One error.

    Attributes:
        message: what the compiler says, one line.
        where: name of the log, and number of the line.
        function: the function (kernel) or group that it compiled.
        place: the source line.
        code: the text of that line, where it is quoted.
        origin: the line of the program that a generated line was made from.
        help: the compiler's own advice.
        after: the pass whose result was found wrong.
        before: the pass whose input was found wrong.
        internal: a check of the compiler's own failed: a bug of it, not of the program.
        check: where in the compiler's source the check stands.
        rule: which rule of the verifier found it.
        more: how many further errors the same report has.
        report: the file with the whole of it.
        change: what the last pass before it changed, where the dumps show it.
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
        """The operation that it is about, or ""."""
        return op_of(self.message) or op_of(self.code)

    @property
    def shapes(self) -> str:
        """The shapes that it names, as text, or ""."""
        return ", ".join(shapes_of(self.message) or (shapes_of(self.code) if self.stage is Stage.PTOAS else []))

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same as another: it is said again in a table, a file and a traceback."""
        return (self.stage, self.function, self.message[:80])


def op_of(text: str) -> str:
    """The first operation that a text names: `tile.matmul`, `pto.tadd`."""
    for match in (*_QUOTED_OP.finditer(text), *_OP.finditer(text)):
        name = match[1]
        if not name.endswith(_NO_OP):
            return name
    return ""


def shapes_of(text: str) -> list[str]:
    """The shapes that a text names, each once: `[64, 128]`, `(64, 128)`, `64x128xf32`."""
    text = _PLACE.sub("", text)
    found = dict.fromkeys(match[0] for match in _SHAPE.finditer(text) if any(c.isdigit() for c in match[0]))
    return [shape for shape in found if len(shape) < 80][:_SHAPES_SHOWN]


def split_place(text: str) -> tuple[str, Place | None]:
    """`message [file:line:column]` taken apart; lines and columns that no file has are left in the text."""
    match = _PLACE.search(text)
    if match is None or len(match["line"]) > 9:
        return clean_line(text.strip(), _TEXT_LIMIT), None
    column = int(match["column"]) if len(match["column"]) < 9 else 0
    return clean_line(text[: match.start()].strip(), _TEXT_LIMIT), Place(match["file"], int(match["line"]), column)
