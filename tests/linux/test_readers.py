"""Readers of /proc, memory, mappings, sockets and locks, on this process and on texts."""

from __future__ import annotations

import ast
import ctypes
import os
import socket
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg import linux
from livedbg.adapters.proc.identity import read_identity
from livedbg.linux import memory, procfs
from livedbg.linux.abi import SYSCALLS_AARCH64, SYSCALLS_X86_64, native_abi
from livedbg.linux.descriptors import blocking_locks, parse_locks
from livedbg.linux.live_environment import LiveEnvironment, detect_libc
from livedbg.linux.maps import find_mapping, parse_maps, parse_maps_text
from livedbg.linux.procfs import BlockedSyscall, Running, parse_stat, parse_syscall
from livedbg.linux.sockets import SocketTable, unix_peer, unix_unread
from livedbg.model import ThreadState
from tests.conftest import eventually

PID = os.getpid()


@pytest.mark.invariant("linux.L2")
def test_L2_memory_is_read_in_one_batch_around_holes() -> None:
    data = ctypes.create_string_buffer(b"livedbg", 64)
    at = ctypes.addressof(data)
    requests = [(at, 7), (16, 8), (at + 4, 3), (16, 8), (at, 4)] * 300
    assert memory.read_many(PID, requests) == [b"livedbg", None, b"dbg", None, b"live"] * 300
    assert memory.read(PID, at, 7) == b"livedbg"
    assert memory.read_text(PID, at) == b"livedbg"
    assert memory.read_many(PID, []) == []


def test_memory_of_nobody() -> None:
    with pytest.raises(ProcessLookupError):
        memory.read(2**22 + 5, 4096, 8)
    with pytest.raises(OSError, match=r".*"):
        memory.read(PID, 16, 8)


def test_maps_of_this_process() -> None:
    data = ctypes.create_string_buffer(64)  # before the look: it may be the first of a mapping
    mappings = parse_maps(PID)
    assert mappings == sorted(mappings)
    found = find_mapping(mappings, ctypes.addressof(data))
    assert found is not None
    assert found.start <= ctypes.addressof(data) < found.end
    assert find_mapping(mappings, 16) is None
    assert any(m.executable and m.path == os.path.realpath(sys.executable) for m in mappings)


def test_each_who_asks_for_mappings_has_a_list_of_its_own() -> None:
    text = b"7f0000001000-7f0000002000 r-xp 00000000 fe:00 12                         /lib/x.so\n"
    first, second = parse_maps_text(text), parse_maps_text(bytes(bytearray(text)))
    first.clear()
    assert [mapping.path for mapping in second] == ["/lib/x.so"]
    assert parse_maps_text(text + text.replace(b"x.so", b"y.so"))[1].path == "/lib/y.so"


def test_maps_with_spaces_deleted_files_and_shared_memory() -> None:
    text = (
        b"7f0000000000-7f0000001000 rw-s 00002000 00:01 77                         /dev/shm/a b (deleted)\n"
        b"7f0000001000-7f0000002000 r-xp 00000000 fe:00 12                         /lib/x.so\n"
        b"7f0000003000-7f0000004000 rw-p 00000000 00:00 0 \n"
    )
    shared, code, anonymous = parse_maps_text(text)
    assert (shared.path, shared.deleted, shared.shared, shared.inode, shared.offset) == (
        "/dev/shm/a b",
        True,
        True,
        77,
        8192,
    )
    assert code.executable
    assert anonymous.path == ""


def test_stat_with_parentheses_and_spaces_in_the_name() -> None:
    text = b"42 (a) b (c)) S 7 42 42 0 -1 4194304 1 0 0 0 30 12 0 0 20 0 3 0 12345 0 0 " + b"0 " * 27 + b"256"
    stat = parse_stat(text)
    assert (stat.name, stat.state, stat.ppid, stat.cpu_ticks) == ("a) b (c)", ThreadState.WAITING, 7, 42)
    assert (stat.threads, stat.start_ticks, stat.exit_status) == (3, 12345, 1)
    assert procfs.read_stat(PID).ppid == os.getppid()


def test_syscall_texts() -> None:
    assert parse_syscall(b"running\n") == Running()
    assert parse_syscall(b"-1 0x7ffc 0x7f00\n") == BlockedSyscall(-1, (), 0x7FFC, 0x7F00)
    assert parse_syscall(b"0 0x3 0x7ff 0x1 0x0 0x0 0x0 0x7ffc 0x7f00\n").args == (3, 0x7FF, 1, 0, 0, 0)


def test_a_blocked_thread_of_this_process() -> None:
    leave = threading.Event()
    tids: list[int] = []

    def wait() -> None:
        tids.append(threading.get_native_id())
        leave.wait(200)

    thread = threading.Thread(target=wait)
    thread.start()
    abi = native_abi()
    assert abi is not None

    def blocked() -> bool:
        call = procfs.blocked_syscall(PID, tids[0]) if tids else None
        return isinstance(call, BlockedSyscall) and abi.syscalls.get(call.number) == "futex"

    try:
        eventually(blocked)
        assert tids[0] in procfs.thread_ids(PID)
    finally:
        leave.set()
        thread.join()


def test_system_call_tables() -> None:
    for number, name in ((0, "read"), (202, "futex"), (232, "epoll_wait"), (441, "epoll_pwait2"), (247, "waitid")):
        assert SYSCALLS_X86_64[number] == name
    for number, name in ((63, "read"), (98, "futex"), (22, "epoll_pwait"), (441, "epoll_pwait2"), (95, "waitid")):
        assert SYSCALLS_AARCH64[number] == name


def test_libc_of_this_process_is_known() -> None:
    libc = detect_libc(PID, parse_maps(PID))
    assert libc.kind == "glibc"
    assert libc.version == tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[:2]))  # type: ignore[union-attr]
    assert libc.layouts_known


@pytest.mark.parametrize(
    ("path", "kind", "known"),
    [
        ("/lib/ld-musl-x86_64.so.1", "musl", False),
        ("/apex/com.android.runtime/lib64/bionic/libc.so", "bionic", False),
        ("/nowhere/libc-2.31.so", "glibc", True),
        ("/nowhere/program", "unknown", False),
    ],
)
def test_libc_by_its_file(path: str, kind: str, known: bool) -> None:
    line = f"7f0000001000-7f0000002000 r-xp 00000000 fe:00 12    {path}\n"
    libc = detect_libc(PID, parse_maps_text(line.encode()))
    assert (libc.kind, libc.layouts_known, libc.to_come) == (kind, known, False)


@pytest.mark.parametrize("loader", ["ld-linux-x86-64.so.2", "ld-linux.so.2", "ld-2.31.so", "ld64.so.2", "ld.so.1"])
def test_a_libc_is_to_come_while_only_its_loader_is_there(loader: str) -> None:
    lines = "".join(
        f"7f000000{n}000-7f000000{n + 1}000 r-xp 00000000 fe:00 {n}    {path}\n"
        for n, path in enumerate(("/nowhere/program", f"/lib64/{loader}"))
    )
    assert detect_libc(PID, parse_maps_text(lines.encode())).to_come


def test_sockets_of_this_process_and_their_peers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            table = SocketTable(PID)
            listening, end = (table.get(os.fstat(s.fileno()).st_ino) for s in (server, client))
            assert listening is not None
            assert listening.listening
            assert listening.local == f"127.0.0.1:{server.getsockname()[1]}"
            assert end is not None
            assert table.peer(end) == os.fstat(accepted.fileno()).st_ino
            assert [one.inode for one in table.accepted(listening)] == [os.fstat(accepted.fileno()).st_ino]
            client.sendall(b"12345")
            other = SocketTable(PID).get(os.fstat(accepted.fileno()).st_ino)
            assert other is not None and (other.unread, other.queued) == (5, 5)
    left, right = socket.socketpair()
    with left, right:
        inode, other_end = (os.fstat(one.fileno()).st_ino for one in (left, right))
        assert unix_peer(inode) == other_end
        left.sendall(b"12345")
        assert (unix_unread(inode), unix_unread(other_end)) == (0, 5)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_connection_is_in_a_queue_until_it_is_accepted(host: str) -> None:
    with (
        socket.create_server((host, 0)) as server,
        socket.create_server(("127.0.0.1", 0)),
        socket.create_connection(("127.0.0.1", server.getsockname()[1])) as client,
    ):
        table = SocketTable(PID)
        end = table.get(os.fstat(client.fileno()).st_ino)
        assert end is not None and table.accepting(end) == [os.fstat(server.fileno()).st_ino]
        assert not table.peer(end)
        accepted, _ = server.accept()
        with accepted:
            table = SocketTable(PID)
            listening = table.get(os.fstat(server.fileno()).st_ino)
            assert listening is not None
            assert [one.inode for one in table.accepted(listening)] == [os.fstat(accepted.fileno()).st_ino]
            assert table.accepting(end) == [] and table.peer(end) == os.fstat(accepted.fileno()).st_ino


def test_datagrams_of_anybody_come_to_a_socket_that_was_bound() -> None:
    def udp() -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    with udp() as server, udp() as asks, udp() as connected, udp() as unbound:
        server.bind(("127.0.0.1", 0))
        asks.sendto(b"x", server.getsockname())  # a port of the kernel's, at any address
        connected.bind(("127.0.0.1", 0))
        connected.connect(server.getsockname())
        table = SocketTable(PID)
        serves = [table.get(os.fstat(one.fileno()).st_ino) for one in (server, asks, connected)]
        assert [one is not None and one.serves for one in serves] == [True, False, False]
        assert table.get(os.fstat(unbound.fileno()).st_ino) is None


def test_file_locks_and_who_stands_behind_them() -> None:
    locks = parse_locks(
        b"1: FLOCK  ADVISORY  WRITE 70 fe:00:1234 0 EOF\n"
        b"1: -> FLOCK  ADVISORY  WRITE 71 fe:00:1234 0 EOF\n"
        b"2: POSIX  ADVISORY  READ 72 fe:00:1234 10 29\n"
        b"3: OFDLCK ADVISORY  WRITE -1 fe:00:99 0 EOF\n"
        b"3: -> OFDLCK ADVISORY  WRITE -1 fe:00:99 0 EOF\n"
    )
    assert [lock.pid for lock in blocking_locks(locks, "FLOCK", 71, 1234)] == [70]
    assert blocking_locks(locks, "FLOCK", 72, 1234) == []
    assert [lock.number for lock in blocking_locks(locks, "OFDLCK", 5, 99)] == [3]


def test_of_two_waits_for_one_file_each_stands_behind_the_lock_of_its_range() -> None:
    locks = parse_locks(
        b"1: OFDLCK ADVISORY  WRITE -1 fe:00:99 0 99\n"
        b"1: -> OFDLCK ADVISORY  WRITE -1 fe:00:99 10 19\n"
        b"2: OFDLCK ADVISORY  READ -1 fe:00:99 200 EOF\n"
        b"2: -> OFDLCK ADVISORY  WRITE -1 fe:00:99 300 309\n"
    )
    assert [lock.range for lock in blocking_locks(locks, "OFDLCK", 5, 99, "10 19")] == ["0 99"]
    assert [lock.range for lock in blocking_locks(locks, "OFDLCK", 5, 99, "300 309")] == ["200 EOF"]
    assert len(blocking_locks(locks, "OFDLCK", 5, 99)) == 2


@given(st.binary(max_size=400))
def test_maps_text_of_any_bytes_never_makes_up_a_mapping(data: bytes) -> None:
    """Lines that aren't mappings are refused or ignored, nothing else happens."""
    try:
        found = parse_maps_text(data)
    except ValueError:
        return
    assert all(isinstance(mapping.start, int) for mapping in found)


def test_environment_and_command_of_this_process() -> None:
    assert procfs.command_line(PID)
    block = (b"\0" + Path("/proc/self/environ").read_bytes()).partition(b"\0PATH=")[2].split(b"\0")[0]
    assert procfs.read_environment(PID).get("PATH") == block.decode()


ACTS = {"kill", "killpg", "tkill", "tgkill", "pidfd_send_signal", "ptrace", "process_vm_writev", "setpriority"}
"""What stops, signals or changes another process."""
WRITES = {"write", "writev", "pwrite", "write_text", "write_bytes", "O_WRONLY", "O_RDWR"}


@pytest.mark.invariant("linux.L1")
def test_L1_only_two_modules_act_on_other_processes() -> None:
    used = {
        path.name: {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        for path in Path(linux.__file__).parent.glob("*.py")
    }
    assert {name for name, names in used.items() if names & ACTS} == {"family.py", "ptrace.py"}
    assert used["family.py"] & ACTS == {"pidfd_send_signal"} and used["ptrace.py"] & ACTS == {"ptrace"}
    assert {name for name, names in used.items() if names & WRITES} == set()


def test_an_environment_that_was_changed_after_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    mappings = parse_maps(PID)
    reader = LiveEnvironment(PID, mappings, detect_libc(PID, mappings))
    before = read_identity(PID).rank
    for rank in ("3", "4"):
        monkeypatch.setenv("RANK", rank)
        assert reader.read()["RANK"] == rank
    monkeypatch.setenv("LIVEDBG_LONG", "x" * 100_000)
    assert len(reader.read()["LIVEDBG_LONG"]) < 1_000
    assert read_identity(PID).rank == before, "/proc does not show it"
    assert before is not None or read_identity(PID, reader).rank == 4
    assert LiveEnvironment(PID, (), detect_libc(PID, mappings)).read() == {}
