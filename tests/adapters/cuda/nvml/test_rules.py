"""What the rules make of a GPU's counters beside what the host waits for."""

from __future__ import annotations

from typing import Any

from livedbg.adapters.cuda.facts import GpuFacts
from livedbg.analysis.diagnosis import Finding
from livedbg.model import Edge, EdgeKind, Frame, Process, Resource, Stack, Thread, ThreadState
from livedbg.model.events import (
    CounterSeen,
    EdgesReplaced,
    LaunchesSeen,
    ProcessExited,
    ProcessSeen,
    ResourcesSeen,
    StacksSeen,
    Stamp,
    ThreadsSeen,
    Tick,
)
from livedbg.model.launches import Launch, LaunchTrail
from livedbg.session.rulebook import diagnose
from livedbg.state.store import Store

SECOND = 1_000_000_000
PROCESS, THREAD, GPU = "process:box/7", "thread:box/7/7", "gpu:box/0"


class Box:
    """A process whose main thread is in a function, and a GPU that it uses."""

    def __init__(self, function: str, *, python_file: str = "") -> None:
        self.store = Store()
        self.now_ns = 1000 * SECOND
        frame = (
            Frame(function=function, file=python_file, line=3, language="python") if python_file else Frame(function)
        )
        stamp = self.stamp()
        self.store.apply_all(
            [
                ProcessSeen(process=Process(id=PROCESS, host="box", pid=7), **stamp),
                ThreadsSeen(threads=(self.thread(),), **stamp),
                StacksSeen(
                    stacks=(
                        Stack(
                            thread=THREAD, frames=(Frame("ioctl"), frame), taken_mono_ns=self.now_ns, source="no stop"
                        ),
                    ),
                    **stamp,
                ),
                EdgesReplaced(
                    scope="nvml/processes",
                    edges=(Edge(kind=EdgeKind.RUNS_ON, source=PROCESS, target=GPU),),
                    **stamp,
                ),
            ]
        )
        self.resource()

    def thread(self) -> Thread:
        return Thread(
            id=THREAD,
            process=PROCESS,
            tid=7,
            name="main",
            state=ThreadState.WAITING,
            syscall="ioctl",
            cpu_ns=5,
            switches=3,
        )

    def resource(self, **facts: Any) -> None:
        gpu = Resource(id=GPU, kind="gpu", name="GPU 0 (H100)", facts=GpuFacts(**facts))
        self.store.apply(ResourcesSeen(resources=(gpu,), **self.stamp()))

    def stamp(self) -> Stamp:
        return {"host": "box", "mono_ns": self.now_ns, "wall_ns": 10**18 + self.now_ns}

    def counts(self, **values: float) -> None:
        for name, value in values.items():
            self.store.apply(CounterSeen(entity=GPU, name=name, value=value, **self.stamp()))

    def goes_on(self, seconds: float) -> None:
        for _ in range(2):
            self.now_ns += int(seconds * SECOND / 2)
            self.store.apply_all([ThreadsSeen(threads=(self.thread(),), **self.stamp()), Tick(**self.stamp())])

    def findings(self, rule: str) -> list[Finding]:
        return [finding for finding in diagnose(self.store.snapshot()).findings.values() if finding.rule == rule]


def test_a_gpu_that_is_idle_while_the_host_waits_for_it() -> None:
    box = Box("cudaStreamSynchronize")
    box.counts(utilisation_percent=0, memory_utilisation_percent=0)
    box.goes_on(8)
    assert not box.findings("gpu-waits")
    box.goes_on(30)
    (finding,) = box.findings("gpu-waits")
    assert (
        "GPU 0 (H100) has been idle for 38 s while thread 7 (main) waits for it in cudaStreamSynchronize"
        in finding.sentence
    )
    assert finding.state == "stalled" and finding.inferred
    assert finding.entities == (THREAD, GPU)


def test_a_kernel_that_spins_reads_100_percent() -> None:
    box = Box("cuStreamSynchronize")
    box.counts(utilisation_percent=100, memory_utilisation_percent=0)
    box.goes_on(60)
    (finding,) = box.findings("gpu-waits")
    assert "busy for 60 s" in finding.sentence and "spins there" in finding.sentence
    assert finding.state == "stalled"


def test_a_kernel_that_spins_is_named_where_launches_are_listened_to() -> None:
    box = Box("cuStreamSynchronize")
    launch = Launch(
        function="cuLaunchKernel", kernel="wait_for", grid=(1, 1, 1), block=(32, 1, 1), mono_ns=1, wall_ns=2
    )
    trail = LaunchTrail(thread=THREAD, process=PROCESS, count=1, last=(launch,))
    box.store.apply(LaunchesSeen(trails=(trail,), **box.stamp()))
    box.counts(utilisation_percent=100, memory_utilisation_percent=0)
    box.goes_on(60)
    (finding,) = box.findings("gpu-waits")
    assert "Launched last (newest first): wait_for." in finding.sentence
    assert "cuLaunchKernel of thread 7 (main)" in {proof.source for proof in finding.evidence}


def test_a_kernel_that_reads_memory_may_be_slow() -> None:
    box = Box("synchronize", python_file="/venv/lib/site-packages/torch/cuda/__init__.py")
    box.counts(utilisation_percent=100, memory_utilisation_percent=35)
    box.goes_on(60)
    (finding,) = box.findings("gpu-waits")
    assert "waits for it in torch synchronize" in finding.sentence and "utilisation does not say" in finding.sentence
    assert finding.state == "unknown"


def test_a_gpu_that_works_on_and_off_is_no_finding() -> None:
    box = Box("cudaStreamSynchronize")
    for percent in (0, 80, 0, 95, 0):
        box.counts(utilisation_percent=percent)
        box.goes_on(6)
    assert not box.findings("gpu-waits")


def test_a_host_that_does_not_wait_for_the_gpu_is_no_finding() -> None:
    for box in (Box("read"), Box("synchronize", python_file="/job/mine.py")):
        box.counts(utilisation_percent=0)
        box.goes_on(60)
        assert not box.findings("gpu-waits")


def test_a_process_s_own_share_counts_where_several_use_the_gpu() -> None:
    box = Box("cudaStreamSynchronize")
    box.counts(utilisation_percent=100)  # by another process
    box.store.apply(CounterSeen(entity=PROCESS, name="gpu0_busy_percent", value=0, **box.stamp()))
    box.goes_on(60)
    (finding,) = box.findings("gpu-waits")
    assert "GPU 0 (H100) has run no kernel of process 7 for 60 s" in finding.sentence
    assert "its kernels" in finding.evidence[0].text


def test_a_lost_gpu_and_failing_memory() -> None:
    box = Box("read")
    box.resource(lost="the GPU is lost", held_down=("power cap", "heat (hardware)"))
    box.counts(uncorrected_ecc_errors=2, remapping_pending=1, remapping_failed=0)
    told = [(finding.state, finding.sentence) for finding in box.findings("gpu-trouble")]
    lost = "GPU 0 (H100) does not answer any more: the GPU is lost."
    assert told[0] == ("unknown", f"{lost} Process 7 still lives.")  # whether it still needs the GPU is not known
    assert [sentence for _, sentence in told[1:]] == [
        "GPU 0 (H100) has 2 uncorrected memory errors since the driver was loaded.",
        "GPU 0 (H100) has memory rows that wait for a reset to be remapped.",
        "The clocks of GPU 0 (H100) are held down: heat (hardware).",
    ]
    assert all(state is None for state, _ in told[1:])
    box.store.apply(ProcessExited(id=PROCESS, **box.stamp()))
    assert next((one.state, one.sentence) for one in box.findings("gpu-trouble")) == ("crashed", lost)


def test_a_power_cap_alone_is_usual() -> None:
    box = Box("read")
    box.resource(held_down=("power cap",))
    assert not box.findings("gpu-trouble")
