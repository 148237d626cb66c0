"""How a diagnostic of a job is made."""

from __future__ import annotations

from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import Mark
from livedbg.model import Diagnostic, Severity

__all__ = ["statement"]


def statement(
    job: Job,
    code: str,
    severity: Severity,
    sentence: str,
    *,
    entities: tuple[str, ...] = (),
    attributes: dict[str, str] | None = None,
    marks: tuple[Mark | None, ...] = (),
    detail: object = "",
) -> Diagnostic:
    """A statement about a job.

    Args:
        job: the job.
        code: the kind of statement.
        severity: how bad it is.
        sentence: what it means.
        entities: what it is about.
        attributes: its fields.
        marks: the lines that show it.
        detail: tells it from others of its kind.
    """
    real = [mark for mark in marks if mark is not None and mark.name]
    return Diagnostic(
        id=job.names.diagnostic(code, detail),
        system="ascend",
        code=code,
        severity=severity,
        sentence=sentence,
        entities=entities,
        attributes={"scope": job.names.scope, **(attributes or {})},
        evidence=tuple(mark.evidence() for mark in real),
        at_wall_ns=real[0].wall_ns if real else None,
    )
