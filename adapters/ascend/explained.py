"""Logged exceptions whose cause the rules for Ascend report."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from livedbg.adapters.ascend.facts import ReportFacts
from livedbg.adapters.ascend.reports import CODE, is_npu, report_facts
from livedbg.logs.tracebacks import CUT_OFF
from livedbg.model import FAILED_TESTS, Diagnostic, ExceptionHit
from livedbg.model.snapshot import Snapshot
from livedbg.text.patterns import lazy_re

_RUN_FAILED: Final = lazy_re(
    r"\b\w{1,1000} failed with code -?\d{1,40}|\(run_id=\d{1,40} slot=\d{1,40} .{0,4000}run_epoch=\d{1,40}\)"
)
"""What the runtime raises in Python for a run that failed (simpler src/common/worker/chip_worker.cpp)."""


def failed_tests(logs: Collection[str], snapshot: Snapshot) -> Iterator[str]:
    """Yield the tests that failed in one of these logs because a run failed."""
    for hit in snapshot.exceptions.values():
        if hit.source in logs and hit.catchpoint == f"log: {FAILED_TESTS}" and _RUN_FAILED.search(hit.message):
            yield hit.type


_BELOW: Final = 40  # lines of a compiler's report below its exception
_NEAR: Final = 40  # lines between a traceback that is cut off and the report that its last line begins

_GOLDEN: Final = "golden-mismatch"  # signatures/golden.toml
_RUN_ENDS: Final = frozenset(
    {"cann-code", "fatal", "ring-full", "runtime-failed", "tensor-wait-timeout", "timeout-exit", "watchdog-starved"}
)
"""Codes of the diagnostics of which each is a finding of its own."""


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether an exception only passes on an NPU failure or failed run that a diagnostic reports."""
    reports = [said for said in snapshot.diagnostics.values() if said.system == "ascend" and said.code == CODE]
    if any(said.source == hit.source and _passed_on(hit, said) for said in map(report_facts, reports)):
        return True
    if "golden" in hit.message.lower() and any(
        said.code == _GOLDEN and said.log == hit.source for said in snapshot.diagnostics.values()
    ):
        return True
    if any(_compile_error(hit, said) for said in snapshot.diagnostics.values() if said.code == "compile-error"):
        return True
    return _RUN_FAILED.search(hit.message) is not None and any(
        diagnostic.system == "ascend" and diagnostic.code in _RUN_ENDS and not diagnostic.resolved
        for diagnostic in snapshot.diagnostics.values()
    )


def _passed_on(hit: ExceptionHit, report: ReportFacts) -> bool:
    """Return whether an exception passes a report on, by its words or since it is cut off where the report begins."""
    if is_npu(hit):
        return True
    if CUT_OFF not in hit.message or hit.line is None:
        return False
    first, last = hit.first_line or hit.line, hit.line + _NEAR
    return any(first <= line <= last for line in report.lines)


def _compile_error(hit: ExceptionHit, error: Diagnostic) -> bool:
    """Return whether an exception is a compiler's error: the error's text is in it, or shortly after."""
    proof = error.evidence[0] if error.evidence else None
    if proof is None or proof.log != hit.source or hit.line is None or error.resolved:
        return False
    return proof.line is not None and (hit.first_line or hit.line) <= proof.line <= hit.line + _BELOW
