"""What the NVIDIA driver writes into the kernel's log of a host, beside the logs of a job."""

from __future__ import annotations

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

GONE = (
    "Feb 14 05:03:43 gpu-1 kernel: NVRM: The NVIDIA GPU 0000:b3:00.0\n                              NVRM: (PCI ID: "
    "10de:2941) installed in this system has\n                              NVRM: fallen off the bus and is not "
    "responding to commands.\nFeb 14 05:03:43 gpu-1 kernel: nvidia 0000:b3:00.0: probe with driver nvidia failed\n"
)


def test_what_a_host_had_is_a_crash_alone_and_unknown_beside_the_log_of_a_job() -> None:
    assert verdict(GONE).state is VerdictState.CRASHED
    assert verdict(GONE, "step 1\nstep 2\n").state is VerdictState.UNKNOWN


def test_a_gpu_that_is_gone_is_why_a_kernel_failed() -> None:
    failed = 'Traceback (most recent call last):\n  File "t.py", line 7, in f\n    x.item()\nRuntimeError: CUDA error: '
    found = verdict(GONE, f"{failed}unspecified launch failure\n")
    assert found.state is VerdictState.CRASHED
    assert found.sentence.startswith("GPU 0000:b3:00.0 has fallen off the bus")
