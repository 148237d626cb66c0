"""The kernel's log, played back (/dev/kmsg gives the same lines, one a read), and beside the logs of a job."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from livedbg.adapters.cuda.adapter import CudaAdapter, KernelLog
from livedbg.adapters.proc import ProcAdapter
from livedbg.analysis.diagnosis import VerdictState
from livedbg.commands.signals import started
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from tests.conftest import Target, eventually, seen_when
from tests.logs.reading import verdict as diagnosed
from tests.waiting import WALL_S


def record(pid: int, number: int, since_boot_s: float, rest: str = "Ch 00000008") -> str:
    """A record of /dev/kmsg with an Xid."""
    microseconds = int(since_boot_s * 1e6)
    return (
        f"3,1234,{microseconds},-;NVRM: Xid (PCI:0000:01:00): {number}, pid={pid}, name=train, {rest}\n SUBSYSTEM=pci\n"
    )


@contextmanager
def watching(target: Target, log: Path) -> Iterator[LiveView]:
    """A session that watches a process and that log."""
    options = {"cuda.kernel-log": str(log)}
    request = Request(host="box", processes=(TargetProcess(pid=target.pid),), stacks="none", options=options)
    with started(LiveView(request, adapters=[ProcAdapter(), CudaAdapter()])) as view:
        yield view


def test_only_what_is_of_gpus_and_only_once(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(
        b"6,1,500,-;usb 1-1: new device\n\xff\xfe;x\n" + record(7, 31, 1.5).encode() + b"3,9,2000000,-;NVRM: X"
    )
    log = KernelLog(path)
    try:
        (line,) = log.read()
        assert line.since_boot_ns == 1_500_000_000 and line.text.startswith("NVRM: Xid (PCI:0000:01:00): 31, pid=7")
        assert log.read() == []
        with path.open("ab") as file:
            file.write(b"id (PCI:0000:01:00): 79, GPU has fallen off the bus.\n")
        assert [line.text.rpartition(": ")[2] for line in log.read()] == ["79, GPU has fallen off the bus."]
    finally:
        log.close()


def test_a_pipe_without_anything_new_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    log = KernelLog(path)
    try:
        assert log.read() == []  # nobody writes
        with path.open("wb", buffering=0) as writer:
            assert log.read() == []  # EAGAIN
            writer.write(record(7, 13, 2.0).encode())
            assert len(log.read()) == 1
    finally:
        log.close()


def test_a_log_that_may_not_be_read_is_told(spawn: Callable[..., Target], tmp_path: Path) -> None:
    target = spawn([sys.executable, "-c", "print('READY', flush=True); input()"])
    with watching(target, tmp_path) as view:  # a folder can't be read
        said = "can't be read (Is a directory): Xids are known from named logs only."
        eventually(lambda: any(said in found.sentence for found in view.latest().diagnosis.findings.values()))


def test_an_xid_of_the_process_that_is_looked_at(spawn: Callable[..., Target], tmp_path: Path) -> None:
    """Older ones are of another run; one that comes while it is watched is found."""
    target = spawn([sys.executable, "-c", "print('READY', flush=True); input()"])
    path = tmp_path / "kmsg"
    path.write_text(record(target.pid, 79, 0.001))
    with watching(target, path) as view:
        assert view.wait_settled(WALL_S)
        with path.open("a") as file:
            now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            file.write(
                record(target.pid, 31, now_s, "MMU Fault: faulted @ 0x7f_00000000. Fault is of type FAULT_PDE X_READ")
            )
        update = seen_when(
            lambda now: "cuda-xid" in {found.rule for found in now.diagnosis.findings.values()}, view.latest, 100
        )
        chief = update.diagnosis.findings["F1"]
        assert chief.rule == "cuda-xid" and "Xid 31" in chief.sentence and "still lives" in chief.sentence
        assert chief.state == "unknown" and chief.decides
        assert chief.entities == (f"process:box/{target.pid}",)
        assert next(log.text for log in update.snapshot.recent_logs).startswith("NVRM: Xid")
        assert len(update.snapshot.diagnostics) == 1
        target.kill()
        eventually(lambda: view.latest().diagnosis.verdict.state == "crashed")


GONE = (
    "Feb 14 05:03:43 gpu-1 kernel: NVRM: The NVIDIA GPU 0000:b3:00.0\n                              NVRM: (PCI ID: "
    "10de:2941) installed in this system has\n                              NVRM: fallen off the bus and is not "
    "responding to commands.\nFeb 14 05:03:43 gpu-1 kernel: nvidia 0000:b3:00.0: probe with driver nvidia failed\n"
)


def test_what_a_host_had_is_a_crash_alone_and_unknown_beside_the_log_of_a_job() -> None:
    assert diagnosed(GONE).state is VerdictState.CRASHED
    assert diagnosed(GONE, "step 1\nstep 2\n").state is VerdictState.UNKNOWN


def test_a_gpu_that_is_gone_is_why_a_kernel_failed() -> None:
    failed = 'Traceback (most recent call last):\n  File "t.py", line 7, in f\n    x.item()\nRuntimeError: CUDA error: '
    found = diagnosed(GONE, f"{failed}unspecified launch failure\n")
    assert found.state is VerdictState.CRASHED
    assert found.sentence.startswith("GPU 0000:b3:00.0 has fallen off the bus")
