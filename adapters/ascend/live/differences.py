"""Where a job's log and the scheduler's memory contradict each other about the same task.

Three things of the log are compared with memory: what the watchdog's dump lists as open, which kernel a task was
dispatched with, and that it was dispatched at all, to which core.

Invariants:
    differences.D1. Said is what was so at two samples in a row, with no line of the log between: a log that lags
        behind, and a task that goes on while it is looked at, contradict nothing.
    differences.D2. Of a task with several parts (kernels, blocks) the core is not compared: each part has its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from livedbg.adapters.ascend.live.state import LiveTask, Sample
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.run import Run
from livedbg.adapters.ascend.stalls import Stall
from livedbg.adapters.ascend.tasks import Dispatched
from livedbg.model import TaskState

__all__ = ["Differences"]


class Differences:
    """The contradictions of one job.

    Attributes:
        said: by task, in words.
    """

    def __init__(self) -> None:
        self.said: dict[int, str] = {}
        self._suspected: dict[int, str] = {}

    def clear(self) -> None:
        """Another run, or none."""
        self.said.clear()
        self._suspected.clear()

    def compare(self, sample: Sample, run: Run, stall: Stall | None, *, spoke: bool) -> bool:
        """Compare a sample with what the log says; whether there is something new to say, or to take back.

        Args:
            sample: the newest.
            run: as the log tells of it.
            stall: the watchdog's dump, where there is one that counts.
            spoke: the log has had a line since the last sample.
        """
        if spoke:
            self._suspected.clear()
        found = dict(_dispatches(sample, run))
        for raw in stall.running | stall.ready if stall is not None else ():
            task = sample.tasks.get(raw)
            if task is None or not task.open:
                found[raw] = f"the watchdog's dump lists task {task_name(raw)} as open, and it has completed"
        before, self.said = self.said, {raw: t for raw, t in found.items() if self._suspected.get(raw) == t}
        self._suspected = found
        return self.said != before


def _dispatches(sample: Sample, run: Run) -> Iterator[tuple[int, str]]:
    for raw, dispatched in list(run.dispatched.items()):
        task = sample.tasks.get(raw)
        if task is None or not task.open:
            del run.dispatched[raw]  # it is over: only what is open can contradict
            continue
        text = _contradiction(task, dispatched)
        if text:
            yield raw, f"{text} ({dispatched.mark.source}): lines are of another run, or lost"


def _contradiction(task: LiveTask, dispatched: Dispatched) -> str:
    name = task_name(task.raw)
    if dispatched.kernels and task.kernels and dispatched.kernels != task.kernels:
        return f"task {name} runs {_funcs(task.kernels)}, and the log dispatched it with {_funcs(dispatched.kernels)}"
    place = f"to core {dispatched.core}" if dispatched.core is not None else "to a core"
    if task.state is TaskState.SUBMITTED and task.missing and not task.cores and not task.staged:
        left = "dependency" if task.missing == 1 else "dependencies"
        return f"task {name} still waits for {task.missing} {left}, and the log gave it {place}"
    cores = [core for core, _ in task.cores]
    single = task.blocks == 1 and sum(1 for func in task.kernels if func >= 0) == 1
    if single and len(cores) == 1 and dispatched.core not in (None, *cores):
        return f"task {name} is on core {cores[0]}, and the log gave it {place}"
    return ""


def _funcs(kernels: tuple[int, ...]) -> str:
    return "func " + ", ".join(str(func) for func in kernels if func >= 0)
