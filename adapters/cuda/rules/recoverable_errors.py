"""Rules for CUDA errors that leave the context intact: failed calls, out of memory, sanitizer reports; and Xids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.adapters.cuda.facts import about, bytes_of
from livedbg.adapters.cuda.rules.sentences import (
    PIN_DOWN,
    CudaContext,
    alive,
    finding_on,
    raised_as,
    reported_at,
    said,
)
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import place_text
from livedbg.analysis.postmortem.lines import newest
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import many
from livedbg.logs.last_words import without_numbers
from livedbg.model import CauseClass, Diagnostic, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.text.shell import shell_word
from livedbg.text.wording import sentence_case

_SHOWN: Final = 10  # findings of one kind and context
_RIGHT_BELOW: Final = 3  # lines
_RIGHT_AFTER_NS: Final = 60_000_000_000
_AT_THE_END: Final = 40  # records of a log's end that are looked at
_LAUNCHES: Final = ("cuLaunch", "cudaLaunch", "cuGraphLaunch", "cudaGraphLaunch")


_ADVICE: Final = {
    "cudaErrorNoKernelImageForDevice": "build for this GPU's architecture (TORCH_CUDA_ARCH_LIST, nvcc -gencode)",
    "cudaErrorInsufficientDriver": "update the driver, or use a build for an older CUDA: nvidia-smi shows the highest",
    "cudaErrorInvalidDevice": "compare the device's number with CUDA_VISIBLE_DEVICES and `nvidia-smi -L`",
    "cudaErrorNoDevice": "check CUDA_VISIBLE_DEVICES and `nvidia-smi -L`",
    "cudaErrorLaunchOutOfResources": "fewer threads a block, or __launch_bounds__: the kernel needs too many registers",
    "cudaErrorInvalidConfiguration": "check grid, block and shared memory of the launch: one exceeds a limit",
    "cudaErrorStreamCaptureUnsupported": "a call that a CUDA graph can't capture (synchronising, allocating) was made",
    "cudaErrorStreamCaptureInvalidated": "look for the first error during the capture of the CUDA graph",
}


_BY_NCCL: Final = "ncclUnhandledCudaError"
_SANITIZER_ADVICE: Final = {
    "hazard": "order the two accesses: __syncthreads() between them, or __syncwarp() inside a warp",
    "sanitizer": "write the memory before it is read (cudaMemset counts bytes, not elements)",
    "leak": "free it before the context ends",
    "sanitizer-trouble": "read compute-sanitizer's message: it can't report accesses that it did not track",
}


def out_of_memory(rule: str, context: CudaContext, state: RuleInput) -> Iterator[Finding]:
    """Yield out-of-memory errors of PyTorch's allocator."""
    for error in context.of("out-of-memory")[:_SHOWN]:
        facts = about(error)
        crashed = facts.uncaught and not alive(error, state.snapshot)
        gpu = f" on GPU {facts.gpu}" if facts.gpu else ""
        parts = [
            f"{facts.free} of {facts.total or '?'} are free" if facts.free else "",
            f"{facts.allocated} are in use by PyTorch" if facts.allocated else "",
            f"{facts.unused} are reserved by it and unused" if facts.unused else "",
            f"other processes hold memory there: {facts.others}" if facts.others else "",
        ]
        where = f", at {facts.host}" if facts.host else _raised_below(error, state)
        tried = f": {facts.tried} were requested" if facts.tried else ""
        detail = sentence_case("; ".join(filter(None, parts)))
        count = facts.count
        again = f" ({count:,} times)" if count > 1 else ""
        sentence = f"{context.owner}CUDA out of memory{gpu}{where}{again}{tried}." + (f" {detail}." if detail else "")
        severity, verdict = (Severity.CRITICAL, VerdictState.CRASHED) if crashed else (Severity.WARNING, None)
        yield finding_on(rule, error, severity, sentence=sentence, next=_memory_steps(error), state=verdict)


def _memory_steps(error: Diagnostic) -> tuple[str, ...]:
    facts = about(error)
    tried, unused, free, used = bytes_of((facts.tried, facts.unused, facts.free, facts.used))
    steps = []
    if tried and unused + free >= tried and unused > free:
        steps.append(
            "the memory is there, but in pieces: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True   (before the first "
            "allocation)"
        )
    if facts.others and used < bytes_of([facts.total])[0] / 2:
        steps.append("nvidia-smi   (other processes hold most of this GPU's memory)")
    steps.append("a smaller batch or sequence, activation checkpointing, or a GPU with more memory")
    steps.append("torch.cuda.memory._record_memory_history()   (who allocated what, shown by pytorch.org/memory_viz)")
    return tuple(steps)


def returned(rule: str, context: CudaContext, state: RuleInput) -> Iterator[Finding]:
    """Yield failed calls while the context lives."""
    if context.root is not None:
        return  # these are its consequences, or don't matter beside it
    for error in context.reported[:_SHOWN]:
        facts = about(error)
        call, host = facts.call, reported_at(error, state)
        launch = call.startswith(_LAUNCHES)
        fatal = (launch or facts.uncaught or _ends_log(error, context, state)) and not alive(error, state.snapshot)
        if error.severity.rank < Severity.ERROR.rank or facts.logged:
            fatal = False
        library = error.code == "library-error"
        sentence = f"{context.owner}{(facts.what or error.sentence)}"
        told = _of_nccl(error, state.snapshot) if facts.error == _BY_NCCL else ""
        sentence += f": {told}" if told else ""
        sentence += (f", at {host}" if host else "") + _raised_below(error, state)
        sentence += f": {facts.said}." if facts.said else "."
        count = facts.count
        if count > 1:
            sentence += f" Printed {count:,} times." if facts.uncaught else f" {count:,} times."
        if launch and facts.number:
            sentence += " The kernel was not launched: its results are missing."
        elif library and not told:
            sentence += " Such an error often comes from a kernel that ran earlier, or from lack of memory."
        severity, verdict = (Severity.ERROR, VerdictState.CRASHED) if fatal else (Severity.WARNING, None)
        steps = _steps_of(error, launch, library)
        yield finding_on(rule, error, severity, sentence=sentence, next=steps, state=verdict)


def _ends_log(error: Diagnostic, context: CudaContext, state: RuleInput) -> bool:
    """Return whether a log ends with a failed call: nothing but more of these follows, and nothing else is known.

    A program that goes on without a GPU may say so in one line, of any words.
    """
    source = state.snapshot.log_sources.get(error.log)
    if source is None or source.pending or any(hit.source == error.log for hit in state.snapshot.exceptions.values()):
        return False
    others = (one for one in state.snapshot.diagnostics.values() if one.log == error.log and one.system != error.system)
    if any(one.severity.rank >= Severity.ERROR.rank for one in others):
        return False
    known = {_told(one.evidence[0].text) for one in context.reported if one.log == error.log}
    after = (one for one in newest(source, state.snapshot, _AT_THE_END) if (one.line or 0) > error.message.last)
    return all(_told(one.text) in known for one in after)


def _told(text: str) -> str:
    return without_numbers(text.strip().partition("\n")[0])


def _raised_below(error: Diagnostic, state: RuleInput) -> str:
    """Return `, raised at step (train.py:14)`, the user's line in a traceback right below an error of C++ code."""
    own = raised_as(error, state)
    if own is not None and own.stack:
        return ""  # a traceback itself: what stands below it prints it again, or is another one
    log, last = error.log, error.message.last
    for hit in state.snapshot.exceptions.values():
        below = last < (hit.first_line or 0) <= last + _RIGHT_BELOW
        if hit.source == log and below and hit.catchpoint == "log: traceback":
            frame = state.code.frame_of(hit.stack)
            return f", raised at {place_text(frame)}" if frame is not None else ""
    return ""


def _of_nccl(error: Diagnostic, snapshot: Snapshot) -> str:
    """Return the error of CUDA that NCCL wrote above its own, which does not name it; "" without one."""
    told = (one for one in snapshot.diagnostics.values() if one.system == error.system and one.log == error.log)
    above = [one for one in told if one.message.first < error.message.first and about(one).call == "NCCL"]
    return about(above[-1]).error if above else ""


def _steps_of(error: Diagnostic, launch: bool, library: bool) -> tuple[str, ...]:
    facts = about(error)
    steps = [_ADVICE[facts.error]] if facts.error in _ADVICE else []
    if launch and not steps:
        steps.append("check grid, block, shared memory and arguments of the launch")
    if library:
        steps += PIN_DOWN[:2]
    elif error.code != "api-error" and not steps:
        steps.append("livedbg launch --recipe cuda-log -- COMMAND   (the driver says what was wrong with the call)")
    return tuple(steps) or ("read the log lines before it",)


def found_by_sanitizer(rule: str, context: CudaContext, state: RuleInput) -> Iterator[Finding]:
    """Yield races, reads of undefined values, leaks."""
    for error in context.of("hazard", "leak", "sanitizer", "sanitizer-trouble", "sanitizer-summary"):
        facts = about(error)
        if error.code == "sanitizer" and facts.tool != "initcheck":
            continue
        if error.code == "sanitizer-summary":
            if facts.errors == 0 and facts.tool != "leak" and len(context.errors) == 1:
                sentence = f"{context.owner}compute-sanitizer found no errors."
                yield finding_on(rule, error, Severity.INFO, sentence=sentence, entities=(), since_wall_ns=None)
            continue
        wrong = error.code == "sanitizer" or (error.code == "hazard" and error.severity is not Severity.WARNING)
        sentence = f"{context.owner}{(facts.what or error.sentence)}{said(error)}"
        if facts.accesses:
            sentence += f": {facts.accesses}"
        if facts.hazards:
            sentence += f" ({many(facts.hazards, 'hazard')})"
        if facts.bytes:
            sentence += f", {facts.bytes:,} bytes"
        if facts.host:
            place = "allocated" if error.code == "leak" else "launched"
            sentence += f"; {place} by {facts.host}"
        yield finding_on(
            rule,
            error,
            Severity.ERROR if wrong else Severity.WARNING,
            sentence=f"{sentence}.",
            next=(_SANITIZER_ADVICE.get(error.code, "check the source line"),),
            state=VerdictState.DIVERGED if wrong else None,
            topic=("dependency" if error.code == "hazard" else "precision") if wrong else "",
        )


def waits(rule: str, context: CudaContext, state: RuleInput) -> Iterator[Finding]:
    """Yield programs that wait for a debugger."""
    for error in context.of("waits"):
        process = state.snapshot.processes.get(about(error).process)
        pid = (about(error).pid or "PID") if process is None else process.pid
        sentence = f"{context.owner}{(about(error).what or error.sentence)}."
        steps = (f"livedbg device {shell_word(pid)} --attach   (or cuda-gdb -p {shell_word(pid)})",)
        yield finding_on(rule, error, Severity.CRITICAL, sentence=sentence, next=steps, state=VerdictState.CRASHED)


def xid(rule: str, error: Diagnostic, state: RuleInput, in_program: bool, before: Sequence[Diagnostic]) -> Finding:
    """Return the finding for an Xid, given those before it; `in_program` if a program's log reports a fault."""
    facts = about(error)
    kind, pid = facts.kind, facts.pid
    ours = {str(process.pid) for process in state.snapshot.processes.values() if process.target}
    of_others = bool(ours) and bool(pid) and pid not in ours
    cause = _cause(error, before)
    programs = kind == "program" and not of_others and not in_program and cause is None
    serious = kind in ("gpu", "driver") or programs or (kind == "timeout" and cause is None)
    name = f" ({facts.name})" if facts.name else ""
    who = f" Process {pid}{name} used the GPU." if pid else ""
    if of_others and kind == "program":
        who += " It is not one of the target's processes."
    elif kind == "program" and in_program:
        who += " It is probably the driver's report of the same fault as in the program's log."
    if cause is not None and not serious:
        who += f" It follows from Xid {about(cause).xid} before it."
    count = facts.count
    again = f" ({count:,} times)" if count > 1 else ""
    return finding_on(
        rule,
        error,
        Severity.CRITICAL if serious else error.severity if kind == "notice" else Severity.WARNING,
        sentence=f"{(facts.what or error.sentence)}{again}.{who}",
        entities=tuple(p.id for p in state.snapshot.processes.values() if pid and str(p.pid) == pid),
        next=facts.steps,
        inferred=kind == "program",
        state=VerdictState.CRASHED if serious else None,
        cause=CauseClass.DEVICE if in_program and _elsewhere_first(error, before) else None,
    )


def _elsewhere_first(error: Diagnostic, before: Sequence[Diagnostic]) -> bool:
    """Return whether a program's fault on another GPU precedes it: then it did not cause that fault."""
    gpu = about(error).gpu
    return any(about(one).kind == "program" and about(one).gpu != gpu for one in before)


def _cause(error: Diagnostic, before: Sequence[Diagnostic]) -> Diagnostic | None:
    """Return the first Xid of the same GPU and process; of a time-out, a program's fault right before it."""
    if about(error).kind not in ("program", "aftermath", "timeout"):
        return None
    gpu, pid, late = about(error).gpu, about(error).pid, about(error).kind == "timeout"
    for other in before:
        if late and not (about(other).kind == "program" and _right_after(other, error)):
            continue
        same = about(other).pid == pid or about(other).kind == "gpu" or (late and not about(other).pid)
        if about(other).gpu == gpu and same and about(other).kind != "notice":
            return other
    return None


def _right_after(one: Diagnostic, other: Diagnostic) -> bool:
    """Return whether another error came within a minute, by its time if the log has one."""
    first, second = (error.evidence[0].at_wall_ns if error.evidence else None for error in (one, other))
    return first is None or second is None or 0 <= second - first <= _RIGHT_AFTER_NS
