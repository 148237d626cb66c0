"""Programs in torch.compile, on states built by hand with frames of a real compilation (torch 2.13)."""

from __future__ import annotations

import pytest

from livedbg.adapters.pytorch.rules.compiling import compile_phase
from livedbg.analysis import VerdictState
from livedbg.analysis.diagnosis import Finding
from livedbg.model import Frame, Stack, ThreadState
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World

TORCH = "/opt/venv/lib/python3.11/site-packages/torch"
METADATA = (
    ("Interpreter.run_node", f"{TORCH}/fx/interpreter.py"),
    ("run_functionalized_fw_and_collect_metadata.<locals>.inner", f"{TORCH}/_functorch/_aot_autograd/x.py"),
    ("create_aot_state", f"{TORCH}/_functorch/aot_autograd.py"),
    ("compile_fx", f"{TORCH}/_inductor/compile_fx.py"),
    ("OutputGraph.call_user_compiler", f"{TORCH}/_dynamo/output_graph.py"),
    ("trace_frame", f"{TORCH}/_dynamo/convert_frame.py"),
    ("_compile", f"{TORCH}/_dynamo/convert_frame.py"),
    ("train", "/home/me/big.py"),
)


def stack(*places: tuple[str, str], held_ns: int | None = None) -> Stack:
    frames = tuple(
        Frame(
            function=function,
            file=file,
            line=10 + number,
            language="python",
            held_mono_ns=held_ns if function == "_compile" else None,
        )
        for number, (function, file) in enumerate(places)
    )
    return Stack(thread="thread:box/1/1", frames=frames, taken_mono_ns=0, source="py-spy", layer="python")


@pytest.mark.parametrize(
    ("skipped", "phase"),
    [(0, "aot_collect_metadata"), (3, "backend_compile"), (5, "bytecode_tracing"), (6, "entire_frame_compile")],
)
def test_the_innermost_phase_is_named(skipped: int, phase: str) -> None:
    found = compile_phase(stack(*METADATA[skipped:]))
    assert found is not None and found[0] == phase


def test_code_that_was_compiled_before_is_not_compiling() -> None:
    assert compile_phase(None) is None
    runs = (("call", "/tmp/torchinductor_me/ab/cab.py"), ("_fn", f"{TORCH}/_dynamo/eval_frame.py"), METADATA[-1])
    assert compile_phase(stack(*runs)) is None
    assert compile_phase(stack(("_compile", "/home/me/convert_frame.py"))) is None


def compiling(*, cpu_ns: int, state: ThreadState) -> Finding:
    world = World()
    process = world.process(1)
    world.thread(1, "python", state=state, waits_in="poll of 1 fd")
    world.store.apply(ev.StacksSeen(stacks=(stack(*METADATA, held_ns=world.now_ns),), **world.stamp()))
    world.now_ns += 5 * SECOND
    world.thread(1, "python", state=state, waits_in="poll of 1 fd", cpu_ns=cpu_ns)
    assert process == "process:box/1"
    return world.found("compiling")


@pytest.mark.invariant("rules_compiling.R1")
def test_R1_a_compilation_runs_only_by_progress() -> None:
    one = compiling(cpu_ns=4 * SECOND, state=ThreadState.RUNNING)
    assert one.state is VerdictState.RUNNING
    assert one.sentence == (
        "Compiling for 5.0 s or more: thread 1 (python) is in torch.compile in train (big.py:17), now in "
        "aot_collect_metadata."
    )
    assert compiling(cpu_ns=0, state=ThreadState.WAITING).state is None
