"""Rules for GPU counters: idle while the host waits, permanently busy, lost, failing, throttled.

Utilisation alone is no progress: it is the share of time in which some kernel ran, so one that spins reads 100 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from livedbg.adapters.cuda.facts import GpuFacts
from livedbg.adapters.cuda.rules.sentences import launched_last, unless_alive
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
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
            now_ns = state.snapshot.now(ids.parse(use.gpu.id).parts[0]).mono_ns
            lasted = now_ns - use.busy.changed_mono_ns
            lasted = min(lasted, use.waited_ns) if use.waited_ns is not None else lasted
            if lasted >= state.settings.task_stall_ns and not 0 < use.busy.value < _BUSY_PERCENT:
                memory = state.snapshot.counters.get(CounterKey(use.gpu.id, "memory_utilisation_percent"))
                quiet = memory is not None and memory.value == 0 and now_ns - memory.changed_mono_ns >= lasted
                yield self._finding(use, lasted, state, quiet)

    def _finding(self, use: _Use, lasted: int, state: RuleInput, quiet: bool) -> Finding:
        """Return the finding; `quiet` if the GPU's memory was not accessed all the time."""
        snapshot = state.snapshot
        who, process = name_of(use.thread.id, snapshot), name_of(use.thread.process, snapshot)
        pid = ids.parse(use.thread.process).short
        if use.busy.value == 0:
            does = f"has run no kernel of {process}" if use.of_process else "has been idle"
            what = ": what it waits for is not running there"
            steps = (
                "look for what holds the stream up: an event that nobody records (cudaStreamWaitEvent), a host "
                "function (cudaLaunchHostFunc), or a peer that has not joined a collective",
                f"livedbg stacks {pid} --native",
            )
        else:
            does = f"has been busy with {process}" if use.of_process else "has been busy"
            slow = ", a kernel runs that long, or many do: whether it spins or is slow, utilisation does not say"
            what = ", and its memory was not touched meanwhile: a kernel spins there" if quiet else slow
            steps = (
                f"livedbg device {pid} --dump   (which kernel, and where its warps are)",
                "livedbg launch --recipe cuda-user-coredump -- COMMAND   (what that needs, for the next time)",
            )
        where = call_at(use.function, use.thread.id, state)
        sentence = f"{use.gpu.name} {does} for {duration(lasted)} while {who} waits for it in {where}{what}."
        stalled = quiet or use.busy.value == 0
        kernels, launches = launched_last(use.thread.process, snapshot)
        if kernels:
            sentence += f" Launched last (newest first): {kernels}."
        whose = "its kernels" if use.of_process else "kernels of all processes"
        now = snapshot.now().wall_ns
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if stalled else Severity.WARNING,
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
                Evidence(kind="stack", source=f"stack of {who}", text=use.function),
                *launches,
            ),
            next=steps,
            inferred=True,
            since_wall_ns=now - lasted,
            state=VerdictState.STALLED if stalled else VerdictState.UNKNOWN,
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
                yield from self._of(resource, state.snapshot)

    def _of(self, gpu: Resource, snapshot: Snapshot) -> Iterator[Finding]:
        users = tuple(
            edge.source
            for edge in snapshot.edges.values()
            if edge.kind is EdgeKind.RUNS_ON and edge.target == gpu.id and edge.source in snapshot.processes
        )

        def found(sentence: str, proof: str, *steps: str, severity: Severity = Severity.WARNING) -> Finding:
            evidence = (Evidence(kind="counter", source=f"NVML, {gpu.name}", text=proof),)
            entities = (gpu.id, *users)
            return Finding(
                rule=self.name, severity=severity, sentence=sentence, entities=entities, evidence=evidence, next=steps
            )

        facts = facts_of(gpu.facts, GpuFacts)
        if facts.lost:
            said, steps = f"{gpu.name} does not answer any more: {facts.lost}.", _LOST_STEPS
            lost = found(said, facts.lost, *steps, severity=Severity.CRITICAL)
            lost = replace(lost, state=None if "NVML says" in facts.lost else VerdictState.CRASHED)
            yield unless_alive(lost, snapshot, decides=bool(users))
        for counter, words in _ERRORS.items():
            seen = snapshot.counters.get(CounterKey(gpu.id, counter))
            if seen is not None and seen.value > 0:
                rose = f", {seen.changes} times more while it was watched" if seen.changes else ""
                yield found(f"{gpu.name} has {words.format(f'{seen.value:g}')}{rose}.", counter, _MEMORY_STEP)
        held = [word for word in facts.held_down if word != "power cap"]
        if held:
            said = f"The clocks of {gpu.name} are held down: {', '.join(held)}."
            yield found(said, "held_down", "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER")


_LOST_STEPS: Final = ("dmesg | grep 'NVRM: Xid'", "reset the GPU (nvidia-smi --gpu-reset) or reboot the node")
_MEMORY_STEP: Final = "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT"
_ERRORS: Final = {
    "uncorrected_ecc_errors": "{} uncorrected memory errors since the driver was loaded",
    "retired_pages_pending": "memory pages that wait for a reset to be taken out of use",
    "remapping_pending": "memory rows that wait for a reset to be remapped",
    "remapping_failed": "memory rows that could not be remapped",
}
