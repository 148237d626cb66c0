"""What processes have mapped, and how they ended, when they are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from livedbg.linux.ending import Ending
from livedbg.linux.maps import Mapping, copies, parse_maps
from livedbg.probes.layouts import Layouts
from livedbg.probes.perf import NoPerf
from tests.conftest import eventually

PARENT = """
import os, sys
print('READY', flush=True); input()
child = os.fork()
if not child:
    os.execv('/bin/true', ['true'])
os.waitpid(child, 0)
print(child, flush=True); input()
"""


def mapping(start: int, offset: int, permissions: str = "r--p") -> Mapping:
    return Mapping(start, start + 0x1000, permissions, offset, "fe:00", 7, "/lib/x.so", False)


def test_a_program_that_has_ended_is_remembered() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        assert parent.stdout.readline() == b"READY\n"
        layouts = Layouts(parent.pid)
        try:
            layouts.watch(lambda: [parent.pid], follow=True)
        except NoPerf as error:
            parent.kill()
            pytest.skip(f"this box lets us count no events: {error}")
        try:
            layouts.know(parent.pid, *layouts.read(parent.pid))
            parent.stdin.write(b"\n")
            parent.stdin.flush()
            child = int(parent.stdout.readline())
            layouts.update()
            code = {Path(one.path).name for one in layouts.of(child) if one.executable and one.inode}
            assert "true" in code and not any("python" in name for name in code)
            own = [one for one in layouts.of(parent.pid) if one.executable and one.inode]
            assert own == [one for one in parse_maps(parent.pid) if one.executable and one.inode]
        finally:
            layouts.close()
            parent.stdin.write(b"\n")
            parent.stdin.close()


@pytest.mark.invariant("layouts.Y1")
def test_Y1_what_was_read_before_a_program_was_executed_is_not_taken_for_it() -> None:
    with subprocess.Popen(
        ["sh", "-c", "read go; exec sleep 100"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdin is not None
        layouts = Layouts(child.pid)
        try:
            eventually(lambda: any(one.path.endswith("/sh") or "dash" in one.path for one in parse_maps(child.pid)))
            layouts.watch(lambda: [child.pid], follow=False)
            early = layouts.read(child.pid)
            layouts.know(child.pid, *early)
            child.stdin.write(b"go\n")
            child.stdin.flush()
            eventually(lambda: Path(f"/proc/{child.pid}/comm").read_text() == "sleep\n")

            def names() -> set[str]:
                layouts.update()
                return {Path(one.path).name for one in layouts.of(child.pid) if one.executable and one.inode}

            eventually(lambda: any("libc" in name for name in names()))
            layouts.know(child.pid, *early)  # by a thread that was slow
            assert any("libc" in name for name in names()) and not names() & {"sh", "dash"}
        except NoPerf as error:
            pytest.skip(f"this box lets us count no events: {error}")
        finally:
            layouts.close()
            child.kill()


@pytest.mark.invariant("layouts.Y2")
def test_Y2_the_newest_processes_are_remembered_and_always_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livedbg.probes.layouts._MOST", 4)
    layouts = Layouts(1)
    for pid in range(1, 11):
        layouts.know(pid, 1, (mapping(0x1000 * pid, 0),))
    assert [pid for pid in range(1, 11) if layouts.of(pid)] == [1, 8, 9, 10]


def test_mappings_of_a_file_that_is_loaded_twice() -> None:
    once = [
        mapping(0x1000, 0),
        mapping(0x2000, 0x1000, "r-xp"),
        mapping(0x3000, 0x2000),
        mapping(0x4000, 0x2000, "rw-p"),
    ]
    twice = [*once, *(one._replace(start=one.start + 0x10000, end=one.end + 0x10000) for one in once)]
    assert copies(once) == [once]
    assert copies(twice) == [once, twice[4:]]
    assert copies([]) == []
    assert copies([mapping(0x1000, 0), mapping(0x2000, 0)]) == [[mapping(0x1000, 0)], [mapping(0x2000, 0)]]


@pytest.mark.parametrize("reaped", [False, True])
def test_how_a_process_ended(reaped: bool) -> None:
    with subprocess.Popen(["sleep", "100"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        ending = Ending(child.pid)
        assert ending.status() is None and not ending.over()
        os.kill(child.pid, signal.SIGTERM)
        if reaped:
            child.wait(60)
            if ending.status() is None:
                pytest.skip("this kernel tells nothing of a process that is reaped (Linux 6.15 does)")
        eventually(lambda: ending.status() == signal.SIGTERM)
        ending.close()


@pytest.mark.invariant("layouts.Y3")
def test_Y3_a_list_that_the_end_of_its_process_has_cut_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = subprocess.DEVNULL
    with subprocess.Popen(["sleep", "1000"], stdin=quiet, stdout=quiet, stderr=quiet) as child:
        layouts = Layouts(child.pid)
        eventually(lambda: len(layouts.read(child.pid)[1]) > 3)

        def cut(pid: int) -> list[Mapping]:
            """A page of the list; then the process ends, and the kernel says that this was all."""
            found = parse_maps(pid)[:2]
            child.kill()
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            return found

        monkeypatch.setattr("livedbg.probes.layouts.parse_maps", cut)
        with pytest.raises(ProcessLookupError):
            layouts.read(child.pid)
