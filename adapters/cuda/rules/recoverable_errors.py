"""CUDA errors after which the context still works: failed calls, out of memory, sanitizer reports; and Xids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.adapters.cuda.rules.sentences import (
    PIN_DOWN,
    CudaContext,
    alive,
    evidence,
    process_of,
    said,
)
from livedbg.adapters.cuda.sizes import bytes_of
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import many
from livedbg.model import CauseClass, Diagnostic, Severity
from livedbg.text.shell import shell_word

__all__ = ["found_by_sanitizer", "out_of_memory", "returned", "waits", "xid"]

_SHOWN: Final = 10  # findings of one kind and context
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


_SANITIZER_ADVICE: Final = {
    "hazard": "order the two accesses: __syncthreads() between them, or __syncwarp() inside a warp",
    "sanitizer": "write the memory before it is read (cudaMemset counts bytes, not elements)",
    "leak": "free it before the context ends",
    "sanitizer-trouble": "read compute-sanitizer's message: it can't report accesses that it did not track",
}


def out_of_memory(rule: str, context: CudaContext, state: RuleInput) -> Iterator[Finding]:
    """PyTorch's allocator ran out."""
    for error in context.of("out-of-memory")[:_SHOWN]:
        attributes = error.attributes
        crashed = attributes.get("uncaught") == "yes" and not alive(error, state.snapshot)
        gpu = f" on GPU {attributes['gpu']}" if attributes.get("gpu") else ""
        parts = [
            f"{attributes['tried']} were requested" if attributes.get("tried") else "",
            f"{attributes['free']} of {attributes.get('total', '?')} are free" if attributes.get("free") else "",
            f"{attributes['allocated']} are in use by PyTorch" if attributes.get("allocated") else "",
            f"{attributes['unused']} are reserved by it and unused" if attributes.get("unused") else "",
            f"other processes hold memory there: {attributes['others']}" if attributes.get("others") else "",
        ]
        where = f", at {attributes['host']}" if attributes.get("host") else ""
        detail = "; ".join(filter(None, parts))
        count = int(attributes.get("count", "1"))
        again = f" ({count:,} times)" if count > 1 else ""
        sentence = f"{context.owner}CUDA out of memory{gpu}{where}{again}" + (f": {detail}." if detail else ".")
        yield Finding(
            rule=rule,
            severity=Severity.CRITICAL if crashed else Severity.WARNING,
            sentence=sentence,
            entities=process_of(error),
            evidence=evidence(error),
            next=_memory_steps(error),
            since_wall_ns=error.at_wall_ns,
            state=VerdictState.CRASHED if crashed else None,
        )


def _memory_steps(error: Diagnostic) -> tuple[str, ...]:
    attributes = error.attributes
    tried, unused, free, used = bytes_of(attributes.get(name) for name in ("tried", "unused", "free", "used"))
    steps = []
    if tried and unused + free >= tried and unused > free:
        steps.append(
            "the memory is there, but in pieces: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True   (before the first "
            "allocation)"
        )
    if attributes.get("others") and used < bytes_of([attributes.get("total")])[0] / 2:
        steps.append("nvidia-smi   (other processes hold most of this GPU's memory)")
    steps.append("a smaller batch or sequence, activation checkpointing, or a GPU with more memory")
    steps.append("torch.cuda.memory._record_memory_history()   (who allocated what, shown by pytorch.org/memory_viz)")
    return tuple(steps)


def returned(rule: str, context: CudaContext, state: RuleInput) -> Iterator[Finding]:
    """Calls that failed while the context lives."""
    if context.root is not None:
        return  # these are its consequences, or don't matter beside it
    for error in context.reported[:_SHOWN]:
        attributes = error.attributes
        call, host = attributes.get("call", ""), attributes.get("host")
        launch = call.startswith(_LAUNCHES)
        fatal = (launch or attributes.get("uncaught") == "yes") and not alive(error, state.snapshot)
        if error.severity.rank < Severity.ERROR.rank or "logged" in attributes:
            fatal = False
        library = error.code == "library-error"
        sentence = f"{context.owner}{attributes.get('what', error.sentence)}"
        sentence += f", at {host}" if host else ""
        sentence += f": {attributes['said']}." if attributes.get("said") else "."
        count = int(attributes.get("count", "1"))
        if count > 1:
            sentence += f" {count:,} times."
        if launch and attributes.get("number"):
            sentence += " The kernel was not launched: its results are missing."
        elif library:
            sentence += " Such an error often comes from a kernel that ran earlier, or from lack of memory."
        yield Finding(
            rule=rule,
            severity=Severity.ERROR if fatal else Severity.WARNING,
            sentence=sentence,
            entities=process_of(error),
            evidence=evidence(error),
            next=_steps_of(error, launch, library),
            inferred=False,
            since_wall_ns=error.at_wall_ns,
            state=VerdictState.CRASHED if fatal else None,
        )


def _steps_of(error: Diagnostic, launch: bool, library: bool) -> tuple[str, ...]:
    attributes = error.attributes
    steps = [_ADVICE[attributes["error"]]] if attributes.get("error") in _ADVICE else []
    if launch and not steps:
        steps.append("check grid, block, shared memory and arguments of the launch")
    if library:
        steps += PIN_DOWN[:2]
    elif error.code != "api-error" and not steps:
        steps.append("livedbg launch --recipe cuda-log -- COMMAND   (the driver says what was wrong with the call)")
    return tuple(steps) or ("read the log lines before it",)


def found_by_sanitizer(rule: str, context: CudaContext, state: RuleInput) -> Iterator[Finding]:
    """Races, reads of undefined values, leaks."""
    for error in context.of("hazard", "leak", "sanitizer", "sanitizer-trouble", "sanitizer-summary"):
        attributes = error.attributes
        if error.code == "sanitizer" and attributes.get("tool") != "initcheck":
            continue
        if error.code == "sanitizer-summary":
            if attributes.get("errors") == "0" and attributes.get("tool") != "leak" and len(context.errors) == 1:
                yield _clean(rule, context, error)
            continue
        wrong = error.code == "sanitizer" or (error.code == "hazard" and error.severity is not Severity.WARNING)
        sentence = f"{context.owner}{attributes.get('what', error.sentence)}{said(error)}"
        if attributes.get("accesses"):
            sentence += f": {attributes['accesses']}"
        if attributes.get("hazards"):
            sentence += f" ({many(int(attributes['hazards']), 'hazard')})"
        if attributes.get("bytes"):
            sentence += f", {int(attributes['bytes']):,} bytes"
        if attributes.get("host"):
            place = "allocated" if error.code == "leak" else "launched"
            sentence += f"; {place} by {attributes['host']}"
        yield Finding(
            rule=rule,
            severity=Severity.ERROR if wrong else Severity.WARNING,
            sentence=f"{sentence}.",
            entities=process_of(error),
            evidence=evidence(error),
            next=(_SANITIZER_ADVICE.get(error.code, "check the source line"),),
            since_wall_ns=error.at_wall_ns,
            state=VerdictState.DIVERGED if wrong else None,
            topic=("dependency" if error.code == "hazard" else "precision") if wrong else "",
        )


def _clean(rule: str, context: CudaContext, error: Diagnostic) -> Finding:
    return Finding(
        rule=rule,
        severity=Severity.INFO,
        sentence=f"{context.owner}compute-sanitizer found no errors.",
        evidence=evidence(error),
    )


def waits(rule: str, context: CudaContext, state: RuleInput) -> Iterator[Finding]:
    """Programs that wait for a debugger."""
    for error in context.of("waits"):
        process = state.snapshot.processes.get(error.attributes.get("process", ""))
        pid = error.attributes.get("pid", "PID") if process is None else process.pid
        yield Finding(
            rule=rule,
            severity=Severity.CRITICAL,
            sentence=f"{context.owner}{error.attributes.get('what', error.sentence)}.",
            entities=process_of(error),
            evidence=evidence(error),
            next=(f"livedbg device {shell_word(pid)} --attach   (or cuda-gdb -p {shell_word(pid)})",),
            since_wall_ns=error.at_wall_ns,
            state=VerdictState.CRASHED,
        )


def xid(rule: str, error: Diagnostic, state: RuleInput, in_program: bool, before: Sequence[Diagnostic]) -> Finding:
    """One Xid.

    Args:
        rule: name of the rule.
        error: its diagnostic.
        state: what is known.
        in_program: a program's log reports a fault.
        before: the Xids before it.
    """
    attributes = error.attributes
    kind, pid = attributes.get("kind"), attributes.get("pid")
    ours = {str(process.pid) for process in state.snapshot.processes.values() if process.target}
    of_others = bool(ours) and bool(pid) and pid not in ours
    cause = _cause(error, before)
    programs = kind == "program" and not of_others and not in_program and cause is None
    serious = kind in ("gpu", "driver") or programs
    name = f" ({attributes['name']})" if attributes.get("name") else ""
    who = f" Process {pid}{name} used the GPU." if pid else ""
    if of_others and kind == "program":
        who += " It is not one of the target's processes."
    elif kind == "program" and in_program:
        who += " It is probably the driver's report of the same fault as in the program's log."
    if cause is not None and not serious:
        who += f" It follows from Xid {cause.attributes.get('xid')} before it."
    count = int(attributes.get("count", "1"))
    again = f" ({count:,} times)" if count > 1 else ""
    steps = tuple(step for step in attributes.get("next", "").split("\n") if step)
    return Finding(
        rule=rule,
        severity=Severity.CRITICAL if serious else error.severity if kind == "notice" else Severity.WARNING,
        sentence=f"{attributes.get('what', error.sentence)}{again}.{who}",
        entities=tuple(p.id for p in state.snapshot.processes.values() if pid and str(p.pid) == pid),
        evidence=evidence(error),
        next=steps,
        inferred=kind == "program",
        since_wall_ns=error.at_wall_ns,
        state=VerdictState.CRASHED if serious else None,
        cause=CauseClass.DEVICE if in_program and _elsewhere_first(error, before) else None,
    )


def _elsewhere_first(error: Diagnostic, before: Sequence[Diagnostic]) -> bool:
    """Whether a program's fault on another GPU stands before it: then it did not make that fault."""
    gpu = error.attributes.get("gpu")
    return any(one.attributes.get("kind") == "program" and one.attributes.get("gpu") != gpu for one in before)


def _cause(error: Diagnostic, before: Sequence[Diagnostic]) -> Diagnostic | None:
    """The Xid of the same GPU and process that came first."""
    if error.attributes.get("kind") not in ("program", "aftermath"):
        return None
    gpu, pid = error.attributes.get("gpu"), error.attributes.get("pid")
    for other in before:
        same = other.attributes.get("pid") == pid or other.attributes.get("kind") == "gpu"
        if other.attributes.get("gpu") == gpu and same and other.attributes.get("kind") != "notice":
            return other
    return None
