"""What a rocgdb session shows: kernels that ran, where their waves were, and faults; and sessions that show none."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import found, read, verdict

AGENTS = """(gdb) info agents
  Id State Target Id                  Architecture Device Name        Cores Threads Location
* 1  A     AMDGPU Agent (GPUID 35090) gfx90a       AMD Instinct MI210 416   3328    0000:4a:00.0
"""
QUEUES = """(gdb) info queues
  Id   Target Id                Type         Read   Write  Size     Address
  1    AMDGPU Queue 1:1 (QID 0) HSA          2      2      4096     0x00007ffff626e000
* 2    AMDGPU Queue 1:2 (QID 1) HSA (Multi)  4      9      1048576  0x00007fffe5800000
"""
DISPATCHES = """(gdb) info dispatches
  Id   Target Id                      Grid      Workgroup Fence   Kernel Function
* 1    AMDGPU Dispatch 1:2:1 (PKID 3) [256,1,1] [128,1,1] B|Aa|Ra spin(int, float const*)
"""
THREADS = """(gdb) info threads
  Id   Target Id                                 Frame
  1    Thread 0x7ffff6288180 (LWP 4711) "app" 0x00007ffff207d586 in ?? () from /opt/rocm/lib/libhsa-runtime64.so.1
  2    Thread 0x7fffe81ff6c0 (LWP 4714) "app" __GI___ioctl (fd=3, request=3222817548) at ../sysdeps/ioctl.c:36
* 7    AMDGPU Wave 1:2:1:1 (0,0,0)/0 "app"       spin (n=4) at /src/spin.hip:7
  8    AMDGPU Wave 1:2:1:2 (0,0,0)/1 "app"       0x000015554a001094 in spin (
    n=<optimized out>, x=<optimized out>,
    y=<optimized out>) at /src/spin.hip:7
  9    AMDGPU Wave 1:2:1:3 (1,0,0)/0 "app"       spin (n=4) at /src/spin.hip:9
  10   AMDGPU Wave 1:2:1:4 (1,0,0)/1 "app"       (running)
"""
FAULT = """Thread 68 "app" received signal SIGSEGV, Segmentation fault.
[Switching to thread 68, lane 0 (AMDGPU Lane 1:1:1:1/0 (508,0,0)[3,0,0])]
0x00007fff524237a0 in scale_rows () at /src/kernels/scale.hip:495
495\t        out[row] = a * in[row];
"""
LATE = """Warning: precise memory violation signal reporting is not enabled, reported
location may not be accurate.  See "show amdgpu precise-memory".
"""


@pytest.mark.invariant("debugger_decoder.G1")
def test_one_look_at_a_dispatch_is_no_hang() -> None:
    text = AGENTS + QUEUES + DISPATCHES + THREADS
    said = verdict(text)
    assert said.state is VerdictState.UNKNOWN
    assert said.sentence == (
        "When rocgdb looked, a kernel ran: spin(int, float const*) on GPU 1, grid [256,1,1]: 3 waves, 2 at spin "
        "(spin.hip:7). 5 packets not taken from queue 1:2."
    )
    (finding,) = found("rocm-debugger", text)
    assert any("info queues" in step for step in finding.next)


def test_dispatches_are_tasks() -> None:
    tasks = read(QUEUES + DISPATCHES + THREADS).snapshot().tasks
    one = tasks["task:rocm/dispatch/1:2:1"]
    assert (one.kernel, one.where) == ("spin(int, float const*)", ("queue 1:2",))
    assert one.attributes["grid"] == "[256,1,1]"
    assert one.attributes["waves"] == "2 at spin (spin.hip:7); 1 at spin (spin.hip:9)"


def test_a_fault_has_its_place_and_lane() -> None:
    said = verdict("(gdb) run\n" + FAULT + "(gdb) bt\n#0  scale_rows () at /src/kernels/scale.hip:495\n(gdb) quit\n")
    assert said.state is VerdictState.CRASHED
    assert said.sentence == (
        "GPU 1: a kernel got SIGSEGV (Segmentation fault) in scale_rows (scale.hip:495), work-group (508,0,0), work "
        "item (3,0,0)."
    )


def test_the_place_of_an_imprecise_fault_is_doubted() -> None:
    (exact,) = found("rocm-debugger", FAULT)
    lines = FAULT.splitlines(keepends=True)
    (late,) = found("rocm-debugger", lines[0] + LATE + "".join(lines[1:]))
    assert not any("precise-memory" in step for step in exact.next)
    assert any("precise-memory on" in step for step in late.next)


def test_a_frame_of_a_stripped_kernel_names_the_kernel() -> None:
    text = FAULT.replace(
        "0x00007fff524237a0 in scale_rows () at /src/kernels/scale.hip:495",
        "0x00007fff524237a0 in scale_rows_f16 () from memory://4711#offset=0x15d61e0&size=5848",
    )
    assert verdict(text).sentence.startswith("GPU 1: a kernel got SIGSEGV (Segmentation fault) in scale_rows_f16, ")


@pytest.mark.invariant("debugger_decoder.G2")
def test_stops_that_are_no_faults() -> None:
    breakpoint_ = 'Thread 68 "app" hit Breakpoint 1, with lanes [0-63], scale_rows () at scale.hip:495\n'
    interrupted = FAULT.replace("SIGSEGV, Segmentation fault", "SIGINT, Interrupt")
    on_the_host = FAULT.replace(
        "[Switching to thread 68, lane 0 (AMDGPU Lane 1:1:1:1/0 (508,0,0)[3,0,0])]",
        "[Switching to Thread 0x7ffff6288180 (LWP 4711)]",
    )
    for text in (breakpoint_, interrupted, on_the_host):
        assert found("rocm-debugger", text) == []


def test_rows_that_are_cut_cost_themselves() -> None:
    cut = DISPATCHES.replace(" B|Aa|Ra spin(int, float const*)", "") + "* 2    AMDGPU Queue 1:9 (QID"
    assert found("rocm-debugger", cut) == []
