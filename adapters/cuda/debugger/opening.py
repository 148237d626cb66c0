"""Opens a GPU core dump in cuda-gdb, with the host's core beside it where there is one. No GPU is needed for that.

Commands: `target cudacore GPU`, `target core HOST GPU` (cuda-gdb manual, "GPU core dump support"; the latter takes no
blanks in a path: gdb/corelow.c in cuda-gdb's source, so both get a link without any).
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Final

from livedbg.adapters.cuda.debugger.asking import Asker
from livedbg.adapters.cuda.debugger.build import state_of
from livedbg.adapters.cuda.debugger.corefile import CoreFile, read_core
from livedbg.adapters.cuda.debugger.debugger import started
from livedbg.adapters.cuda.debugger.look import look
from livedbg.gdbmi import GdbCommandError, GdbGone, GdbTimeout
from livedbg.model.devices import DeviceState
from livedbg.model.errors import SourceError

__all__ = ["cores_of", "open_core"]

_TO_SORT: Final = "the CUDA driver writes GPU core dumps as core_TIME_HOST_PID.nvcudmp, or as CUDA_COREDUMP_FILE says"


def cores_of(paths: list[Path]) -> tuple[CoreFile, CoreFile | None]:
    """The GPU's core dump and the host's among one or two files, in whichever order.

    Raises:
        SourceError: one can't be read, none is a GPU's, or both are.
    """
    cores = [read_core(path) for path in paths]
    gpus = [core for core in cores if core.gpu]
    hosts = [core for core in cores if not core.gpu]
    if not gpus:
        raise SourceError(f"{paths[0]} is the core dump of a host process: it holds no device.", _TO_SORT, "host-core")
    if len(gpus) > 1:
        raise SourceError("Both files are GPU core dumps.", "look at one at a time", "two-cores")
    return gpus[0], hosts[0] if hosts else None


async def open_core(
    gdb: str, gpu: CoreFile, host: CoreFile | None, target: str, *, source: str = "core dump", limit_s: float = 120.0
) -> DeviceState:
    """The state in a core dump.

    Args:
        gdb: path of the cuda-gdb.
        gpu: the GPU's core dump.
        host: the host's, for nothing but its thread's stack beneath the device's.
        target: identifier of the process, or `file:PATH`.
        source: how it came about.
        limit_s: time limit of it all.

    Raises:
        SourceError: cuda-gdb can't read it.
        GdbGone, GdbTimeout: it ended, or takes too long.
        ToolMissing: the program is no cuda-gdb.
    """
    before_ns, end_s = time.monotonic_ns(), time.monotonic() + limit_s
    engine = await started(gdb)
    try:
        with tempfile.TemporaryDirectory(prefix="livedbg-core-") as folder:
            command = await asyncio.to_thread(_command, Path(folder), gpu, host)
            try:
                said = await engine.console(command, max(1.0, end_s - time.monotonic()))
            except GdbCommandError as error:
                raise _refused(gpu, error.message) from None
            except GdbGone:
                raise GdbGone(f"cuda-gdb ended as it opened {gpu.path}.{_cut(gpu)}", _again(gpu), "gdb-gone") from None
            except GdbTimeout:
                raise GdbTimeout(
                    f"cuda-gdb did not open {gpu.path} within {limit_s:g} s.{_cut(gpu)}",
                    "give it more time with --timeout",
                    "gdb-timeout",
                ) from None
            asker = Asker(engine, end_s)
            if gpu.missing:
                asker.notes.append(f"The core dump is cut: {gpu.missing:,} of {gpu.whole:,} bytes are missing.")
            seen = await look(asker, said)
    finally:
        await engine.close()
    taken_ns = await asyncio.to_thread(_written_ns, gpu.path)
    took_ns = time.monotonic_ns() - before_ns
    return state_of(seen, target, source, path=str(gpu.path), taken_wall_ns=taken_ns, look_ns=took_ns)


def _command(folder: Path, gpu: CoreFile, host: CoreFile | None) -> str:
    link = folder / "gpu"
    link.symlink_to(gpu.path.absolute())
    if host is None:
        return f"target cudacore {link}"
    beside = folder / "host"
    beside.symlink_to(host.path.absolute())
    return f"target core {beside} {link}"


def _written_ns(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _refused(gpu: CoreFile, why: str) -> SourceError:
    return SourceError(f"cuda-gdb can't read {gpu.path}: {why}{_cut(gpu)}", _again(gpu), "bad-core")


def _cut(gpu: CoreFile) -> str:
    return f" It is cut: {gpu.missing:,} of {gpu.whole:,} bytes are missing." if gpu.missing else ""


def _again(gpu: CoreFile) -> str:
    if gpu.missing:
        return "dump it again with room on the disk; if it is still being written, wait for that"
    return "a cuda-gdb that is not older than the driver that wrote it"
