"""Rules for CUDA errors: the first one of a context, its consequences, and how to locate it.

All rules read the diagnostics that the CUDA adapter made of logs (docs/systems/cuda.md); none reads a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from livedbg.adapters.cuda.facts import about
from livedbg.adapters.cuda.rules.recoverable_errors import found_by_sanitizer, out_of_memory, returned, waits, xid
from livedbg.adapters.cuda.rules.sentences import (
    ASYNCHRONOUS,
    CONTEXT_LOST,
    HARDWARE,
    PIN_DOWN,
    CudaContext,
    contexts,
    evidence,
    finding_on,
    launched_last,
    reported_at,
    said,
    synchronous,
    unless_alive,
)
from livedbg.adapters.cuda.statement import RULE
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.completed import completed_elsewhere
from livedbg.analysis.postmortem.lines import named_elsewhere
from livedbg.analysis.postmortem.survived import unless_survived
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.said import in_test
from livedbg.analysis.rules.words import many
from livedbg.model import Diagnostic, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.text.shell import shell_word

_HARDWARE_STEPS: Final = (
    "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
    "nvidia-smi nvlink -e",
    "dmesg | grep 'NVRM: Xid'",
)
_SHOWN: Final = 10  # faults of one context that are findings of their own


class CudaRule(Struct, frozen=True):
    """A rule applied to the errors of each process, and a sentence on a process that outlives them."""

    name: str
    doc: str
    find: Callable[[str, CudaContext, RuleInput], Iterable[Finding]]
    alive: str = "{} still lives."

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for context in contexts(state.snapshot):
            for finding in self.find(self.name, context, state):
                judged = unless_alive(unless_survived(finding, state.snapshot), state.snapshot, self.alive)
                if judged.state is None and _is_of_sanitizer(finding):
                    judged = replace(judged, state=VerdictState.UNKNOWN, decides=True, severity=Severity.ERROR)
                yield judged


def _is_of_sanitizer(finding: Finding) -> bool:
    """Return whether compute-sanitizer saw an invalid access: a process that goes on after it proves nothing."""
    wrong = finding.state is VerdictState.CRASHED and finding.evidence
    return bool(wrong) and finding.evidence[0].text.startswith(RULE)


class XidRule(Struct, frozen=True):
    """Rule for Xids: the kernel's messages about GPUs, of any process."""

    name: str = "cuda-xid"
    doc: str = (
        "The NVIDIA driver wrote an Xid into the kernel's log: a fault of a program on the GPU, of the GPU, its memory "
        "or links, or of the driver; its number in words, with NVIDIA's advice. One that blames the program does not "
        "count if it names a process outside the target, or if the program's own log reports the fault. It is a "
        "crash only if no target lives; the GPU may be one that the target does not use."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each Xid, process and GPU."""
        in_program = any(context.root is not None for context in contexts(state.snapshot))
        before: list[Diagnostic] = []
        for error in state.snapshot.diagnostics.values():
            if error.system == "cuda" and error.code == "xid":
                found = _unless_another_s(xid(self.name, error, state, in_program, before), error, state.snapshot)
                yield unless_alive(found, state.snapshot, decides=bool(found.entities))
                before.append(error)


def _unless_another_s(finding: Finding, error: Diagnostic, snapshot: Snapshot) -> Finding:
    """Weaken an Xid that blames a program if the other logs don't name its process, and report no error.

    So for a GPU that has fallen off the bus, if they report no error: the target may use others.
    """
    pid, log = error.message.pid, error.log
    program = finding.state is VerdictState.CRASHED and about(error).kind == "program"
    gone = error.message.signature == "nvrm-gone" and len(snapshot.log_sources) > 1
    if not gone and (not program or not pid or named_elsewhere(pid, log, snapshot) is not False):
        return finding
    if any(hit.source != log for hit in snapshot.exceptions.values()) or any(
        proof.log not in ("", log)
        for said in snapshot.diagnostics.values()
        if said.severity.rank >= Severity.ERROR.rank
        for proof in said.evidence[:1]
    ):
        return finding
    over = completed_elsewhere(log, snapshot)
    named = "" if gone else "do not name that process, and "
    why = "The run beside it completed." if over else f"The other logs {named}report no error."
    return replace(
        finding,
        sentence=f"{finding.sentence} {why}",
        severity=Severity.WARNING,
        state=None if over else VerdictState.UNKNOWN,
        decides=not over,
    )


def _fault(rule: str, context: CudaContext, state: RuleInput) -> Iterator[Finding]:
    """Yield what lost the context."""
    precise, root = context.precise, context.root
    for number, error in enumerate(precise[:_SHOWN]):
        following = context.consequences() if not number else []
        yield _precise(rule, context, error, following, in_test(error, state))
    if root is not None and not precise:
        yield _noticed(rule, context, root, state)


def _precise(rule: str, context: CudaContext, error: Diagnostic, following: Sequence[Diagnostic], test: str) -> Finding:
    """Return the finding if the GPU's side of the fault is known, and so the kernel; `test` is what ran."""
    facts = about(error)
    sentence = f"{context.owner}{(facts.what or error.sentence)}{said(error)}{test}."
    if facts.mixed:
        sentence += " Lines of several processes are mixed in this log: kernel and thread may be those of another."
    if facts.address:
        sentence += f" {facts.address}."
    if facts.host:
        sentence += f" It was launched by {facts.host}."
    reporter = next((e for e in following if about(e).host), None)
    if reporter is not None:
        sentence += f" The program noticed it at {about(reporter).host}."
    sentence += _consequences(following) + _unlisted(context)
    dumps = context.of("coredump")
    return finding_on(
        rule,
        error,
        Severity.CRITICAL,
        sentence=sentence,
        evidence=evidence(error, *dumps, *following[:3]),
        next=(*_of_dumps(dumps), *_steps(error)),
        state=VerdictState.CRASHED,
    )


def _noticed(rule: str, context: CudaContext, error: Diagnostic, state: RuleInput) -> Finding:
    """Return the finding if only the host's side of the fault is known."""
    facts = about(error)
    hardware = facts.hardware
    exact = hardware or synchronous(error, state.snapshot)
    call, host = facts.call, reported_at(error, state)
    places = [f"by {call}" if call and call not in facts.what else "", f"at {host}" if host else ""]
    where = " ".join(filter(None, places))
    sentence = f"{context.owner}{(facts.what or error.sentence)}"
    sentence += f", reported {where}." if where else "."
    driver = next((about(e) for e in context.first_faults if e is not error and e.code == "api-error"), None)
    if driver is not None and driver.call:
        sentence += f" The driver's log has it first from {driver.call}."
    if exact and facts.of_kernel:
        sentence += (
            " Launches were synchronous (CUDA_LAUNCH_BLOCKING=1), so the kernel launched there is the one that failed."
        )
    elif hardware:
        sentence += f" {HARDWARE}"
    elif not exact:
        sentence += f" {ASYNCHRONOUS}"
    kernels, launches = launched_last(facts.process, state.snapshot, error.at_wall_ns)
    if kernels and facts.of_kernel:
        sentence += f" Launched last before it (newest first): {kernels}."
    following = context.consequences()
    sentence += _consequences(following, facts.count - 1)
    dumps = context.of("coredump")
    steps = PIN_DOWN[1:] if exact else PIN_DOWN
    if hardware:
        steps = _HARDWARE_STEPS
    elif facts.error == "cudaErrorAssert":
        steps = ("look for the assert's own lines (`Assertion … failed`) in the program's standard error", *steps)
    return finding_on(
        rule,
        error,
        Severity.CRITICAL,
        sentence=sentence,
        evidence=(*evidence(error, *dumps, *following[:3]), *launches),
        next=(*_of_dumps(dumps), *steps),
        inferred=not exact,
        state=VerdictState.CRASHED,
    )


def _consequences(following: Sequence[Diagnostic], again: int = 0) -> str:
    """Return a sentence on the reports that follow from the first error; `again`: repetitions of that one."""
    count = again + sum(about(error).count for error in following)
    if not count:
        return ""
    verb = "is a consequence" if count == 1 else "are consequences"
    return f" {many(count, 'report')} of the host {verb}: after such an error every call in that context fails."


def _unlisted(context: CudaContext) -> str:
    """Return a sentence on errors that compute-sanitizer counted but that are not in the log."""
    printed = sum(about(error).count for error in context.of("sanitizer", "sanitizer-api", "leak", "hazard"))
    for error in context.of("sanitizer-summary"):
        counted = about(error).errors or 0
        if about(error).tool == "error" and counted > printed > 0:
            are = "is" if printed == 1 else "are"
            return f" compute-sanitizer counted {counted:,} errors; {printed:,} {are} in the log."
    return ""


def _of_dumps(dumps: Sequence[Diagnostic]) -> list[str]:
    return [
        f"livedbg device {shell_word(about(dump).file)}   (the state of all warps)"
        for dump in dumps
        if about(dump).file
    ]


def _steps(error: Diagnostic) -> tuple[str, ...]:
    facts = about(error)
    kernel = facts.kernel
    where = facts.where or kernel or "the kernel"
    if error.code == "device-assert":
        return (
            f"check the inputs of {kernel or 'the kernel'}: {facts.assertion or 'the assertion'}",
            PIN_DOWN[0],
        )
    if error.code == "device-exception":
        advice = facts.steps
        sanitize = "" if any("compute-sanitizer" in step for step in advice) else PIN_DOWN[1]
        return tuple(filter(None, (*advice, f"check {where}", sanitize)))
    steps = [f"check {where}"]
    if not facts.where:
        steps.append("compile with -lineinfo: the report then has source lines")
    if facts.tool == "synccheck":
        steps.append("let all threads of the block reach the same barrier, or pass the right mask")
    return tuple(steps)


def rules() -> Sequence[Rule]:
    """Return the rules for CUDA, most specific first."""
    return (
        CudaRule(
            "cuda-fault",
            "A CUDA context was lost: an illegal access, an assert of device code, a trap. The first error of a "
            "process counts; what the host reports after it is named as its consequence. If only the host reports it, "
            "the finding says that the reporting call is not the one that failed (inferred), and which recipes "
            "find the kernel; a report of compute-sanitizer, an assert, a GPU core dump or CUDA_LAUNCH_BLOCKING=1 (in "
            "the process's environment, or in PyTorch's message) is exact. A warning if the log goes on after it; "
            "of compute-sanitizer's reports `unknown`, since results may be wrong; `unknown` also while its process "
            "lives, in which every CUDA call fails from there on.",
            _fault,
            CONTEXT_LOST,
        ),
        CudaRule(
            "cuda-out-of-memory",
            "PyTorch's allocator ran out of GPU memory, with its numbers. A crash where nothing caught the exception "
            "and no process is alive; a warning if the log goes on after it.",
            out_of_memory,
        ),
        CudaRule(
            "cuda-error",
            "A call of CUDA, cuBLAS, cuDNN or NCCL returned an error, and no fault explains it. A crash where it was "
            "not caught, or where a kernel could not be launched, and no process is alive.",
            returned,
        ),
        CudaRule(
            "cuda-sanitizer",
            "compute-sanitizer reported races, reads of uninitialised memory, or leaks: the program continues, but "
            "results may be wrong. Races that it calls warnings, and leaks, do not change the verdict.",
            found_by_sanitizer,
        ),
        CudaRule(
            "cuda-waits",
            "A program stopped at a device error and waits for a debugger (CUDA_DEVICE_WAITS_ON_EXCEPTION). `unknown` "
            "while its process lives.",
            waits,
        ),
        XidRule(),
    )
