"""Ends of a job's processes: by themselves, by a signal, by their user; and a hang that was known before.

Invariants:
    ended.E1. A hang that somebody ended stays a hang: the verdict is the last one before the end, and how it ended.
    ended.E2. The end of a process that is not the job's own (a child, a helper) is no crash of the job, if it was asked
        to end (SIGTERM and its like), if the job ended well, or while the job makes progress.
    ended.E3. A status is reported only for the processes that ended with it; an unknown one is reported as unknown.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.analysis.diagnosis import Verdict, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import many, name_of
from livedbg.model import HANG_SEEN, Diagnostic, ExceptionHit, Process
from livedbg.model.facts import Facts, read_facts
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case

_ASKED: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
"""Signals that people and supervisors send to end a program."""
_KILLED: Final = 128 + signal.SIGKILL
_LATELY_NS: Final = 3_000_000_000
_INTERRUPTS: Final = ("KeyboardInterrupt", "SIGINT")
_SHOWN: Final = 3
"""Other ways to end that are given; so many processes of each are named, or counted."""


class HangFacts(Facts, frozen=True, kw_only=True, tag="hang"):
    """Facts of the last hang found: its verdict."""

    state: VerdictState = VerdictState.STALLED


def heads(snapshot: Snapshot) -> list[Process]:
    """Return the processes that form the job: those that were named, else those whose parent is no target."""
    targets = [process for process in snapshot.processes.values() if process.target]
    named = [process for process in targets if process.named]
    known = {process.pid for process in targets}
    return named or [process for process in targets if process.ppid not in known]


def lives(snapshot: Snapshot) -> bool:
    """Return whether a target is alive: then a line of a log is no end of it."""
    return any(process.target and not process.exited for process in snapshot.processes.values())


def went_well(processes: Iterable[Process]) -> bool:
    """Return whether there are processes and all ended with status 0."""
    found = list(processes)
    return bool(found) and all(process.exited and process.exit_status == 0 for process in found)


def how_ended(status: int | None) -> str:
    """Return `by SIGSEGV`, `with status 3` or `with an unknown status`."""
    if status is None:
        return "with an unknown status"
    if status >= 0:
        return f"with status {status}"
    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"


def was_asked(status: int | None) -> bool:
    """Return whether an exit status is such a signal, or the status that shells and handlers make of it."""
    return status is not None and (-status in _ASKED or status - 128 in _ASKED)


def hang_before(snapshot: Snapshot) -> Diagnostic | None:
    """Return the last hang found, unless it was over when the job ended."""
    hang = snapshot.diagnostics.get(HANG_SEEN)
    return hang if hang is not None and not hang.resolved else None


def was_hung(snapshot: Snapshot) -> VerdictState | None:
    """Return the verdict before the end, if it was a hang that somebody has ended (E1), else None."""
    hang, job = hang_before(snapshot), heads(snapshot)
    if hang is None or not job or not all(process.exited for process in job):
        return None
    unfinished = [process.exit_status for process in job if process.exit_status != 0]
    killed = (-signal.SIGKILL, _KILLED, None)
    if not unfinished or not all(was_asked(status) or status in killed for status in unfinished):
        return None
    return read_facts(hang, HangFacts).state


def ended_on_request(snapshot: Snapshot) -> bool:
    """Return whether a hang was ended by a known signal or status that people send.

    Then nothing that was logged meanwhile (a part of KeyboardInterrupt's traceback, say) ended it.
    """
    if was_hung(snapshot) is None:
        return False
    return all(process.exit_status is not None for process in heads(snapshot))


def is_crash(process: Process, state: RuleInput) -> bool:
    """Return whether the end of a process is a crash of the job (E2)."""
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
    for head in heads(snapshot):
        activity = snapshot.activity.get(f"thread:{head.host}/{head.pid}/{head.pid}")
        now_ns = snapshot.now(head.host).mono_ns
        if head.exited or activity is None or not activity.cpu_total_ns:
            continue
        if activity.waiting_since_mono_ns is None or now_ns - activity.waiting_since_mono_ns < _LATELY_NS:
            return True
    return False


def is_interrupt(hit: ExceptionHit) -> bool:
    """Return whether an exception means that the user ended the program with Ctrl-C."""
    return hit.type.rpartition(".")[2] in _INTERRUPTS


def exited(processes: Sequence[Process], snapshot: Snapshot) -> Verdict:
    """Return the verdict for the end of all watched processes; `exited` only if the job's own status is known."""
    job = heads(snapshot) or processes
    first = next((process for process in job if process.exit_status is None), job[0])
    name = sentence_case(name_of(first.id, snapshot))
    rest = [process for process in processes if process.id != first.id]
    if first.exit_status is None:
        sentence = f"{name} has ended; its exit status is not known: its parent has collected it."
        told = _ways(rest, snapshot)
        more = f" {sentence_case('; '.join(told))}." if told else ""
        return Verdict(state=VerdictState.UNKNOWN, sentence=sentence + more)
    alike = [process for process in rest if process.exit_status == first.exit_status]
    more = f" and {many(len(alike), 'other')}" if alike else ""
    others = [process for process in rest if process.exit_status != first.exit_status]
    ways = [f"{name}{more} ended {how_ended(first.exit_status)}", *_ways(others, snapshot)]
    return Verdict(state=VerdictState.EXITED, sentence=f"{'; '.join(ways)}.")


def _ways(processes: Sequence[Process], snapshot: Snapshot) -> list[str]:
    by_status: dict[int | None, list[Process]] = {}
    for process in processes:
        by_status.setdefault(process.exit_status, []).append(process)
    known = sorted(status for status in by_status if status is not None and status != 0)
    ways = [f"{_who(by_status[status], snapshot)} ended {how_ended(status)}" for status in known[:_SHOWN]]
    if rest := sum(len(by_status[status]) for status in known[_SHOWN:]):
        ways.append(f"{rest:,} more ended in other ways")
    if 0 in by_status:
        ways.append(f"{_who(by_status[0], snapshot)} ended {how_ended(0)}")
    if unknown := by_status.get(None):
        ways.append(f"the exit status of {_who(unknown, snapshot)} is not known")
    return ways


def _who(processes: Sequence[Process], snapshot: Snapshot) -> str:
    if len(processes) > _SHOWN:
        return f"{len(processes):,} others"
    return ", ".join(name_of(process.id, snapshot) for process in processes)
