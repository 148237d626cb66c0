"""Rules for traces and logs of torch.compile: graph breaks, recompilations, failures, compile workers.

Invariants:
    rules_compile_logs.L1. None of them decides the verdict: a program goes on, uncompiled, after each of them, or its
        exception is reported by itself.
    rules_compile_logs.L2. If processes are watched, logs of others, such as earlier runs in the same folder, are
        shown but make no finding.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.adapters.pytorch.traces.emission import BREAK, FAILED, LOST_WORKER, OPEN, RECOMPILED
from livedbg.adapters.pytorch.traces.facts import compile_facts
from livedbg.adapters.pytorch.traces.left_out import LEFT_OUT
from livedbg.adapters.pytorch.traces.workers import is_compile_worker, served
from livedbg.analysis.diagnosis import Finding
from livedbg.analysis.postmortem.ended import how_ended
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import many, name_of
from livedbg.model import Diagnostic, Evidence, Process, Severity
from livedbg.text.patterns import lazy_re
from livedbg.text.shell import shell_word

_SHOWN: Final = 5
_OFTEN: Final = 3  # a frame that is compiled so often again changes with each step; once or twice is usual
_SLACK_NS: Final = 2_000_000_000
_HINT: Final = lazy_re(r"\(HINT: (.+)")
_LOST_BY: Final = frozenset(
    {signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
)


def ends_open(state: RuleInput) -> list[Diagnostic]:
    """Return the diagnostics of compilations that have begun and not ended."""
    return [said for said in _said(OPEN, state) if not said.resolved]


def log_of(said: Diagnostic, state: RuleInput) -> str:
    """Return the living process of the session that wrote a log; "" for none."""
    process = _writer(said, state)
    return process.id if process is not None and not process.exited else ""


def _writer(said: Diagnostic, state: RuleInput) -> Process | None:
    """Return the process of the session that wrote a log.

    It has the pid in the log and started before it, or else has the log open (a container's pids differ).
    """
    processes = state.snapshot.processes
    facts = compile_facts(said)
    first_ns, pid = facts.first_ns, facts.pid
    for process in processes.values():
        started = process.start_wall_ns
        if process.pid == pid and started is not None and started <= first_ns + _SLACK_NS:
            return process
    return processes.get(facts.process)


def deep_look(said: Diagnostic | None) -> str:
    """Return a hint how to see the whole trace."""
    trace = compile_facts(said).trace if said is not None else ""
    if trace:
        return f"tlparse {shell_word(trace)}   (pip install tlparse): all of it as pages"
    return "TORCH_LOGS=dynamo, or TORCH_TRACE=DIR and tlparse, show the phases of the next run"


def _said(code: str, state: RuleInput) -> list[Diagnostic]:
    """Return the session's diagnostics of a code: all without processes, else those of its processes (L2)."""
    diagnostics = state.snapshot.diagnostics.values()
    found = [said for said in diagnostics if said.system == "pytorch" and said.code == code]
    if found and any(process.target for process in state.snapshot.processes.values()):
        return [said for said in found if _writer(said, state) is not None]
    return found


class Recompiled:
    """Frames that torch.compile compiled more than once."""

    name = "recompiled"
    doc = (
        "A guard of compiled code failed, so torch.compile compiled the frame again (TORCH_TRACE, "
        "TORCH_LOGS=recompiles, or the warning that the limit was reached). A warning from the third time on, or where "
        "the limit was reached and the frame is no longer compiled; once or twice is usual."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each frame, most often compiled first."""
        found = sorted(_said(RECOMPILED, state), key=lambda said: -compile_facts(said).times)
        for said in found[:_SHOWN]:
            often = compile_facts(said).times >= _OFTEN or bool(compile_facts(said).limit)
            steps = [deep_look(said)] if compile_facts(said).trace else []
            if often:
                steps.append(_advice(compile_facts(said).guard))
            yield Finding(
                rule=self.name,
                severity=Severity.WARNING if often else Severity.INFO,
                sentence=_of_rank(said),
                entities=_entities(said, state),
                evidence=said.evidence,
                next=tuple(steps),
                noted=bool(compile_facts(said).limit),
            )


def _advice(guard: str) -> str:
    """Return a remedy for a repeatedly failing guard."""
    hint = _HINT.search(guard)
    if hint is not None:
        return f"torch's hint: {hint[1].rstrip('.…) ')}"
    if "size mismatch" in guard:
        return "torch.compile(…, dynamic=True), or torch._dynamo.mark_dynamic for what changes its size"
    return "keep equal from call to call what the guard compares, or leave it out: torch.compiler.disable"


class GraphBreaks:
    """Graphs that torch.compile broke."""

    name = "graph-breaks"
    doc = (
        "torch.compile broke a graph in two at a line of the user's code, with torch's reason (TORCH_TRACE or "
        "TORCH_LOGS=graph_breaks). The program is right, and slower than it could be."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        by_process: dict[str, list[Diagnostic]] = {}
        for said in _said(BREAK, state):
            by_process.setdefault(said.id.split("/")[2], []).append(said)
        for found in by_process.values():
            first = found[0]
            more = f" Graphs broke at {many(len(found) - 1, 'other place', 'other places')} too." if found[1:] else ""
            yield Finding(
                rule=self.name,
                severity=Severity.INFO,
                sentence=f"{_of_rank(first)}{more}",
                entities=_entities(first, state),
                evidence=tuple(proof for said in found[:_SHOWN] for proof in said.evidence),
                next=(deep_look(first),) if compile_facts(first).trace else (),
            )


class CompileFailed:
    """Compilations that failed."""

    name = "compile-failed"
    doc = (
        "torch.compile failed on a frame, with the type and the message of the error (TORCH_TRACE). Whether the "
        "program ended by it is not said here: the frame may run uncompiled, or the error be handled."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for said in _said(FAILED, state)[:_SHOWN]:
            yield Finding(
                rule=self.name,
                severity=Severity.WARNING,
                sentence=_of_rank(said),
                entities=_entities(said, state),
                evidence=said.evidence,
                next=(
                    deep_look(said),
                    "TORCHDYNAMO_VERBOSE=1 TORCH_LOGS=+dynamo: the stack within torch at the next run",
                ),
                since_wall_ns=said.at_wall_ns,
            )


class CompileTimes:
    """Time spent in compilation."""

    name = "compile-times"
    doc = (
        "What the compilations of a run that has ended took, and its longest phases, each without the phases within it "
        "(TORCH_TRACE)."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each ended process, or trace without a process."""
        for said in _said(OPEN, state):
            writer, facts = _writer(said, state), compile_facts(said)
            if said.resolved and facts.traced and facts.times and (writer is None or writer.exited):
                yield Finding(
                    rule=self.name,
                    severity=Severity.INFO,
                    sentence=_of_rank(said),
                    entities=_entities(said, state),
                    evidence=said.evidence,
                    next=(deep_look(said),),
                )


class LostWorkers:
    """Compile workers that ended before their work was done."""

    name = "compile-worker-lost"
    doc = (
        "A process of Inductor's pool of compile workers was seen to end by a signal that nobody sends to stop it (it "
        "was killed, for want of memory for instance, or crashed in a compiler) while its program goes on, or Inductor "
        "says so in a log."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        told = set()
        for worker in state.snapshot.processes.values():
            program = _robbed(worker, state)
            if program is not None and program.id not in told:
                told.add(program.id)
                rank = f" of rank {program.rank}" if program.rank is not None else ""
                yield self._finding(
                    f"Compile worker {worker.pid}{rank} was ended {how_ended(worker.exit_status)}: what it compiled "
                    f"for {name_of(program.id, state.snapshot)} is lost.",
                    (worker.id, program.id),
                    (_seen_to_end(worker),),
                )
        for said in _said(LOST_WORKER, state)[:_SHOWN]:
            if not told.intersection(_entities(said, state)):
                yield self._finding(_of_rank(said), _entities(said, state), said.evidence, said.at_wall_ns)

    def _finding(
        self, sentence: str, entities: tuple[str, ...], evidence: tuple[Evidence, ...], since_ns: int | None = None
    ) -> Finding:
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=sentence,
            entities=entities,
            evidence=evidence,
            next=(
                "dmesg: whether the kernel killed it for want of memory",
                "TORCHINDUCTOR_COMPILE_THREADS=1 compiles in the process itself: a crash then shows its stack",
            ),
            since_wall_ns=since_ns,
        )


def _robbed(worker: Process, state: RuleInput) -> Process | None:
    """Return the living program that lost a compile worker, unless the pool or program ended first.

    Then workers end themselves by SIGKILL.
    """
    if not worker.exited or -(worker.exit_status or 0) not in _LOST_BY or not is_compile_worker(worker):
        return None
    processes = state.snapshot.processes
    program = served(worker, processes.values())
    pool = next((one for one in processes.values() if one.pid == worker.ppid and one.host == worker.host), None)
    if pool is not None and pool.exited and pool is not program:
        return None
    return program if program is not None and not program.exited else None


def _seen_to_end(worker: Process) -> Evidence:
    return Evidence(kind="proc", source=f"process {worker.pid}", text=f"ended {how_ended(worker.exit_status)}")


class LeftUncompiled:
    """Functions that torch.compile leaves uncompiled."""

    name = "left-uncompiled"
    doc = (
        "torch.compile logged a traceback below its levels of errors, since it leaves a function uncompiled "
        "(TORCH_LOGS, suppress_errors): the program goes on, and it is no crash. Where a "
        "limit of recompilations is the cause, the finding of that says so."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each log: its newest."""
        facts = [compile_facts(said) for said in _said(RECOMPILED, state)]
        limited = {one.place for one in facts if one.limit}
        for said in state.snapshot.diagnostics.values():
            if said.code == LEFT_OUT and compile_facts(said).place not in limited:
                yield Finding(
                    rule=self.name, severity=Severity.INFO, sentence=said.sentence, evidence=said.evidence, next=()
                )


def _of_rank(said: Diagnostic) -> str:
    rank = compile_facts(said).rank
    return said.sentence if rank is None else f"Rank {rank}: {said.sentence}"


def _entities(said: Diagnostic, state: RuleInput) -> tuple[str, ...]:
    process = _writer(said, state)
    return (process.id,) if process is not None else ()


def rules() -> Sequence[Rule]:
    """Return the rules of this module."""
    return (Recompiled(), GraphBreaks(), CompileFailed(), CompileTimes(), LostWorkers(), LeftUncompiled())
