"""Rules for programs in torch.compile: what goes on (which may look hung for minutes), graph breaks, recompilations,
failures and compile workers, from stacks, traces and logs.

A compilation is seen in a thread's stack, the program's trace (livedbg.adapters.pytorch.traces), or both, which
then make one finding. In stacks the phases get the names of torch's traces (`dynamo_timed`), by the functions around
them: torch/_dynamo/{convert_frame,output_graph}.py,
torch/_functorch/{aot_autograd,_aot_autograd/graph_capture}.py,
torch/_inductor/{compile_fx,graph,scheduler,async_compile,codecache}.py of 2.13.

Invariants:
    rules_compile_logs.L1. None of the rules for logs decides the verdict: a program goes on, uncompiled, after each of
        them, or its exception is reported by itself.
    rules_compile_logs.L2. If processes are watched, logs of others, such as earlier runs in the same folder, are
        shown but make no finding.
    rules_compile_logs.R1. A compiling thread counts as running only if its process or a child makes progress.
    rules_compile_logs.R2. A log counts as current only if its process is of the session, alive, and not seen to do
        something else; otherwise it only shows what was open at its end.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from livedbg.adapters.pytorch.facts import compile_facts
from livedbg.adapters.pytorch.rules.threads import python_frames
from livedbg.adapters.pytorch.rules.wakers import family_of_rank
from livedbg.adapters.pytorch.traces.emission import BREAK, FAILED, LOST_WORKER, OPEN, RECOMPILED
from livedbg.adapters.pytorch.traces.text import LEFT_OUT
from livedbg.adapters.pytorch.traces.workers import is_compile_worker, served
from livedbg.analysis.behaviour import progressing
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.ended import how_ended
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import at
from livedbg.analysis.rules.said import finding_about
from livedbg.analysis.rules.words import duration, many, name_of, thread_evidence
from livedbg.model import Diagnostic, Evidence, Frame, Process, Severity, Stack, Thread
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
            severity = Severity.WARNING if often else Severity.INFO
            noted = bool(compile_facts(said).limit)
            yield _about(self.name, said, state, severity, next=tuple(steps), noted=noted)


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
            yield _about(
                self.name,
                first,
                state,
                sentence=f"{_of_rank(first)}{more}",
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
        again = "TORCHDYNAMO_VERBOSE=1 TORCH_LOGS=+dynamo: the stack within torch at the next run"
        for said in _said(FAILED, state)[:_SHOWN]:
            steps = (deep_look(said), again)
            yield _about(self.name, said, state, Severity.WARNING, next=steps, since_wall_ns=said.at_wall_ns)


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
                yield _about(self.name, said, state, next=(deep_look(said),))


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
        steps = (
            "dmesg: whether the kernel killed it for want of memory",
            "TORCHINDUCTOR_COMPILE_THREADS=1 compiles in the process itself: a crash then shows its stack",
        )
        for worker in state.snapshot.processes.values():
            program = _robbed(worker, state)
            if program is not None and program.id not in told:
                told.add(program.id)
                rank = f" of rank {program.rank}" if program.rank is not None else ""
                how = f"ended {how_ended(worker.exit_status)}"
                yield Finding(
                    rule=self.name,
                    severity=Severity.WARNING,
                    sentence=(
                        f"Compile worker {worker.pid}{rank} was {how}: what it compiled for "
                        f"{name_of(program.id, state.snapshot)} is lost."
                    ),
                    entities=(worker.id, program.id),
                    evidence=(Evidence(kind="proc", source=f"process {worker.pid}", text=how),),
                    next=steps,
                )
        for said in _said(LOST_WORKER, state)[:_SHOWN]:
            if not told.intersection(_entities(said, state)):
                yield _about(self.name, said, state, Severity.WARNING, next=steps, since_wall_ns=said.at_wall_ns)


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
                yield finding_about(self.name, said, Severity.INFO, since_wall_ns=None)


def _about(rule: str, said: Diagnostic, state: RuleInput, severity: Severity = Severity.INFO, **more: Any) -> Finding:
    known = {"sentence": _of_rank(said), "entities": _entities(said, state), "since_wall_ns": None}
    return finding_about(rule, said, severity, **{**known, **more})


def _of_rank(said: Diagnostic) -> str:
    rank = compile_facts(said).rank
    return said.sentence if rank is None else f"Rank {rank}: {said.sentence}"


def _entities(said: Diagnostic, state: RuleInput) -> tuple[str, ...]:
    process = _writer(said, state)
    return (process.id,) if process is not None else ()


_PHASES: Final = {
    ("_inductor/async_compile.py", "wait"): "async_compile.wait",
    ("_inductor/async_compile.py", "_wait_futures"): "async_compile.wait",
    ("_inductor/codecache.py", "load_by_key_path"): "PyCodeCache.load_by_key_path",
    ("_inductor/cpp_builder.py", "run_compile_cmd"): "compile_file",
    ("_inductor/graph.py", "compile_to_module"): "GraphLowering.compile_to_module",
    ("_inductor/graph.py", "run"): "GraphLowering.run",
    ("_inductor/scheduler.py", "codegen"): "Scheduler.codegen",
    ("_inductor/scheduler.py", "fuse_nodes"): "Scheduler.fused_nodes",
    ("_inductor/compile_fx.py", "codegen_and_compile"): "fx_codegen_and_compile",
    ("_functorch/partitioners.py", "min_cut_rematerialization_partition"): "min_cut_rematerialization_partition",
    ("_functorch/_aot_autograd/graph_capture.py", "aot_dispatch_autograd_graph"): "aot_trace_joint_graph",
    ("_functorch/aot_autograd.py", "create_aot_state"): "aot_collect_metadata",
    ("_dynamo/output_graph.py", "call_user_compiler"): "backend_compile",
    ("_dynamo/convert_frame.py", "trace_frame"): "bytecode_tracing",
}
_OUTERMOST: Final = ("_dynamo/convert_frame.py", "_compile")
_COMPILER: Final = lazy_re(r"/torch/(?:_dynamo/(?!eval_frame\.py)|_subclasses/|fx/)")
_LIMITS: Final = "a limit: TORCHINDUCTOR_COMPILE_THREADS, smaller regions (torch.compiler.disable)"


def compile_phase(stack: Stack | None) -> tuple[str, Frame] | None:
    """Return the innermost compile phase of a stack and the frame that began to compile; None if there is none."""
    phase = ""
    for frame in stack.frames if stack is not None else ():
        place = _place(frame)
        phase = phase or _PHASES.get(place, "")
        if place == _OUTERMOST:
            return phase or "entire_frame_compile", frame
    return None


def _place(frame: Frame) -> tuple[str, str]:
    """Return the file within torch's package, and the function's own name."""
    _, _, file = (frame.file or "").rpartition("/torch/")
    return file, frame.function.rpartition(".")[2]


class Compiling:
    """Threads in torch.compile."""

    name = "compiling"
    doc = (
        "A process is in torch.compile (Dynamo, AOTAutograd, Inductor), which takes minutes for large models: the "
        "phase is named as torch's own traces do, with the frame, the user's function and since when where there "
        "is a trace (TORCH_TRACE), else with the user's line that called the compiled function. The job "
        "runs where something of its process or its children, such as compile workers, makes progress; else it is a "
        "note. Rests on the thread's Python frames, on the trace, or on both. A trace whose process is not of the "
        "session says only what was open when it ends."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        logs = {name: said for said in ends_open(state) if (name := log_of(said, state))}
        told = set()
        for thread in state.snapshot.threads.values():
            found = compile_phase(state.snapshot.stacks.get(thread.id)) if not thread.exited else None
            if found is None or thread.process in told:
                continue
            told.add(thread.process)
            yield self._by_stack(thread, found, logs.get(thread.process), state)
        for name, said in logs.items():
            if name not in told and _may_compile(said, name, state):
                yield self._by_log(state.snapshot.processes[name], said, state)
        for said in ends_open(state):
            if compile_facts(said).traced and not log_of(said, state):
                yield self._when_it_ends(said)

    def _by_stack(self, thread: Thread, found: tuple[str, Frame], said: Diagnostic | None, state: RuleInput) -> Finding:
        phase, began = found
        process = state.snapshot.processes.get(thread.process)
        evidence = (thread_evidence(thread, state), *(said.evidence if said is not None else ()))
        if said is not None and process is not None:
            traced = compile_facts(said).traced  # a text has no phases
            sentence = _sentence(said, process, compile_facts(said).phase if traced else phase, state)
        else:
            since = began.held_mono_ns
            lasts = f" for {duration(max(0, state.snapshot.now().mono_ns - since))} or more" if since else ""
            sentence = (
                f"Compiling{lasts}: {name_of(thread.id, state.snapshot)} is in torch.compile"
                f"{at(thread.id, state)}, now in {phase}."
            )
        finding = self._finding(said, sentence, evidence, _LIMITS)
        runs = process is not None and _progresses(process, state)
        return replace(finding, entities=(thread.id,), state=VerdictState.RUNNING if runs else None)

    def _by_log(self, process: Process, said: Diagnostic, state: RuleInput) -> Finding:
        sentence = _sentence(said, process, compile_facts(said).phase, state)
        finding = self._finding(said, sentence, said.evidence, _LIMITS)
        runs = _progresses(process, state)
        return replace(finding, entities=(process.id,), state=VerdictState.RUNNING if runs else None)

    def _when_it_ends(self, said: Diagnostic) -> Finding:
        lasted = max(0, compile_facts(said).last_ns - (_begun_ns(said) or 0))
        facts = compile_facts(said)
        who = f"process {facts.pid}" if facts.rank is None else f"rank {facts.rank} (process {facts.pid})"
        sentence = (
            f"When its trace ends, {who} was compiling {facts.frame}, for {duration(lasted)} until then, in "
            f"{facts.phase}."
        )
        step = "livedbg attach PID, if the process is still there: what it does now"
        return self._finding(said, sentence, said.evidence, step)

    def _finding(self, said: Diagnostic | None, sentence: str, evidence: tuple[Evidence, ...], step: str) -> Finding:
        return Finding(
            rule=self.name,
            severity=Severity.INFO,
            sentence=sentence,
            evidence=evidence,
            next=(deep_look(said), step),
            inferred=True,
            since_wall_ns=_begun_ns(said),
        )


def _begun_ns(said: Diagnostic | None) -> int | None:
    return compile_facts(said).begun_ns if said is not None else None


def _sentence(said: Diagnostic, process: Process, phase: str, state: RuleInput) -> str:
    lasted = duration(max(0, state.snapshot.now(process.host).wall_ns - (_begun_ns(said) or 0)))
    rank = process.rank if process.rank is not None else compile_facts(said).rank
    who = f" on rank {rank}" if rank is not None else ""
    return f"Compiling {compile_facts(said).frame}{who} for {lasted}, now in {phase}."


def _progresses(process: Process, state: RuleInput) -> bool:
    return bool(progressing(family_of_rank(process, state), state))


def _may_compile(said: Diagnostic, process: str, state: RuleInput) -> bool:
    """Return whether a trace alone proves a compilation: no Python stack of that process contradicts it.

    The stack of a running thread may be partial: then frames of the compiler are enough.
    """
    if not compile_facts(said).traced:
        return False
    threads = [one for one in state.snapshot.threads.values() if one.process == process and not one.exited]
    files = [frame.file or "" for thread in threads for frame in python_frames(thread, state)]
    return not files or any(map(_COMPILER.search, files))
