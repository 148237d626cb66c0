"""Read GPU core dumps: the ELF header shows whether a file is one and is complete (elf(5)); cuda-gdb reads its state.

A GPU core dump is an ELF core of the machine EM_CUDA. Its sections hold tables of devices, SMs, warps and lanes
(cudacoredump.h of the CUDA toolkit). Only headers are read here, because a dump has gigabytes.

Processes that write no core dump can be sampled by an attached cuda-gdb, which stops the whole process and all its
GPUs. This was never tested on a GPU (docs/systems/cuda.md), so it does as little as possible: attach, one sample,
detach, within a time limit and under the guard (livedbg.touch.guard). The cuda-gdb manual ("Attaching and Detaching")
says: the attach runs functions in the target and may resume it for some seconds; a process with a device exception ends
when it is resumed.

Invariants:
    cuda_gdb_attach.H1. A guard watches from before the attach until after the detach.
    cuda_gdb_attach.H2. The target is released however the sample ends: by command, by the end of the debugger, or
        finally by the guard.
"""

from __future__ import annotations

import asyncio
import os
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from livedbg.adapters.cuda.cudagdb.device_state import state_of
from livedbg.adapters.cuda.cudagdb.engine import Queries, start_cuda_gdb
from livedbg.adapters.cuda.cudagdb.sample import sample_devices
from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbCommandError, GdbError, GdbGone, GdbTimeout
from livedbg.linux import target_files
from livedbg.model import Intrusion
from livedbg.model.devices import DeviceState
from livedbg.model.errors import SourceError, TargetDenied
from livedbg.touch.attach import check_attachable
from livedbg.touch.config import refuse_touch
from livedbg.touch.guard_process import Guard

_TO_SORT: Final = "the CUDA driver writes GPU core dumps as core_TIME_HOST_PID.nvcudmp, or as CUDA_COREDUMP_FILE says"

_EM_CUDA: Final = 190
_ET_CORE: Final = 4
_SHT_NOBITS: Final = 8
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_MOST_SECTIONS: Final = 4_000_000  # a device of 132 SMs has some hundred thousand
_CHUNK: Final = 4_096  # sections that are read at once
_GZIP: Final = b"\x1f\x8b"


def sort_cores(paths: list[Path]) -> tuple[CoreFile, CoreFile | None]:
    """Return the GPU's and the host's core dump, given one or two files; raise SourceError if none is a GPU's."""
    cores = [read_core(path) for path in paths]
    gpus = [core for core in cores if core.gpu]
    hosts = [core for core in cores if not core.gpu]
    if not gpus:
        raise SourceError(f"{paths[0]} is the core dump of a host process: it holds no device.", _TO_SORT, "host-core")
    if len(gpus) > 1:
        raise SourceError("Both files are GPU core dumps.", "open one at a time", "two-cores")
    return gpus[0], hosts[0] if hosts else None


async def open_core(
    gdb: str,
    gpu: CoreFile,
    host: CoreFile | None,
    target: str,
    *,
    source: str = "core dump",
    limit_s: float = 120.0,
    pid: int = 0,
) -> DeviceState:
    """Return the state in a core dump.

    Args:
        gpu: the GPU's core dump.
        host: the host's core dump, used only for its thread's stack below the device's.
        target: id of the process, or `file:PATH`.
        source: its origin.
        limit_s: total time limit.
        pid: the process whose driver wrote it; 0 if our user named the file.

    Raises:
        SourceError: cuda-gdb can't read it.
        GdbGone, GdbTimeout: it ended, or takes too long.
        ToolMissing: the program is no cuda-gdb.
    """
    before_ns, end_s = time.monotonic_ns(), time.monotonic() + limit_s
    engine = await start_cuda_gdb(gdb, pid)
    try:
        with tempfile.TemporaryDirectory(prefix="livedbg-core-") as folder:
            command = await asyncio.to_thread(_command, Path(folder), gpu, host)
            try:
                said = await engine.console(command, max(1.0, end_s - time.monotonic()))
            except GdbCommandError as error:
                sentence = f"cuda-gdb can't read {gpu.path}: {error.message}{_cut(gpu)}"
                raise SourceError(sentence, _again(gpu), "bad-core") from None
            except GdbGone:
                raise GdbGone(f"cuda-gdb ended as it opened {gpu.path}.{_cut(gpu)}", _again(gpu), "gdb-gone") from None
            except GdbTimeout:
                raise GdbTimeout(
                    f"cuda-gdb did not open {gpu.path} within {limit_s:g} s.{_cut(gpu)}",
                    "give it more time with --timeout",
                    "gdb-timeout",
                ) from None
            queries = Queries(engine, end_s)
            if gpu.missing:
                queries.notes.append(f"The core dump is cut: {gpu.missing:,} of {gpu.whole:,} bytes are missing.")
            seen = await sample_devices(queries, said)
    finally:
        await engine.close()
    taken_ns = await asyncio.to_thread(_written_ns, gpu.path)
    took_ns = time.monotonic_ns() - before_ns
    return state_of(seen, target, source, path=str(gpu.path), taken_wall_ns=taken_ns, sampling_ns=took_ns)


def _command(folder: Path, gpu: CoreFile, host: CoreFile | None) -> str:
    folder.chmod(0o711)  # cuda-gdb may run with the rights of the target's user
    link = folder / "gpu"
    link.symlink_to(gpu.path.absolute())
    if host is None:
        return f"target cudacore {link}"
    beside = folder / "host"
    beside.symlink_to(host.path.absolute())
    return f"target core {beside} {link}"


def _written_ns(path: Path) -> int | None:
    try:
        return target_files.status(path).st_mtime_ns
    except OSError:
        return None


def _cut(gpu: CoreFile) -> str:
    return f" It is cut: {gpu.missing:,} of {gpu.whole:,} bytes are missing." if gpu.missing else ""


def _again(gpu: CoreFile) -> str:
    if gpu.missing:
        return "dump it again with room on the disk; if it is still being written, wait for that"
    return "a cuda-gdb that is not older than the driver that wrote it"


class CoreFile(NamedTuple):
    """A core dump of a GPU or a host process, its size, and the size according to its headers."""

    path: Path
    gpu: bool
    size: int
    whole: int

    @property
    def missing(self) -> int:
        """Return the number of missing bytes."""
        return max(0, self.whole - self.size)


def read_core(path: Path) -> CoreFile:
    """Return the properties of a core dump; raise SourceError if it is unreadable or none."""
    try:
        if not target_files.is_regular(path):
            what = "does not exist" if not path.exists() else "is no file"
            raise SourceError(f"{path} {what}.", "give the core dump's path", "missing")
        with target_files.open_binary(path) as file:
            size = os.fstat(file.fileno()).st_size
            return _read(path, file, size)
    except OSError as error:
        raise SourceError(f"{path} can't be read: {error.strerror}.", "", "unreadable") from None


def _read(path: Path, file: BinaryIO, size: int) -> CoreFile:
    head = file.read(_HEADER.size)
    if head[:2] == _GZIP:
        raise SourceError(f"{path} is compressed.", f"gunzip -k {path}", "compressed")
    if not size:
        raise SourceError(f"{path} is empty: nothing was written yet, or the disk is full.", "df -h", "empty")
    if head[:4] != b"\x7fELF" or len(head) < _HEADER.size or head[4:6] != b"\x02\x01":
        raise SourceError(f"{path} is no core dump.", "give a core dump that the CUDA driver wrote", "not-a-core")
    fields = _HEADER.unpack(head)
    kind, machine = fields[1], fields[2]
    if kind != _ET_CORE:
        what = "a cubin" if machine == _EM_CUDA else "a program or a library"
        raise SourceError(f"{path} is no core dump, but {what}.", "", "not-a-core")
    gpu = machine == _EM_CUDA
    return CoreFile(path, gpu, size, max(_HEADER.size, _extent(file, size, fields)))


def _extent(file: BinaryIO, size: int, fields: tuple[int, ...]) -> int:
    """Return the end of the section table and of its sections."""
    offset, entry, number = int(fields[6]), int(fields[11]), int(fields[12])
    if not offset or entry != _SECTION.size:
        return 0
    if number == 0:  # more than fit: the first section has the number (elf(5), e_shnum)
        file.seek(offset)
        first = file.read(entry)
        number = _SECTION.unpack(first)[5] if len(first) == entry else 1
    number = min(number, _MOST_SECTIONS)
    reach = offset + number * entry
    if reach > size:
        return reach
    file.seek(offset)
    while number > 0:
        data = file.read(min(number, _CHUNK) * entry)
        if len(data) < entry:
            break
        for section in _SECTION.iter_unpack(data[: len(data) // entry * entry]):
            if section[1] not in (0, _SHT_NOBITS):
                reach = max(reach, section[4] + section[5])
        number -= _CHUNK
    return reach


def is_whole(path: Path) -> bool:
    """Return whether a core dump is complete by its headers; a compressed one counts as complete."""
    try:
        return read_core(path).missing == 0
    except SourceError as error:
        return error.code == "compressed"


_DETACH_S: Final = 10.0


async def sample_attached(
    gdb: str, pid: int, target: str, touched: Callable[[Intrusion], None], limit_s: float = 30.0
) -> DeviceState:
    """Attach, sample, detach.

    Args:
        target: id of the process.
        touched: receives the ledger entry, also if the sample fails.
        limit_s: time limit of attach and sample; the detach may take 10 s more.

    Raises:
        TouchRefused: intrusive actions are forbidden on this host.
        TargetGone, TargetDenied, TargetUnsuitable: it can't be attached to; nothing was done to it.
        GuardMissing: there is no guard; nothing was done to the target.
        GdbCommandError, GdbGone, GdbTimeout: the debugger failed; the target was detached.
        ToolMissing: the program is no cuda-gdb.
    """
    refuse_touch(None, "cuda-gdb would be attached: the process and all of its GPUs are stopped while it reads")
    start_ticks = check_attachable(pid)
    engine = await start_cuda_gdb(gdb, pid)
    try:
        assert engine.pid is not None
        guard = await Guard.start(pid, start_ticks, engine.pid)
        since_ns, end_s = time.monotonic_ns(), time.monotonic() + limit_s
        try:
            said = await _attach(engine, pid, limit_s)
            queries = Queries(engine, end_s)
            seen = await sample_devices(queries, said)
        finally:
            try:
                await _detach(engine)
            finally:  # also where that is interrupted; then the guard stays
                stopped_ns = time.monotonic_ns() - since_ns
                touched(
                    Intrusion(
                        target=target,
                        what="cuda-gdb attach",
                        why="asked for: what runs on the device",
                        paused_ns=stopped_ns,
                        stops=1,
                        at_wall_ns=time.time_ns() - stopped_ns,
                    )
                )
            await guard.release()
    finally:
        await engine.close()
    return state_of(seen, target, "attach", taken_wall_ns=time.time_ns(), sampling_ns=stopped_ns)


async def _attach(engine: GdbEngine, pid: int, limit_s: float) -> str:
    try:
        return await engine.console(f"attach {pid}", limit_s)
    except GdbCommandError as error:
        if "not permitted" in error.message:
            raise TargetDenied(
                f"The kernel does not let cuda-gdb attach to process {pid}.", "sudo livedbg device …", "no-permission"
            ) from None
        raise


async def _detach(engine: GdbEngine) -> None:
    try:
        await engine.command("-target-detach", _DETACH_S)
    except GdbError:
        await engine.close()  # at the end of its input it detaches; the guard wakes what it left behind
