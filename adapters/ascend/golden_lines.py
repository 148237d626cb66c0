"""What pypto-lib's and simpler's harnesses print of results that differ from the golden ones.

Source: hw-native-sys/pypto-lib golden/validation.py (`validate_golden`) and golden/runner.py (`[RUN] PASS`),
hw-native-sys/simpler simpler_setup/scene_test.py (`_compare_outputs`), August 2026.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import ClassVar, Final

from msgspec import Struct, field

from livedbg.adapters.ascend.marks import Mark
from livedbg.logs.decoder import LogDecoder
from livedbg.model import Diagnostic, LogRecord, LogSource, Severity
from livedbg.model.events import DiagnosticSeen, Event, Stamp
from livedbg.text.wording import many

__all__ = ["CODE", "GoldenDecoder"]

CODE: Final = "golden-mismatch"
_TRIGGERS: Final = (b"does not match golden: ['", b"Golden mismatch on '", b"Mismatched elements: ", b"[RUN] PASS (")
_OUTPUTS: Final = re.compile(r"Output\(s\) does not match golden: \[('[^\[\]]{1,2000}')\]")
_OUTPUT: Final = re.compile(
    r"Golden mismatch on ('[^'\n{}]{1,200}'): max_diff=(\S{1,40}), rtol=(\S{1,40}), atol=(\S{1,40})"
)
_COUNT: Final = re.compile(r"Mismatched elements: (\d{1,18})/(\d{1,18}) {1,4}rtol=(\S{1,40}) atol=(\S{1,40})")
_PASSED: Final = re.compile(r"^\[RUN\] PASS \(")
_FAR: Final = 20  # lines below the names in which the first count stands
_TEXT: Final = 400


class _Log(Struct):
    name: str
    names: str = ""
    numbers: str = ""
    mark: Mark | None = None
    line: int = 0
    passed: bool = False
    evidence: list[Mark] = field(default_factory=list)


class GoldenDecoder(LogDecoder):
    """Makes a diagnostic of the last comparison of a log, if it failed."""

    name = "ascend"
    triggers: ClassVar[tuple[bytes, ...]] = _TRIGGERS

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def opened(self, source: LogSource) -> None:
        """A log begins."""
        self._logs[source.id] = _Log(PurePath(source.path).name if source.path else source.name)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take one record."""
        log = self._logs.setdefault(record.source, _Log(record.source.rpartition("/")[2]))
        told = False
        for number, line in enumerate(record.text.split("\n")):
            told = self._line(log, record, number, line) or told
        if not told or log.mark is None:
            return (), ()
        said = _diagnostic(record.source, log)
        return (DiagnosticSeen(diagnostic=said, **stamp),), (said.id,)

    @staticmethod
    def _line(log: _Log, record: LogRecord, number: int, line: str) -> bool:
        """Whether a line says something of a comparison."""
        where = Mark(
            log.name,
            line.strip()[:_TEXT],
            record.wall_ns,
            record.wall_ns is not None,
            log=record.source,
            line=record.line_at(number),
        )
        outputs, output = _OUTPUTS.search(line), _OUTPUT.search(line)
        if outputs is not None or output is not None:
            log.names, log.numbers, log.passed = (outputs or output or [""])[1], "", False
            log.mark, log.line, log.evidence = where, (record.line or 0) + number, [where]
            if output is not None:
                log.numbers = f"by up to {output[2]} (rtol {output[3]}, atol {output[4]})"
            return True
        count = _COUNT.search(line)
        if count is not None and log.names and not log.numbers and (record.line or 0) + number - log.line <= _FAR:
            log.numbers = f"in {int(count[1]):,} of {int(count[2]):,} elements (rtol {count[3]}, atol {count[4]})"
            log.evidence.append(where)
            return True
        if _PASSED.search(line) is not None and log.names:
            log.passed = True
            return True
        return False


def _diagnostic(source: str, log: _Log) -> Diagnostic:
    outputs = log.names.count("', '") + 1
    which = f"{many(outputs, 'output')} ({log.names})" if outputs > 1 else f"output {log.names}"
    first = ", the first" if outputs > 1 and log.numbers else ""
    return Diagnostic(
        id=f"diagnostic:ascend/golden/{hashlib.blake2b(source.encode(), digest_size=6).hexdigest()}",
        system="ascend",
        code=CODE,
        severity=Severity.ERROR,
        sentence=f"Results differ from the golden ones: {which}{first}{f' {log.numbers}' if log.numbers else ''}.",
        attributes={"source": source},
        resolved=log.passed,
        evidence=tuple(mark.evidence() for mark in log.evidence),
        at_wall_ns=log.mark.wall_ns if log.mark is not None else None,
    )
