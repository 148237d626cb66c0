"""Real processes whose logs are found from their environment, and logs that grow while they are watched."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from livedbg.adapters.ascend.decoder import AscendDecoder
from livedbg.adapters.ascend.demo.player import LOG_NAME, entries, play
from livedbg.adapters.ascend.model import AscendModel
from livedbg.analysis import VerdictState
from livedbg.model import EdgeState, TaskState
from livedbg.model.errors import UsageError
from livedbg.session.adapter import Request
from livedbg.session.view import Update
from tests.adapters.ascend.replay import BEGIN, dispatched, findings, replay_folder, stall, summary, task_line
from tests.adapters.ascend.sessions import Watched, watching
from tests.adapters.ascend.test_variations import CASES, Case
from tests.cli.zygote import Livedbg, run_livedbg

T = "task:ascend/"

_TARGET = """
import os, sys, time
root, device_lines = sys.argv[1], open(sys.argv[2]).read().splitlines()
os.chdir(sys.argv[3])
folder = os.path.join(root, "debug", "device-0")
os.makedirs(folder, exist_ok=True)
with open(os.path.join(folder, f"device-{os.getpid()}_20261121010000000.log"), "w") as log:
    for line in device_lines:
        head = f"[INFO] AICPU({os.getpid()},aicpu):2026-11-21-01:00:00.000.000 [device_log.cpp:89]2 run "
        log.write(f'{head}"{line}"\\n')
print("READY", os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def device_lines(recorded: Path, tmp_path: Path) -> Path:
    """What the device said of the hung kernel."""
    log = (recorded / "02_hang_kernel/timeout_debug/err.txt").read_text()
    lines = [m[1] for m in re.finditer(r"^\[(?:DEBUG|INFO|ERROR|WARN)\] \w+: (.*)$", log, re.MULTILINE)]
    path = tmp_path / "device_lines"
    path.write_text("\n".join(lines))
    return path


@contextlib.contextmanager
def _started(root: str, lines: Path, cwd: Path, named: str | None, prefix: tuple[str, ...] = ()) -> Iterator[int]:
    (cwd / "target.py").write_text(_TARGET)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND_")}
    environment["HOME"] = str(cwd)
    if named is not None:
        environment["ASCEND_PROCESS_LOG_PATH"] = named
    command = [*prefix, sys.executable, str(cwd / "target.py"), root, str(lines), str(cwd)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, text=True, stderr=subprocess.DEVNULL
    ) as target:
        try:
            assert target.stdout is not None
            said = target.stdout.readline().split()
            assert said and said[0] == "READY", f"{command} did not start"
            yield target.pid
        finally:
            target.kill()


def _report(pid: int) -> subprocess.CompletedProcess[str]:
    return run_livedbg(["report", pid, "--json", "--timeout", "90"], 100, text=True)


@pytest.mark.parametrize("kind", ["absolute", "relative", "home"])
def test_log_of_a_process_is_found_from_its_environment(tmp_path: Path, device_lines: Path, kind: str) -> None:
    root = {"absolute": str(tmp_path / "elsewhere" / "log"), "relative": "my/log", "home": "ascend/log"}[kind]
    with _started(root, device_lines, tmp_path, None if kind == "home" else root) as pid:
        done = _report(pid)
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]["state"]) == (10, "stalled"), report["verdict"]
    assert report["verdict"]["roots"] == [T + "r1t2"]
    assert report["targets"][0]["pid"] == pid
    assert report["intrusions"]["paused_ms"] == report["intrusions"]["stops"] == 0


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_log_in_another_mount_namespace(tmp_path: Path, device_lines: Path) -> None:
    hidden = tmp_path / "mount"
    hidden.mkdir()
    enter = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{hidden}" && exec "$@"', "sh")
    with _started(str(hidden / "log"), device_lines, tmp_path, str(hidden / "log"), enter) as pid:
        assert not list(hidden.iterdir())
        done = _report(pid)
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]["roots"]) == (10, [T + "r1t2"]), report["verdict"]


def test_log_path_that_is_not_there(tmp_path: Path, device_lines: Path) -> None:
    with _started(str(tmp_path / "written"), device_lines, tmp_path, str(tmp_path / "missing")) as pid:
        done = _report(pid)
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]["state"]) == (0, "running"), report["verdict"]
    assert "Traceback" not in done.stderr


AHEAD_NS = 3600 * 10**9
"""Logs whose last line is to be young are written by clocks that run ahead: no test is too slow for that."""


def test_watch_says_stalled_when_the_log_does(tmp_path: Path) -> None:
    """`livedbg watch` beside the recorded hang: its healthy part is there, the rest comes once that has been told."""
    parts: list[list[str]] = [[], []]
    for entry in entries():
        (tmp_path / entry.file).parent.mkdir(parents=True, exist_ok=True)
        if entry.file:
            (tmp_path / entry.file).write_text(entry.text)
            continue
        clocks = {"MONO": time.monotonic_ns() + AHEAD_NS, "WALL": time.time_ns() + AHEAD_NS, "PID": os.getpid()}
        line = re.sub(r"\{(MONO|WALL|PID)\}", lambda found, now=clocks: str(now[found[1]]), entry.log)
        parts[bool(parts[1]) or "[STALL " in line].append(line + "\n")
    assert parts[0] and parts[1]
    log = tmp_path / LOG_NAME
    log.write_text("".join(parts[0]))
    command = ["watch", "--logs", tmp_path, "--json", "--until", "stalled"]
    with Livedbg(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        try:
            assert watch.stdout is not None
            said: list[dict[str, str]] = []
            for line in watch.stdout:
                said.append(json.loads(line))
                if said[-1]["kind"] == "verdict" and said[-1]["state"] == "running" and parts[1]:
                    with log.open("a") as more:
                        more.writelines(parts.pop())
                        parts.append([])
            _, wrong = watch.communicate()
        finally:
            watch.kill()
    assert watch.returncode == 10, wrong
    states = [line["state"] for line in said if line["kind"] == "verdict"]
    assert states[-1] == "stalled"
    assert "stalled" not in states[:-1]
    assert "running" in states


# a log that grows under a session


def _dispatched(raw: int, core: int, mono_ns: int) -> list[str]:
    return [
        f"[mono_ns={mono_ns}][T0x7f][INFO] run: [x.cpp:1] beat",
        dispatched(raw, core, f"-1,{raw},-1"),
    ]


def _anchor(mono_ns: int) -> str:
    wall_ns = time.time_ns() - time.monotonic_ns() + mono_ns
    return (
        f"[mono_ns={mono_ns}][T0x7f][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=7 mono_ns={mono_ns} wall_ns={wall_ns}"
    )


def _write(log: Path, *lines: str) -> None:
    with log.open("a") as file:
        file.write("".join(line + "\n" for line in lines))


@contextlib.asynccontextmanager
async def _growing(log: Path, *lines: str) -> AsyncIterator[Watched]:
    _write(log, *lines)
    async with watching(logs=(str(log),)) as watched:
        yield watched


def _is(state: VerdictState) -> Callable[[Update], bool]:
    return lambda update: update.diagnosis.verdict.state is state


def _shows(task: str) -> Callable[[Update], bool]:
    return lambda update: T + task in update.snapshot.tasks


async def test_a_job_that_goes_on_loses_its_verdict(tmp_path: Path) -> None:
    long_ago = time.monotonic_ns() - 60 * 10**9
    log = tmp_path / "err.log"
    async with _growing(log, _anchor(long_ago), BEGIN, *_dispatched(0, 8, long_ago)) as grown:
        update = await grown.until(lambda update: update.diagnosis.verdict.roots == (T + "r0t0",))
        verdict = update.diagnosis.verdict
        assert verdict.state is VerdictState.UNKNOWN and "hung, or died" in verdict.sentence
        assert update.diagnosis.findings["F1"].inferred
        _write(log, *_dispatched(1, 8, time.monotonic_ns() + AHEAD_NS))
        update = await grown.until(_shows("r0t1"))
        await grown.until(_is(VerdictState.RUNNING))


async def test_a_reported_stall_ends_when_work_goes_on(tmp_path: Path) -> None:
    running = task_line(0, "RUNNING", "1/1", aiv0=0, tail=" running_on=[owner_thread=0 cores=[core=8(aiv0)]]")
    dump = [stall(running), stall(summary("0/2", 0, 0, 1))]
    now = time.monotonic_ns() + AHEAD_NS
    log = tmp_path / "err.log"
    async with _growing(log, _anchor(now), BEGIN, *_dispatched(0, 8, now)) as grown:
        await grown.until(_shows("r0t0"))
        await grown.until(_is(VerdictState.RUNNING))  # young, and nobody says so
        _write(log, *dump)
        update = await grown.until(_is(VerdictState.STALLED))
        assert not update.diagnosis.findings["F1"].inferred
        _write(log, *_dispatched(1, 8, now + 10**9))
        await grown.until(lambda u: _shows("r0t1")(u) and _is(VerdictState.RUNNING)(u))
        _write(log, "[INFO] x: [s.cpp:86] Thread 0: PTO2 completed tasks 2/2")
        await grown.until(_is(VerdictState.EXITED))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.folder)
async def test_one_look_at_a_folder(recorded: Path, tmp_path: Path, case: Case) -> None:
    target = tmp_path / "run"
    shutil.copytree(recorded / case.folder, target)
    watched = Watched(Request(host="box", logs=(str(target),), once=True))
    await watched.session.run()
    verdict = watched.updates[-1].diagnosis.verdict
    assert verdict.state is case.state
    if verdict.state is VerdictState.UNKNOWN:
        assert "where the log ends: hung, or died: no exit status" in verdict.sentence
    assert case.root is None or verdict.roots[0] == T + case.root


def _is_told(update: Update) -> bool:
    """All that is told of the hang; the line that ends it is not the last of what the log says of it."""
    hung, verdict = update.snapshot.tasks.get(T + "r1t2"), update.diagnosis.verdict
    linked = any(T + "r1t2" in record.links for record in update.snapshot.recent_logs)
    found = verdict.state is VerdictState.STALLED and verdict.roots == (T + "r1t2",)
    return found and linked and hung is not None and hung.kernel == "MUL"


async def test_a_hang_as_it_happens(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "livedbg.adapters.ascend.demo.player", str(tmp_path), "4"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as player:  # noqa: ASYNC220
        try:
            async with watching(logs=(str(tmp_path),)) as watched:
                await watched.until(_is_told)
        finally:
            player.kill()


def test_a_session_in_which_no_log_is_read_waits_for_none() -> None:
    """`report PID` with a folder in which there is none."""
    model = AscendModel()
    decoder = AscendDecoder(model)
    assert not model.settled
    decoder.over()
    assert model.settled


def test_what_it_shows(tmp_path: Path) -> None:
    play(tmp_path / "run", speed=0)
    now = {"host": "box", "mono_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}
    snapshot = replay_folder(tmp_path / "run", stamp=now)  # type: ignore[arg-type]
    found = findings(snapshot)
    assert set(found) == {"ascend-stall"}
    assert found["ascend-stall"].entities == ("task:ascend/r1t2", "core:ascend/8")
    assert snapshot.tasks["task:ascend/r1t2"].kernel == "MUL"
    since = snapshot.tasks["task:ascend/r1t2"].since_wall_ns
    assert since is not None and 0 <= now["wall_ns"] - since < 3600 * 10**9
    pending = [e.key[1:] for e in snapshot.edges.values() if e.state is EdgeState.PENDING and e.kind == "depends_on"]
    assert pending == [("task:ascend/r1t3", "task:ascend/r1t2")]
    done = [t.name for t in snapshot.tasks.values() if t.state is TaskState.COMPLETED]
    assert set(done) >= {"r0t0", "r1t0", "r1t1"}


def test_the_player_stays_as_the_hung_process_does(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "livedbg.adapters.ascend.demo.player", str(tmp_path), "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as player:
        try:
            assert player.stdout is not None and player.stdout.readline() == "READY\n"
            assert player.poll() is None
            assert f"pid={player.pid} " in (tmp_path / LOG_NAME).read_text()
            assert (tmp_path / "dfx" / "deps.json").exists()
        finally:
            player.kill()


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        play(tmp_path, speed=-1)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError):
        play(tmp_path / "file" / "below")
