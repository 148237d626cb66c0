"""Programs in torch.compile, on states built by hand with frames and a trace of real compilations (torch 2.13)."""

from __future__ import annotations

import msgspec
import pytest

from livedbg.adapters.pytorch.rules.compile_logs import compile_phase
from livedbg.analysis import VerdictState
from livedbg.analysis.diagnosis import Finding
from livedbg.model import Frame, Stack, ThreadState
from livedbg.model import events as ev
from tests.adapters.pytorch.compile_logs import BEGUN_NS, Logs, at, fixture
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


@pytest.mark.invariant("rules_compile_logs.R1")
def test_R1_a_compilation_runs_only_by_progress() -> None:
    one = compiling(cpu_ns=4 * SECOND, state=ThreadState.RUNNING)
    assert one.state is VerdictState.RUNNING
    assert one.sentence == (
        "Compiling for 5.0 s or more: thread 1 (python) is in torch.compile in train (big.py:17), now in "
        "aot_collect_metadata."
    )
    assert compiling(cpu_ns=0, state=ThreadState.WAITING).state is None


PID = 21464
"""Whose trace killed.log is."""

TRACED = "Compiling frame 0/0 of long (models.py:13) for 25 s, now in inductor_codecache_torch_key."
ENDS = (
    "When its trace ends, process 21464 was compiling frame 0/0 of long (models.py:13), for 14 s until then, in "
    "inductor_codecache_torch_key."
)
ELSEWHERE = (("call", "/tmp/torchinductor_me/ab/cab.py"), ("_fn", f"{TORCH}/_dynamo/eval_frame.py"), METADATA[-1])
TEXT = (
    f"I1123 23:03:18.808000 {PID} torch/_dynamo/symbolic_convert.py:5335] [0/0] Step 1: torchdynamo start tracing "
    "long /home/me/models.py:13\n"
)


def traced(
    log: bytes,
    *places: tuple[str, str],
    pid: int = PID,
    started_s: int = -10,
    rank: int | None = None,
    process: str | None = None,
    cpu_ns: int = 4 * SECOND,
) -> World:
    """A process that has run for a while, perhaps with a stack, and a log; two looks, 5 s apart."""
    world = at(World(), BEGUN_NS + 20 * SECOND)
    runs = ThreadState.RUNNING if cpu_ns else ThreadState.WAITING
    world.process(pid)
    seen = world.snapshot().processes[f"process:box/{pid}"]
    seen = msgspec.structs.replace(seen, start_wall_ns=BEGUN_NS + started_s * SECOND, rank=rank)
    world.store.apply(ev.ProcessSeen(process=seen, **world.stamp()))
    world.thread(pid, "python", pid=pid, state=runs, waits_in="poll of 1 fd")
    if places:
        one = msgspec.structs.replace(stack(*places), thread=f"thread:box/{pid}/{pid}")
        world.store.apply(ev.StacksSeen(stacks=(one,), **world.stamp()))
    Logs(world).read(log, process=process)
    world.now_ns += 5 * SECOND
    world.thread(pid, "python", pid=pid, state=runs, waits_in="poll of 1 fd", cpu_ns=cpu_ns)
    return world


def sentences(world: World) -> list[str]:
    return [one.sentence for one in world.diagnosis().findings.values() if one.rule == "compiling"]


@pytest.mark.parametrize("places", [METADATA, (), METADATA[:5]])
def test_a_trace_names_the_frame_and_since_when(places: tuple[tuple[str, str], ...]) -> None:
    """With the stack, without, or with a part of it: one finding."""
    world = traced(fixture("killed"), *places)
    assert sentences(world) == [TRACED]
    assert world.found("compiling").state is VerdictState.RUNNING
    assert world.found("compiling").next[0].startswith("tlparse /home/me/t.log ")
    assert sentences(traced(fixture("killed"), *places, rank=1)) == [TRACED.replace(" for ", " on rank 1 for ")]


@pytest.mark.invariant("rules_compile_logs.R1")
@pytest.mark.parametrize("places", [METADATA, ()])
def test_R1_a_trace_alone_is_no_progress(places: tuple[tuple[str, str], ...]) -> None:
    world = traced(fixture("killed"), *places, cpu_ns=0)
    assert world.found("compiling").state is None


@pytest.mark.invariant("rules_compile_logs.R2")
@pytest.mark.parametrize(
    ("places", "pid", "started_s", "process", "expected"),
    [
        (ELSEWHERE, PID, -10, None, []),  # it does something else
        ((), PID, 10, None, []),  # another program had this pid
        ((), 4711, -10, None, []),  # of an earlier run
        ((), 4711, -10, "process:box/4711", [TRACED]),  # in a container, it knows itself by another pid
        ((), 4711, -10, "process:box/4712", []),
    ],
)
def test_R2_a_trace_says_now_only_of_its_own_process(
    places: tuple[tuple[str, str], ...], pid: int, started_s: int, process: str | None, expected: list[str]
) -> None:
    world = traced(fixture("killed"), *places, pid=pid, started_s=started_s, process=process)
    assert sentences(world) == expected


@pytest.mark.invariant("rules_compile_logs.R2")
def test_R2_the_trace_of_a_process_that_has_ended_says_what_was_open() -> None:
    world = traced(fixture("killed"))
    world.exits(f"process:box/{PID}", -9)
    assert sentences(world) == [ENDS]


@pytest.mark.invariant("rules_compile_logs.R2")
def test_R2_an_end_that_is_written_later_ends_it() -> None:
    world = at(World(), BEGUN_NS + 20 * SECOND)
    logs, whole = Logs(world), fixture("fails")
    half = whole.index(b"backend_compile")
    half = whole.index(b"\nV", half) + 1
    assert sentences(logs.read(whole[:half])) != []
    assert sentences(logs.read(whole[half:])) == []


@pytest.mark.invariant("rules_compile_logs.L2")
def test_L2_a_log_of_an_earlier_run_says_nothing_of_this_one() -> None:
    assert traced(fixture("fails"), pid=18638, started_s=-1000).finding("compile-failed") is not None
    for pid, started_s in ((4711, -1000), (18638, 0)):
        assert traced(fixture("fails"), pid=pid, started_s=started_s).finding("compile-failed") is None


def test_a_text_names_the_frame_where_the_stack_shows_that_it_compiles() -> None:
    """A text says no phases, and not always that something has ended."""
    assert sentences(traced(TEXT.encode(), *METADATA)) == [
        "Compiling frame 0/0 of long (models.py:13) for 25 s, now in aot_collect_metadata."
    ]
    assert sentences(traced(TEXT.encode())) == []
    assert sentences(traced(TEXT.encode(), *ELSEWHERE)) == []


def test_a_log_that_several_write_is_of_none_of_them_by_its_owner() -> None:
    """Ranks share the output of their launcher, and one has ended."""
    other = TEXT.replace(str(PID), "4712").replace("[0/0]", "[7/0]")
    world = traced((other + TEXT.replace(str(PID), "4713")).encode(), *METADATA, pid=4711, process="process:box/4711")
    assert "frame" not in sentences(world)[0]


def test_a_program_that_recompiles_each_step_runs() -> None:
    world = traced(fixture("shapes"), *ELSEWHERE, pid=18538, started_s=-1000)
    assert sentences(world) == []
    assert world.diagnosis().verdict.state is VerdictState.RUNNING
    assert world.found("recompiled").state is None
