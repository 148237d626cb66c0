"""Cores that livedbg asks of the kernel for a child of its own, and what it reads from them; a core of the kernel's
where it writes one into the folder, and one that livedbg wrote for gdb."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from livedbg.linux import procfs
from livedbg.linux import registers as machine
from livedbg.linux.maps import parse_maps
from livedbg.model.request import GATE
from livedbg.session import core_files
from livedbg.session.core_files import MOST_BYTES, ask_for, cores_in, want_none_of
from livedbg.unwind.capture import Capture, ThreadCopy
from livedbg.unwind.core_file import read_core
from livedbg.unwind.modules import Modules
from livedbg.unwind.unwinder import write_core

OWN = "core"  # as the kernel has it where nobody set it
HARD = resource.getrlimit(resource.RLIMIT_CORE)[1]
pytestmark = pytest.mark.skipif(0 <= HARD < MOST_BYTES, reason="cores of that size are forbidden here (ulimit -Hc)")


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Says how the kernel names cores."""

    def name(pattern: str, *, by_pid: bool = False) -> None:
        for where, text in (("_PATTERN", pattern), ("_USES_PID", str(int(by_pid)))):
            file = tmp_path / where
            file.write_text(f"{text}\n")
            monkeypatch.setattr(core_files, where, str(file))

    return name


@contextmanager
def gated(folder: Path, *argv: str, soft: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """A command that has not begun; its user wants cores up to a size."""

    none = subprocess.DEVNULL
    with subprocess.Popen([*GATE, *argv], stdin=subprocess.PIPE, stdout=none, stderr=none, cwd=folder) as child:
        resource.prlimit(child.pid, resource.RLIMIT_CORE, (soft, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        try:
            yield child
        finally:
            child.kill()


def limits(pid: int) -> int:
    return resource.prlimit(pid, resource.RLIMIT_CORE)[0]


@pytest.mark.invariant("core_files.C1", "core_files.C2", "core_files.C3")
def test_C1_a_command_leaves_a_core_until_it_is_left_running(named: Callable[..., None], tmp_path: Path) -> None:
    named(OWN)
    with gated(tmp_path, "true") as child:
        assert ask_for(child.pid, tmp_path)
        assert limits(child.pid) == MOST_BYTES
        assert int(procfs.read_file(f"/proc/{child.pid}/coredump_filter"), 16) == 1
        want_none_of(child.pid)
        assert limits(child.pid) == 0


@pytest.mark.invariant("core_files.C1")
@pytest.mark.parametrize(
    ("pattern", "by_pid", "asked"),
    [
        ("|/usr/lib/systemd/systemd-coredump %P", False, False),
        ("@/run/cores.sock", False, False),
        (OWN, False, False),  # a file of the user's would be lost
        (OWN, True, True),
        ("core.%p", False, True),
    ],
)
def test_C1_what_would_take_a_file_s_place_is_not_asked_for(
    pattern: str, by_pid: bool, asked: bool, named: Callable[..., None], tmp_path: Path
) -> None:
    named(pattern, by_pid=by_pid)
    (tmp_path / OWN).write_text("mine")
    with gated(tmp_path, "true") as child:
        assert ask_for(child.pid, tmp_path) == asked
        assert limits(child.pid) == (MOST_BYTES if asked else 0)


@pytest.mark.invariant("core_files.C1")
def test_C1_cores_that_the_user_wants_are_the_user_s(named: Callable[..., None], tmp_path: Path) -> None:
    named(OWN)
    with gated(tmp_path, "true", soft=4096) as child:
        assert not ask_for(child.pid, tmp_path)
        assert limits(child.pid) == 4096


def test_cores_are_found_by_the_kernel_s_pattern(named: Callable[..., None], tmp_path: Path) -> None:
    cores = tmp_path / "cores"
    cores.mkdir()
    for name in ("core-3-python", "core-4-a.out", "note"):
        (cores / name).write_text("")
    (cores / "core-5-folder").mkdir()
    named(f"{cores}/core-%p-%e")
    assert [path.name for path in cores_in(tmp_path / "elsewhere")] == ["core-3-python", "core-4-a.out"]
    named("|program")
    assert cores_in(cores) == []


def test_a_process_that_is_not_ours_to_change_is_not_asked(named: Callable[..., None], tmp_path: Path) -> None:
    named(OWN)
    with gated(tmp_path, "true") as child:
        child.kill()
        child.wait(100)
        assert not ask_for(child.pid, tmp_path)
        want_none_of(child.pid)


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """A core with two threads."""
    mappings = tuple(parse_maps(os.getpid()))
    values = list(range(1, machine.COUNT + 1))
    values[machine.SP] = 0x7000_0000_0100
    threads = tuple(ThreadCopy(tid, tuple(values), 0x7000_0000_0080 + 4096 * tid, bytes(range(256))) for tid in (0, 1))
    path = tmp_path / "made"
    write_core(path, Capture(os.getpid(), threads, (), mappings), Modules(os.getpid(), mappings))
    return path


def test_a_core_has_its_threads_and_their_stacks(core: Path) -> None:
    read = read_core(core)
    assert read is not None and read.capture.pid == os.getpid()
    assert read.code is None  # it was written without
    first, second = read.capture.threads
    assert (first.low, first.stack[:2], len(first.stack)) == (0x7000_0000_0080, bytes((0, 1)), 256)
    assert first.registers[machine.SP] == 0x7000_0000_0100 and second.stack  # one segment below the other


@pytest.mark.invariant("core_file.F1")
def test_F1_a_core_that_is_cut_short_or_damaged_costs_what_it_lacks(core: Path, tmp_path: Path) -> None:
    whole = core.read_bytes()
    cut = tmp_path / "cut"
    for end in (0, 5, 63, 64, 100, 119, 120, 300, 700, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:end])
        read = read_core(cut)
        assert read is None or read.capture.threads
    for at in range(0, 2000, 7):
        cut.write_bytes(whole[:at] + os.urandom(8) + whole[at + 8 :])
        read_core(cut)
    cut.write_text("no core\n" * 100)
    assert read_core(cut) is None
