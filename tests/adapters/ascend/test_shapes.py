"""Shapes of logs that no recording holds; written from the runtime's source."""

# ruff: noqa: E501 (log lines stand as the runtime prints them)

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from livedbg.adapters.ascend.logs import LineSplitter
from livedbg.adapters.ascend.messages import NOWHERE
from livedbg.adapters.ascend.names import KernelNames, Names
from livedbg.adapters.ascend.run import Run
from livedbg.analysis.diagnosis import VerdictState
from livedbg.graphs.declared import DeclaredTask, Dependency, TaskGraph
from livedbg.model import EdgeKind, EdgeState, TaskState
from tests.adapters.ascend.replay import (
    ANCHOR,
    BEGIN,
    DONE,
    RING,
    Replay,
    dispatched,
    findings,
    replay_folder,
    replay_lines,
    stall,
    summary,
    task_line,
    timeout,
)

T = "task:ascend/"
ORCHESTRATOR = T + "orchestrator"


def test_hang_on_host_build_graph() -> None:
    lines = [
        "[mono_ns=1][T0x7f][INFO] bind_callable_to_runtime_impl: [runtime_maker.cpp:950] RT2 bind: 3 tensors + 0 scalars, host orchestration mode",
        RING[5],
        "[mono_ns=2][T0x7f][INFO] bind_callable_to_runtime_impl: [runtime_maker.cpp:1189] host-orch: submitted 5 tasks on host",
        BEGIN,
        *(
            dispatched(raw, core, f"-1,{func},-1", thread=2)
            for raw, core, func in [(0, 12, 0), (1, 12, 1), (2, 13, 1), (3, 12, 2)]
        ),
        stall("TIMEOUT_EXIT after_idle_iterations=480000", level="ERROR"),
        stall(
            task_line(3, "RUNNING", "2/2", tail=" running_on=[owner_thread=2 cores=[core=12(aiv0)]]", name="fanin_met")
        ),
        stall(task_line(4, "WAIT", "1/2", aiv0=0, tail=" missing_deps=1", name="fanin_met")),
        stall(summary("3/5", 0, 1, 1)),
    ]
    snapshot = replay_lines(lines)
    assert findings(snapshot)["ascend-stall"].entities == (T + "r0t3", "core:ascend/12")
    assert snapshot.tasks[T + "r0t2"].state is TaskState.COMPLETED
    assert snapshot.edges[EdgeKind.DEPENDS_ON, T + "r0t4", T + "r0t3"].state is EdgeState.PENDING


def _round(idle: int) -> list[str]:
    return [
        stall(task_line(2, "RUNNING", "3/3", tail=" running_on=[owner_thread=0 cores=[core=8(aiv0)]]"), idle=idle),
        stall(summary("2/3", 0, 0, 1), idle=idle),
    ]


def test_a_line_of_the_watchdog_that_somebody_wrapped() -> None:
    wrapped = (
        "[STALL thread=0 idle_iterations=33010138] TIMEOUT_EXIT after_idle_iterations=33010138\n"
        "  sub_class=S1:running-stalled completed=1/5 running=2 ready=0 waiting=2 orch_done=1\n"
        "  stuck_task_id=4294967296 stuck_core=24"
    )
    stalled = findings(replay_lines([wrapped]))["ascend-stall"]
    assert stalled.sentence.startswith("Task r1t0 (id 4294967296) has been running on core 24. 2 tasks wait behind it.")
    lines = list(LineSplitter().split(f"{wrapped}\nrank=3 is the last\n  rank=3 and more\n  n=1, m=2"))
    assert [line.number for line in lines] == [0, 3, 4, 5]


@pytest.mark.parametrize(
    ("counts", "begins"),
    [
        ("running=1 ready=0 waiting=4 orch_done=1 stuck_task_id=4294967299 stuck_core=5", "Task r1t3 (id 4294967299)"),
        ("running=1 ready=0 waiting=4 orch_done=1 stuck_core=5", "A task on core 5 has not ended."),
        ("running=1 ready=0 waiting=4 orch_done=1 stuck_task_id=-1 stuck_core=-1", "The scheduler's watchdog ended"),
    ],
)
def test_the_host_s_lines_on_a_stall_without_stamps(counts: str, begins: str) -> None:
    text = (
        "507018 ACL_ERROR_RT_AICPU_EXCEPTION\n"
        "PTO2 runtime failed: orch_error_code=0 sched_error_code=100 runtime_status=-100\n"
        "PTO2 scheduler timeout sub_class=S1:running-stalled (detail=1)\n"
        f"    completed=7/12 {counts}"
    )
    stalled = findings(replay_lines([text]))["ascend-stall"]
    assert stalled.sentence.startswith(begins) and stalled.state is VerdictState.STALLED
    assert "7 of 12 tasks are done" in stalled.sentence
    told = "the word is `PTO2 scheduler timeout sub_class=%s completed=%d/%d`; PTO2 runtime failed: see below"
    assert "ascend-stall" not in findings(replay_lines([told]))


def test_periodic_rounds_without_an_exit() -> None:
    lines = [ANCHOR, BEGIN, RING[3], DONE, *_round(480_000), *_round(960_000)]
    found = findings(replay_lines(lines))["ascend-stall"]
    assert found.entities == (T + "r0t2", "core:ascend/8")
    assert "2 of 3 tasks are done" in found.sentence


def test_a_round_that_was_overtaken_counts_for_nothing() -> None:
    replay = Replay({"host": "box", "mono_ns": 1, "wall_ns": 1_790_000_001_000_000_000})
    source = replay.read(Path("/nowhere/err.txt"), "\n".join([ANCHOR, BEGIN, *_round(480_000)]).encode())
    assert "ascend-stall" in findings(replay.flush())
    replay.feed(source, dispatched(3, 8).encode())
    replay.end(source)
    snapshot = replay.flush()
    assert set(findings(snapshot)) == {"ascend-run-goes-on"}
    assert snapshot.diagnostics["ascend/stall-summary"].resolved
    assert snapshot.tasks[T + "r0t2"].state is TaskState.COMPLETED


def test_slow_kernel_is_no_stall_while_it_is_young() -> None:
    lines = [ANCHOR, BEGIN, RING[1], DONE, dispatched(0, 8)]
    young = replay_lines(lines, stamp={"host": "box", "mono_ns": 1, "wall_ns": 1_790_000_004_000_000_000})
    assert set(findings(young)) == {"ascend-run-goes-on"}
    old = replay_lines(lines, stamp={"host": "box", "mono_ns": 1, "wall_ns": 1_790_000_040_000_000_000})
    assert "ascend-stall" in findings(old)
    assert findings(old)["ascend-stall"].inferred


@pytest.mark.invariant("ascend_run.R2")
def test_cut_dump_trusts_the_counts() -> None:
    lines = [ANCHOR, BEGIN, *(dispatched(raw, 8 + raw) for raw in range(10)), DONE]
    lines += [timeout("S1:running-stalled", "0/1000", 1, 0, 990, task=0, core=8)]
    lines += [stall(task_line(0, "RUNNING", "1/1", tail=" running_on=[owner_thread=0 cores=[core=8(aiv0)]]"))]
    lines += [stall(task_line(10 + n, "WAIT", "1/2", tail=" missing_deps=1")) for n in range(4)]
    lines += [stall(summary("9/1000", 0, 990, 1))]
    snapshot = replay_lines(lines)
    found = findings(snapshot)["ascend-stall"]
    assert found.entities == (T + "r0t0", "core:ascend/8")
    assert "990 tasks wait behind it." in found.sentence
    assert snapshot.tasks[T + "r0t5"].state is TaskState.COMPLETED


@pytest.mark.invariant("ascend_run.R2")
def test_more_running_tasks_than_the_dump_lists_stay_running() -> None:
    lines = [ANCHOR, BEGIN, *(dispatched(raw, 8 + raw) for raw in range(10)), DONE]
    lines += [
        stall(task_line(n, "RUNNING", "1/1", tail=f" running_on=[owner_thread=0 cores=[core={8 + n}(aiv0)]]"))
        for n in range(8)
    ]
    lines += [stall(summary("0/10", 0, 0, 10))]
    snapshot = replay_lines(lines)
    assert {t.state for t in snapshot.tasks.values() if t.name != "orchestrator"} == {TaskState.RUNNING}


def test_dependency_deadlock_and_starved_orchestrator() -> None:
    waits = [timeout("S4:dependency-deadlock", "1/3", 0, 0, 2)]
    waits += [stall(task_line(raw, "WAIT", "1/2", tail=" missing_deps=1")) for raw in (1, 2)]
    found = findings(replay_lines([BEGIN, *waits, stall(summary("1/3", 0, 2, 0))]))["ascend-stall"]
    assert found.entities == (T + "r0t1", T + "r0t2")
    found = findings(replay_lines([BEGIN, timeout("S5:orchestrator-starvation", "3/3", 0, 0, 0)]))["ascend-stall"]
    assert found.entities == (ORCHESTRATOR,)


def test_paused_watchdog_shows_no_stall() -> None:
    lines = [BEGIN, dispatched(0, 8), timeout("S1:running-stalled", "0/1", 1, 0, 0, 0, 8, idle=522)]
    assert set(findings(replay_lines(lines))) == {"ascend-starved-watchdog"}


def test_core_that_is_done_but_not_collected() -> None:
    lines = [BEGIN, dispatched(0, 8), timeout("S1:running-stalled", "0/1", 1, 0, 0, 0, 8)]
    lines += [
        stall(
            "CLUSTER cluster_id=0 aic=core0(idle) aiv0=core8(busy kernel=2 task=0 cond_reg_state=fin ANOMALY "
            "cond_tok=1 running_tok=1 pending_tok=-1) aiv1=core9(idle)"
        )
    ]
    found = findings(replay_lines(lines))
    assert set(found) == {"ascend-core-anomaly"}
    assert found["ascend-core-anomaly"].entities == ("core:ascend/8", T + "r0t0")


def test_scope_that_waits_for_itself() -> None:
    error = "[ERROR] report_deadlock: [pto_ring_buffer.h:427] "
    lines = [
        BEGIN,
        error + "FATAL: Task Allocator Deadlock - Heap Exhausted! ring=1",
        error + "Head task 3 is the oldest task owned by an open scope on this ring ->",
        error + "Provable head-of-line deadlock.",
        error + "  Task ring 1: current=15, last_alive=3, active=12/16 (75.0%)",
        error + "  Head task 3: state=1, consumers=0/2, scope_released=0",
    ]
    snapshot = replay_lines(lines)
    found = findings(snapshot)
    assert set(found) == {"ascend-scope-deadlock"}
    assert {
        (EdgeKind.WAITS_FOR, ORCHESTRATOR, "ring:ascend/1"),
        (EdgeKind.HOLDS, ORCHESTRATOR, "ring:ascend/1"),
    } <= set(snapshot.edges)


def test_graph_too_big_for_the_host_built_runtime() -> None:
    lines = [BEGIN, "[ERROR] alloc: [pto_ring_buffer.h:244] FATAL: Task Window Exhausted!"]
    lines += [
        "[mono_ns=5][T0x7f][ERROR] validate_runtime_impl: [runtime_maker.cpp:1019] PTO2 runtime failed: "
        "orch_error_code=3 sched_error_code=0 runtime_status=-3"
    ]
    assert set(findings(replay_lines(lines))) == {"ascend-run-failed"}


@pytest.mark.parametrize(
    ("status", "rule"), [("rc=139", "ascend-crash"), ("rc=-11", "ascend-crash"), ("rc=124", "ascend-stall")]
)
def test_exit_status_beside_the_log(tmp_path: Path, status: str, rule: str) -> None:
    (tmp_path / "err.txt").write_text("\n".join([ANCHOR, BEGIN, RING[1], DONE, dispatched(0, 8)]))
    (tmp_path / "exit.txt").write_text(status + "\n")
    found = findings(replay_folder(tmp_path))
    assert set(found) == {rule}
    assert T + "r0t0" in found[rule].entities


def test_before_may_2026() -> None:
    info = "[INFO_V9] log_stall_diagnostics: [scheduler_cold_path.cpp:132] "
    lines = [
        "[INFO_V0] assign_cores_to_threads: [s.cpp:731] Thread 0: cluster 0 (AIC=0, AIV0=8, AIV1=9)",
        "[DEBUG] dispatch: [scheduler_dispatch.cpp:273] Thread 0: Dispatched idle AIV task 4294967298 block 0/1 to core_offset 1",
        info + "PTO2 stall: no progress for 480000 iterations, completed=3 total=5 (last progress at 3)",
        info + "  STUCK-WAIT   ring=1 task_id=4294967299 kernel_id=-1 refcount=2 fanin=3 state=0",
        info + "  scan result: stuck_ready=0 stuck_waiting=1 in_flight=1",
        info + "    core=8 cond=0x1(state=1,id=3) exec_id=3 kernel=2",
        "[ERROR] handle_timeout_exit: [s.cpp:214] Thread 0: PTO2 timeout after 800000 idle iterations",
    ]
    snapshot = replay_lines(lines)
    found = findings(snapshot)["ascend-stall"]
    assert found.entities == (T + "r1t2", "core:ascend/8")
    assert snapshot.tasks[T + "r1t2"].kernel == "func 2"
    assert snapshot.edges[EdgeKind.DEPENDS_ON, T + "r1t3", T + "r1t2"].state is EdgeState.PENDING


@pytest.mark.parametrize("broken", [False, True])
def test_cann_dlog_on_a_device(tmp_path: Path, broken: bool) -> None:
    def dlog(message: str, level: str = "INFO") -> str:
        head = f"[{level}] AICPU(4242,aicpu_scheduler):2026-06-09-11:42:20.000.000 [device_log.cpp:89]2 run [V9]"
        return head + ("\n" if broken else " ") + f'"[scheduler_cold_path.cpp:1] {message}"'

    def bare(line: str) -> str:
        return line.partition("] ")[2].partition(": ")[2].partition("] ")[2]

    for device, stuck in ((0, False), (1, True)):
        folder = tmp_path / "debug" / f"device-{device}"
        folder.mkdir(parents=True)
        lines = [dlog("AicpuExecutor: Initializing"), dlog(bare(dispatched(0, 8)), "DEBUG")]
        if stuck:
            lines += [dlog(bare(timeout("S1:running-stalled", "0/1", 1, 0, 0, 0, 8)), "ERROR")]
        else:
            lines += [dlog("Thread 0: PTO2 completed tasks 1/1")]
        (folder / f"device-{4242 + device}_20260609114220000.log").write_text("\n".join(lines))
    snapshot = replay_folder(tmp_path)
    assert findings(snapshot)["ascend-stall"].entities == (T + "dev1/r0t0", "core:ascend/dev1/8")
    assert snapshot.tasks[T + "r0t0"].state is TaskState.COMPLETED


def test_host_and_device_log_of_one_pid_are_one_job(tmp_path: Path) -> None:
    (tmp_path / "debug" / "plog").mkdir(parents=True)
    (tmp_path / "debug" / "device-0").mkdir()
    host = tmp_path / "debug" / "plog" / "plog-77_20260609114220000.log"
    host.write_text(
        '[ERROR] CCECPU(77,python):2026-06-09-11:42:30.000.000 [x.cpp:1] "[runtime_maker.cpp:1019] PTO2 scheduler timeout '
        "sub_class=S1:running-stalled (detail=1) completed=0/1 running=1 ready=0 waiting=0 orch_done=1 stuck_task_id=0 "
        'stuck_core=5"'
    )
    device = tmp_path / "debug" / "device-0" / "device-77_20260609114220001.log"
    device.write_text(
        '[INFO] AICPU(77,a):2026-06-09-11:42:20.000.000 [d.cpp:89]2 run "[a.cpp:1] AicpuExecutor: Initializing"'
    )
    snapshot = replay_folder(tmp_path)
    assert len([d for d in snapshot.diagnostics.values() if d.code == "run-state"]) == 1
    assert findings(snapshot)["ascend-stall"].entities == (T + "r0t0", "core:ascend/5")


def test_several_chip_processes_on_one_stderr() -> None:
    lines = [
        "[chip_process pid=11 dev=0] ready",
        "[chip_process pid=12 dev=1] ready",
        BEGIN,
        dispatched(0, 8),
        BEGIN,
        dispatched(0, 8),
    ]
    snapshot = replay_lines(lines)
    assert "devices 0, 1" in snapshot.diagnostics["ascend/shared-log"].sentence


def _chips(recorded: Path) -> list[list[str]]:
    """The lines of two chip processes, the second of which hangs."""
    left = []
    for chip, folder in enumerate(("01_healthy_trb", "02_hang_kernel/timeout_debug")):
        lines = (recorded / folder / "err.txt").read_text().splitlines()
        left.append([re.sub(r" pid=\d+", f" pid={100 + chip}", line) for line in lines])
    return left


def test_of_two_chips_the_one_that_has_not_ended_is_named(recorded: Path) -> None:
    ready = [f"[chip_process pid={100 + chip} dev={3 + chip}] ready" for chip in range(2)]
    good, stuck = _chips(recorded)
    begin = next(n for n, line in enumerate(stuck) if "chip.run.bind" in line) + 1
    told = findings(replay_lines([*ready, *stuck[:begin], *good, *stuck[begin:]]))["ascend-stall"].sentence
    assert "r1t2" in told and "By their spans it is device 4 (pid 101): the others had ended." in told


def test_of_two_chips_at_work_at_once_none_is_named(recorded: Path) -> None:
    ready = [f"[chip_process pid={100 + chip} dev={3 + chip}] ready" for chip in range(2)]
    good, stuck = _chips(recorded)
    begin = next(n for n, line in enumerate(good) if "chip.run.bind" in line) + 1
    told = findings(replay_lines([*ready, *good[:begin], *stuck]))["ascend-stall"].sentence
    assert "can't assign task ids to devices" in told and "By their spans it is" not in told


@pytest.mark.parametrize("hung", [True, False])
def test_chips_that_share_a_log_are_well_when_all_are(recorded: Path, hung: bool) -> None:
    """Lines of four chip processes, mixed; that three runs have ended says nothing of the fourth."""
    healthy, cycle = (recorded / folder / "err.txt" for folder in ("01_healthy_trb", "25_cycle"))
    left = []
    for chip in range(4):
        lines = (cycle if hung and chip == 3 else healthy).read_text().splitlines()
        left.append([re.sub(r" pid=\d+", f" pid={100 + chip}", line) for line in lines])
    mixed = [f"[chip_process pid={100 + chip} dev={chip}] ready" for chip in range(4)]
    chosen = random.Random(1)
    while any(left):
        mixed.append(chosen.choice([lines for lines in left if lines]).pop(0))
    found = findings(replay_lines(mixed))
    if hung:
        sentence = found["ascend-stall"].sentence
        assert "r0t0 (func 0) has been running on core 10" in sentence
        assert "devices 0, 1, 2, 3" in sentence and "5 of 5" not in sentence and "0.6 s" not in sentence
    assert ("ascend-run-complete" in found) is not hung


def test_queued_behind_a_running_task() -> None:
    lines = [BEGIN, dispatched(0, 8), dispatched(1, 8, slot="pending")]
    snapshot = replay_lines(lines)
    assert [snapshot.tasks[T + f"r0t{n}"].state for n in (0, 1)] == [TaskState.RUNNING, TaskState.READY]
    snapshot = replay_lines([*lines, dispatched(2, 8, slot="pending")])
    states = [snapshot.tasks[T + f"r0t{n}"].state for n in (0, 1, 2)]
    assert states == [TaskState.COMPLETED, TaskState.RUNNING, TaskState.READY]


@pytest.mark.invariant("ascend_run.R1")
def test_R1_each_completion_names_what_it_is_concluded_from() -> None:
    begun = [ANCHOR, BEGIN, RING[1], dispatched(0, 8)]
    assert replay_lines(begun).tasks[T + "r0t0"].state is TaskState.RUNNING
    said = {}
    for name, lines in {
        "core": [dispatched(1, 8)],
        "counts": [DONE, "[INFO] x: [s.cpp:86] Thread 0: PTO2 completed tasks 1/1"],
        "dump": [
            *(dispatched(raw, 8 + raw) for raw in (1, 2)),
            stall(task_line(2, "RUNNING", "1/1", tail=" running_on=[owner_thread=0 cores=[core=10(aiv0)]]")),
            stall(summary("2/3", 0, 0, 1)),
        ],
    }.items():
        task = replay_lines([*begun, *lines]).tasks[T + "r0t0"]
        assert task.state is TaskState.COMPLETED, name
        said[name] = task.facts.inferred
    assert all(said.values()) and len(set(said.values())) == 3, said
    run = Run(Names(), KernelNames())
    run.use_graph(TaskGraph({raw: DeclaredTask(raw) for raw in (0, 1)}, (Dependency(0, 1),)))
    for raw in (0, 1):
        run.dispatch(raw, 8 + raw, NOWHERE, slot="idle", subslot="aiv0", place="", thread=0)
    assert (run.task(0).state, run.task(1).state) == (TaskState.COMPLETED, TaskState.RUNNING)
    assert run.task(0).inferred == "a task that depends on it was dispatched"
    run.finish(NOWHERE)
    assert run.task(1).inferred == "the run completed"


def test_a_task_of_many_blocks_completes_with_its_last() -> None:
    lines = [BEGIN, dispatched(0, 8, block="0/2"), dispatched(0, 9, block="1/2"), dispatched(1, 8)]
    assert replay_lines(lines).tasks[T + "r0t0"].state is TaskState.RUNNING
    assert replay_lines([*lines, dispatched(2, 9)]).tasks[T + "r0t0"].state is TaskState.COMPLETED


@pytest.mark.invariant("ascend_run.R3")
def test_a_second_run_starts_from_nothing() -> None:
    first = [ANCHOR, BEGIN, RING[1], DONE, dispatched(0, 8), "[INFO] x: [s.cpp:86] Thread 0: PTO2 completed tasks 1/1"]
    snapshot = replay_lines([*first, BEGIN, DONE, dispatched(0, 10)])
    assert snapshot.tasks[T + "r0t0"].state is TaskState.RUNNING
    assert findings(snapshot)["ascend-stall"].entities == (T + "r0t0", "core:ascend/10")
    failed = [BEGIN, dispatched(0, 8), timeout("S1:running-stalled", "0/1", 1, 0, 0, 0, 8)]
    failed += ["[mono_ns=9][T0x7f][ERROR] drain_execution: [d.cpp:669] AICPU execution failed with rc=-100"]
    assert set(findings(replay_lines([*failed, *first]))) == {"ascend-run-complete"}


def test_default_level_shows_spans_only() -> None:
    span = (
        "[mono_ns=9][T0x7f][TIMING] emit_host_span: [STRACE] v=1 pid=7 tid=7 inv=1 hid=0 depth={} name={} ts=1 dur=2 "
    )
    lines = [ANCHOR, span.format(1, "chip.run.bind"), span.format(0, "chip.run")]
    assert not findings(replay_lines(lines)) or set(findings(replay_lines(lines))) == {"ascend-run-complete"}


def test_flag_that_closes_a_cycle(tmp_path: Path) -> None:
    flag = '{"idx":0,"type":"NO_DEP","tensor_id":"5","dtype":"FLOAT32","shape":[1],"start_offset":"0","strides":[1]}'
    tasks = ",".join(
        f'{{"task_id":"{n}","scope":"auto","kernel_ids":[-1,{n},-1],"args":[{flag if n != 1 else ""}]}}'
        for n in range(3)
    )
    edges = ",".join(
        f'{{"pred":"{n}","succ":"{n + 1}","arg":0,"source":"creator","tensor_id":"9{n}"}}' for n in range(2)
    )
    (tmp_path / "deps.json").write_text(f'{{"tasks":[{tasks}],"tensors":[],"edges":[{edges}]}}')
    lines = [BEGIN, dispatched(0, 8, "-1,0,-1"), timeout("S1:running-stalled", "0/3", 1, 0, 2, 0, 8)]
    (tmp_path / "err.txt").write_text("\n".join(lines))
    found = findings(replay_folder(tmp_path))
    assert found["ascend-stall"].entities == (T + "r0t0", "core:ascend/8")
    assert "2 tasks wait behind it, 1 directly" in found["ascend-stall"].sentence
    assert found["ascend-flag-cycle"].entities == (T + "r0t0", T + "r0t2")
    assert found["ascend-flag-cycle"].inferred


def test_graph_of_another_run_is_let_go(tmp_path: Path) -> None:
    (tmp_path / "deps.json").write_text('{"tasks":[{"task_id":"0","kernel_ids":[-1,7,-1]}],"edges":[]}')
    (tmp_path / "err.txt").write_text("\n".join([BEGIN, dispatched(0, 8, "-1,1,-1")]))
    for files_first in (True, False):
        snapshot = replay_folder(tmp_path, files_first=files_first)
        assert snapshot.tasks[T + "r0t0"].kernel == "func 1"
        assert snapshot.diagnostics["ascend/run-state"].facts.graph is False


def test_first_host_build_graph() -> None:
    error = "[ERROR] diagnose_stuck_state: [aicpu_executor.cpp:1261] "
    lines = [
        "[2026-05-06 10:00:00.000000][T0x7f][INFO_V0] init: [aicpu_executor.cpp:241] AicpuExecutor: Initializing",
        "[ERROR] resolve_and_dispatch: [aicpu_executor.cpp:1070] Thread 0: Timeout after 800000 idle iterations!",
        error + "Progress: 3/5 tasks (60.0%)",
        error
        + "  Core 8 [AIV, RUNNING]: COND=0x3 (reg_task_id=3, reg_state=0), running_id=3, func_id=2, fanin=0, fanout=1",
    ]
    snapshot = replay_lines(lines)
    found = findings(snapshot)["ascend-stall"]
    assert found.entities == (T + "r0t3", "core:ascend/8")
    assert "3 of 5 tasks are done" in found.sentence
    waits = [error + "*** DEADLOCK DETECTED ***", error + "  Task 4: fanin=1 (waiting for dependencies)"]
    found = findings(replay_lines([*lines[:3], *waits]))["ascend-stall"]
    assert found.entities == (T + "r0t4",)


def test_resolution_stall_of_host_build_graph() -> None:
    stalled = "[ERROR] resolve: [scheduler_dispatch.cpp:1017] Thread 3: P resolution stall (3/5 resolved)"
    found = findings(replay_lines([ANCHOR, BEGIN, RING[5], stalled]))["ascend-stall"]
    assert "3 of 5 tasks are done" in found.sentence


def test_what_a_former_run_left_open_is_over() -> None:
    failed = [ANCHOR, BEGIN, dispatched(0, 8), dispatched(7, 9), timeout("S1:running-stalled", "0/9", 1, 0, 0, 7, 9)]
    failed += ["[mono_ns=9][T0x7f][ERROR] drain_execution: [d.cpp:669] AICPU execution failed with rc=-100"]
    snapshot = replay_lines([*failed, BEGIN, dispatched(0, 8)])
    assert snapshot.tasks[T + "r0t7"].state is TaskState.FAILED
    assert snapshot.tasks[T + "r0t0"].state is TaskState.RUNNING


def stopped(fanin: str, verdict: str = "") -> list[str]:
    """The watchdog's last words: task 1 is ready on no core, task 2 waits."""
    return [
        stall(f"TIMEOUT_EXIT after_idle_iterations=480000{verdict}", level="ERROR", func="handle_timeout_exit"),
        stall(task_line(1, "READY", "1/1", aiv0=1, name=fanin)),
        stall(task_line(2, "WAIT", "1/2", aiv0=1, tail=" missing_deps=1", name=fanin)),
        stall(summary("1/3", 1, 1, 0)),
        stall("CLUSTER cluster_id=0 aic=core0(idle) aiv0=core8(idle) aiv1=core9(idle)"),
    ]


COUNTS = "completed=1/3 running=0 ready=1 waiting=1"
S3 = f" sub_class=S3:ready-but-all-idle {COUNTS} orch_done=1 stuck_task_id=-1 stuck_core=-1"


@pytest.mark.parametrize("printed", [("fanin_refcount", S3), ("fanin_met", "")], ids=["ringbuffer", "graph"])
@pytest.mark.parametrize(
    ("shown", "words", "step"),
    [
        (
            [0, 1],
            "The kernel of task r0t1 (func 1) has returned, but its deferred",
            "signal the asynchronous completion",
        ),
        ([0], "the scheduler has not dispatched it", "require_sync_start"),
        ([], "Either its kernel has returned and its asynchronous completion", "signal the asynchronous completion"),
    ],
    ids=["deferred", "held back", "not told"],
)
def test_ready_and_on_no_core(printed: tuple[str, str], shown: list[int], words: str, step: str) -> None:
    fanin, verdict = printed
    lines = [BEGIN, RING[3], *(dispatched(task, 8 + task, f"-1,{task},-1") for task in shown), *stopped(fanin, verdict)]
    snapshot = replay_lines(lines)
    finding = findings(snapshot)["ascend-stall"]
    assert finding.roots == finding.entities == (T + "r0t1",)
    assert snapshot.tasks[T + "r0t1"].state is TaskState.READY
    assert (EdgeKind.RUNS_ON, T + "r0t1", "core:ascend/9") not in snapshot.edges
    assert words in finding.sentence and "1 task waits behind it, 1 directly" in finding.sentence, finding.sentence
    assert any(step in said for said in finding.next), finding.next
    by = "" if verdict else " by its counts"
    assert f"S3:ready-but-all-idle{by})" in finding.sentence


def test_a_log_that_begins_later_tells_nothing_of_dispatches_before() -> None:
    finding = findings(replay_lines([dispatched(0, 8, "-1,0,-1"), *stopped("fanin_met")]))["ascend-stall"]
    assert "Either its kernel has returned" in finding.sentence


def test_the_class_of_a_log_that_prints_none_follows_from_its_counts() -> None:
    running = [
        line.replace("scan_running=0", "scan_running=1").replace("state=READY  ", "state=RUNNING")
        for line in stopped("fanin_met")
    ]
    finding = findings(replay_lines([BEGIN, RING[3], *running]))["ascend-stall"]
    assert "S1:running-stalled by its counts" in finding.sentence


def _dump(idle: int, running: int, *, ends: int = 0, more: str = "") -> list[str]:
    """A watchdog's dump that lists two of the tasks that run, and the line that ends the run."""
    head, last = f"[STALL thread=0 idle_iterations={idle}]", ends or idle
    return [
        f"{head} TASK ring=0 task_id=5 state=RUNNING fanin_refcount=1/1 kernels=[aic:-1 aiv0:4 aiv1:-1] "
        "running_on=[owner_thread=1 cores=[core=31(aiv0)]]",
        f"{head} CLUSTER cluster_id=1 aic=core1(idle) aiv0=core12(busy kernel=4 task=7 cond_reg_state=ack) "
        "aiv1=core13(idle)",
        f"{head} SUMMARY completed=5/90 last_progress_iteration=5 scan_ready=6 scan_waiting=30 scan_running={running}",
        f"[STALL thread=0 idle_iterations={last}] TIMEOUT_EXIT after_idle_iterations={last}{more}",
    ]


@pytest.mark.parametrize("ends", [0, 800_000])
def test_of_many_tasks_that_run_a_report_names_a_part(ends: int) -> None:
    told = findings(replay_lines(_dump(400_000, 40, ends=ends)))["ascend-stall"].sentence
    assert told.startswith("40 tasks have not completed: func 4 is busy on cores 12,31. 2 of them are named: ")
    assert "6 more are ready. 30 tasks wait behind them." in told


def test_a_whole_report_names_all_tasks_that_run() -> None:
    told = findings(replay_lines(_dump(400_000, 2, ends=560_003)))["ascend-stall"].sentence
    assert told.startswith("2 tasks have not completed: r0t5 (func 4), r0t7 (func 4). Func 4 is busy on cores 12,31.")


def test_an_earlier_report_tells_nothing_once_the_counts_have_changed() -> None:
    more = " sub_class=S1:running-stalled completed=6/90 running=1 ready=0 waiting=9 orch_done=1 stuck_task_id=9"
    lines = _dump(400_000, 2, ends=560_003, more=f"{more} stuck_core=3")
    assert "Task r0t9 has been running" in findings(replay_lines(lines))["ascend-stall"].sentence


@pytest.mark.parametrize(("ends", "counted"), [(800_000, True), (560_003, False)])
def test_a_version_that_counts_turns_has_no_limit_of_time(ends: int, counted: bool) -> None:
    told = findings(replay_lines(_dump(400_000, 40, ends=ends)))["ascend-stall"].sentence
    assert ("800,000 idle turns (MAX_IDLE_ITERATIONS, compiled in)" in told) is counted
    assert ("SIMPLER_SCHEDULER_TIMEOUT_MS" in told, "Later limits" in told) == (not counted, not counted)
