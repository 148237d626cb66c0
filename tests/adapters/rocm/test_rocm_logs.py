"""Failures of AMD's runtime and driver in logs; and lines that are none."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.analysis.world import World
from tests.logs.reading import found, verdict

CRASHED, UNKNOWN = VerdictState.CRASHED, VerdictState.UNKNOWN
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    main()\n'

SAID = [
    (
        "Memory access fault by GPU node-1 (Agent handle: 0x1f829860) on address 0x7a8a4be00000. Reason: Page not "
        "present "
        "or supervisor privilege.\n",
        "GPU 1: a kernel accessed memory that is not mapped (Page not present or supervisor privilege).",
    ),
    (
        "Memory access fault by GPU node-2 (Agent handle: 0x1f829860) on address (nil). Reason: Page not present or "
        "supervisor privilege.\n",
        "GPU 2: a kernel accessed memory that is not mapped at address 0 (Page not present or supervisor privilege).",
    ),
    (
        "HW Exception by GPU node-1 (Agent handle: 0x55d5b0) reason :GPU Hang\n",
        "GPU 1: a hardware exception (GPU Hang).",
    ),
    (
        ":0:rocdevice.cpp            :2881: 99822119063 us: [pid:4711  tid:0x7f1d] Callback: Queue 0x7f1d aborting "
        "with "
        "error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: The agent attempted to access memory beyond the largest "
        "legal address. code: 0x29\n",
        "The GPU's queue was aborted: The agent attempted to access memory beyond the largest legal address "
        "(HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION).",
    ),
    ("RuntimeError: HIP error: invalid device function\n", "HIP error: invalid device function."),
    (
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 63.98 "
        "GiB of "
        "which 1.02 GiB is free.\n",
        "The memory of GPU 3 ran out: 2.50 GiB were requested; 1.02 GiB are free.",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), SAID)
def test_each_form(text: str, sentence: str) -> None:
    said = verdict(text)
    assert (said.state, said.sentence) == (CRASHED, sentence)
    if "Error: " in text:
        assert found("crash", TRACE + text) == []
    assert verdict(text + STEPS).state is not CRASHED


def test_while_the_job_lives_it_is_a_note() -> None:
    world = World()
    world.process(1)
    assert {one.state for one in found("rocm-fault", SAID[0][0], world=world)} == {None}


def test_what_the_kernel_s_driver_says_alone_is_unknown() -> None:
    page = (
        "amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32770, for process python pid "
        "4711 thread python pid 4711)\n"
    )
    said = verdict(page)
    assert said.state is UNKNOWN and said.sentence == "GPU 0000:03:00.0: a page fault of process 4711 (python)."
    ring = "amdgpu 0000:03:00.0: [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=1\n"
    assert verdict(ring).sentence == "GPU 0000:03:00.0: ring gfx_0.0.0 hung; the driver resets the GPU."


@pytest.mark.invariant("rocm_lines.M1")
@pytest.mark.parametrize(
    "text",
    [
        "amdgpu 0000:03:00.0: amdgpu: GPU reset(1) succeeded!\n",
        "HSA_ENABLE_SDMA=0\n",
        "HIP error handling is on\n",
        "the ring buffer has no timeout\n",
    ],
)
def test_M1_lines_that_are_none(text: str) -> None:
    assert [found(rule, text) for rule in ("rocm-fault", "rocm-error", "rocm-kernel")] == [[], [], []]
