"""Rules for GPU counters: idle while the host waits, permanently busy, lost, failing, throttled.

Utilisation alone is no progress: it is the share of time in which some kernel ran, so one that spins reads 100 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from livedbg.adapters.cuda.facts import GpuFacts
from livedbg.adapters.cuda.rules.sentences import launched_last, unless_alive
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import call_at
from livedbg.analysis.rules.words import duration, name_of, thread_evidence, waited_ns
from livedbg.model import EdgeKind, Evidence, Resource, Severity, Thread, ids
from livedbg.model.facts import facts_of
from livedbg.model.snapshot import Counter, CounterKey, Snapshot

_BUSY_PERCENT: Final = 99.0
_WAITS: Final = frozenset(
    {
        *("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cudaFree"),
        *("cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuMemcpyDtoH_v2", "cuMemcpyDtoH"),
        *("cudaThreadSynchronize", "hipDeviceSynchronize", "hipStreamSynchronize"),
    }
)
"""Functions of the runtime and the driver that return when the GPU has done its work."""
_PYTHON_WAITS: Final = frozenset({"synchronize", "wait", "_local_scalar_dense"})
_TORCH: Final = ("torch/cuda/", "torch/accelerator/")


class _Use(Struct, frozen=True):
    """A GPU that a process uses, and its thread that waits for it.

    Attributes:
        function: the waiting call.
        waited_ns: None if not known.
        busy: the share of time in which kernels ran, and since when.
        of_process: `busy` is of the process's own kernels.
    """

    gpu: Resource
    thread: Thread
    function: str
    waited_ns: int | None
    busy: Counter
    of_process: bool


def _uses(snapshot: Snapshot) -> Iterator[_Use]:
    gpus = {resource.id: resource for resource in snapshot.resources.values() if resource.kind == "gpu"}
    if not gpus:
        return
    for edge in snapshot.edges.values():
        if edge.kind is not EdgeKind.RUNS_ON or edge.target not in gpus:
            continue
        gpu = gpus[edge.target]
        number = ids.parse(gpu.id).short
        own = snapshot.counters.get(CounterKey(edge.source, f"gpu{number}_busy_percent"))
        busy = own or snapshot.counters.get(CounterKey(gpu.id, "utilisation_percent"))
        if busy is None:
            continue
        for thread in snapshot.threads_of(edge.source):
            function = waits_for_gpu_in(thread, snapshot)
            if function:
                yield _Use(gpu, thread, function, waited_ns(thread, snapshot), busy, own is not None)
                break


def waits_for_gpu_in(thread: Thread, snapshot: Snapshot) -> str:
    """Return the function in which a thread waits for a GPU, from its stack; "" if it doesn't.

    A stack from before the current wait shows another one, and is ignored.
    """
    stack, activity = snapshot.stacks.get(thread.id), snapshot.activity.get(thread.id)
    if stack is None or (activity is not None and stack.taken_mono_ns < (activity.waiting_since_mono_ns or 0)):
        return ""
    for frame in stack.frames:
        name = frame.function.partition("(")[0].strip()
        if name in _WAITS:
            return name
        path = frame.file or ""
        if frame.language == "python" and name in _PYTHON_WAITS and any(part in path for part in _TORCH):
            return f"torch {name}"
    return ""


class GpuWaits:
    """The host waits for a GPU that is idle, or permanently busy."""

    name = "gpu-waits"
    doc = (
        "A thread waits for a GPU (cudaStreamSynchronize and the like, from its stack) for longer than the "
        "threshold (10 s). If NVML reports that no kernel has run in all that time, nothing that the thread waits "
        "for is on the GPU: a stall. If NVML reports that kernels ran all the time, one kernel runs that long, or "
        "many do. The kernel then spins if the GPU's memory was not accessed meanwhile (a stall); otherwise it may "
        "be slow (unknown). Always inferred. A thread that waits by spinning shows no stack without a glance, so "
        "it is not seen."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each process and GPU."""
        for use in _uses(state.snapshot):
            since = use.busy.changed_mono_ns
            lasted = state.snapshot.now(ids.parse(use.gpu.id).parts[0]).mono_ns - since
            lasted = min(lasted, use.waited_ns) if use.waited_ns is not None else lasted
            if lasted < state.settings.task_stall_ns:
                continue
            if use.busy.value == 0:
                yield self._idle(use, lasted, state)
            elif use.busy.value >= _BUSY_PERCENT:
                yield self._busy(use, lasted, state)

    def _idle(self, use: _Use, lasted: int, state: RuleInput) -> Finding:
        who = name_of(use.thread.id, state.snapshot)
        where = call_at(use.function, use.thread.id, state)
        does = (
            f"has run no kernel of {name_of(use.thread.process, state.snapshot)}" if use.of_process else "has been idle"
        )
        sentence = (
            f"{use.gpu.name} {does} for {duration(lasted)} while {who} waits for it in {where}: what it waits "
            "for is not running there."
        )
        steps = (
            "look for what holds the stream up: an event that nobody records (cudaStreamWaitEvent), a host "
            "function (cudaLaunchHostFunc), or a peer that has not joined a collective",
            f"livedbg stacks {ids.parse(use.thread.process).short} --native",
        )
        return self._finding(use, lasted, state, VerdictState.STALLED, (sentence, steps))

    def _busy(self, use: _Use, lasted: int, state: RuleInput) -> Finding:
        snapshot = state.snapshot
        memory = snapshot.counters.get(CounterKey(use.gpu.id, "memory_utilisation_percent"))
        quiet = memory is not None and memory.value == 0 and self._since(memory, snapshot, use) >= lasted
        what = (
            "and its memory was not touched meanwhile: a kernel spins there"
            if quiet
            else "a kernel runs that long, or many do: whether it spins or is slow, utilisation does not say"
        )
        who = name_of(use.thread.id, snapshot)
        where = call_at(use.function, use.thread.id, state)
        busy = f"busy with {name_of(use.thread.process, snapshot)}" if use.of_process else "busy"
        sentence = f"{use.gpu.name} has been {busy} for {duration(lasted)} while {who} waits for it in {where}, {what}."
        steps = (
            f"livedbg device {ids.parse(use.thread.process).short} --dump   (which kernel, and where its warps are)",
            "livedbg launch --recipe cuda-user-coredump -- COMMAND   (what that needs, for the next time)",
        )
        verdict = VerdictState.STALLED if quiet else VerdictState.UNKNOWN
        return self._finding(use, lasted, state, verdict, (sentence, steps))

    @staticmethod
    def _since(counter: Counter, snapshot: Snapshot, use: _Use) -> int:
        return snapshot.now(ids.parse(use.gpu.id).parts[0]).mono_ns - counter.changed_mono_ns

    def _finding(
        self, use: _Use, lasted: int, state: RuleInput, verdict: VerdictState, words: tuple[str, tuple[str, ...]]
    ) -> Finding:
        sentence, steps = words
        snapshot = state.snapshot
        kernels, launches = launched_last(use.thread.process, snapshot)
        if kernels:
            sentence += f" Launched last (newest first): {kernels}."
        whose = "its kernels" if use.of_process else "kernels of all processes"
        now = snapshot.now().wall_ns
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if verdict is VerdictState.STALLED else Severity.WARNING,
            sentence=sentence,
            entities=(use.thread.id, use.gpu.id),
            evidence=(
                Evidence(
                    kind="counter",
                    source=f"NVML, {use.gpu.name}",
                    text=f"{use.busy.value:g} % of the time with {whose}, unchanged for {duration(lasted)} at least",
                    at_wall_ns=now or None,
                ),
                thread_evidence(use.thread, state),
                Evidence(kind="stack", source=f"stack of {name_of(use.thread.id, snapshot)}", text=use.function),
                *launches,
            ),
            next=steps,
            inferred=True,
            since_wall_ns=now - lasted,
            state=verdict,
            roots=(use.gpu.id,),
        )


class GpuTrouble:
    """A GPU that is lost, whose memory fails, or that is throttled."""

    name = "gpu-trouble"
    doc = (
        "NVML says that a GPU is lost or must be reset, that it has uncorrected memory errors or rows that wait for a "
        "reset or could not be remapped, or that heat or the power supply hold its clocks down. A lost GPU is a crash "
        "if no process that uses it lives, else `unknown`; the others decide nothing, and a power cap alone is usual "
        "and not reported."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each GPU and trouble."""
        for resource in state.snapshot.resources.values():
            if resource.kind == "gpu":
                yield from self._of(resource, state)

    def _of(self, gpu: Resource, state: RuleInput) -> Iterator[Finding]:
        snapshot = state.snapshot
        users = tuple(
            edge.source
            for edge in snapshot.edges.values()
            if edge.kind is EdgeKind.RUNS_ON and edge.target == gpu.id and edge.source in snapshot.processes
        )
        facts = facts_of(gpu.facts, GpuFacts)
        lost = facts.lost
        if lost:
            found = Finding(
                rule=self.name,
                severity=Severity.CRITICAL,
                sentence=f"{gpu.name} does not answer any more: {lost}.",
                entities=(gpu.id, *users),
                evidence=(Evidence(kind="counter", source=f"NVML, {gpu.name}", text=lost),),
                next=("dmesg | grep 'NVRM: Xid'", "reset the GPU (nvidia-smi --gpu-reset) or reboot the node"),
                state=VerdictState.CRASHED if "NVML says" not in lost else None,
            )
            yield unless_alive(found, snapshot, decides=bool(users))
        for counter, words, step in _ERRORS:
            seen = snapshot.counters.get(CounterKey(gpu.id, counter))
            if seen is not None and seen.value > 0:
                rose = f", {seen.changes} times more while it was watched" if seen.changes else ""
                yield self._warning(
                    gpu, users, f"{gpu.name} has {words.format(f'{seen.value:g}')}{rose}.", step, counter
                )
        held = [word for word in facts.held_down if word != "power cap"]
        if held:
            said = f"The clocks of {gpu.name} are held down: {', '.join(held)}."
            yield self._warning(gpu, users, said, "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER", "held_down")

    def _warning(self, gpu: Resource, users: tuple[str, ...], sentence: str, step: str, what: str) -> Finding:
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=sentence,
            entities=(gpu.id, *users),
            evidence=(Evidence(kind="counter", source=f"NVML, {gpu.name}", text=what),),
            next=(step,),
        )


_MEMORY_STEP: Final = "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT"
_ERRORS: Final = (
    ("uncorrected_ecc_errors", "{} uncorrected memory errors since the driver was loaded", _MEMORY_STEP),
    ("retired_pages_pending", "memory pages that wait for a reset to be taken out of use", _MEMORY_STEP),
    ("remapping_pending", "memory rows that wait for a reset to be remapped", _MEMORY_STEP),
    ("remapping_failed", "memory rows that could not be remapped", _MEMORY_STEP),
)


def rules() -> Sequence[Rule]:
    """Return the rules of this module."""
    return (GpuWaits(), GpuTrouble())
