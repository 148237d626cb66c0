"""A profile: all threads of the targets, sampled at a steady rate for some time, each sample with its stack.

Where the kernel takes no samples, Python functions are profiled by reading the interpreter's memory periodically. A
thread then has a sample if it is runnable and has used CPU time since the last one; native calls count for the Python
line that made them.

Invariants:
    samples_profiling.R1. Samples waiting to be unwound are bounded (`_WAITING`): beyond that a sample counts as one
        without a stack.
    samples_profiling.R2. Every sample taken is in the profile and in the ledger; samples that the kernel dropped of a
        thread that has others are in the profile.
    samples_profiling.P1. A thread that waits when it is sampled has no sample, whatever it has used since.
    samples_profiling.P2. Sampling Python takes at most a tenth of a core, once interpreters and sources have been read.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from livedbg.adapters.samples.account import Pace, SampleAccount
from livedbg.adapters.samples.loop_progress import LoopProgress, LoopReadings, Readings
from livedbg.adapters.samples.python_frames import PythonFrames, with_python
from livedbg.adapters.samples.sampling import Batch, Followed, Sampling, Taken
from livedbg.adapters.samples.unwinding import SampledStacks
from livedbg.cpython.call_frames import PyFrames
from livedbg.linux import procfs
from livedbg.model import Frame, ThreadState, ids
from livedbg.model.errors import LivedbgError
from livedbg.model.events import CounterSeen, SamplesSeen, Stamp
from livedbg.model.launches import Kept, ProfileSlice, SampledStack
from livedbg.probes.allocations import AllocationProbes, KeptBlocks, weight_of
from livedbg.probes.perf_event import Counted
from livedbg.session.adapter import Context, targets_ended
from livedbg.session.running import share_of
from livedbg.unwind.pool import UnwinderPool

_REFRESH_S: Final = 0.25
_PYTHON_PROFILE_REST: Final = 9  # times the CPU time of a look that the pause after it lasts, at least


class PythonSample(NamedTuple):
    """A sample of one thread.

    Attributes:
        cpu_ns: CPU time that it represents.
        python: None if the frames could not be read, or the thread runs no Python.
        progress: a loop of the thread that progresses, if that was asked for and proven.
    """

    thread: str
    mono_ns: int
    cpu_ns: int
    python: PyFrames | None
    progress: LoopProgress | None = None


class PythonProfile:
    """Samples the Python frames of threads until stopped.

    Args:
        threads: tid -> process and thread identifier; may be replaced at any time.
        give: takes the samples of each round, in this thread.
        loops: readings of each thread's loops so far; None if nobody asks for them.
    """

    def __init__(
        self,
        threads: dict[int, tuple[int, str]],
        give: Callable[[list[PythonSample]], object],
        loops: LoopReadings | None = None,
    ) -> None:
        self.threads = threads
        self._give = give
        self._loops = loops
        self._stop = threading.Event()
        self._python = PythonFrames() if loops is None else loops.frames
        self._used_ns: dict[int, int] = {}

    def stop(self) -> None:
        """End `run` soon. Callable from any thread."""
        self._stop.set()

    def run(self, seconds: float, period_s: float) -> bool:
        """Sample for some time.

        Args:
            seconds: total.
            period_s: least time between two rounds.

        Returns:
            False, at once, if there is no readable interpreter.
        """
        self._python.refresh({pid for pid, _ in self.threads.values()})
        now_s = time.monotonic()
        end_s, refresh_s, warm = now_s + seconds, now_s, False
        while (now_s := time.monotonic()) < end_s and not self._stop.is_set():
            before_s = time.thread_time()
            if now_s >= refresh_s:
                self._python.refresh({pid for pid, _ in self.threads.values()})
                refresh_s = now_s + _REFRESH_S
                if not self._python.readable:
                    return False
            if seen := self._look():
                self._give(seen)
            rest_s = _PYTHON_PROFILE_REST * (time.thread_time() - before_s) if warm else 0.0  # P2
            warm = True
            self._stop.wait(max(period_s, rest_s))
        return True

    def _look(self) -> list[PythonSample]:
        seen: list[PythonSample] = []
        used_ns: dict[int, int] = {}
        for tid, (pid, thread) in self.threads.items():
            with contextlib.suppress(OSError, OverflowError, ValueError):
                used_ns[tid] = _used_ns(pid, tid)
                ran_ns = used_ns[tid] - self._used_ns.get(tid, used_ns[tid])
                if ran_ns > 0 and procfs.read_stat(pid, tid).state is ThreadState.RUNNING:  # P1
                    places = self._python.places(pid, tid)
                    python = self._python.named(pid, places) if places else None
                    now_ns = time.monotonic_ns()
                    progress = None
                    if places and self._loops is not None:
                        progress = self._progress(pid, tid, thread, now_ns)
                    seen.append(PythonSample(thread, now_ns, ran_ns, python, progress))
        self._used_ns = used_ns
        return seen

    def _progress(self, pid: int, tid: int, thread: str, now_ns: int) -> LoopProgress | None:
        """Return a `for` loop that progresses, another one that only its own end ends, or that steps are made."""
        assert self._loops is not None
        known = self._loops.of.setdefault(thread, Readings())
        progress = known.loops.add(now_ns, self._python.loops(pid, tid))
        nests = self._python.ending_loops(pid, tid, asleep=False) or {}
        progress = progress or known.ending.add(now_ns, nests.get(0, ()))
        return progress or known.steps.add(now_ns, self._python.steps(pid, tid))


def _used_ns(pid: int, tid: int) -> int:
    """Return the CPU time of a thread; raise OSError if it has ended, ValueError if the kernel does not count it."""
    return procfs.parse_schedstat(procfs.read_file(f"/proc/{pid}/task/{tid}/schedstat")).cpu_ns


@dataclass(slots=True)
class _Counted:
    """The counts of one thread.

    Attributes:
        stacks: frames, and whether they are whole -> samples and their CPU time.
    """

    start_mono_ns: int
    end_mono_ns: int
    unknown: int = 0
    stacks: dict[tuple[tuple[Frame, ...], bool], tuple[int, int]] = field(default_factory=dict)


class Tally:
    """Counts stacks by thread."""

    def __init__(self) -> None:
        self._threads: dict[str, _Counted] = {}

    def add(self, thread: str, mono_ns: int, period_ns: int, frames: tuple[Frame, ...], whole: bool = True) -> None:
        """Count a sample.

        Args:
            period_ns: CPU time that it represents.
            frames: empty if there is no stack.
            whole: the outermost frame is present.
        """
        entry = self._threads.get(thread)
        if entry is None:
            entry = self._threads[thread] = _Counted(mono_ns, mono_ns)
        entry.start_mono_ns = min(entry.start_mono_ns, mono_ns)
        entry.end_mono_ns = max(entry.end_mono_ns, mono_ns)
        if not frames:
            entry.unknown += 1
            return
        samples, cpu_ns = entry.stacks.get((frames, whole), (0, 0))
        entry.stacks[frames, whole] = samples + 1, cpu_ns + period_ns

    def lose(self, thread: str, samples: int) -> None:
        """Count dropped samples of a thread that has others."""
        if (entry := self._threads.get(thread)) is not None:
            entry.unknown += samples

    def take(self) -> tuple[ProfileSlice, ...]:
        """Return and reset the counts."""
        threads, self._threads = self._threads, {}
        return tuple(
            ProfileSlice(
                thread=thread,
                start_mono_ns=entry.start_mono_ns,
                end_mono_ns=entry.end_mono_ns,
                stacks=tuple(
                    SampledStack(frames, cpu_ns, samples, whole)
                    for (frames, whole), (samples, cpu_ns) in entry.stacks.items()
                ),
                unknown=entry.unknown,
            )
            for thread, entry in threads.items()
        )


_THREADS_S: Final = 0.25  # between two looks for new threads
_EMIT_S: Final = 0.5  # between two slices of a thread: a minute of them is kept (state.merging.PROFILE_SLICES)
_WAITING: Final = 2048  # samples
_TOGETHER: Final = _WAITING // 2  # samples that are unwound at once without a wait for more
_REST: Final = 40  # times the CPU time of one round pass before the next: a round costs much, a sample in it little
_REST_MOST_S: Final = 2.0
_UNWIND_S: Final = 60.0


async def profile_targets(
    context: Context,
    pool: UnwinderPool,
    account: SampleAccount,
    *,
    seconds: float,
    pace: Pace,
    wanted: Callable[[str], bool] = lambda _thread: True,
    goes_on: Callable[[], bool] = lambda: True,
    counted: Counted = Counted.CPU_CLOCK,
) -> None:
    """Sample the threads of all targets, and put their profile on the stream.

    Args:
        seconds: less if all targets end.
        wanted: selects threads by identifier.
        goes_on: whether to go on; called every `_THREADS_S`.
        counted: the event that triggers samples.

    Raises:
        NoPerf: not allowed.
        LivedbgError: samples can't be unwound.
    """
    profile = _Profile(context, pool, account)
    loop = asyncio.get_running_loop()
    sampling = Sampling(
        _threads(context, pace, wanted), lambda batch: loop.call_soon_threadsafe(profile.take, batch), counted
    )
    try:
        work = asyncio.ensure_future(asyncio.to_thread(sampling.run, seconds))
        try:
            while not work.done():
                await asyncio.wait([work], timeout=_THREADS_S)
                pace.cost(sampling.cpu_s + profile.cpu_s, profile.samples)
                sampling.threads = _threads(context, pace, wanted)
                profile.unwind()
                profile.flush()
                if targets_ended(context) or profile.failed or not goes_on():
                    break
        finally:
            sampling.stop()
            await asyncio.wait([work])
        work.result()
        await profile.finish()
    finally:
        profile.cancel()


_KEPT_LOOK_S: Final = 0.1
_FILES_S: Final = 1.0  # between two searches for libraries that were loaded meanwhile
_YOUNG_NS: Final = 1_000_000_000  # how long a block lives at least that is kept ...
_YOUNG_SHARE: Final = 0.05  # ... or for which part of the time, if that is less
_PEAK_NS: Final = 20_000_000
_KeptStack = tuple[tuple[Frame, ...], bool]
"""Frames, and whether they are whole."""


async def follow_kept(context: Context, pool: UnwinderPool, over: asyncio.Event) -> None:
    """Follow the blocks that malloc gives the targets until `over`; put what they kept at the peak on the stream."""
    await asyncio.gather(*(_kept_by(context, pool, one.pid, over) for one in context.request.processes))


async def _kept_by(context: Context, pool: UnwinderPool, pid: int, over: asyncio.Event) -> None:
    kept: KeptBlocks[_KeptStack] = KeptBlocks()
    start_ns, files_s = time.monotonic_ns(), 0.0
    first = most = _own_bytes(pid)
    stacks, why, ends = SampledStacks(pid, pool), "", False
    calls: AllocationProbes | None = None
    ended = asyncio.ensure_future(over.wait())
    try:
        calls = await asyncio.to_thread(AllocationProbes, pid)
        while not ends and not why:
            ends = over.is_set()
            most = max(most, _own_bytes(pid))
            if (now_s := time.monotonic()) >= files_s:  # soon again at first: it may have no C library yet
                files_s = now_s + min(_FILES_S, now_s - start_ns / 1e9)
                await asyncio.to_thread(calls.find)
                why = "it allocates too often to be followed" if calls.too_many() else ""
            await _follow_calls(calls, kept, stacks, start_ns)
            if not ends:
                await asyncio.wait([ended], timeout=_KEPT_LOOK_S)
        why = why or ("" if calls.armed else "no malloc of glibc was seen")
    except OSError as error:
        why = f"probes on malloc and free are not allowed here ({error.strerror})"
    except LivedbgError as error:
        why = error.message.rstrip(".")
    finally:
        if calls is not None:
            await asyncio.to_thread(calls.close)
    await ended
    one = ProfileSlice(
        thread=ids.thread(context.request.host, pid, pid),
        start_mono_ns=start_ns,
        end_mono_ns=time.monotonic_ns(),
        stacks=tuple(SampledStack(frames, size, count, whole) for (frames, whole), (size, count) in kept.peak.items()),
        kept=Kept(growth_bytes=max(0, most - first), unknown=why),
    )
    context.emit(SamplesSeen(slices=(one,), **context.stamp()))


async def _follow_calls(
    calls: AllocationProbes, kept: KeptBlocks[_KeptStack], stacks: SampledStacks, since_ns: int
) -> None:
    """Read the calls since the last time; raise LivedbgError if stacks can't be unwound."""
    bits, before = calls.bits, calls.lost_frees
    read_ns = time.monotonic_ns()  # all frees until then are read; of a block that was taken later, none may be
    blocks, frees = await asyncio.to_thread(calls.read)
    dropped = calls.lost_frees > before
    try:
        unwound = await stacks.unwind([sample for sample, _, _ in blocks], _UNWIND_S) if blocks else []
    except OSError:  # it has ended
        unwound = [None] * len(blocks)
    told: list[tuple[int, int, int, _KeptStack | None]] = [(at_ns, address, 0, None) for address, at_ns in frees]
    for (sample, address, size), found in zip(blocks, unwound, strict=True):
        frames = (found.frames, found.whole) if found is not None else ((), False)
        told.append((sample.mono_ns, address, size, frames))
    noted_ns = 0
    for at_ns, address, size, stack in sorted(told, key=lambda one: one[0]):
        if not dropped and noted_ns + _PEAK_NS < at_ns <= read_ns:  # within a batch, too: the first one takes long
            noted_ns = at_ns
            kept.note_peak(_old_since(at_ns, since_ns))
        if stack is None:
            kept.gave(address, at_ns)
        else:
            kept.took(address, size, at_ns, stack, weight_of(size, bits))
    if dropped:
        kept.forget()
    kept.note_peak(_old_since(read_ns, since_ns))
    await asyncio.to_thread(calls.adapt, kept, [size for _, _, size in blocks])


def _old_since(now_ns: int, since_ns: int) -> int:
    """Return the time before which a block was taken that is kept now."""
    return now_ns - min(_YOUNG_NS, int(_YOUNG_SHARE * (now_ns - since_ns)))


def _own_bytes(pid: int) -> int:
    """Return the resident memory of a process that is no file's; 0 if it is gone."""
    try:
        words = procfs.read_file(f"/proc/{pid}/statm").split()
    except OSError:
        return 0
    return (int(words[1]) - int(words[2])) * mmap.PAGESIZE


async def profile_python(context: Context, *, seconds: float, pace: Pace, loops: LoopReadings | None = None) -> bool:
    """Profile the Python functions of the targets' threads where the kernel takes no samples.

    Args:
        seconds: less if all targets end.
        loops: readings of each thread's loops so far; None if nobody asks for them.

    Returns:
        False if there is no readable interpreter; nothing is emitted then.
    """
    tally = Tally()
    going: dict[str, LoopProgress] = {}
    loop = asyncio.get_running_loop()

    def take(samples: list[PythonSample]) -> None:
        for one in samples:
            if one.progress is not None:
                going[one.thread] = one.progress
            frames = one.python.frames if one.python is not None else ()
            tally.add(one.thread, one.mono_ns, one.cpu_ns, frames)

    def threads() -> Followed:
        return _threads(context, pace, lambda _thread: True)

    def flush() -> None:
        if slices := tally.take():
            context.emit(SamplesSeen(slices=slices, **context.stamp()))
        context.emit(*(counted(thread, progress, context.stamp()) for thread, progress in going.items()))
        going.clear()

    first = threads()
    profile = PythonProfile(first.threads, lambda samples: loop.call_soon_threadsafe(take, samples), loops)
    work = asyncio.ensure_future(asyncio.to_thread(profile.run, seconds, first.period_ns / 1e9))
    try:
        while not work.done():
            await asyncio.wait([work], timeout=_EMIT_S)
            profile.threads = threads().threads
            flush()
            if targets_ended(context):
                break
    finally:
        profile.stop()
        await asyncio.wait([work])
    await asyncio.sleep(0)  # what it gave last
    flush()
    return work.result()


def counted(thread: str, progress: LoopProgress, stamp: Stamp) -> CounterSeen:
    """Return what a loop of a thread has done, as an event."""
    loop, total = progress.loop, progress.loop.total
    file = loop.code.file.rpartition("/")[2]
    within = file if loop.code.name == "<module>" else f"{loop.code.name} ({file})"
    name = f"steps or more in loops of {within}" if progress.steps else f"iterations of a loop in {within}"
    whole = None if total is None else float(total)
    return CounterSeen(entity=thread, name=name, value=float(loop.position), total=whole, per_s=progress.per_s, **stamp)


class _Profile:
    """Samples waiting to be unwound, and the counts of unwound ones."""

    def __init__(self, context: Context, pool: UnwinderPool, account: SampleAccount) -> None:
        self._context = context
        self._pool = pool
        self._account = account
        self._tally = Tally()
        self._waiting: list[Taken] = []
        self._stacks: dict[int, SampledStacks] = {}
        self._work: asyncio.Task[None] | None = None
        self._flushed_s = 0.0
        self._unwind_s = 0.0
        self._pool_s = self._own_s = 0.0
        self.samples = 0

    @property
    def cpu_s(self) -> float:
        return self._pool_s + self._own_s + sum(stacks.cpu_s for stacks in self._stacks.values())

    @property
    def failed(self) -> bool:
        """True if unwinding has failed; `finish` raises the error."""
        work = self._work
        return work is not None and work.done() and not work.cancelled() and work.exception() is not None

    def take(self, batch: Batch) -> None:
        """Queue samples to be unwound in the background."""
        for thread, count in batch.lost.items():
            self._tally.lose(thread, count)
        self.samples += len(batch.taken)
        for one in batch.taken:
            self._account.add(ids.process_of(one.thread) or "", one.thread)
            if len(self._waiting) < _WAITING:
                self._waiting.append(one)
            else:  # R1
                self._tally.add(one.thread, one.sample.mono_ns, one.period_ns, ())
        self.unwind()

    def unwind(self) -> None:
        """Start unwinding queued samples if it is due: many together cost little more than one."""
        due = time.monotonic() >= self._unwind_s or len(self._waiting) >= _TOGETHER
        if self._waiting and due and (self._work is None or (self._work.done() and self._work.exception() is None)):
            self._work = asyncio.ensure_future(self._unwind())

    async def finish(self) -> None:
        """Unwind the rest; raise LivedbgError on failure."""
        if self._work is not None:
            await self._work
        await self._unwind()
        self.flush(now=True)

    def flush(self, *, now: bool = False) -> None:
        """Put the counts on the stream, if due or `now`."""
        if now or time.monotonic() >= self._flushed_s + _EMIT_S:
            self._flushed_s = time.monotonic()
            if slices := self._tally.take():
                self._context.emit(SamplesSeen(slices=slices, **self._context.stamp()))
            self._account.report(self._context)

    def cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _unwind(self) -> None:
        waiting, self._waiting = self._waiting, []
        spent_s = self.cpu_s
        by_process: dict[int, list[Taken]] = {}
        for one in waiting:
            by_process.setdefault(one.sample.pid, []).append(one)
        for pid, some in by_process.items():
            known = self._stacks.get(pid) or self._stacks.setdefault(pid, SampledStacks(pid, self._pool))
            before_s = self._pool.cpu_s(pid)
            try:
                unwound = await known.unwind([one.sample for one in some], _UNWIND_S)
            except OSError:  # it has ended
                unwound = [None] * len(some)
            self._pool_s += max(0.0, self._pool.cpu_s(pid) - before_s)
            own_s = time.thread_time()
            for one, native in zip(some, unwound, strict=True):
                frames = with_python(native, one.python)
                whole = native is not None and native.whole
                self._tally.add(one.thread, one.sample.mono_ns, one.period_ns, frames, whole)
            self._own_s += time.thread_time() - own_s
        self._unwind_s = time.monotonic() + min(_REST_MOST_S, _REST * (self.cpu_s - spent_s))
        self.flush()


def _threads(context: Context, pace: Pace, wanted: Callable[[str], bool]) -> Followed:
    """Return the targets' threads, sorted by CPU time, most first, and the sampling period."""
    snapshot, host = context.snapshot(), context.request.host
    pids = {process.pid: process.id for process in snapshot.processes.values() if process.target and not process.exited}
    pids |= {target.pid: ids.process(host, target.pid) for target in context.request.processes}
    found: list[tuple[float, int, str, int]] = []
    for pid in pids:
        with contextlib.suppress(OSError):
            for tid in procfs.thread_ids(pid):
                thread = ids.thread(host, pid, tid)
                if wanted(thread):
                    found.append((-share_of(thread, snapshot), tid, thread, pid))
    cores = -sum(one[0] for one in found)
    return Followed({tid: (pid, thread) for _, tid, thread, pid in sorted(found)}, pace.period_ns(cores))
