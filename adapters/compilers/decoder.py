"""The decoder of what compilers say when they fail."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from msgspec.structs import replace

from livedbg.adapters.compilers import cmake, gpu, mlir, native, triton
from livedbg.adapters.compilers.failures import FAILED
from livedbg.logs.said import Form, Said, SaidDecoder, found_in, words_of
from livedbg.model import ExceptionHit, LogRecord, Severity
from livedbg.model.events import Event, Stamp
from livedbg.model.snapshot import Snapshot

__all__ = ["CompilersDecoder", "explains"]

_FORMS = (*gpu.FORMS, *triton.FORMS, *native.FORMS, *cmake.FORMS, *mlir.FORMS)
_CHOICE: Final = re.compile(
    r"[Ii]gnoring this choice|while (?:auto)?tuning|[Aa]utotun|benchmark choice|skipping (?:this )?config"
)
_NEAR: Final = 40
_AFTER: Final = 2  # lines after one that speaks of tuning
_COMPILES: Final = re.compile(
    r"[Cc]ompil|codegen error|ptxas|nvrtc|NVRTC|Error building extension|PassManager|CalledProcess|LoweringException"
)


class CompilersDecoder(SaidDecoder):
    """Makes a diagnostic of each of these messages."""

    name = "compilers"
    forms: ClassVar[Sequence[Form]] = _FORMS
    triggers: ClassVar[tuple[bytes, ...]] = (*words_of(_FORMS), b"autotuning")
    exact: ClassVar[Mapping[bytes, re.Pattern[bytes]]] = {
        b"ptxas ": re.compile(rb"ptxas (?!info)"),
        b": error: ": re.compile(rb": error: (?![-+.]?\d[\d.e+-]*\s*[,;%|\n])"),  # not a metric
    }
    together: ClassVar[int] = 2
    near: ClassVar[int] = 4
    asides: ClassVar[re.Pattern[str] | None] = re.compile(
        r"\bCompilerToolError: Error invoking |Failures have been detected while processing an MLIR pass pipeline"
    )

    def __init__(self) -> None:
        super().__init__()
        self._tuned: dict[str, int] = {}  # by log: the last line that speaks of tuning

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take one record."""
        if _CHOICE.search(record.text) is not None and record.last_line is not None:
            self._tuned[record.source] = record.last_line
        return super().feed(record, stamp)

    def judge(self, said: Said, record: LogRecord) -> Said | None:
        """A choice that a tuner drops is none, nor is what a logger calls a warning or less (F1)."""
        tuned = self._tuned.get(record.source)
        if tuned is not None and (record.line or 0) - tuned <= _AFTER:
            return None
        if _CHOICE.search(record.text) is not None or record.severity is Severity.DEBUG:
            return None
        if record.severity is Severity.WARNING:
            return replace(said, severity=Severity.WARNING)
        return said


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Whether an exception carries a compiler's failure, or stands right before one that was printed."""
    text = f"{hit.type}: {hit.message}"
    if any(said.code == FAILED for said, *_ in found_in(text, _FORMS)):
        return True
    if hit.line is None or _COMPILES.search(text) is None:
        return False
    for said in snapshot.diagnostics.values():
        if said.system == "compilers" and said.code == FAILED and said.attributes["source"] == hit.source:
            before, until = int(said.attributes["order"]), int(said.attributes["until"])
            if before - _NEAR <= hit.line <= until + _NEAR:
                return True
    return False
