"""The calls of a model as tasks, and its buffers as dependencies: of the inference in which a thread is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import field

from livedbg.adapters.pytorch.aoti.generated import Call
from livedbg.adapters.pytorch.aoti.sources import Model
from livedbg.model import Edge, EdgeKind, EdgeState, Process, Task, TaskState, Thread, ids
from livedbg.model.facts import Facts

_SYSTEM = "aotinductor"
PREFIX = f"task:{_SYSTEM}/"
"""How the identifiers of these tasks begin."""


class ModelCallFacts(Facts, frozen=True, kw_only=True, tag="pytorch.aoti"):
    """Of a call of a model.

    Attributes:
        call: `2 of 9`.
        generated: its line in the generated code.
        model: the line of the model that it was made of; "" where that is not known.
        operators, reads, writes: of it.
        waiting: the calls that wait for its buffers while it runs.
    """

    call: str = ""
    generated: str = ""
    model: str = ""
    operators: str = ""
    reads: str = ""
    writes: str = ""
    waiting: str = field(default="", name="waits for its buffers")


def call_tasks(model: Model, current: Call, process: Process, thread: Thread, since_ns: int | None) -> Iterator[Task]:
    """The tasks of a model: those before the current call have completed, those behind it have not begun."""
    waiting = _behind(model, current)
    for call in model.code.calls:
        running = call is current
        facts = ModelCallFacts(
            call=f"{call.index + 1} of {len(model.code.calls)}",
            generated=f"{Path(model.code.path).name}:{call.line}",
            model=model.model_line(call),
            operators=call.aten,
            reads=" ".join(call.reads),
            writes=" ".join(call.writes),
            waiting=", ".join(one.shown for one in waiting) if running else "",
        )
        yield Task(
            id=_id(call, process, thread),
            system="pytorch",
            name=f"call {call.index + 1}",
            kernel=call.shown,
            state=(
                TaskState.RUNNING
                if running
                else TaskState.COMPLETED
                if call.index < current.index
                else TaskState.SUBMITTED
            ),
            since_mono_ns=since_ns if running else None,
            where=(thread.id,),
            owner=f"process {process.pid}",
            facts=facts,
        )


def call_edges(model: Model, current: Call, process: Process, thread: Thread) -> Iterator[Edge]:
    """A call depends on those that made what it reads."""
    for call in model.code.calls:
        makers: dict[int, list[str]] = {}
        for buffer, maker in call.makers:
            makers.setdefault(maker, []).append(buffer)
        for maker, buffers in makers.items():
            yield Edge(
                kind=EdgeKind.DEPENDS_ON,
                source=_id(call, process, thread),
                target=_id(model.code.calls[maker], process, thread),
                state=EdgeState.SATISFIED if maker < current.index else EdgeState.PENDING,
                evidence=f"{' '.join(buffers)} in {Path(model.code.path).name}:{call.line}",
            )


def _behind(model: Model, current: Call) -> list[Call]:
    """The calls that read what the current one makes, and those that read what these make."""
    found: dict[int, Call] = {current.index: current}
    for call in model.code.calls[current.index + 1 :]:
        if any(maker in found for _, maker in call.makers):
            found[call.index] = call
    return [call for index, call in found.items() if index != current.index]


def _id(call: Call, process: Process, thread: Thread) -> str:
    return ids.task(_SYSTEM, f"{process.pid}.{thread.tid}", str(call.index + 1))
