"""Waves that ROCm's debug agent prints: faults of kernels, and looks that are none."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import found, verdict

OLD = """Queue error (HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception.)

--------------------------------------------------------
wave_1: pc=0x7fd4f100d0e8 (stopped, reason: ASSERT_TRAP)

system registers:
            m0: 00000000        status: 00012461       trapsts: 20000000          mode: 000003c0

Disassembly for function check_rows(int*, int*, int*):
    code object: file:///src/app#offset=4657152&size=10843816
    loaded at: [0x7fd4f1000000-0x7fd4f100f000]
 => 0x7fd4f100d0e8 <+232>:    s_trap 2
End of disassembly.
"""
FAULT = (
    "OFFLOAD ERROR: memory access fault by GPU 4 (agent 0x55555896f810) at virtual address 0x7ffb61f02000. Reasons: "
    "Write access to a read-only page\n"
)
NEW = FAULT + "".join(
    f"wave_{number}: pc=0x7ff734dcbf3c (kernel_code_entry=0x7ff736b8c040 <void scatter_rows<float, 4>(float*, long)>, "
    "kernargs=0x7ff700000000) (stopped, reason: MEMORY_VIOLATION)\n\nscalar registers:\n            s0: d9800000\n"
    for number in range(125)
)
LOOK = "".join(
    f"wave_{number}: pc=0x7ff734dcbf3c (kernel_code_entry=0x7ff736b8c040 <spin(int)>) (stopped, reason: NONE)\n"
    for number in range(3)
)


def test_the_kernel_of_a_trap() -> None:
    said = [finding.sentence for finding in found("rocm-debugger", OLD)]
    assert said == ["A kernel on an AMD GPU faulted: check_rows(int*, int*, int*): an assertion or trap (1 wave)."]
    assert verdict(OLD).state is VerdictState.CRASHED
    (queue,) = found("signature", OLD)
    assert queue.sentence.startswith(
        "The GPU's queue was aborted: An HSAIL operation resulted in a hardware exception ("
    )


def test_waves_of_one_kernel_are_one_fault() -> None:
    said = [finding.sentence for finding in found("rocm-debugger", NEW)]
    assert said == [
        "A kernel on an AMD GPU faulted: void scatter_rows<float, 4>(float*, long): an access to memory that it may "
        "not use (125 waves)."
    ]
    (fault,) = found("signature", NEW)
    assert fault.sentence == "GPU 4 wrote to memory that is read-only."
    assert verdict(NEW).state is VerdictState.CRASHED


@pytest.mark.invariant("log_decoder.A1")
def test_a_look_at_waves_that_run_is_no_fault() -> None:
    said = verdict(LOOK)
    assert said.state is VerdictState.UNKNOWN
    assert said.sentence == "When the debug agent looked, 3 waves of spin(int) were on the AMD GPU."


def test_other_waves_are_none() -> None:
    assert found("rocm-debugger", "wave_1: pc=0x12 loaded\nsaved wave_2.wav (stopped)\n") == []


PAGE = "Memory access fault by GPU node-1 (Agent handle: 0x1f829860) on address {}. Reason: Page not present.\n"
KERNEL = (
    "[ 651.1] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:10)\n"
    "[ 651.2] amdgpu 0000:03:00.0: amdgpu:  Process pump pid 4711 thread pump pid 4711\n"
    "[ 651.3] amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007a8a4be00000 from client 10\n"
    "[ 651.4] amdgpu 0000:03:00.0: amdgpu:     Faulty UTCL2 client ID: CPF (0x4)\n"
)


def test_the_kernels_log_says_who_accessed_the_address() -> None:
    more = ".log: GPU 0000:03:00.0: a page fault by the command processor (CPF) of"
    for address in ("0x7a8a4be00000", "0x00007a8a4be00000"):
        said = verdict(PAGE.format(address), KERNEL)
        assert said.state is VerdictState.CRASHED
        assert said.sentence.startswith("GPU node 1 accessed memory that is not mapped (Page not present)")
        assert f"{more} process 4711 (pump)." in said.sentence
    for address in ("0x7a8a4be01000", "(nil)"):
        assert ".log: GPU" not in verdict(PAGE.format(address), KERNEL).sentence
    twice = PAGE.format("0x7a8a4be00000")
    assert ".log: GPU" not in verdict(twice, twice).sentence  # the job's own output, kept twice
