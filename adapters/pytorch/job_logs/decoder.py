"""The decoder of what the ranks of a job, their stores and torchrun log as it ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final

from msgspec.structs import replace

from livedbg.adapters.pytorch.job_logs import compilation, elastic, nccl_errors, recorder_text, stores, watchdog
from livedbg.logs.said import Form, Said, SaidDecoder, found_in, words_of
from livedbg.model import CauseClass, Diagnostic, ExceptionHit, LogRecord, Severity
from livedbg.model.snapshot import Snapshot

__all__ = ["JobLogsDecoder", "explains"]

_FORMS = (*watchdog.FORMS, *stores.FORMS, *nccl_errors.FORMS, *elastic.FORMS, *recorder_text.FORMS, *compilation.FORMS)
_THROWN = (*watchdog.FORMS[:1], *stores.FORMS, *nccl_errors.FORMS, *elastic.FORMS, *compilation.FORMS)
_SUMMARIES: Final = ("ChildFailedError", "SignalException")  # exceptions of torchrun's agent


_CAUSES: Final = {
    **dict.fromkeys((watchdog.TIMEOUT, watchdog.STUCK, stores.MISSING, stores.STORE_TIMEOUT), CauseClass.PEER),
    **dict.fromkeys((stores.UNREACHED, stores.STORE_LOST, stores.PEER), CauseClass.PEER),
    **dict.fromkeys((recorder_text.APART, recorder_text.ABSENT), CauseClass.PROCESS),
    stores.USED: CauseClass.PROCESS,
    compilation.CODE: CauseClass.PROCESS,
    **dict.fromkeys((elastic.ROOT, elastic.FAILED, elastic.TOLD), CauseClass.SUMMARY),
}


class JobLogsDecoder(SaidDecoder):
    """Makes a diagnostic of each of these messages."""

    name = "pytorch"
    forms: ClassVar[Sequence[Form]] = _FORMS
    triggers: ClassVar[tuple[bytes, ...]] = (*words_of(_FORMS), *elastic.BLOCK, *recorder_text.BLOCK)
    together: ClassVar[int] = 12
    near: ClassVar[int] = 16
    asides: ClassVar[re.Pattern[str] | None] = re.compile(
        r"\bnccl(?:Remote|System|Internal|UnhandledCuda|InvalidUsage)Error: |\] Worker group failed\b"
        r"|^torch\.distributed\.elastic\.multiprocessing\.errors\.ChildFailedError: *$"
    )

    def judge(self, said: Said, record: LogRecord) -> Said | None:
        """A warning decides nothing, and a monitor's note of a closed store says nothing (J1)."""
        said = replace(said, cause=said.cause or _CAUSES.get(said.code))
        if said.code in (stores.STORE_LOST, stores.STORE_TIMEOUT, stores.PEER) and "should dump" in record.text:
            return None
        if said.code in (watchdog.TIMEOUT, watchdog.STATUS, watchdog.STUCK, watchdog.ENDS):
            said = _of_job(said, record)
        if record.severity is Severity.WARNING and said.severity is Severity.ERROR:
            return replace(said, severity=Severity.WARNING, attributes={**said.attributes, "warned": "yes"})
        return said


_WHO: Final = {
    watchdog.STUCK: "Rank {}'s NCCL watchdog thread",
    watchdog.ENDS: "Rank {}'s watchdog",
    watchdog.TIMEOUT: "Rank {}",
    watchdog.STATUS: "Rank {}",
}


def _of_job(said: Said, record: LogRecord) -> Said:
    """A watchdog's message with its rank in the job: the one in its text is that in the group."""
    writer = said.writer if record.rank is None else f"rank {record.rank}"
    number = writer.partition(" ")[2]
    attributes = {**said.attributes, "job rank": number}
    return replace(
        said,
        writer=writer,
        key=f"{writer} {said.key}",
        who=_WHO[said.code].format(number) if number else said.who,
        attributes=attributes,
    )


def _of_torchrun(said: Diagnostic, hit: ExceptionHit) -> bool:
    told = (elastic.ROOT, elastic.FAILED, elastic.TOLD)
    return said.system == "pytorch" and said.code in told and said.attributes["source"] == hit.source


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Whether an exception carries one of these messages, which the rules judge."""
    text = f"{hit.type}: {hit.message}"
    if hit.type.rpartition(".")[2] in _SUMMARIES:
        return any(_of_torchrun(said, hit) for said in snapshot.diagnostics.values())
    return any(said.severity is Severity.ERROR for said, *_ in found_in(text, _THROWN))
