"""Diagnostics for failures: full rings, abandoned waits, fatal errors, return codes, crashes."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from livedbg.adapters.ascend.codes import ErrorCode, error_code, named_code, unexplained, whole_graph
from livedbg.adapters.ascend.diagnostics.run import statement
from livedbg.adapters.ascend.facts import FailureFacts, RingFacts
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.trouble import Fatal, RingFull, TensorWait
from livedbg.model import Diagnostic


def failures(job: Job) -> Iterator[Diagnostic]:
    """Yield all failures of the run."""
    trouble = job.trouble
    if trouble.ring is not None:
        yield _ring_full(job, trouble.ring)
    if trouble.tensor is not None:
        yield _tensor_wait(job, trouble.tensor)
    if trouble.fatal is not None:
        yield _fatal(job, trouble.fatal)
    if trouble.status and not trouble.only_deinit(job.run):
        yield _run_failed(job, trouble.status)


def _ring_full(job: Job, ring: RingFull) -> Diagnostic:
    fatal = job.trouble.fatal
    head = ""
    entities: tuple[str, ...] = (job.names.orchestrator,)
    if ring.ring is not None:
        entities += (job.names.ring(ring.ring),)
    if ring.head is not None:
        entities += (job.names.task(ring.head),)
        head = task_name(ring.head) if ring.head_state == 0 else ""
    full = ring.resource.rstrip("!")
    facts = RingFacts(
        full=full,
        what=ring.what.value,
        name=ring.name,
        level=ring.level,
        size=f"{ring.size:,}" if ring.size is not None else "",
        wanted=f"{ring.wanted:,}" if ring.wanted is not None else "",
        never_fits=ring.never_fits,
        scopes=_scopes(job, ring),
        by_scope=ring.by_scope,
        host_built=ring.host_built,
        code=named_code(fatal.code if fatal is not None else 0),
    )
    values = {"full": full, "level": ring.level, "head": head}
    return statement(job, "ring-full", values, entities=entities, facts=facts, marks=(ring.mark,))


def _scopes(job: Job, ring: RingFull) -> str:
    """Return sentences on the full resource from scope_stats.jsonl."""
    stats = job.scopes
    if stats is None:
        return ""
    words = []
    inside = [one for one in stats.open if ring.ring in (None, one.ring) and one.depth]
    if inside:
        words.append(f"The scope at {inside[-1].site} (depth {inside[-1].depth}) has begun and not ended.")
    peak = stats.peak(ring.what, ring.ring)
    if peak is not None:
        least = "at least " if stats.dropped else ""
        words.append(
            f"Of the scopes that ended, the one at {peak.site} held the most: {least}{peak.used:,} of {peak.size:,}."
        )
    return " ".join(words)


def _tensor_wait(job: Job, tensor: TensorWait) -> Diagnostic:
    return statement(
        job,
        "tensor-wait-timeout",
        {"who": "the consumers of task" if tensor.consumers else "task", "task": task_name(tensor.task)},
        entities=(job.names.orchestrator, job.names.task(tensor.task)),
        facts=FailureFacts(code=named_code(8)),
        marks=(tensor.mark,),
    )


def _fatal(job: Job, fatal: Fatal) -> Diagnostic:
    code = _error_code(job, fatal.code or _latched_code(job))
    values = {**structs.asdict(code), "who": fatal.func or "The runtime"}
    facts = FailureFacts(
        error_code=code.number, message=fatal.text, hint=job.trouble.hint, advice=code.advice, blame=code.blame
    )
    return statement(job, "fatal", values, facts=facts, marks=(fatal.mark,))


def _run_failed(job: Job, status: int) -> Diagnostic:
    trouble = job.trouble
    code = _error_code(job, _latched_code(job) or status)
    sentence = f"The run failed with code {status} ({code.name}): {code.meaning}."
    if status == -1 and not _latched_code(job) and trouble.fatal is None:
        code = error_code(0)
        sentence = unexplained(trouble.call)
    facts = FailureFacts(
        error_code=code.number, call=trouble.call, hint=trouble.hint, advice=code.advice, blame=code.blame
    )
    return statement(job, "runtime-failed", {"said": sentence}, facts=facts, marks=(trouble.status_mark,))


def _error_code(job: Job, number: int) -> ErrorCode:
    code, ring = error_code(number), job.trouble.ring
    return whole_graph(code) if ring is not None and ring.host_built else code


def _latched_code(job: Job) -> int:
    return job.trouble.orch_code or job.trouble.sched_code


def crash(job: Job) -> Iterator[Diagnostic]:
    """Yield the signal or exception that ended the process."""
    ended = job.trouble.crash
    if ended is None:
        return
    values = {"what": ended.what, "message": ended.message}
    facts = FailureFacts(thrown="C++" if "::" in ended.what else "")
    yield statement(job, "terminate", values, facts=facts, marks=(ended.mark,))
