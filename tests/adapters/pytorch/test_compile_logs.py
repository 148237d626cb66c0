"""TORCH_TRACE and TORCH_LOGS: captured from torch 2.13, 2.14 and 2.15, and changed by hand for the edges."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.pytorch.traces.places import paths
from livedbg.adapters.pytorch.traces.workers import role_events
from livedbg.analysis import VerdictState
from livedbg.model import Severity, TaskState
from tests.adapters.pytorch.compile_logs import BEGUN_NS, Logs, fixture, read
from tests.adapters.pytorch.conftest import PROGRAM, Job
from tests.analysis.world import World
from tests.cli.zygote import run_livedbg
from tests.reports import line_of, report_when

BROKE = (
    "A graph broke at breaks (models.py:4): Failed to trace builtin operator: Dynamo does not know how to trace "
    "builtin operator `print` with argument types ['str'] (has_kwargs False)."
)
LIMIT = (
    "Frame 0 of shapes (models.py:6) has reached recompile_limit (8) and is not compiled any more; the last guard of "
    "0/7 failed: tensor 'x' size mismatch at index 0: expected 8, got 9."
)
FAILED = (
    "torch.compile failed on frame 0/0 of fails (models.py:8): BackendCompilerFailed: backend='bad' raised: "
    "ValueError: no such kernel."
)


KEY = '"frame_id": 1, "frame_compile_id": 0}'


def entry(pid: int, text: str, payload: str = "", second: int = 0) -> bytes:
    """An entry as torch writes it."""
    below = "".join(f"\n\t{line}" for line in payload.split("\n")) if payload else ""
    return f"V1123 23:03:{second:02}.000000 {pid} torch/_dynamo/utils.py:1] {text}{below}\n".encode()


def phase(pid: int, ph: str, name: str, key: str = "0/0", second: int = 0) -> bytes:
    frame, _, number = key.partition("/")
    event = f'{{\n"name": "{name}",\n"ts": {BEGUN_NS / 1000 + second * 1e6},\n"args": {{}},\n"ph": "{ph}"\n}}'
    text = f'{{"chromium_event": {{}}, "frame_id": {frame}, "frame_compile_id": {number}, "attempt": 0}}'
    return entry(pid, text, event, second)


def said(world: World) -> list[str]:
    """All but what it took."""
    return [one.sentence for one in world.diagnosis().findings.values() if one.rule != "compile-times"]


@pytest.mark.invariant("rules_compile_logs.L1")
@pytest.mark.parametrize(
    ("name", "rule", "sentence", "severity"),
    [
        ("breaks", "graph-breaks", BROKE, Severity.INFO),
        ("breaks-text", "graph-breaks", BROKE, Severity.INFO),
        ("shapes", "recompiled", LIMIT, Severity.WARNING),
        ("shapes-text", "recompiled", LIMIT, Severity.WARNING),
        ("fails", "compile-failed", FAILED, Severity.WARNING),
        ("fails-2.14.1", "compile-failed", FAILED, Severity.WARNING),
        ("fails-2.15.0", "compile-failed", FAILED, Severity.WARNING),
    ],
)
def test_L1_a_log_says_what_torch_compile_did_and_decides_nothing(
    name: str, rule: str, sentence: str, severity: Severity
) -> None:
    world = read(name)
    found = world.found(rule)
    assert (found.sentence, found.severity, found.state) == (sentence, severity, None)
    assert world.finding("compiling") is None
    assert world.diagnosis().verdict.state is VerdictState.UNKNOWN


@pytest.mark.invariant("compile_program.P2")
def test_P2_two_logs_of_one_process_make_one_finding() -> None:
    logs = Logs()
    logs.read(fixture("shapes-text"), "err.txt")
    world = logs.read(fixture("shapes"))
    assert said(world) == [LIMIT]
    assert "tlparse /home/me/t.log" in world.found("recompiled").next[0]
    both = Logs()
    both.read(fixture("breaks"))
    assert said(both.read(fixture("breaks-text"), "err.txt")) == [BROKE]


def test_two_traces_with_one_pid_are_of_two_processes() -> None:
    """Ranks in containers of their own."""
    logs = Logs()
    logs.read(fixture("fails"))
    assert said(logs.read(fixture("fails"), "other.log")) == [FAILED, FAILED]


def test_a_compilation_that_the_trace_does_not_end_is_not_said_to_go_on() -> None:
    world = read("killed")
    found = world.found("compiling")
    assert found.sentence == (
        "When its trace ends, process 21464 was compiling frame 0/0 of long (models.py:13), for 14 s until then, in "
        "inductor_codecache_torch_key."
    )
    assert (found.state, found.severity) == (None, Severity.INFO)
    assert found.next[0].startswith("tlparse /home/me/t.log ")
    (task,) = world.snapshot().tasks.values()
    assert (task.name, task.kernel, task.state) == ("compile 0/0", "long (models.py:13)", TaskState.UNKNOWN)
    assert task.attributes["phases"].endswith(" > backend_compile > inductor_codecache_torch_key")


def test_a_trace_without_frames_is_of_aotinductor() -> None:
    whole = fixture("aoti")
    assert not said(Logs().read(whole))
    begun = whole.index(b'"AotCodeCompiler.compile"')
    found = Logs().read(whole[: whole.index(b"\nV", begun)]).found("compiling")
    assert "was compiling a model by AOTInductor or export, for" in found.sentence
    assert found.sentence.endswith("in AotCodeCompiler.compile.")


def test_what_compiling_took_is_said_by_phases_without_those_within_them() -> None:
    first = phase(7, "B", "dynamo") + phase(7, "B", "backend_compile", second=2) + phase(7, "B", "gc", second=3)
    logs = Logs()
    world = logs.read(first + phase(7, "E", "gc", second=4))
    assert world.finding("compile-times") is None  # it goes on
    logs.read(phase(7, "E", "backend_compile", second=12) + phase(7, "E", "dynamo", second=13))
    assert world.found("compile-times").sentence == (
        "1 compilation took 13 s: backend_compile 9.0 s, dynamo 3.0 s, gc 1.0 s."
    )
    start = entry(7, '{"dynamo_start": {"stack": [{"line": 4, "name": "f", "filename": "m.py"}]}, ' + KEY)
    logs.read(start + phase(7, "B", "dynamo", "1/0", 20) + phase(7, "E", "dynamo", "1/0", 50))
    assert world.found("compile-times").sentence.endswith("The longest was that of f (m.py:4): 30 s.")


def test_what_was_compiled_takes_its_time_and_has_ended() -> None:
    tasks = {task.name: task for task in read("breaks").snapshot().tasks.values()}
    assert {name: task.state for name, task in tasks.items()} == dict.fromkeys(
        ("compile 0/0", "compile 1/0"), TaskState.COMPLETED
    )
    assert tasks["compile 0/0"].attributes["took"] == "0.3 s"
    (failed,) = read("fails").snapshot().tasks.values()
    assert failed.state is TaskState.FAILED
    assert failed.attributes["error"] == "BackendCompilerFailed: backend='bad' raised: ValueError: no such kernel"


def test_once_or_twice_again_is_usual() -> None:
    """A size that changed once: torch then compiles for all sizes."""
    lines = fixture("shapes-text").splitlines(keepends=True)
    again = [line for line in lines if b"[0/1] [__recompiles]" in line or b"[0/2] [__recompiles]" in line]
    found = Logs().read(b"".join(again)).found("recompiled")
    assert found.severity is Severity.INFO
    assert found.sentence == (
        "Frame 0/2 of shapes (models.py:6) was compiled again, 2 times in all: guard of 0/1 failed: tensor 'x' size "
        "mismatch at index 0: expected 2, got 3."
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("0/0: L['n'] == 3  # return x * n  # models.py:4 in f", "guard of 0/0 failed: L['n'] == 3."),
        (
            "0/0: tensor 'x' dtype mismatch. expected Float, actual Double",
            "guard of 0/0 failed: tensor 'x' dtype mismatch: expected Float, got Double.",
        ),
        ("0/0: GLOBAL_STATE changed: grad_mode", "guard of 0/0 failed: GLOBAL_STATE changed: grad_mode."),
    ],
)
def test_the_guard_that_failed_is_said(reason: str, words: str) -> None:
    text = '{"artifact": {"name": "recompile_reasons", "encoding": "json"}, "frame_id": 3, "frame_compile_id": 1}'
    world = Logs().read(entry(7, text, f'[\n"{reason}"\n]'))
    assert world.found("recompiled").sentence == f"Frame 3/1 was compiled again: {words}"


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("tensor 'x' size mismatch at index 0. expected 1, actual 2", "torch.compile(…, dynamic=True), or"),
        ("tensor 'x' dtype mismatch. expected Float, actual Double", "keep equal from call to call"),
        (f"s.k == 7{' ' * 40}# y = x*s.k  # m.py:10 in f (HINT: Make it a tensor.)", "torch's hint: Make it a tensor"),
    ],
)
def test_what_to_do_depends_on_the_guard(reason: str, step: str) -> None:
    text = '{"artifact": {"name": "recompile_reasons", "encoding": "json"}, "frame_id": 3, "frame_compile_id": 4}'
    found = Logs().read(entry(7, text, f'[\n"3/0: {reason}"\n]')).found("recompiled")
    assert found.next[1].startswith(step)
    assert "#" not in found.sentence


def test_the_log_that_the_environment_names_is_read() -> None:
    assert list(paths({"TORCH_LOGS_OUT": "out[1]"}, [7], ["box"])) == ["out[[]1]"]
    assert not list(paths({}, [7], ["box"]))


def test_before_2_7_the_limit_had_another_name() -> None:
    head = "W0401 10:11:12.123000 77 torch/_dynamo/convert_frame.py:906] [3/8] "
    lines = (
        "torch._dynamo hit config.cache_size_limit (8)",
        "   function: 'forward' (/home/me/model.py:20)",
        "   last reason: 3/0: L['n'] == 3",
    )
    world = Logs().read("".join(f"{head}{line}\n" for line in lines).encode())
    assert world.found("recompiled").sentence == (
        "Frame 3 of forward (model.py:20) has reached cache_size_limit (8) and is not compiled any more; the last "
        "guard of 3/0 failed: L['n'] == 3."
    )


def test_a_reason_of_2_6_is_read() -> None:
    text = '{"artifact": {"name": "dynamo_graph_break_reason", "encoding": "string"}, "frame_id": 0}'
    payload = (
        "Graph break in user code at /home/me/m.py:4\nReason: Unsupported: builtin: print\nUser code traceback:\n"
        '  File "/home/me/m.py", line 4, in f\n    print(x)\n'
    )
    assert said(Logs().read(entry(7, text, payload))) == ["A graph broke at f (m.py:4): Unsupported: builtin: print."]


def test_a_rank_has_its_number() -> None:
    metrics = '{"compilation_metrics": {"fail_type": "X", "fail_reason": "why"}'
    text = f'{metrics}, "frame_id": 0, "frame_compile_id": 0, "rank": 3}}'
    assert said(Logs().read(entry(7, text))) == ["Rank 3: torch.compile failed on frame 0/0: X: why."]
    world = Logs().read(b"".join(b"[rank5]:" + line for line in fixture("shapes-text").splitlines(keepends=True)))
    assert said(world) == [f"Rank 5: {LIMIT}"]


def test_a_pool_of_compile_workers_that_was_lost_is_said() -> None:
    line = "W1123 23:51:40.300000 7 torch/_inductor/compile_worker/subproc_pool.py:281] SubprocPool unclean exit\n"
    found = Logs().read(line.encode()).found("compile-worker-lost")
    assert found.sentence == "The pool of compile workers of Inductor has ended before its work was done."
    assert (found.severity, found.state) == (Severity.WARNING, None)


POOL = ("python", "/opt/venv/lib/python3.11/site-packages/torch/_inductor/compile_worker/__main__.py", "--workers=2")


def pool() -> World:
    """Program 1, its pool 2 and two workers."""
    world = World()
    world.process(1, command=("python", "train.py"))
    for pid, parent in ((2, 1), (3, 2), (4, 2)):
        world.process(pid, ppid=parent, command=POOL)
        world.thread(pid, "python", pid=pid)
    return world


def test_compile_workers_have_their_roles() -> None:
    world = pool()
    for event in role_events(world.snapshot(), world.stamp()):
        world.store.apply(event)
    titles = [thread.title for thread in world.snapshot().threads.values()]
    assert titles == ["pool of compile workers, python", "compile worker, python", "compile worker, python"]
    assert not list(role_events(world.snapshot(), world.stamp()))


def test_a_compile_worker_that_was_killed_is_said_while_its_program_goes_on() -> None:
    world = pool()
    world.exits("process:box/3", -9)
    assert world.found("compile-worker-lost").sentence == (
        "Compile worker 3 was ended by SIGKILL: what it compiled for process 1 (python) is lost."
    )


@pytest.mark.parametrize("ended", [{3: 0, 4: 0}, {3: -15}, {1: 0, 3: -9, 4: -9}, {2: 0, 3: -9}, {3: None}])
def test_compile_workers_that_end_with_their_program_or_pool_are_not_lost(ended: dict[int, int | None]) -> None:
    world = pool()
    for pid, status in ended.items():
        world.exits(f"process:box/{pid}", status)
    assert world.finding("compile-worker-lost") is None


def test_a_traceback_that_torch_logs_as_it_goes_on_is_no_crash() -> None:
    world = read("left-out-text")
    assert world.diagnosis().verdict.state is VerdictState.UNKNOWN
    assert said(world) == ["torch.compile leaves shapes (models.py:6) uncompiled; the program goes on."]
    logs = Logs()
    logs.read(fixture("shapes-text"))
    assert said(logs.read(fixture("left-out-text"), "err.txt")) == [LIMIT]


def test_a_crash_after_it_is_one() -> None:
    crash = b'Traceback (most recent call last):\n  File "m.py", line 3, in <module>\n    f()\nValueError: no\n'
    assert Logs().read(fixture("left-out-text") + crash).diagnosis().verdict.state is VerdictState.CRASHED


def test_what_torch_writes_as_its_process_ends_is_no_sign_that_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "err.txt").write_bytes(fixture("fails-text"))
    said = json.loads(run_livedbg(["report", "--logs", tmp_path, "--json"], 150).stdout)
    assert said["verdict"]["state"] == "crashed"
    assert said["verdict"]["sentence"].startswith("torch.compile's backend bad failed: ")


@pytest.mark.invariant("compile_logs.T1")
@pytest.mark.parametrize(
    "junk",
    [
        entry(21464, '{"chromium_event": {}, "frame_id": 0'),
        entry(21464, '{"chromium_event": {}, "frame_id": "x"}', '{"name": "dynamo", "ph": "E"}'),
        entry(21464, '{"chromium_event": {}, "frame_id": 0, "frame_compile_id": 0}', '{"name": 7, "ph": []}'),
        entry(
            21464, '{"chromium_event": {}, "frame_id": 0, "frame_compile_id": 0}', '{"name": "x", "ph": "Q", "ts": 1}'
        ),
        entry(
            21464,
            '{"chromium_event": {}, "frame_id": 9, "frame_compile_id": 0}',
            '{\n"name": "x",\n"ts": .,\n"ph": "E"',
        ),
        entry(21464, '{"str": ["x"]}') + entry(21464, '{"str": [1, 2]}'),
        entry(21464, '{"dynamo_start": {"stack": [{"line": "x"}]}, "frame_id": 0, "frame_compile_id": 0}'),
        entry(21464, '{"a_new_event": {"what": 1}, "frame_id": 0, "frame_compile_id": 0}', "no JSON"),
        entry(21464, '{"compilation_metrics": {"fail_type": null}}'),
        random.Random(7).randbytes(4000) + b"\n",
        b'V1123 23:03:01.000000 21464 torch/x.py:1] {"chromium_event": {}, "' + b"x" * 200_000 + b"\n",
        b"\t{\n\t" * 20_000,
    ],
    ids=lambda junk: f"{len(junk)} bytes",
)
def test_T1_what_is_no_entry_changes_nothing(junk: bytes) -> None:
    whole = fixture("killed")
    half = whole.index(b"\nV", len(whole) // 2) + 1
    world = Logs().read(whole[:half] + junk + whole[half:])
    assert said(world) == said(read("killed"))


@pytest.mark.invariant("compile_logs.T1")
@pytest.mark.parametrize("name", ["killed", "shapes", "fails", "breaks-text"])
def test_T1_a_log_that_is_cut_anywhere_is_read_as_far_as_it_goes(name: str) -> None:
    whole = fixture(name)
    for end in range(0, len(whole), max(1, len(whole) // 40)):
        Logs().read(whole[:end])


@pytest.mark.invariant("compile_logs.D1")
def test_D1_a_payload_is_no_entry_and_others_write_headers_too() -> None:
    fake = phase(21464, "E", "dynamo", second=20).decode()
    inside = entry(21464, '{"artifact": {"name": "x", "encoding": "recompile_reasons"}}', fake)
    foreign = fake.replace("torch/_dynamo", "app/_dynamo").encode()
    world = Logs().read(fixture("killed") + inside + foreign)
    assert re.search(r"was compiling frame 0/0 of long .* in inductor_codecache", world.found("compiling").sentence)


def test_a_line_that_was_cut_still_says_the_failure() -> None:
    """The configuration stands in the same line, and may be longer than what is kept of a line."""
    text = (
        '{"compilation_metrics": {"compile_id": "4/2", "fail_type": "Unsupported", "fail_reason": "no \\"x\\"\\nmore", '
        f'"dynamo_config": "{"x" * 70_000}"}}, "frame_id": 4, "frame_compile_id": 2}}'
    )
    assert said(Logs().read(entry(7, text))) == ['torch.compile failed on frame 4/2: Unsupported: no "x" more.']


@pytest.mark.invariant("compile_program.P1")
def test_P1_what_is_kept_is_bounded() -> None:
    logs = Logs()
    for begin in range(0, 5_000, 1_000):
        frames = range(begin, begin + 1_000)
        text = '{{"compilation_metrics": {{"fail_type": "X"}}, "frame_id": {0}, "frame_compile_id": 0}}'
        logs.read(
            b"".join(phase(7, "B", "dynamo", f"{frame}/0") + phase(7, "E", "dynamo", f"{frame}/0") for frame in frames)
            + b"".join(entry(7, text.format(frame)) for frame in frames)
        )
    snapshot = logs.world.snapshot()
    assert len(snapshot.tasks) == 1_000
    assert len([one for one in snapshot.diagnostics.values() if one.code == "compile-failed"]) == 50


def test_a_rank_that_compiles_is_running_and_says_what(job: Job) -> None:
    """torch writes a trace; the other rank waits for it."""
    begun = re.compile(
        rf"Compiling frame \d+/0 of large \(torch_jobs\.py:{line_of('def large(', PROGRAM)}\) on rank 1 for .+, "
        r"now in bytecode_tracing\."
    )

    def sentences(said: dict[str, Any], rule: str) -> list[str]:
        return [one["sentence"] for one in said["findings"] if one["rule"] == rule]

    said = report_when(
        job("compiles", 2),
        lambda said: said["verdict"]["state"] == "running" and any(map(begun.match, sentences(said, "compiling"))),
        "--all-ranks",
    )
    assert said["exit"] == 0
    assert [one.partition(": ")[2] for one in sentences(said, "graph-breaks")] == [
        f"A graph broke at broken (torch_jobs.py:{line_of('torch._dynamo.graph_break()', PROGRAM)}): Call to "
        "`torch._dynamo.graph_break()`: User-inserted graph break. Message: None."
    ]
    (again,) = sentences(said, "recompiled")
    assert again.endswith("guard of 2/0 failed: tensor 'values' size mismatch at index 0: expected 2, got 3.")


def test_a_log_that_has_one_graph_break_only_keeps_torch_s_heads_and_speaks_of_no_failure() -> None:
    """Each of its lines begins alike, as if a launcher had put that before what another program printed."""
    told = (
        "Graph break in user code at /home/me/models.py:5",
        "Graph Break Reason: Encountered graph break when attempting to trace CALL: a call, e.g. f(x, y):",
        "Failed to trace builtin operator",
        "  Explanation: Dynamo does not know how to trace builtin operator `print`",
        "User code traceback:",
        '  File "/home/me/models.py", line 5, in f',
        '    print("break")',
    )
    head = "V1128 20:27:10.617000 7552 torch/_dynamo/symbolic_convert.py:5124] [0/0] [__graph_breaks]"
    world = Logs().read("".join(f"{head} {line}\n" for line in told).encode())
    assert world.found("graph-breaks").sentence.startswith("A graph broke at f (models.py:5): Failed to trace builtin ")
    assert world.finding("failure-lines") is None
