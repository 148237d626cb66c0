"""What the NVIDIA driver writes into the kernel's log without an Xid."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import found, verdict

GONE = (
    "Feb 14 05:03:43 gpu-1 kernel: NVRM: The NVIDIA GPU 0000:b3:00.0\n                              NVRM: (PCI ID: "
    "10de:2941) installed in this system has\n                              NVRM: fallen off the bus and is not "
    "responding to commands.\nFeb 14 05:03:43 gpu-1 kernel: nvidia 0000:b3:00.0: probe with driver nvidia failed\n"
)
INIT = "".join(
    f"[   {n}.91872] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:894)\n[   {n}.92238] NVRM: GPU "
    "0000:01:00.0: rm_init_adapter failed, device minor number 0\n"
    for n in (21, 22, 23)
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GONE, "GPU 0000:b3:00.0 has fallen off the bus: it does not answer any more."),
        (INIT, "The driver could not initialise GPU 0000:01:00.0 (RmInitAdapter failed)."),
    ],
)
def test_a_gpu_that_is_gone(text: str, sentence: str) -> None:
    said = verdict(text)
    assert said.state is VerdictState.CRASHED and said.sentence == sentence


@pytest.mark.invariant("nvrm_lines.N1")
def test_N1_beside_the_log_of_a_job_it_is_unknown() -> None:
    assert verdict(GONE, "step 1\nstep 2\n").state is VerdictState.UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01\n",
        "what to do if a GPU has fallen off the bus\n",
    ],
)
def test_lines_that_are_none(text: str) -> None:
    assert found("cuda-driver", text) == []
