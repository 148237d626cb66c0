"""Rule for programs in torch.compile, which may look hung for minutes: the phase is named.

A compilation is seen in a thread's stack, the program's trace (livedbg.adapters.pytorch.traces), or both, which
then make one finding. In stacks the phases get the names of torch's traces (`dynamo_timed`), by the functions around
them: torch/_dynamo/{convert_frame,output_graph}.py,
torch/_functorch/{aot_autograd,_aot_autograd/graph_capture}.py,
torch/_inductor/{compile_fx,graph,scheduler,async_compile,codecache}.py of 2.13.

Invariants:
    rules_compiling.R1. A compiling thread counts as running only if its process or a child makes progress.
    rules_compiling.R2. A log counts as current only if its process is of the session, alive, and not seen to do
        something else; otherwise it only shows what was open at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from livedbg.adapters.pytorch.facts import compile_facts
from livedbg.adapters.pytorch.rules.compile_logs import deep_look, ends_open, log_of
from livedbg.adapters.pytorch.rules.threads import python_frames
from livedbg.adapters.pytorch.rules.wakers import family_of_rank
from livedbg.analysis.behaviour import progressing
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import at
from livedbg.analysis.rules.words import duration, name_of, thread_evidence
from livedbg.model import Diagnostic, Evidence, Frame, Process, Severity, Stack, Thread
from livedbg.text.patterns import lazy_re

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
