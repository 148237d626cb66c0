"""What could wake programs all of whose threads wait: one program for each way in which the kernel wakes a task."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

import pytest

from livedbg.adapters.proc import asleep
from livedbg.adapters.proc.asleep import AWAKE, AsleepReader
from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.threads import ThreadNumbers, ThreadSample
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.waits import Wait, Waited, Wakers
from livedbg.analysis.closed import Closed, closed_sets
from livedbg.linux import maps, procfs
from livedbg.linux.abi import native_abi
from livedbg.linux.live_environment import detect_libc
from livedbg.linux.maps import parse_maps
from livedbg.linux.procfs import BlockedSyscall, Running, read_stat
from livedbg.model import ThreadState
from tests.adapters.proc.conftest import HOST, at_rest, observe_once
from tests.conftest import Target, eventually, settled

OPEN: Final = {
    "handler": "handles SIGTERM",
    "shared-sleeper": "could wake process",
    "shared-named": "any process that may open",
    "shared-semaphore": "any process that may open",
    "unguessed-told": "could wake process",
    "shared-memfd": "could wake process",
    "shared-sysv": "any process that may attach its System V shared memory",
    "clone-vm": "shares its memory with process",
    "sleeping-thread": "",  # one of its threads does not wait for ever: it is not asleep
    "pause": "(a signal)",
    "inotify": "inotify",
    "netlink": "has an end outside",
    "udp": "a datagram that anyone sends",
    "datagrams": "a datagram that anyone sends",
    "receive-limited": "",  # the call gives up after some time
    "epoll-inherited": "could wake process",
    "epoll-closed": "its epoll set has a file that was closed",
    "epoll-nested": "an epoll set lies in another one",
    "exceptions": "exceptional conditions",
    "tracer": "traces process",
    "semop": "any process that may use semaphore set",
    "queue-named": "any process that may open message queue /livedbg-asleep-",
    "timer": "has a timer",
}
CLOSED: Final = {
    "sem": 2,
    "own-pair": 1,
    "receive": 1,
    "own-epoll": 1,
    "queues-crossed": 2,
    "shared-both": 2,
    "unguessed": 2,
    "child-waits": 2,
}
"""Threads of each closed set."""


@pytest.fixture(scope="module")
def programs(
    build_target: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Mapping[str, int], Closed]]:
    """All programs, seen by one session: their pids, and what is closed."""
    program, folder = build_target("asleep"), tmp_path_factory.mktemp("asleep")
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for mode in [*OPEN, *CLOSED]:
            argv = [str(program), mode, str(folder / mode)]
            started[mode] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        for mode, process in started.items():
            assert process.stdout is not None and process.stdout.readline() == b"READY\n", mode
        for process in started.values():
            at_rest(process.pid)
        pids = {mode: process.pid for mode, process in started.items()}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asleep, "LONG_NS", 0)
            found = closed_sets(observe_once(*pids.values()))
        yield pids, found
    finally:
        for process in started.values():
            subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
            process.wait(60)
        for pid in (process.pid for process in started.values()):
            for number in range(2):
                ctypes.CDLL(None).mq_unlink(f"/livedbg-asleep-{pid}-{number}".encode())
            Path(f"/dev/shm/sem.livedbg-asleep-{pid}").unlink(missing_ok=True)
            Path(f"/dev/shm/sem.mp-asleep_{pid}").unlink(missing_ok=True)


def sets_of(pid: int, closed: Closed) -> list[int]:
    """The number of threads of each closed set that has a process."""
    return [len(found.threads) for found in closed.sets if any(process.pid == pid for process in found.processes)]


@pytest.mark.parametrize("mode", CLOSED)
def test_what_only_its_own_processes_could_wake_is_a_closed_set(
    mode: str, programs: tuple[Mapping[str, int], Closed]
) -> None:
    pids, closed = programs
    assert sets_of(pids[mode], closed) == [CLOSED[mode]], closed.open_because.get(f"process:{HOST}/{pids[mode]}")


@pytest.mark.invariant("asleep.Z1")
@pytest.mark.parametrize("mode", OPEN)
def test_Z1_what_could_wake_a_program_is_found_and_named(mode: str, programs: tuple[Mapping[str, int], Closed]) -> None:
    pids, closed = programs
    assert sets_of(pids[mode], closed) == []
    assert OPEN[mode].casefold() in closed.open_because.get(f"process:{HOST}/{pids[mode]}", "").casefold()


def test_a_process_whose_main_thread_has_ended_is_not_said_to_share_its_memory(
    build_target: Callable[..., Path], spawn: Callable[..., Target], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asleep, "LONG_NS", 0)
    pid = spawn([build_target("asleep"), "main-ended", tmp_path]).pid
    eventually(lambda: read_stat(pid).state is ThreadState.ZOMBIE)
    settled(pid, but={pid})
    closed = closed_sets(observe_once(pid))
    assert sets_of(pid, closed) == []
    assert closed.open_because[f"process:{HOST}/{pid}"].endswith(
        "is seen only in part: its main thread has ended (pthread_exit)"
    )


def reader(pid: int) -> AsleepReader:
    abi, mappings = native_abi(), parse_maps(pid)
    assert abi is not None
    return AsleepReader(ProcessView(Scene(HOST), pid, abi, detect_libc(pid, mappings), ThreadNumbers(pid), mappings))


def seen(**changed: object) -> ThreadSample:
    """This thread, as if it waited."""
    call = BlockedSyscall(202, (0,) * 6, 0, 0)
    what: dict[str, object] = {"state": ThreadState.WAITING, "runs": 1, "call": call, "last_ran_ns": None, **changed}
    return ThreadSample(tid=os.getpid(), name="", cpu_ns=0, wait_channel=str(what.pop("channel", "futex")), **what)  # type: ignore[arg-type]


LONG_AGO: Final = seen(last_ran_ns=0)


@pytest.mark.invariant("asleep.Z2")
def test_Z2_only_a_process_that_sleeps_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = os.getpid()
    waits = {pid: Wait("sem_wait", False, (Waited("sem:x", "", wakers=Wakers(frozenset({pid}))),))}
    clock = iter(range(10**10, 10**12, asleep.LONG_NS // 4))
    monkeypatch.setattr(asleep, "time", SimpleNamespace(monotonic_ns=lambda: next(clock)))
    assert reader(pid).sample([LONG_AGO], [LONG_AGO], waits).threads == {pid: (frozenset({pid}), "")}
    for one in (seen(last_ran_ns=10**10), seen(last_ran_ns=None)):
        assert reader(pid).sample([LONG_AGO, one], [], waits) is AWAKE
    watched = reader(pid)
    first = [watched.sample([seen()], [], waits) is AWAKE for _ in range(4)]  # two times of the clock a look
    assert first == [True, True, False, False]
    assert watched.sample([LONG_AGO], [LONG_AGO], waits) is AWAKE  # it has run since
    for more in ({"state": ThreadState.RUNNING}, {"call": Running()}, {"call": None}, {"runs": None}):
        assert reader(pid).sample([seen(last_ran_ns=0, **more)], [], waits) is AWAKE
    assert reader(pid).sample([LONG_AGO], [], {pid: Wait("sem_timedwait", True)}) is AWAKE
    assert reader(pid).sample([seen(last_ran_ns=0, state=ThreadState.ZOMBIE)], [], {}) is AWAKE


def test_a_thread_that_is_frozen_or_whose_call_is_intercepted_does_not_wait_for_what_its_call_says() -> None:
    pid = os.getpid()
    waits = {pid: Wait("sem_wait", False, (Waited("sem:x", "", wakers=Wakers(frozenset({pid}))),))}
    for channel in ("__refrigerator", "seccomp_do_user_notification", "ptrace_stop"):
        found = reader(pid).sample([seen(channel=channel, last_ran_ns=0)], [], waits)
        assert found.of(HOST, pid) == ((), f"it is held in {channel}")


@pytest.mark.parametrize("allowed", [True, False])
def test_memory_that_shows_as_deleted_may_have_another_name(
    allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not allowed:  # to look at the file itself, as for an ordinary user
        monkeypatch.setattr(maps, "_links", lambda *_: None)
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(bytes(4096))
    with first.open("r+b") as file, mmap.mmap(file.fileno(), 4096), mmap.mmap(-1, 4096) as unnamed:
        second.hardlink_to(first)
        first.unlink()
        found = next(one for one in parse_maps(os.getpid()) if one.path == str(first))
        assert found.deleted and maps.names_of(os.getpid(), found) == {"second"}
        second.unlink()
        found = next(one for one in parse_maps(os.getpid()) if one.path == str(first))
        assert maps.names_of(os.getpid(), found) == frozenset()
        (tmp_path / "other").write_bytes(b"")
        unnamed[:1] = b"x"
        zero = next(one for one in parse_maps(os.getpid()) if one.path == "/dev/zero")
        assert maps.names_of(os.getpid(), zero) == frozenset()
        tmp_path.joinpath("other").unlink()
        tmp_path.rmdir()
        assert maps.names_of(os.getpid(), found) == (frozenset() if allowed else None)


def test_a_hidden_process_counts_if_it_may_have_inherited_the_same() -> None:
    pid, parent = os.getpid(), os.getppid()
    assert asleep.unseen_relative(pid, []) == ""
    assert asleep.unseen_relative(pid, [1, 2]) == ""
    assert f"hidden process {parent} (" in asleep.unseen_relative(pid, [parent])
    with subprocess.Popen(
        ["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as later:
        assert f"hidden process {later.pid} (" in asleep.unseen_relative(pid, [later.pid])
        later.kill()


def test_without_kcmp_the_same_mappings_may_be_the_same_memory(
    programs: tuple[Mapping[str, int], Closed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asleep, "same_memory", lambda *_: None)
    waits = {os.getpid(): Wait("sem_wait", False)}
    pid = programs[0]["clone-vm"]
    assert "may share its memory with process" in (reader(pid).sample([LONG_AGO], [], waits).outside or "")
    assert "may share" not in (reader(os.getpid()).sample([LONG_AGO], [], waits).outside or "")


_TRACED: Final = """
import ctypes, os
child = os.fork()
if not child:
    os.read(0, 1)
    ctypes.CDLL(None).ptrace(0, 0, 0, 0)  # PTRACE_TRACEME
    print("TRACED", flush=True)
    os.read(0, 1)
    os._exit(0)
print("READY", child, flush=True)
os.waitpid(child, 0)
"""


def test_of_a_process_that_sleeps_on_only_children_are_asked_who_traces_them(
    spawn: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = spawn([sys.executable, "-c", _TRACED])
    reader = AsleepReader(cast(ProcessView, SimpleNamespace(pid=target.pid)))
    reader._since_ns = 1
    asked: list[int] = []
    monkeypatch.setattr(asleep, "process_ids", lambda: asked.append(1) or procfs.process_ids())
    assert reader._traces() == "" and len(asked) == 1
    assert reader._traces() == "" and len(asked) == 1
    assert target.process.stdin is not None
    os.write(target.process.stdin.fileno(), b"x")
    assert "TRACED" in target.line()
    assert reader._traces().startswith("traces process") and len(asked) == 1
    assert reader._traces().startswith("traces process") and len(asked) == 2
    reader._untraced_ns, reader._since_ns = 1, 2  # it has run meanwhile
    assert reader._traces().startswith("traces process") and len(asked) == 3
    os.write(target.process.stdin.fileno(), b"x")
