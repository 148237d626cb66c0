"""The NVML adapter: samples the GPUs once a second at most, and reports when NVML does not answer.

Without an NVIDIA driver it costs one failed dlopen.
"""

from __future__ import annotations

import asyncio
import ctypes
import time
from typing import TYPE_CHECKING, Final

from livedbg.adapters.cuda.checks import uses_gpu
from livedbg.adapters.cuda.nvml.events import GpuEvents
from livedbg.adapters.cuda.nvml.samples import NvmlTrouble, Sample
from livedbg.adapters.cuda.nvml.worker import Worker
from livedbg.model import SourceHealth, SourceStatus
from livedbg.model.events import StatusSeen
from livedbg.session.adapter import Adapter, Context, targets_ended
from livedbg.session.pacing import Cost, Limit

if TYPE_CHECKING:
    from livedbg.adapters.cuda.nvml.bindings import Nvml

__all__ = ["NvmlAdapter"]

_LIBRARY: Final = "libnvidia-ml.so.1"

_POLL_S: Final = 1.0
_POLL_UNUSED_S: Final = 5.0  # while none of our processes uses a GPU
_LIMIT: Final = Limit(wall=0.02, most_s=10.0)  # on a busy machine, where each takes long, there is one now and then
_LIMIT_S: Final = 5.0  # for an answer
_ONCE_S: Final = 2.0  # the same in a session that samples once
_SOURCE: Final = "nvml"
_TARGET: Final = "NVML"


class NvmlAdapter(Adapter):
    """Utilisation, memory, clocks, heat and errors of NVIDIA's GPUs.

    Options of a request: `nvml.interval_s` between two samples, `nvml.limit_s` for an answer.
    """

    name = "nvml"
    sees = "how busy, full and hot NVIDIA's GPUs are, their errors, and which processes use them (NVML)"
    cost = "some ten calls of NVML a second and GPU, none without an NVIDIA driver; the target is not touched"

    async def run(self, context: Context) -> None:
        """Ask again and again, where there is a driver."""
        if not await asyncio.to_thread(_loadable):
            context.settled()
            return
        await _Sampling().run(context)


def _loadable() -> bool:
    """Whether there is an NVIDIA driver's library."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return False
    return True


class _Sampling:
    """Samples the GPUs in one session."""

    def __init__(self) -> None:
        self._health: SourceStatus | None = None

    async def run(self, context: Context) -> None:
        """Sample until the targets have ended (or once)."""
        worker = Worker("livedbg-nvml")
        try:
            await self._watch(context, worker)
        finally:
            worker.close()

    async def _watch(self, context: Context, worker: Worker) -> None:
        once = context.request.once
        options = context.request.options
        limit_s = float(options.get("nvml.limit_s", _ONCE_S if once else _LIMIT_S))
        poll_s = float(options.get("nvml.interval_s", _POLL_S))
        if not once:
            context.settled()
        gpu_events = GpuEvents(context.request.host)
        reader = _Reader()
        while True:
            begun = time.monotonic()
            used = False
            try:
                sample = await worker.ask(reader.sample, limit_s)
            except TimeoutError:
                said = f"NVML has not answered for {limit_s:g} s: the driver or a GPU may hang."
                self._say(context, SourceHealth.DEGRADED, "no-answer", said, "nvidia-smi; dmesg | grep 'NVRM: Xid'")
            except NvmlTrouble as trouble:
                if trouble.code != "no-bindings" or await asyncio.to_thread(uses_gpu, self._pids(context)):
                    self._say(context, SourceHealth.DEGRADED, trouble.code, trouble.sentence, trouble.remedy)
                if trouble.code == "no-bindings":
                    break
            else:
                pids = self._pids(context)
                used = any(pids & gpu.processes.keys() for gpu in sample.gpus)
                context.emit(*gpu_events.changes(sample, pids, context.stamp()))
                self._namespaces(context, sample, used)
            if once or targets_ended(context):
                break
            took_s = 0.0 if worker.busy else time.monotonic() - begun  # a sample that was given up costs nothing more
            await context.sleep(max(poll_s if used else _POLL_UNUSED_S, _LIMIT.rest_s(Cost(wall_s=took_s))))
        if once:
            context.settled()

    def _pids(self, context: Context) -> frozenset[int]:
        found = {target.pid for target in context.request.processes}
        for process in context.snapshot().processes.values():
            if process.host == context.request.host and process.target and not process.exited:
                found.add(process.pid)
        return frozenset(found)

    def _namespaces(self, context: Context, sample: Sample, used: bool) -> None:
        """NVML names processes as the host does: inside a container it can't be known which are ours."""
        listed = sum(len(gpu.processes) for gpu in sample.gpus)
        if used or not listed or not uses_gpu(self._pids(context)):
            self._say(context, SourceHealth.OK, "", "", "")
            return
        sentence = "A process of the target has a GPU open, but NVML doesn't list it: NVML uses the host's PIDs."
        self._say(context, SourceHealth.DEGRADED, "pid-namespace", sentence, "run livedbg in the host's PID namespace")

    def _say(self, context: Context, health: SourceHealth, code: str, sentence: str, remedy: str) -> None:
        before = self._health
        if before is not None and before.code != code and before.code:  # what was said before is over
            over = SourceStatus(source=_SOURCE, target=_TARGET, health=SourceHealth.OK, code=before.code)
            context.emit(StatusSeen(status=over, **context.stamp()))
        status = SourceStatus(
            source=_SOURCE, target=_TARGET, health=health, code=code, sentence=sentence, remedy=remedy
        )
        if status != before and (code or before is None or before.code):
            context.emit(StatusSeen(status=status, **context.stamp()))
        self._health = status


class _Reader:
    """Opens NVML at its first use, again after a failure. Belongs to the worker's thread."""

    def __init__(self) -> None:
        self._nvml: Nvml | None = None

    def sample(self) -> Sample:
        """One sample.

        Raises:
            NvmlTrouble: it can't be had.
        """
        if self._nvml is None:
            try:
                from livedbg.adapters.cuda.nvml.bindings import Nvml
            except ImportError:
                raise NvmlTrouble(
                    "no-bindings",
                    "The GPUs' counters can't be read: nvidia-ml-py is not installed.",
                    "pip install nvidia-ml-py",
                ) from None
            self._nvml = Nvml()
        return self._nvml.sample()
