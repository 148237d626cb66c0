"""What is known of IREE's dispatches, operations and semaphores, as typed values."""

from __future__ import annotations

import msgspec

from livedbg.model import Diagnostic, Resource, Task
from livedbg.model.facts import Facts, facts_from, facts_of, read_facts


class DispatchFacts(Facts, frozen=True, kw_only=True, tag="iree.dispatch"):
    """Of a task, or of a diagnostic about one.

    Attributes:
        dispatch: its name, where it is one that is queued or runs.
        source, lines: where it is in the program, and where its threads are.
        device, backend: what it runs on, and was compiled for.
        operation: the queue operation that it is a part of; of that one, its kind.
        one_of: of an operation, its dispatches where it isn't known which of them runs.
        workgroups, begun: how many it has, and how many are begun.
        after: the dispatch that ran before it.
        by: `stacks`, where only these show it.
        loops: samples in which its workers had the same registers.
        traced: its name in a trace of tensors.
        inputs, outputs: what the trace says of its tensors.
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
    """Of a value of a semaphore that is waited for.

    Attributes:
        value, wanted: the value that it has, and that it is to have.
        process: whose it is.
        missing: no queued operation signals it.
        later: the next value that a queued operation signals, and that depends on it.
        until: when somebody outside could signal it.
        outsiders: threads that could, at most three.
    """

    value: int = 0
    wanted: int | None = None
    process: str = ""
    missing: bool = False
    later: int | None = None
    until: str = ""
    outsiders: tuple[str, ...] = ()


def dispatch_facts(one: Task | Diagnostic) -> DispatchFacts:
    """The facts of a task or diagnostic."""
    return read_facts(one, DispatchFacts)


def semaphore_facts(resource: Resource) -> SemaphoreFacts:
    """The facts of a semaphore; in recordings of before they are texts."""
    if resource.facts is not None:
        return facts_of(resource.facts, SemaphoreFacts)
    texts = resource.attributes
    return (
        facts_from({**texts, "missing": "missing" in texts}, SemaphoreFacts)
        if resource.kind == "sem"
        else SemaphoreFacts()
    )
