"""What memory shows of a task or of a core, as the text of evidence."""

from __future__ import annotations

from livedbg.adapters.ascend.live.state import LiveTask
from livedbg.adapters.ascend.live.unreturned import Unreturned
from livedbg.adapters.ascend.names import task_name

__all__ = ["task_words", "unreturned_attributes", "unreturned_words"]


def task_words(task: LiveTask) -> str:
    """A task's state as evidence."""
    words = [f"{task_name(task.raw)} {task.state.value.upper()}"]
    if task.fanin is not None and task.missing is not None:
        words.append(f"{task.fanin - task.missing} of {task.fanin} dependencies met")
    words += [f"on core {core} ({subslot})" if subslot else f"on core {core}" for core, subslot in task.cores]
    if task.deferred:
        words.append("its kernel has returned, its completion is deferred")
    words += [condition.text for condition in task.conditions]
    return ", ".join(words)


def unreturned_words(core: Unreturned) -> str:
    """A core whose kernel has not returned, in a sentence."""
    kernel = f"kernel func {core.func}" if core.func is not None else "its kernel"
    task = f" of task {task_name(core.task)}" if core.task is not None else ""
    return f"The scheduler has ended the run, and core {core.core} has not returned from {kernel}{task}."


def unreturned_attributes(core: Unreturned) -> dict[str, str]:
    """The same as fields of a diagnostic."""
    known = {"core": core.core, "tid": core.tid, "func": core.func, "task": core.task}
    return {name: str(value) for name, value in known.items() if value is not None}
