"""Each kind of blocking system call in a real program: who waits, for what, who has the other end."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from livedbg.adapters.proc import fd_waits, syscall_waits
from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.syscall_waits import SyscallWaits
from livedbg.adapters.proc.threads import ThreadNumbers
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.waits import Wait
from livedbg.linux.abi import native_abi
from livedbg.linux.live_environment import detect_libc
from livedbg.linux.maps import parse_maps
from livedbg.linux.procfs import BlockedSyscall
from livedbg.model import WaitKind

Sample = Any
Looker = Callable[..., Sample]


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("pipe", "read of pipe"),
        ("pipe-full", "write to pipe"),
        ("fifo", "read of pipe"),
        ("select", "select of 1 descriptor"),
        ("epoll", "epoll_wait of 1 descriptor"),
        ("epoll-nested", "epoll_wait of 1 descriptor"),
    ],
)
def test_a_pipe_is_served_by_the_process_at_its_other_end(sample: Looker, mode: str, words: str) -> None:
    seen = sample(mode)
    pipe = f"pipe:box/{seen.told['inode']}"
    assert set(seen.waits(seen.thread_id("main"))) == {pipe}
    assert set(seen.holders(pipe)) == {seen.process_id("child")}
    assert seen.thread("main").waits_in.startswith(words)
    assert seen.resource(pipe).state == ("full" if mode == "pipe-full" else "empty")


@pytest.mark.parametrize(("mode", "timed"), [("poll", False), ("poll-timed", True)])
def test_poll_waits_for_any_of_its_descriptors(sample: Looker, mode: str, timed: bool) -> None:
    seen = sample(mode)
    waits = seen.waits(seen.thread_id("main"))
    assert f"pipe:box/{seen.told['inode']}" in waits
    assert len(waits) == 2
    assert all(edge.any_of and edge.timed is timed for edge in waits.values())
    assert seen.thread("main").waits_in == "poll of 2 descriptors"


def test_any_of_several_writers_can_serve_a_pipe(sample: Looker) -> None:
    seen = sample("pipe-writers")
    holders = seen.holders(f"pipe:box/{seen.told['inode']}")
    assert set(holders) == {seen.process_id("child"), seen.process_id("other")}
    assert all(edge.any_of for edge in holders.values())


def test_two_processes_that_read_from_each_other_close_a_cycle(sample: Looker) -> None:
    seen = sample("ring")
    child = seen.told["child"]
    there, back = f"pipe:box/{seen.told['there']}", f"pipe:box/{seen.told['back']}"
    assert set(seen.waits(seen.thread_id("main"))) == {back}
    assert set(seen.holders(back)) == {seen.process_id("child")}
    assert set(seen.waits(f"thread:box/{child}/{child}")) == {there}
    assert set(seen.holders(there)) == {seen.process_id("pid")}


@pytest.mark.parametrize(("mode", "protocol"), [("unix", "unix"), ("tcp", "tcp")])
def test_a_socket_is_served_by_the_process_at_its_other_end(sample: Looker, mode: str, protocol: str) -> None:
    seen = sample(mode)
    socket = f"socket:box/{seen.told['inode']}"
    assert set(seen.waits(seen.thread_id("main"))) == {socket}
    assert set(seen.holders(socket)) == {seen.process_id("child")}
    assert seen.resource(socket).attributes["protocol"] == protocol
    assert seen.resource(socket).attributes["peer"] == f"process {seen.told['child']}"
    assert seen.thread("main").waits_in.startswith("recv on socket")


def test_accept_names_the_address_and_the_socket_listens(sample: Looker) -> None:
    seen = sample("accept")
    assert seen.thread("main").waits_in == f"accept on 127.0.0.1:{seen.told['port']}"
    socket = f"socket:box/{seen.told['inode']}"
    assert seen.resource(socket).listening
    assert seen.holders(socket) == {}


def test_a_server_that_idles_in_epoll_waits_for_nobody(sample: Looker) -> None:
    seen = sample("epoll-server")
    waits = seen.waits(seen.thread_id("main"))
    listening, own = f"socket:box/{seen.told['inode']}", f"socket:box/{seen.told['own']}"
    assert set(waits) == {listening, own}
    assert seen.resource(listening).listening
    assert seen.resource(own).wakes_itself
    assert seen.holders(listening) == seen.holders(own) == {}


def test_an_armed_timer_in_an_epoll_set_ends_the_wait(sample: Looker) -> None:
    seen = sample("epoll-timer")
    assert seen.thread("main").syscall == "epoll_wait"
    assert seen.thread("main").timed is True


def test_eventfd_is_served_by_whoever_has_it(sample: Looker) -> None:
    seen = sample("eventfd")
    (eventfd,) = seen.waits(seen.thread_id("main"))
    assert eventfd.startswith("eventfd:box/")
    assert set(seen.holders(eventfd)) == {seen.process_id("child"), seen.process_id("pid")}


def test_eventfd_of_one_process(sample: Looker) -> None:
    seen = sample("eventfd-own")
    (eventfd,) = seen.waits(seen.thread_id("t0"))
    assert set(seen.holders(eventfd)) == {seen.process_id("pid")}


@pytest.mark.parametrize(("mode", "kind"), [("flock", "FLOCK"), ("fcntl", "POSIX"), ("ofd", "OFDLCK")])
def test_file_locks_are_held_by_a_process(sample: Looker, mode: str, kind: str) -> None:
    seen = sample(mode)
    (lock,) = seen.waits(seen.thread_id("main"))
    assert lock.startswith("flock:box/")
    assert lock.endswith(f":{seen.told['inode']}{'' if kind == 'FLOCK' else ':10-29'}")
    assert seen.resource(lock).name.startswith("/" if kind == "FLOCK" else "bytes 10 to 29 of /")
    assert set(seen.holders(lock)) == {seen.process_id("child")}
    assert seen.resource(lock).attributes["kind"] == kind
    assert seen.resource(lock).attributes["path"].endswith("/file")


def test_waitpid_waits_for_the_child(sample: Looker) -> None:
    seen = sample("waitpid")
    assert set(seen.waits(seen.thread_id("main"))) == {seen.process_id("child")}
    assert seen.thread("main").waits_in == f"waitpid of {seen.told['child']}"


def test_waitpid_for_any_child_waits_for_any_of_them(sample: Looker) -> None:
    seen = sample("waitany")
    waits = seen.waits(seen.thread_id("main"))
    assert set(waits) == {seen.process_id("child"), seen.process_id("other")}
    assert all(edge.any_of for edge in waits.values())


def test_waitid_of_a_pidfd_waits_for_its_process(sample: Looker) -> None:
    seen = sample("waitid-pidfd")
    assert set(seen.waits(seen.thread_id("main"))) == {seen.process_id("child")}


def test_a_sleep_says_how_long_and_is_timed(sample: Looker) -> None:
    seen = sample("sleep")
    assert seen.thread("t0").waits_in == "sleep 1000.5 s"
    assert seen.thread("t0").timed is True
    assert seen.waits(seen.thread_id("t0")) == {}


def test_a_running_thread_waits_for_nothing(sample: Looker) -> None:
    def got_on(seen: Sample) -> bool:  # between the two looks; on a full machine it may get no CPU in that time
        activity = seen.snapshot.activity.get(seen.thread_id("main"))
        return activity is not None and activity.cpu_ns > 0

    main = sample("spin", got_on).thread("main")
    assert (main.state, main.syscall, main.waits_in) == ("running", None, None)


@pytest.mark.parametrize("limit_s", [None, 0.0, 30.0])
def test_a_call_on_a_socket_is_endless_only_if_its_time_limit_was_read(
    limit_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fd_waits, "time_limit_s", lambda *_: limit_s)
    monkeypatch.setattr(fd_waits, "outside", lambda *_: "")  # this process handles signals
    one, other = socket.socketpair()
    with one, other:
        call = BlockedSyscall(0, (one.fileno(), 0, 0, 0, 0, 0), 0, 0)
        wait = SyscallWaits(own_view()).describe("recvfrom", call)
    assert wait.timed is {None: None, 0.0: False, 30.0: True}[limit_s]
    assert ("SO_RCVTIMEO" in wait.outside) is (limit_s is None)
    assert ("time limit 30 s" in (wait.waits_in or "")) is (limit_s == 30)
    [waited] = wait.waited
    assert waited.resource is not None and bool(waited.resource.outside) is (limit_s is None)


@pytest.mark.parametrize(
    ("queue", "last"),
    [
        (3, "; nobody has sent to it yet"),
        (4, "; process 1 was the last to send"),
        (5, "; process 4194305, which has ended, was the last to send"),
        (6, ""),
    ],
)
def test_what_is_known_of_the_sender_to_a_system_v_queue(
    queue: int, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = "key msqid perms cbytes qnum lspid\n0 3 600 0 0 0\n0 4 600 0 0 1\n0 5 600 0 0 4194305\n0 x\n"
    monkeypatch.setattr(syscall_waits, "read_file", lambda _: table.encode())
    wait = SyscallWaits(own_view()).describe("msgrcv", BlockedSyscall(0, (queue, 0, 0, 0, 0, 0), 0, 0))
    outside = f"any process that may use message queue {queue}{last}"
    assert wait == Wait("msgrcv (System V message queue)", False, outside=outside, kind=WaitKind.SYSTEM_V)


@pytest.mark.parametrize(
    ("name", "words", "kind"),
    [
        ("io_uring_enter", "io_uring wait", WaitKind.COMPLETION),
        ("io_getevents", "wait for asynchronous I/O", WaitKind.DISK),
        ("sync_file_range", "sync_file_range", WaitKind.UNKNOWN),
    ],
)
def test_calls_of_which_nothing_more_is_known(name: str, words: str, kind: WaitKind) -> None:
    wait = SyscallWaits(own_view()).describe(name, BlockedSyscall(0, (0, 0, 0, 0, 0, 0), 0, 0))
    assert (wait.waits_in, wait.kind, wait.timed) == (words, kind, None)


def own_view() -> ProcessView:
    abi, mappings = native_abi(), parse_maps(os.getpid())
    assert abi is not None
    libc = detect_libc(os.getpid(), mappings)
    return ProcessView(Scene("box"), os.getpid(), abi, libc, ThreadNumbers(os.getpid()), mappings)


@pytest.mark.parametrize(
    ("seconds", "nanoseconds", "text"),
    [(3, 5 * 10**8, "sleep 3.5 s"), (0x7FFC_1234_5678, 40, "sleep"), (2, 10**9, "sleep"), (-1, 0, "sleep")],
)
def test_a_time_that_nobody_sleeps_for_was_read_too_late(seconds: int, nanoseconds: int, text: str) -> None:
    """The thread has gone on meanwhile, and something else lies where its request lay."""
    asked = (ctypes.c_int64 * 2)(seconds, nanoseconds)
    call = BlockedSyscall(0, (ctypes.addressof(asked), 0, 0, 0, 0, 0), 0, 0)
    wait = SyscallWaits(own_view()).describe("nanosleep", call)
    assert wait.waits_in == text and (wait.sleeps_s is None) == (text == "sleep")
