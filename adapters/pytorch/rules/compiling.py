"""Programs that are in torch.compile: what looks like a hang for minutes, and is named with its phase.

The phases have the names that torch gives them in its traces (`dynamo_timed`, TORCH_TRACE), by the functions that are
in them: torch/_dynamo/{convert_frame,output_graph}.py, torch/_functorch/{aot_autograd,_aot_autograd/graph_capture}.py,
torch/_inductor/{compile_fx,graph,scheduler,async_compile,codecache}.py of 2.13.

Invariants:
    rules_compiling.R1. A thread that compiles runs only if something of its process and its children makes progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.adapters.pytorch.rules.wakers import family_threads
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.liveness import progressing
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import at
from livedbg.analysis.rules.words import duration, name_of, thread_evidence
from livedbg.model import Frame, Severity, Stack

__all__ = ["compile_phase", "rules"]

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


def compile_phase(stack: Stack | None) -> tuple[str, Frame] | None:
    """The innermost phase of torch.compile that a stack is in, and the frame in which the compilation began."""
    phase = ""
    for frame in stack.frames if stack is not None else ():
        place = _place(frame)
        phase = phase or _PHASES.get(place, "")
        if place == _OUTERMOST:
            return phase or "entire_frame_compile", frame
    return None


def _place(frame: Frame) -> tuple[str, str]:
    """The file within torch's package, and the function's own name."""
    _, _, file = (frame.file or "").rpartition("/torch/")
    return file, frame.function.rpartition(".")[2]


class Compiling:
    """Threads that are in torch.compile."""

    name = "compiling"
    doc = (
        "A thread is in torch.compile (Dynamo, AOTAutograd, Inductor), which takes minutes for large models: the phase "
        "is named as torch's own traces do, with the user's line that called the compiled function. The job runs where "
        "something of its process or its children, such as compile workers, makes progress; else it is a note. Rests "
        "on the thread's Python frames."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a process."""
        told = set()
        for thread in state.snapshot.threads.values():
            found = compile_phase(state.snapshot.stacks.get(thread.id)) if not thread.exited else None
            if found is None or thread.process in told:
                continue
            told.add(thread.process)
            phase, began = found
            process = state.snapshot.processes.get(thread.process)
            runs = process is not None and bool(progressing(family_threads(process, state), state))
            since = began.held_mono_ns
            lasts = f" for {duration(max(0, state.snapshot.now().mono_ns - since))} or more" if since else ""
            who = "" if process is None or process.rank is None else f"rank {process.rank}, "
            yield Finding(
                rule=self.name,
                severity=Severity.INFO,
                sentence=(
                    f"Compiling{lasts}: {who}{name_of(thread.id, state.snapshot)} is in torch.compile"
                    f"{at(thread.id, state)}, now in {phase}."
                ),
                entities=(thread.id,),
                evidence=(thread_evidence(thread, state),),
                next=(
                    "TORCH_LOGS=dynamo, or TORCH_TRACE=DIR and tlparse, show the phases of the next run",
                    "a limit: TORCHINDUCTOR_COMPILE_THREADS, smaller regions (torch.compiler.disable)",
                ),
                inferred=True,
                state=VerdictState.RUNNING if runs else None,
            )


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (Compiling(),)
