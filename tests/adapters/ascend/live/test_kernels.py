"""Kernels of the simulator in native stacks: code of files that are deleted, named by func id."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.ascend.live.watch import LibraryFinder
from livedbg.adapters.ascend.names import kernel_label, name_kernels
from livedbg.linux.procfs import blocked_syscall
from livedbg.session.tools import find_gdb
from livedbg.unwind.capture import capture
from livedbg.unwind.modules import use_labellers
from livedbg.unwind.unwinder import Unwinder
from tests.adapters.ascend.live.conftest import Simulator
from tests.conftest import eventually

_PAUSE = 34  # x86-64
_KERNEL = """
#include <stdint.h>
#include <unistd.h>
__attribute__((noinline)) static void wait_for_peer(void) { pause(); __asm__ volatile(""); }
void kernel_entry(int64_t *args) { wait_for_peer(); (void)args; __asm__ volatile(""); }
"""


def test_names_of_kernel_files() -> None:
    name_kernels(4711, {2: "MUL"})
    assert kernel_label(4711, "kernel_2_fWK1T7") == "kernel func 2 (MUL)"
    assert kernel_label(4711, "kernel_3_fWK1T7") == "kernel func 3"
    assert kernel_label(4712, "kernel_2_fWK1T7") == "kernel func 2"
    for other in ("kernel_2_fWK1T", "kernel_2_fWK1T7.so", "libkernel_2_fWK1T7", "kernel_x_fWK1T7"):
        assert kernel_label(4711, other) is None


def test_a_library_is_known_by_its_content(simulator: Callable[..., Simulator]) -> None:
    (library,) = LibraryFinder().find(simulator().pid)
    assert re.fullmatch(r"[0-9a-f]{40}", library.key)


@pytest.fixture
def running(simulator: Callable[..., Simulator], tmp_path: Path) -> tuple[int, list[int]]:
    """A process with five threads that wait at one address, and only one of them came there from a kernel."""
    source, file = tmp_path / "k.c", tmp_path / "kernel_7_Ab12Cd"
    source.write_text(_KERNEL)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", str(source), "-o", str(file)], check=True, timeout=60)
    target = simulator()
    target.tell(f"kernel {file}")

    def waiting() -> list[int]:
        tids = sorted(int(task.name) for task in Path(f"/proc/{target.pid}/task").iterdir())
        return [tid for tid in tids if getattr(blocked_syscall(target.pid, tid), "number", -1) == _PAUSE]

    eventually(lambda: len(waiting()) == 5)
    try:
        next(Path(f"/proc/{target.pid}/map_files").iterdir()).open("rb").close()
    except PermissionError:
        pytest.skip("deleted files can be opened by root only (CAP_CHECKPOINT_RESTORE)")
    return target.pid, waiting()


async def test_frames_of_a_deleted_kernel_are_named(running: tuple[int, list[int]]) -> None:
    pid, tids = running
    gdb = find_gdb()
    assert gdb is not None
    name_kernels(pid, {7: "GEMM"})
    use_labellers([kernel_label])
    unwinder = Unwinder(gdb, pid)
    await unwinder.start()
    try:
        stacks = await unwinder.unwind(capture(pid, tids), 60)
    finally:
        await unwinder.close()
    frames = [[(frame.function, frame.module) for frame in stack.frames] for stack in stacks.values()]
    kernel = "kernel func 7 (GEMM)"
    named = [stack for stack in frames if ("wait_for_peer", kernel) in stack and ("kernel_entry", kernel) in stack]
    assert len(frames) == 5 and len(named) == 1, frames
