"""The NVML adapter: samples the GPUs once a second at most, and reports when NVML does not answer.

Without an NVIDIA driver it costs one failed dlopen.

NVML blocks in the driver, for seconds if a GPU has trouble and for ever if it hangs. So its calls run in a daemon
thread of their own: the session waits for an answer for a limited time, and neither it nor the end of the program waits
for the thread. Only time in which the call blocks counts: on a busy host it waits for a CPU.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from livedbg.adapters.cuda.checks import uses_gpu
from livedbg.adapters.cuda.facts import GpuFacts
from livedbg.linux import procfs
from livedbg.linux.access import can_load
from livedbg.model import Edge, EdgeKind, Resource, SourceHealth, ThreadState, ids
from livedbg.model.errors import SourceError
from livedbg.model.events import Event, Stamp
from livedbg.session.adapter import Context
from livedbg.session.pacing import Cost, Limit
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher, Statuses
from livedbg.text.quantities import byte_size

if TYPE_CHECKING:
    from livedbg.adapters.cuda.nvml.bindings import GpuSample, Nvml

_STEPS: Final = 4  # samples of the thread within a time limit
_MOST: Final = 5  # time limits after which a call that gets on is given up too

T = TypeVar("T")


class Worker:
    """Makes one call after the other in a thread."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._busy = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Return whether a call has not returned."""
        return self._busy.is_set()

    async def ask(self, call: Callable[[], T], limit_s: float) -> T:
        """Return the answer of a call; raise TimeoutError without progress, or if an earlier one has not returned."""
        if self.busy:
            raise TimeoutError
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # nobody takes it back
        self._busy.set()
        self._jobs.put(partial(self._answer, call, future))
        answer = asyncio.wrap_future(future)
        try:
            still = 0
            for _ in range(_MOST * _STEPS):
                ran_ns = self._cpu_ns()
                if (await asyncio.wait([answer], timeout=limit_s / _STEPS))[0]:
                    return answer.result()
                still = 0 if self._is_host_busy(ran_ns) else still + 1
                if still == _STEPS:
                    break
            raise TimeoutError
        finally:
            answer.cancel()

    def _is_host_busy(self, ran_ns: int) -> bool:
        """Return whether the thread has run since, or waits for a CPU: then the host is busy, not the driver."""
        tid = self._thread.native_id
        assert tid is not None
        return self._cpu_ns() > ran_ns or procfs.read_stat(os.getpid(), tid).state is ThreadState.RUNNING

    def _cpu_ns(self) -> int:
        assert self._thread.ident is not None
        return time.clock_gettime_ns(time.pthread_getcpuclockid(self._thread.ident))

    def close(self) -> None:
        """Let the thread end after its call, without waiting for it."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _answer(self, call: Callable[[], T], future: Future[T]) -> None:
        """Make a call in the thread; it counts as returned before its answer is delivered."""
        try:
            result = call()
        except BaseException as error:
            self._busy.clear()
            future.set_exception(error)
        else:
            self._busy.clear()
            future.set_result(result)


class GpuEvents:
    """Converts changes between samples to events."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._shown = Publisher("nvml/processes")

    def changes(self, gpus: Sequence[GpuSample], pids: frozenset[int], stamp: Stamp) -> list[Event]:
        """Return the events of one sample for the observed processes."""
        resources, edges, counters = [], [], dict[tuple[str, str], tuple[float, float | None]]()
        for gpu in gpus:
            resource = self._resource(gpu)
            resources.append(resource)
            counters |= {(resource.id, name): (value, None) for name, value in gpu.counters.items()}
            for pid in sorted(pids & gpu.processes.keys()):
                edges.append(self._edge(pid, resource, gpu))
                if pid in gpu.busy:
                    counters[ids.process(self._host, pid), f"gpu{gpu.gpu.index}_busy_percent"] = gpu.busy[pid], None
        return self._shown.show(stamp, resources=resources, edges=edges, counters=counters)

    def _resource(self, sample: GpuSample) -> Resource:
        gpu = sample.gpu
        facts = GpuFacts(
            uuid=gpu.uuid,
            bus=gpu.bus,
            driver=gpu.driver,
            memory_bytes=gpu.memory_bytes,
            held_down=tuple(sample.held_down),
            lost=sample.lost,
            processes=len(sample.processes),
        )
        busy = sample.counters.get("utilisation_percent")
        state = "lost" if sample.lost else None if busy is None else "busy" if busy else "idle"
        return Resource(
            id=f"gpu:{self._host}/{gpu.index}",
            kind="gpu",
            name=f"GPU {gpu.index}" + (f" ({gpu.name})" if gpu.name else ""),
            state=state,
            facts=facts,
        )

    def _edge(self, pid: int, resource: Resource, sample: GpuSample) -> Edge:
        used = sample.processes[pid]
        memory = f", {byte_size(used)} of its memory" if used is not None else ""
        return Edge(
            kind=EdgeKind.RUNS_ON,
            source=ids.process(self._host, pid),
            target=resource.id,
            evidence=f"NVML lists process {pid} on GPU {sample.gpu.index}{memory}",
        )


_LIBRARY: Final = "libnvidia-ml.so.1"

_POLL_S: Final = 1.0
_POLL_UNUSED_S: Final = 5.0  # while none of our processes uses a GPU
_LIMIT: Final = Limit(wall=0.02, most_s=10.0)  # on a busy machine, where each takes long, there is one now and then
_LIMIT_S: Final = 5.0  # for an answer
_ONCE_S: Final = 2.0  # the same in a session that samples once
_TARGET: Final = "NVML"


class NvmlAdapter(PolledAdapter):
    """Utilisation, memory, clocks, heat and errors of NVIDIA's GPUs.

    Options of a request: `nvml.interval_s` between two samples, `nvml.limit_s` for an answer.
    """

    name = "nvml"
    sees = "how busy, full and hot NVIDIA's GPUs are, their errors, and which processes use them (NVML)"
    cost = "some ten calls of NVML a second and GPU, none without an NVIDIA driver; the target is not touched"

    def __init__(self) -> None:
        super().__init__()
        self._statuses = Statuses(self.name)
        self._reader = _Reader()
        self._worker: Worker | None = None

    async def run(self, context: Context) -> None:
        try:
            await super().run(context)
        finally:
            if self._worker is not None:
                self._worker.close()

    async def begin(self, context: Context) -> bool:
        """Return whether there is a driver. Only a session that samples once waits for its answer."""
        if not context.request.once:
            context.settled()
        self._events = GpuEvents(context.request.host)
        if not await asyncio.to_thread(can_load, _LIBRARY):
            return False
        self._worker = Worker("livedbg-nvml")
        return True

    async def look(self, context: Context) -> float | None:
        assert self._worker is not None
        options = context.request.options
        limit_s = float(options.get("nvml.limit_s", _ONCE_S if context.request.once else _LIMIT_S))
        begun = time.monotonic()
        used = False
        try:
            gpus = await self._worker.ask(self._reader.sample, limit_s)
        except TimeoutError:
            said = f"NVML has not answered for {limit_s:g} s: the driver or a GPU may hang."
            self._say(context, "no-answer", said, "nvidia-smi; dmesg | grep 'NVRM: Xid'")
        except SourceError as trouble:
            if trouble.code != "no-bindings" or await asyncio.to_thread(uses_gpu, self._pids(context)):
                self._say(context, trouble.code, trouble.message, trouble.remedy)
            if trouble.code == "no-bindings":
                return None
        else:
            pids = self._pids(context)
            used = any(pids & gpu.processes.keys() for gpu in gpus)
            context.emit(*self._events.changes(gpus, pids, context.stamp()))
            self._namespaces(context, used, any(gpu.processes for gpu in gpus))
        took_s = 0.0 if self._worker.busy else time.monotonic() - begun  # a sample that was given up costs no more
        poll_s = float(options.get("nvml.interval_s", _POLL_S)) if used else _POLL_UNUSED_S
        return max(poll_s, _LIMIT.rest_s(Cost(wall_s=took_s)))

    def _pids(self, context: Context) -> frozenset[int]:
        host, processes = context.request.host, context.snapshot().processes.values()
        living = {one.pid for one in processes if one.host == host and one.target and not one.exited}
        return frozenset(living.union(target.pid for target in context.request.processes))

    def _namespaces(self, context: Context, used: bool, listed: bool) -> None:
        """Report a foreign PID namespace: NVML uses the host's pids, so in a container ours are unknown."""
        if used or not listed or not uses_gpu(self._pids(context)):
            self._statuses.only(context, _TARGET, {})
            self._statuses.say(context, _TARGET, "", health=SourceHealth.OK)
            return
        sentence = "A process of the target has a GPU open, but NVML doesn't list it: NVML uses the host's PIDs."
        self._say(context, "pid-namespace", sentence, "run livedbg in the host's PID namespace")

    def _say(self, context: Context, code: str, sentence: str, remedy: str) -> None:
        self._statuses.only(context, _TARGET, {code: (sentence, remedy)})


class _Reader:
    """Opens NVML on first use, and again after a failure. Used in the worker's thread."""

    def __init__(self) -> None:
        self._nvml: Nvml | None = None

    def sample(self) -> Sequence[GpuSample]:
        """Sample once; raise SourceError if NVML can't be used."""
        if self._nvml is None:
            try:
                from livedbg.adapters.cuda.nvml.bindings import Nvml
            except ImportError:
                sentence = "The GPUs' counters can't be read: nvidia-ml-py is not installed."
                raise SourceError(sentence, "pip install nvidia-ml-py", "no-bindings") from None
            self._nvml = Nvml()
        return self._nvml.sample()
