"""The kernel's log, played back: /dev/kmsg gives the same lines, one a read."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from livedbg.adapters.cuda.adapter import CudaAdapter, KernelLog
from livedbg.adapters.proc import ProcAdapter
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from tests.conftest import Target, eventually, seen_when
from tests.waiting import WALL_S


def record(pid: int, number: int, since_boot_s: float, rest: str = "Ch 00000008") -> str:
    """A record of /dev/kmsg with an Xid."""
    microseconds = int(since_boot_s * 1e6)
    return (
        f"3,1234,{microseconds},-;NVRM: Xid (PCI:0000:01:00): {number}, pid={pid}, name=train, {rest}\n SUBSYSTEM=pci\n"
    )


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
    options = {"cuda.kernel-log": str(tmp_path)}  # a folder can't be read
    request = Request(host="box", processes=(TargetProcess(pid=target.pid),), stacks="none", options=options)
    view = LiveView(request, adapters=[ProcAdapter(), CudaAdapter()])
    view.start()
    try:
        said = "can't be read (Is a directory): Xids are known from named logs only."
        eventually(lambda: any(said in found.sentence for found in view.latest().diagnosis.findings.values()))
    finally:
        view.stop()


def test_an_xid_of_the_process_that_is_looked_at(spawn: Callable[..., Target], tmp_path: Path) -> None:
    """Older ones are of another run; one that comes while it is watched is found."""
    target = spawn([sys.executable, "-c", "print('READY', flush=True); input()"])
    path = tmp_path / "kmsg"
    path.write_text(record(target.pid, 79, 0.001))
    request = Request(
        host="box",
        processes=(TargetProcess(pid=target.pid),),
        stacks="none",
        options={"cuda.kernel-log": str(path)},
    )
    view = LiveView(request, adapters=[ProcAdapter(), CudaAdapter()])
    view.start()
    try:
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
    finally:
        view.stop()
