"""Headless commands on real processes and logs: what they print, and their exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.recording.recorder import packed_header
from livedbg.session.hostinfo import host_name
from tests.cli.conftest import ASCEND, livedbg, recording, so_far
from tests.cli.zygote import Livedbg
from tests.conftest import Target, eventually, settled


def told(target: Target) -> dict[str, dict[str, int]]:
    known: dict[str, dict[str, int]] = json.loads(target.ready.partition("READY ")[2])
    return known


def test_report_as_text_markdown_and_json(stuck: Target, tmp_path: Path) -> None:
    text = livedbg("report", stuck.pid)
    assert text.code == 10 and "deadlock" in text.out.lower() and text.err == ""
    names = told(stuck)["t"]
    assert all(str(names[name]) in text.out for name in ("alpha", "beta", "gamma"))
    markdown = livedbg("report", stuck.pid, "--markdown", "-o", tmp_path / "bug.md")
    assert markdown.code == 10 and markdown.out == ""
    assert "# " in (tmp_path / "bug.md").read_text() and "deadlock" in (tmp_path / "bug.md").read_text().lower()
    said = json.loads(livedbg("report", stuck.pid, "--json").out)
    assert (said["schema"], said["verdict"]["state"]) == ("livedbg.report/1", "deadlock")
    assert any(entity["name"] == "delta" for entity in said["entities"].values())


def test_report_of_what_is_not_stuck_exits_0(idle: Target) -> None:
    said = livedbg("report", idle.pid)
    assert said.code == 0, said.everything


_POOL = """
import queue, threading, time
jobs = queue.Queue()
def work():
    while True:
        jobs.get()
        jobs.task_done()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
print("READY", flush=True)
while True:
    for number in range({}):
        jobs.put(number)
    jobs.join()
    time.sleep(2)
"""


@pytest.mark.invariant("report.D1")
@pytest.mark.parametrize(("jobs", "code"), [(9, 0), (0, 5)])
def test_a_report_waits_for_what_naps_before_it_says_that_it_does_not_know(
    jobs: int, code: int, spawn: Callable[..., Target]
) -> None:
    unread = f"exec(compile({_POOL.format(jobs)!r}, '<job>', 'exec'))"  # of a loop that is read, the first look knows
    target = spawn([sys.executable, "-c", unread])
    settled(target.pid)
    said = livedbg("report", target.pid)
    assert said.code == code, said.everything


def test_report_of_logs_alone() -> None:
    said = livedbg("report", "--logs", ASCEND / "02_hang_kernel", "--json")
    assert said.code == 10
    assert json.loads(said.out)["verdict"]["state"] == "stalled"


def test_report_of_a_crash_exits_11(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(
        "step 1\nterminate called after throwing an instance of 'std::runtime_error'\n  what():  no memory\n"
    )
    said = livedbg("report", "--logs", log)
    assert said.code == 11 and "runtime_error" in said.out


def test_report_of_a_lost_dependency_exits_12() -> None:
    said = livedbg("report", "--logs", ASCEND / "09_dep_lost")
    assert said.code == 12, said.everything


def test_stacks_are_those_of_the_target_and_not_of_who_holds_its_pipes(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, "-c", "import sys; print('READY', flush=True); sys.stdin.read()"])
    settled(target.pid)
    groups = [json.loads(line) for line in livedbg("stacks", target.pid, "--json").out.splitlines()]
    ours = f"thread:{host_name()}/{target.pid}/"
    assert groups and all(thread.startswith(ours) for group in groups for thread in group["threads"])


def test_stacks_of_all_threads_equal_ones_together(stuck: Target) -> None:
    said = livedbg("stacks", stuck.pid)
    assert (said.code == 0 and "__lll_lock_wait" in said.out.replace("__GI_", "")) or "lock" in said.out
    assert f"{told(stuck)['t']['alpha']} alpha" in said.out
    groups = [json.loads(line) for line in livedbg("stacks", stuck.pid, "--json").out.splitlines()]
    threads = [thread for group in groups for thread in group["threads"]]
    assert len(threads) == len(set(threads)) == len(list(Path(f"/proc/{stuck.pid}/task").iterdir()))
    assert all(group["frames"] for group in groups)


def test_stacks_out_of_time_say_what_was_not_looked_at(idle: Target) -> None:
    said = livedbg("stacks", idle.pid, "--timeout", "0.1")
    assert said.code == 4 and "time was over" in said.err


def test_stacks_without_gdb_says_what_is_missing(idle: Target) -> None:
    said = livedbg("stacks", idle.pid, "--gdb", "/no/such/gdb")
    assert said.code == 0 and "No native stacks: /no/such/gdb was not found." in said.err
    assert "sudo apt-get install gdb" in said.err and "py " in said.out


def test_record_then_report_and_a_cut_one(stuck: Target, tmp_path: Path) -> None:
    file = tmp_path / "hang.livedbg"
    with recording(file, stuck.pid) as recorder:
        eventually(lambda: so_far(file).diagnosis.verdict.state is VerdictState.DEADLOCK)
        recorder.send_signal(signal.SIGINT)
        _, err = recorder.communicate(timeout=100)
    assert recorder.returncode == 0 and f"livedbg replay {file}" in err.decode()
    report = livedbg("report", file, "--json")
    assert report.code == 10 and json.loads(report.out)["verdict"]["state"] == "deadlock"
    again = livedbg("record", stuck.pid, "-o", file, "--for", "1")
    assert again.code == 2 or "already exists" in again.err
    assert "--force" in again.err
    file.write_bytes(file.read_bytes()[:-5])  # inside the end of the last frame: what had been flushed is whole
    cut = livedbg("report", file)
    assert cut.code == 10 and "recording" in cut.err, cut.everything


def test_report_of_a_recording_without_events_tells_no_time_that_it_does_not_know(tmp_path: Path) -> None:
    file = tmp_path / "begun.livedbg"
    file.write_bytes(packed_header("box", "train.py"))
    for form in ((), ("--markdown",)):
        said = livedbg("report", file, *form)
        assert said.code == 5 and "No sample has been taken yet." in said.out and "1970" not in said.out
    assert json.loads(livedbg("report", file, "--json").out)["taken_at"] == ""


def test_record_to_a_full_disk_says_so(idle: Target) -> None:
    said = livedbg("record", idle.pid, "-o", "/dev/full", "--force", "--for", "1")
    assert said.code != 0 and "No space left on device" in said.err and "free disk space" in said.err


def test_watch_until_a_verdict_and_until_a_time_limit(stuck: Target, idle: Target, tmp_path: Path) -> None:
    said = livedbg("watch", stuck.pid, "--until", "deadlock", "--timeout", "120", "--json")
    assert said.code == 10
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert any(line["kind"] == "verdict" and line["state"] == "deadlock" for line in lines)
    assert any(line["kind"] == "finding" and line["rule"] == "lock-cycle" for line in lines)
    said = livedbg("watch", idle.pid, "--until", "deadlock", "--timeout", "1")
    assert said.code == (0 if "RUNNING" in said.out else 4)


def test_watch_runs_a_command_when_it_stalls(stuck: Target, tmp_path: Path) -> None:
    got = tmp_path / "verdict.json"
    said = livedbg("watch", stuck.pid, "--until", "deadlock", "--timeout", "120", "--on-stall", f"tee '{got}'")
    assert said.code == 10
    assert json.loads(got.read_text())["state"] == "deadlock"
    wrong = livedbg("watch", stuck.pid, "--on-stall", "echo 'x")
    assert wrong.code == 2 and "quote it" in wrong.err


def test_watch_ends_with_its_target(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, "-c", "import sys; print('READY', flush=True); sys.stdin.read()"])
    watch = Livedbg(["watch", target.pid], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert watch.stdout is not None
    assert watch.stdout.readline()
    target.stdin.close()
    target.process.wait(100)
    out, err = watch.communicate(timeout=100)
    assert watch.returncode == 0 and b"EXITED" in out, (out, err)


def test_attach_without_a_terminal_says_what_to_use_instead(idle: Target) -> None:
    said = livedbg("attach", idle.pid)
    assert said.code == 2 and "livedbg report" in said.err


def test_ps_lists_torch_processes(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, "-c", "import torch; print('READY', flush=True); input()"])
    listed = [json.loads(line) for line in livedbg("ps", "--json").out.splitlines()]
    (row,) = [row for row in listed if row["pid"] == target.pid]
    assert "torch" in row["uses"] or "torch" in str(row)
    assert str(target.pid) in livedbg("ps").out


def test_doctor_names_facts_and_what_can_be_seen(idle: Target) -> None:
    said = livedbg("doctor", idle.pid)
    assert said.code == 0 and "py-spy" in said.out and f"ok  {idle.pid}" in said.out
    for line in said.out.splitlines():
        if line.startswith("--"):
            assert "try:" in said.out


def test_by_name_and_as_a_rank_of_a_job(
    build_target: Callable[..., Path], spawn: Callable[..., Target], tmp_path: Path
) -> None:
    program = tmp_path / f"only-one-of-it-{os.getpid()}"
    program.symlink_to(build_target("hang_cases", "-std=c++17"))
    target = spawn([program, "lock-cycle"])
    settled(target.pid)
    said = livedbg("report", program.name, "--json")
    assert said.code == 10
    assert json.loads(said.out)["targets"] or f"process:{host_name()}/{target.pid}" in said.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_headless_command_cleanly(idle: Target, number: signal.Signals, tmp_path: Path) -> None:
    file = tmp_path / "r.livedbg"
    child = Livedbg(
        ["record", idle.pid, "-o", file],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    eventually(lambda: file.exists() and file.stat().st_size > 200)
    os.kill(child.pid, number)
    _, err = child.communicate(timeout=100)
    assert child.returncode in (0, 130, 128 + number) and b"Traceback" not in err
    assert livedbg("report", file).err == ""  # it was ended whole


def test_a_reader_that_goes_away_is_no_error(idle: Target) -> None:
    line = f"{sys.executable} -m livedbg report {idle.pid} --json --timeout 90 | head -c 1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=150, check=False)
    assert done.stdout == b"{" and done.stderr == b""


def test_the_json_of_a_report_is_read_by_its_own_schema(stuck: Target) -> None:
    from livedbg.report.document import ReportDocument

    raw = livedbg("report", stuck.pid, "--json").out
    assert msgspec.json.decode(raw, type=ReportDocument).verdict.state == "deadlock"


_INTERRUPTED = """
import sys
from livedbg.cli import report

first = report._look

def look(request, limit, seconds):
    if seconds:
        raise KeyboardInterrupt
    return first(request, limit, seconds)

report._look = look
sys.exit(report.command.main([sys.argv[1]], standalone_mode=False))
"""


@pytest.mark.invariant("report.D1")
def test_ctrl_c_in_the_longer_look_prints_what_the_first_one_saw(spawn: Callable[..., Target], tmp_path: Path) -> None:
    polls = tmp_path / "polls.py"
    polls.write_text("import os, time\nprint('READY', flush=True)\nwhile not os.path.exists('/no'): time.sleep(30)\n")
    os.utime(polls, (1, 1))  # surely before the process
    target = spawn([sys.executable, str(polls)])
    settled(target.pid)
    command = [sys.executable, "-c", _INTERRUPTED, str(target.pid)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 5 and said.stdout.startswith("UNKNOWN"), said
    assert "interrupted: the report has what the first look saw" in said.stderr
