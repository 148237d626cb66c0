"""CUDA errors grouped by process, and the sentences of findings on them.

Invariants:
    living.L1. A fault that a log, the kernel or NVML reports is a crash only if no process that it may belong to was
        seen alive: while the process lives, only the context is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from livedbg.adapters.cuda.facts import about
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import place_text
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.said import finding_about
from livedbg.analysis.rules.words import name_of
from livedbg.analysis.wording import with_more
from livedbg.model import Diagnostic, Evidence, ExceptionHit, Severity, ThreadState
from livedbg.model.launches import kernel_text, launch_text
from livedbg.model.snapshot import Snapshot
from livedbg.text.demangling import is_rest_of_symbol
from livedbg.text.wording import sentence_case

_PRECISE: Final = frozenset({"sanitizer", "device-assert", "device-exception"})
_REPORTED: Final = frozenset({"error", "api-error", "sanitizer-api", "library-error"})
_PROOFS: Final = 6
_LAUNCHES: Final = 3  # the last ones that are named
_SECOND_NS: Final = 1_000_000_000
_AGAIN: Final = 3  # lines in which the same error comes again, with its place

ASYNCHRONOUS: Final = (
    "Kernels run asynchronously: one that was launched earlier made the error, and this is only where it was noticed."
)
HARDWARE: Final = "It is a fault of the GPU or its links, and not of the kernel or the call that met it."
PIN_DOWN: Final = (
    "livedbg launch --recipe cuda-blocking -- COMMAND   (each launch waits, so the stack is that of the kernel)",
    "livedbg launch --recipe compute-sanitizer=memcheck -- COMMAND   (names kernel, thread and source line)",
    "livedbg launch --recipe cuda-coredump -- COMMAND   (keeps the state of all warps at the fault)",
)


class CudaContext(Struct, frozen=True):
    """The errors of one process, in log order; `name` is its log, and its rank or worker there."""

    name: str
    errors: Sequence[Diagnostic]

    @property
    def owner(self) -> str:
        """Return `Rank 3: `, if the log has several."""
        owner = about(self.errors[0]).owner
        return f"{sentence_case(owner)}: " if owner else ""

    @property
    def precise(self) -> list[Diagnostic]:
        """Return the errors that themselves identify the failed kernel and place."""
        found = self.of(*_PRECISE)
        return [error for error in found if about(error).tool != "initcheck"]  # undefined values stop nothing

    @property
    def reported(self) -> list[Diagnostic]:
        """Return reports on the host."""
        return self.of(*_REPORTED)

    @property
    def first_faults(self) -> list[Diagnostic]:
        """Return the first report in each log of an error that the context does not survive: all are one error.

        Of it and the exception that follows from it, the one with its place.
        """
        found: dict[str, Diagnostic] = {}
        for fault in (error for error in self.reported if about(error).sticky):
            first = found.setdefault(about(fault).source, fault)
            if _adds_place(first, fault):
                found[about(fault).source] = fault
        return list(found.values())

    @property
    def root(self) -> Diagnostic | None:
        """Return the error that lost the context, from the most detailed log."""
        faults = self.first_faults
        hosts = (fault for fault in faults if about(fault).host)
        return next(iter(self.precise), None) or next(hosts, None) or next(iter(faults), None)

    def of(self, *codes: str) -> list[Diagnostic]:
        """Return the errors of some kinds."""
        return [error for error in self.errors if error.code in codes]

    def consequences(self) -> list[Diagnostic]:
        """Return the consequences of the root: later reports of the host, and its own report of the root."""
        root = self.root
        if root is None:
            return []
        before = self.errors[: self.errors.index(root)]
        return [error for error in self.reported if error is not root and (error not in before or about(error).sticky)]


def contexts(snapshot: Snapshot) -> list[CudaContext]:
    """Return the groups of errors."""
    found: dict[str, list[Diagnostic]] = {}
    for diagnostic in snapshot.diagnostics.values():
        if diagnostic.system == "cuda" and not diagnostic.code.startswith(("xid", "nccl-", "nvrm-")):
            found.setdefault(about(diagnostic).context, []).append(diagnostic)
    sorted_ = [CudaContext(name, _in_order(errors)) for name, errors in found.items()]
    return sorted(sorted_, key=lambda context: not context.precise)  # what is certain comes first


def _in_order(errors: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sort by time if they are of several logs and all have one, else in reading order."""
    read = sorted(errors, key=lambda error: about(error).order)
    one_log = len({about(error).source for error in read}) < 2  # of some stamps the year is guessed
    if one_log or any(error.at_wall_ns is None for error in read):
        return read
    return sorted(read, key=lambda error: error.at_wall_ns or 0)


def _adds_place(first: Diagnostic, later: Diagnostic) -> bool:
    """Return whether `later` is the program's exception from the error of `first`, or right below it; with a place."""
    one, other = about(first), about(later)
    same = not one.host and bool(other.host) and one.error == other.error
    return same and (other.uncaught or later.message.first - first.message.last <= _AGAIN)


def alive(error: Diagnostic, snapshot: Snapshot) -> bool:
    """Return whether its process, or any process if that is not known, may still run."""
    owner = snapshot.processes.get(about(error).process)
    return any(not process.exited for process in ([owner] if owner else snapshot.processes.values()))


def reported_at(error: Diagnostic, state: RuleInput) -> str:
    """Return its place on the host, `step (train.py:4), in load (lib.py:9)` if the text has a deeper one; or "".

    The stack of the exception has it, or its text, or the message (`place`) in whose lines it is.
    """
    log, line, hit, deeper = error.log, error.message.first, raised_as(error, state), about(error).host
    frame = state.code.frame_of(hit.stack) if hit is not None else None
    if frame is not None:
        place = place_text(frame)
        same = not deeper or deeper.rpartition("(")[2].rstrip(")") in place
        return place if same else f"{place}, in {deeper}"
    if deeper:
        return deeper
    if hit is not None:
        return ""
    text = error.evidence[0].text.strip()
    around = (
        told.message.values.get("place", "")
        for told in state.snapshot.diagnostics.values()
        if told.log == log
        and told.system != error.system
        and (told.message.first <= line <= told.message.last or text in told.evidence[0].text)
    )
    return next(filter(None, around), "")


def raised_as(error: Diagnostic, state: RuleInput) -> ExceptionHit | None:
    """Return the exception in whose lines an error stands, or None."""
    line = error.message.first
    hits = (one for one in state.snapshot.exceptions.values() if one.source == error.log and one.line is not None)
    return next((one for one in hits if (one.first_line or one.line or 0) <= line <= (one.line or 0) + 1), None)


def synchronous(error: Diagnostic, snapshot: Snapshot) -> bool:
    """Return whether the reporting call is the one that failed."""
    known = about(error).synchronous
    if known is not None:
        return known
    if not about(error).of_kernel:
        return True
    owner = snapshot.processes.get(about(error).process)
    environment: Mapping[str, str] = owner.environment if owner is not None else {}
    return environment.get("CUDA_LAUNCH_BLOCKING") == "1"


def said(error: Diagnostic) -> str:
    """Return its place on the GPU as text: kernel, source line, block and thread."""
    facts = about(error)
    kernel, function = facts.kernel, facts.function
    words = f" in kernel {kernel}" if kernel else ""
    if function and function != kernel and not is_rest_of_symbol(function):
        words += f" (function {function})"
    if facts.where:
        words += f" at {facts.where}"
    count = facts.count
    block, thread = facts.block, facts.thread
    if block and thread:
        words += (
            f", by thread{'s' if ' to ' in thread else ''} {thread} of block{'s' if ' to ' in block else ''} {block}"
        )
    on_gpu = (facts.device, facts.sm, facts.warp, facts.lane, facts.pc)
    place = ", ".join(f"{name} {on}" for on, name in zip(on_gpu, _ON_GPU, strict=True) if on)
    if place:
        words += f" ({place})"
    return words + (f", {count:,} times" if count > 1 else "")


_ON_GPU: Final = ("GPU", "SM", "warp", "lane", "PC")


def evidence(*errors: Diagnostic) -> tuple[Evidence, ...]:
    """Return the log lines behind errors."""
    proofs = (proof for error in errors for proof in error.evidence)
    return tuple({(proof.place, proof.text): proof for proof in proofs}.values())[:_PROOFS]


def finding_on(rule: str, error: Diagnostic, severity: Severity, **more: Any) -> Finding:
    """Return a finding on an error of its process; `more` are other fields of the finding."""
    process = about(error).process
    known = {"entities": (process,) if process else (), "evidence": evidence(error)}
    return finding_about(rule, error, severity, **{**known, **more})


def launched_last(
    process: str, snapshot: Snapshot, until_wall_ns: int | None = None, thread: str = ""
) -> tuple[str, tuple[Evidence, ...]]:
    """Return the kernels that a process launched last, newest first, as text; "" if its launches were not traced.

    Args:
        until_wall_ns: ignore later launches; a time in whole seconds was rounded down by the logger.
        thread: only its launches; "" for all threads.
    """
    if until_wall_ns is not None and until_wall_ns % _SECOND_NS == 0:
        until_wall_ns += _SECOND_NS
    launches = [
        (launch, trail.thread)
        for trail in snapshot.launches.values()
        if trail.process == process and thread in ("", trail.thread)
        for launch in trail.last
        if until_wall_ns is None or launch.wall_ns <= until_wall_ns
    ]
    newest = sorted(launches, key=lambda one: -one[0].wall_ns)[:_LAUNCHES]
    names = [kernel_text(launch) for launch, _thread in newest]
    proofs = tuple(
        Evidence(
            kind="proc",
            source=f"{launch.function} of {name_of(launcher, snapshot)}",
            text=launch_text(launch),
            at_wall_ns=launch.wall_ns,
        )
        for launch, launcher in newest
    )
    return ", ".join(dict.fromkeys(names)), proofs


CONTEXT_LOST = "The CUDA context is lost, and {} still lives: every CUDA call in that context fails."
"""What is said of a process that outlives the fault."""

_OVER = (ThreadState.ZOMBIE, ThreadState.DEAD)


def unless_alive(
    finding: Finding, snapshot: Snapshot, words: str = "{} still lives.", *, decides: bool = True
) -> Finding:
    """Make a crash finding inconclusive if its process was seen alive; any target, if no process is known (L1).

    Args:
        words: sentence on that process, with a place for its name.
        decides: the verdict is `unknown` even while the process makes progress.
    """
    if finding.state is not VerdictState.CRASHED:
        return finding
    named = [snapshot.processes[entity] for entity in finding.entities if entity in snapshot.processes]
    processes = named or [process for process in snapshot.processes.values() if process.target]
    process = next((one for one in processes if not one.exited and one.state not in _OVER), None)
    if process is None:
        return finding
    said = sentence_case(words.format(name_of(process.id, snapshot)))
    return with_more(
        finding,
        said,
        state=VerdictState.UNKNOWN,
        decides=decides,
        severity=Severity.ERROR,
        next=(*finding.next, f"livedbg stacks {process.pid}   (shows where it waits, or what it does now)"),
    )
