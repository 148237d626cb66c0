"""What may not be seen: each situation has its own code, sentence and remedy, and the rest is shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from livedbg.linux import access
from livedbg.linux.access import Problem
from livedbg.linux.procfs import process_ids, read_stat, status_fields
from livedbg.model import UNSEEN_RUNTIME, SourceHealth, ThreadState
from livedbg.model.errors import TargetDenied, TargetError, TargetGone, TargetUnsuitable
from livedbg.session import hostinfo
from tests.adapters.proc.conftest import at_rest

NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="starts programs as other users: run as root")

needs_namespaces = pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False).returncode != 0,
    reason="makes PID and mount namespaces: run as root with CAP_SYS_ADMIN",
)

LOOK_AS_NOBODY = """
import asyncio, json, os, sys
from livedbg.session import hostinfo
from livedbg.session.adapter import Request, TargetProcess
from livedbg.adapters.proc import ProcAdapter
from livedbg.model.errors import TargetError
from livedbg.session.session import Session
from livedbg.session.rulebook import diagnostician
diagnostician()  # imports the rules of all systems, which nobody may not read
import tempfile, tomllib  # so it is with what a verdict reads its words with
os.setgroups([]); os.setgid(65534); os.setuid(65534)
pid = int(sys.argv[1])
try:
    hostinfo.check_target(pid)
    error = None
except TargetError as e:
    error = [type(e).__name__, e.code, e.message, e.remedy]
updates = []
request = Request(host="box", processes=(TargetProcess(pid),), once=True)
asyncio.run(Session(request, [ProcAdapter()], updates.append).run())
s = updates[-1].snapshot
print(json.dumps({"error": error,
  "partial": hostinfo.check_target(pid, partial=True).pid if error is None or error[1] != "hidepid" else None,
  "statuses": [[t.code, t.health, t.sentence, t.remedy] for t in s.statuses.values()],
  "threads": [[t.id, t.state, t.syscall, t.cpu_ns] for t in s.threads.values()]}))
"""


def look_as_nobody(pid: int, *prefix: str) -> dict[str, Any]:
    """What a session of user nobody sees of a process."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", LOOK_AS_NOBODY, str(pid)], capture_output=True, check=True, timeout=100
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_root
@pytest.mark.invariant("watch.W2")
def test_W2_other_user(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "mutex"])
    at_rest(target.pid)
    seen = look_as_nobody(target.pid)
    kind, code, sentence, remedy = seen["error"]
    assert (kind, code) == ("TargetDenied", "other-user")
    assert "belongs to user root, you are nobody" in sentence
    assert f"sudo -u root livedbg attach {target.pid}" in remedy
    assert [status[:2] for status in seen["statuses"]] == [["other-user", "degraded"]]
    assert len(seen["threads"]) == 4
    assert all(state == "waiting" and syscall is None for _, state, syscall, _ in seen["threads"])


@needs_root
def test_not_dumpable(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "undumpable"], user=NOBODY)
    seen = look_as_nobody(target.pid)
    assert seen["error"][:2] == ["TargetDenied", "not-dumpable"]
    assert [status[0] for status in seen["statuses"]] == ["not-dumpable"]


@needs_namespaces
def test_hidepid(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "sleep"])
    script = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    try:
        seen = look_as_nobody(target.pid, "unshare", "--mount", "sh", "-c", script, "sh")
    except subprocess.CalledProcessError as error:
        pytest.fail(f"could not mount /proc with hidepid: {error.stderr.decode()}")
    kind, code, sentence, remedy = seen["error"]
    assert (kind, code) == ("TargetDenied", "hidepid")
    assert "nobody" in sentence
    assert "sudo" in remedy
    assert [status[:2] for status in seen["statuses"]] == [["hidepid", "degraded"]]


def test_ptrace_scope_says_the_value_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Yama isn't in every kernel, so its value is set here; the check itself is the kernel's."""
    monkeypatch.setattr(access, "ptrace_scope", lambda: 1)
    monkeypatch.setattr(access, "has_capability", lambda _number: False)
    problem = access._why_denied(os.getpid())
    assert problem.code == "ptrace-scope"
    assert "ptrace_scope is 1" in problem.sentence
    assert "sysctl kernel.yama.ptrace_scope=0" in problem.remedy


def test_gone() -> None:
    process = subprocess.Popen(["true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process.wait()
    with pytest.raises(TargetGone) as caught:
        hostinfo.check_target(process.pid)
    assert caught.value.code == "gone"
    assert "livedbg ps" in caught.value.remedy


def _is_kernel_thread(pid: int) -> bool:
    try:
        return read_stat(pid).kernel_thread
    except OSError:
        return False  # it has ended


def test_kernel_thread() -> None:
    kernel = [  # the first ones live as long as the machine
        pid for pid in process_ids() if pid < os.getpid() and _is_kernel_thread(pid)
    ]
    if not kernel:  # a PID namespace without kernel threads
        assert access.unsuitable(os.getpid()) is None
        return
    with pytest.raises(TargetUnsuitable) as caught:
        hostinfo.check_target(min(kernel))
    assert caught.value.code == "kernel-thread"
    assert "kernel thread" in caught.value.message


def test_zombie(waits: Path, spawn: Callable[..., Any], observe: Callable[..., Any]) -> None:
    target = spawn([waits, "zombie"])
    child = int(dict(word.split("=") for word in target.words)["child"])
    with pytest.raises(TargetUnsuitable) as caught:
        hostinfo.check_target(child)
    assert caught.value.code == "zombie"
    assert f"livedbg attach {target.pid}" in caught.value.remedy
    snapshot = observe(child)
    assert snapshot.processes[f"process:box/{child}"].state is ThreadState.ZOMBIE
    assert snapshot.processes[f"process:box/{child}"].exit_status == 3
    (status,) = snapshot.statuses.values()
    assert (status.health, status.code) == (SourceHealth.ENDED, "zombie")
    assert str(target.pid) in status.sentence


def test_a_thread_number_names_its_process(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "sleep"])
    tid = int(dict(word.split("=") for word in target.words)["t0"])
    assert hostinfo.check_target(tid).pid == target.pid


@needs_namespaces
def test_pid_namespace(waits: Path, spawn: Callable[..., Any], observe: Callable[..., Any]) -> None:
    """A program in a PID namespace stores its inner thread numbers in its locks."""
    spawned = spawn(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", waits, "mutex"])
    told = dict(word.split("=") for word in spawned.words)
    assert told["pid"] == "1"
    at_rest(spawned.pid)
    snapshot = observe(spawned.pid)
    (process,) = [p for p in snapshot.processes.values() if p.notes == ("pid namespace: 1",)]
    inner = {}
    for thread in snapshot.threads.values():
        if thread.process == process.id:
            inner[status_fields(process.pid, thread.tid)["NSpid"].split()[-1]] = thread.id
    for waiter, lock, owner in (("t0", "m1", "t1"), ("t1", "m2", "t2"), ("t2", "m0", "t0")):
        mutex = f"mutex:box/{process.pid}/{told[lock]}"
        assert ("waits_for", inner[told[waiter]], mutex) in snapshot.edges
        assert ("holds", inner[told[owner]], mutex) in snapshot.edges


def test_unknown_libc_is_marked(build_target: Callable[..., Path], spawn: Callable[..., Any], observe: Any) -> None:
    """A program without any C library: its futex wait shows, its owner can't."""
    program = build_target("nolibc", "-static", "-nostdlib", "-nostartfiles", "-ffreestanding", "-fno-stack-protector")
    target = spawn([program])
    at_rest(target.pid)
    snapshot = observe(target.pid)
    (status,) = snapshot.statuses.values()
    assert (status.code, status.health) == ("unknown-libc", SourceHealth.DEGRADED)
    (resource,) = snapshot.resources.values()
    assert resource.kind == "futex"
    assert "layouts not known" in resource.attributes["libc"]


def test_a_runtime_says_more_than_an_unknown_libc(
    build_target: Callable[..., Path], spawn: Callable[..., Any], observe: Any, tmp_path: Path
) -> None:
    """A Go program is static, and has no C library: what can't be seen are its goroutines."""
    options = ("-static", "-nostdlib", "-nostartfiles", "-ffreestanding", "-fno-stack-protector")
    program = tmp_path / "gopher"
    program.write_bytes(build_target("nolibc", *options).read_bytes() + b"\xff Go buildinf:")
    program.chmod(0o755)
    target = spawn([program])
    at_rest(target.pid)
    (status,) = observe(target.pid).statuses.values()
    assert status.code == UNSEEN_RUNTIME
    assert "runs in the Go runtime" in status.sentence


def test_foreign_machine_has_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from livedbg.adapters.proc import problems

    monkeypatch.setattr(problems, "elf_machine", lambda pid: 3)  # EM_386
    problem = problems.machine_problem(os.getpid())
    assert isinstance(problem, Problem)
    assert problem.code == "foreign-machine"


def test_every_error_has_a_remedy() -> None:
    for problem in (access._hidden(1), Problem("gone", "a", "b"), access._why_denied(os.getpid())):
        error = hostinfo._error(problem)
        assert isinstance(error, TargetError | TargetDenied)
        assert error.remedy
        assert error.code == problem.code
