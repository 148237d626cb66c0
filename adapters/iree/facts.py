"""Facts of IREE's dispatches, operations and semaphores."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from livedbg.model import Diagnostic, Resource, Task, TaskState
from livedbg.model.facts import Facts, facts_from, facts_of, read_facts

MADE_NAN: Final = "made-nan"
"""Code of the diagnostic of the first dispatch that made NaN."""
WORKGROUPS: Final = "workgroups"
"""Name of the counter of workgroups that are begun, of an operation."""


class DispatchFacts(Facts, frozen=True, kw_only=True, tag="iree.dispatch"):
    """Facts of a task, or of a diagnostic about one.

    Attributes:
        dispatch: name of a queued or running dispatch.
        source, lines: its place in the program, and where its threads are.
        device, backend: device it runs on, and compilation target.
        operation: its queue operation; for an operation, its kind.
        one_of: for an operation, its dispatches if the running one isn't known.
        workgroups, begun: number of all, and of begun ones.
        after: the dispatch that ran before it.
        by: `stacks`, if only these show it.
        loops: samples in which its workers had the same registers.
        traced: its name in a trace of tensors.
        inputs, outputs: its tensors in the trace.
    """

    dispatch: str = ""
    source: str = ""
    lines: str = ""
    device: str = ""
    backend: str = ""
    operation: str = ""
    one_of: str = msgspec.field(default="", name="one of")
    workgroups: int | None = None
    begun: int | None = None
    after: str = ""
    by: str = ""
    loops: int = 0
    traced: str = ""
    inputs: str = ""
    outputs: str = ""


class SemaphoreFacts(Facts, frozen=True, kw_only=True, tag="iree.semaphore"):
    """Facts of an awaited value of a semaphore.

    Attributes:
        value, wanted: the current and the awaited value.
        process: its process.
        missing: no queued operation signals it.
        later: the next value that a queued operation signals, and that depends on it.
        until: when an outsider could signal it.
        outsiders: threads that could, at most three.
    """

    value: int = 0
    wanted: int | None = None
    process: str = ""
    missing: bool = False
    later: int | None = None
    until: str = ""
    outsiders: tuple[str, ...] = ()


def iree_task(name: str, kernel: str | None, state: TaskState, **more: Any) -> Task:
    """Return a task by its id; `more` are other fields."""
    return Task(id=name, system="iree", name=name.rpartition("/")[2], kernel=kernel, state=state, **more)


def dispatch_facts(one: Task | Diagnostic) -> DispatchFacts:
    return read_facts(one, DispatchFacts)


def semaphore_facts(resource: Resource) -> SemaphoreFacts:
    """Return the facts of a semaphore; old recordings have them as texts."""
    if resource.facts is not None:
        return facts_of(resource.facts, SemaphoreFacts)
    texts = resource.attributes
    return (
        facts_from({**texts, "missing": "missing" in texts}, SemaphoreFacts)
        if resource.kind == "sem"
        else SemaphoreFacts()
    )
