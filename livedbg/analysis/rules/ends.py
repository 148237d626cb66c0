"""How a job ended: by itself, by a signal, by its user; and what was known of it before.

Invariants:
    ends.E1. A hang that somebody ended stays a hang: the verdict is the last one before the end, with the way it ended.
    ends.E2. The end of a process that is not the job's own (a child, a helper) is no crash of the job, if it was asked
        to end (SIGTERM and its like), if the job ended well, or while the job makes progress.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import name_of
from livedbg.model import HANG_SEEN, Diagnostic, Evidence, ExceptionHit, Process, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case

__all__ = [
    "INTERRUPTED",
    "EndedHang",
    "Interrupted",
    "ended_on_request",
    "heads",
    "how_ended",
    "is_crash",
    "is_interrupt",
    "rules",
    "was_asked",
    "was_hung",
]

INTERRUPTED: Final = "interrupted"
"""Name of the rule for programs that were ended by Ctrl-C."""

_ASKED: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
"""Signals that people and supervisors send to end a program."""
_KILLED: Final = 128 + signal.SIGKILL
_LATELY_NS: Final = 3_000_000_000
_INTERRUPTS: Final = ("KeyboardInterrupt", "SIGINT")


def heads(snapshot: Snapshot) -> list[Process]:
    """The processes that the job is: those that were named, else those whose parent is no target."""
    targets = [process for process in snapshot.processes.values() if process.target]
    named = [process for process in targets if process.named]
    known = {process.pid for process in targets}
    return named or [process for process in targets if process.ppid not in known]


def how_ended(status: int | None) -> str:
    """`by SIGSEGV`, `with status 3`, `with an unknown status`."""
    if status is None:
        return "with an unknown status"
    if status >= 0:
        return f"with status {status}"
    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"


def was_asked(status: int | None) -> bool:
    """Whether somebody ended it: by such a signal, or with the status that shells and handlers make of it."""
    return status is not None and (-status in _ASKED or status - 128 in _ASKED)


def _hang(snapshot: Snapshot) -> Diagnostic | None:
    """The hang that was found last, unless it was over when the job ended."""
    hang = snapshot.diagnostics.get(HANG_SEEN)
    return hang if hang is not None and not hang.resolved else None


def was_hung(snapshot: Snapshot) -> VerdictState | None:
    """The verdict before the end, where it was one of a hang that somebody has ended (E1)."""
    hang, job = _hang(snapshot), heads(snapshot)
    if hang is None or not job or not all(process.exited for process in job):
        return None
    unfinished = [process.exit_status for process in job if process.exit_status != 0]
    killed = (-signal.SIGKILL, _KILLED, None)
    if not unfinished or not all(was_asked(status) or status in killed for status in unfinished):
        return None
    return VerdictState(hang.attributes["state"])


def ended_on_request(snapshot: Snapshot) -> bool:
    """Whether a hang was ended by a known signal or status of those that people send: whatever was logged meanwhile (a
    part of KeyboardInterrupt's traceback, say) did not end it."""
    if was_hung(snapshot) is None:
        return False
    return all(process.exit_status is not None for process in heads(snapshot))


def is_crash(process: Process, state: RuleInput) -> bool:
    """Whether the end of a process is a crash of the job (E2)."""
    snapshot, status = state.snapshot, process.exit_status
    if not process.exited or status in (0, None) or was_hung(snapshot) is not None:
        return False
    job = heads(snapshot)
    if any(process.id == head.id for head in job):
        return True
    if status is None or status > 0 or was_asked(status) or -status == signal.SIGPIPE:
        return False
    if all(head.exited for head in job):
        return any(head.exit_status != 0 for head in job)
    return not _goes_on(snapshot)


def _goes_on(snapshot: Snapshot) -> bool:
    """Whether some main thread of the job has used CPU time lately."""
    for head in heads(snapshot):
        activity = snapshot.activity.get(f"thread:{head.host}/{head.pid}/{head.pid}")
        now_ns = snapshot.now(head.host).mono_ns
        if head.exited or activity is None or not activity.cpu_total_ns:
            continue
        if activity.waiting_since_mono_ns is None or now_ns - activity.waiting_since_mono_ns < _LATELY_NS:
            return True
    return False


def is_interrupt(hit: ExceptionHit) -> bool:
    """Whether an exception says that its user ended the program: Ctrl-C."""
    return hit.type.rpartition(".")[2] in _INTERRUPTS


class EndedHang:
    """A hang that somebody ended."""

    name = "ended-hang"
    doc = (
        "The job hung (a deadlock or a stall was found), and then it was ended by SIGINT, SIGTERM, SIGHUP, SIGQUIT or "
        "SIGKILL: it stays a hang. A job that ends by itself after a hang (a watchdog that aborts it, an exception) is "
        "judged by that end, and the hang is reported beside it; one that ends with status 0 did not hang."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """At most one."""
        snapshot = state.snapshot
        hang, job = _hang(snapshot), heads(snapshot)
        if hang is None or not job or not all(process.exited for process in job):
            return
        first = next((process for process in job if process.exit_status != 0), None)
        if first is None:
            return
        stays = was_hung(snapshot)
        end = f"{sentence_case(name_of(first.id, snapshot))} ended {how_ended(first.exit_status)}"
        yield Finding(
            rule=self.name,
            severity=Severity.CRITICAL if stays else Severity.WARNING,
            sentence=f"{hang.sentence} {end}." if stays else f"Before it ended: {hang.sentence}",
            entities=hang.entities,
            evidence=(Evidence(kind="proc", source=f"wait status of {first.pid}", text=end),),
            next=("livedbg record PID -o FILE   keeps the state of the next one",),
            since_wall_ns=hang.at_wall_ns,
            state=stays,
            roots=hang.entities if stays else (),
        )


class Interrupted:
    """A program that its user ended by Ctrl-C."""

    name = INTERRUPTED
    doc = (
        "A log shows a KeyboardInterrupt: the user ended the program. That is no crash. Where nothing shows that it "
        "hung before, the verdict is `unknown`; the stack of the exception says where it was."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding an interrupt that was logged."""
        snapshot = state.snapshot
        for hit in snapshot.exceptions.values():
            if not (hit.catchpoint or "").startswith("log") or not is_interrupt(hit):
                continue
            frame = next((frame for frame in hit.stack if frame.file and not frame.file.startswith("<")), None)
            where = f" in {frame.function} ({(frame.file or '').rpartition('/')[2]}:{frame.line})" if frame else ""
            alive = any(not process.exited for process in snapshot.processes.values() if process.target)
            yield Finding(
                rule=self.name,
                severity=Severity.INFO,
                sentence=f"Interrupted by Ctrl-C{where}: whether it hung is not known.",
                entities=tuple(entity for entity in (hit.process, hit.thread) if entity),
                evidence=(
                    Evidence(kind="log", source=hit.catchpoint or "log", text=hit.type, at_wall_ns=hit.at_wall_ns),
                ),
                since_wall_ns=hit.at_wall_ns,
                state=None if alive else VerdictState.UNKNOWN,
            )


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (EndedHang(), Interrupted())
