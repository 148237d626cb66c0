"""Shows the kernels of an AOTInductor model as tasks while a thread is in one: which runs, what waits for its buffers.

Invariants:
    aoti_adapter.P1. No target is stopped or changed: stacks that others took, and the generated code beside the model's
        library are read.
    aoti_adapter.P2. While a session goes on, a call is a task only if the thread was in it in two stacks, one after the
        other, or has been in one wait for a second: a model that runs through its calls puts nothing on the stream.
        A session that samples once says where a thread is now.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import structs

from livedbg.adapters.pytorch.aoti.running import in_generated
from livedbg.adapters.pytorch.aoti.sources import Model, in_folder
from livedbg.adapters.pytorch.aoti.tasks import call_edges, call_tasks
from livedbg.linux.maps import parse_maps
from livedbg.model import Edge, Frame, Process, Stack, Task, TaskState
from livedbg.model.events import EdgesReplaced, Event, TasksSeen
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Adapter, Context, Request, processes_seen, targets_ended

__all__ = ["ModelsAdapter"]

_PATIENCE_S: Final = 5.0
_STACKS_S: Final = 20.0  # a busy machine
_LOOK_S: Final = 1.0
_LIBRARY: Final = ".wrapper.so"
_CALLS: Final = "/pt2_archive/_package.py"
"""The Python function that calls a model: torch/export/pt2_archive/_package.py, AOTICompiledModel."""
_SCOPE: Final = "pytorch/aoti"


class _Seen(NamedTuple):
    """A thread's newest stack.

    Attributes:
        frame: of generated code.
        since_mono_ns: of the first of the stacks, one after the other, that were in the same call.
    """

    stack: Stack
    frame: Frame | None
    since_mono_ns: int


class ModelsAdapter(Adapter):
    """AOTInductor models of the processes of a session."""

    name = "aoti"
    title = "AOTInductor models"
    sees = "which kernel of an AOTInductor model a thread is in, and which kernels wait for its buffers"
    cost = "no stop; looks at new stacks once a second, and reads the generated code of a model once"

    def __init__(self) -> None:
        self._models: dict[tuple[str, int | None, str], Model | None] = {}
        self._seen: dict[str, _Seen] = {}
        self._tasks: dict[str, Task] = {}
        self._edges: tuple[Edge, ...] = ()

    @classmethod
    def applies(cls, request: Request) -> bool:
        """When stacks of processes are taken."""
        return bool(request.processes) and request.stacks == "native"

    async def run(self, context: Context) -> None:
        """Look until the targets have ended."""
        if context.request.once:
            if await self._has_model(context):
                await self._stacks(context)
                await self._look(context)
            context.settled()
            return
        context.settled()
        while not targets_ended(context):
            await context.sleep(_LOOK_S)
            await self._look(context)

    async def _has_model(self, context: Context) -> bool:
        await processes_seen(context)
        living = [process for process in context.snapshot().processes.values() if process.target and not process.exited]
        return await asyncio.to_thread(lambda: any(_libraries(process) for process in living))

    async def _stacks(self, context: Context) -> None:
        """Wait for native stacks of the threads that call a model."""
        begun = time.monotonic()
        while not targets_ended(context):
            snapshot = context.snapshot()
            stacks = [snapshot.stacks.get(thread.id) for thread in snapshot.threads.values() if not thread.exited]
            late = time.monotonic() - begun
            if None not in stacks and (late > _PATIENCE_S or not any(map(_needs_native, stacks))):
                return
            if late > _STACKS_S:
                return
            await context.sleep(0.05)

    async def _look(self, context: Context) -> None:
        snapshot = context.snapshot()
        tasks: dict[str, Task] = {}
        edges: list[Edge] = []
        self._seen = {
            thread.id: self._followed(self._seen.get(thread.id), stack)
            for thread in snapshot.threads.values()
            if not thread.exited and (stack := snapshot.stacks.get(thread.id)) is not None
        }
        for name, seen in self._seen.items():
            thread = snapshot.threads[name]
            process = snapshot.processes.get(thread.process)
            since_ns = _since_ns(seen, snapshot)
            if seen.frame is None or process is None:
                continue
            if since_ns is None and not context.request.once:
                continue
            model = await self._model(process, seen.frame)
            call = model.code.at_line(seen.frame.line or 0) if model is not None else None
            if model is not None and call is not None:
                tasks |= {task.id: task for task in call_tasks(model, call, process, thread, since_ns)}
                edges += call_edges(model, call, process, thread)
        self._put(tasks, tuple(edges), context)

    @staticmethod
    def _followed(before: _Seen | None, stack: Stack) -> _Seen:
        """What a stack says, with when the thread was first seen in the same call."""
        if before is not None and before.stack is stack:
            return before
        found = in_generated(stack)
        frame = found[1] if found is not None else None
        if frame is None or before is None or before.frame is None or _place(before.frame) != _place(frame):
            return _Seen(stack, frame, stack.taken_mono_ns)
        return _Seen(stack, frame, before.since_mono_ns)

    def _put(self, tasks: dict[str, Task], edges: tuple[Edge, ...], context: Context) -> None:
        """What has changed."""
        stamp = context.stamp()
        gone = [
            structs.replace(task, state=TaskState.COMPLETED, since_mono_ns=stamp["mono_ns"])
            for name, task in self._tasks.items()
            if name not in tasks and task.state is not TaskState.COMPLETED
        ]
        changed = [task for name, task in tasks.items() if self._tasks.get(name) != task]
        events: list[Event] = []
        if changed or gone:
            events.append(TasksSeen(tasks=(*changed, *gone), **stamp))
        if edges != self._edges:
            events.append(EdgesReplaced(scope=_SCOPE, edges=edges, **stamp))
        self._tasks, self._edges = tasks, edges
        context.emit(*events)

    async def _model(self, process: Process, frame: Frame) -> Model | None:
        """The model whose generated code a frame is in."""
        name = Path(frame.file or "").name
        key = (process.id, process.start_ticks, name)
        if key not in self._models:
            self._models[key] = await asyncio.to_thread(_read, process, name)
        return self._models[key]


def _place(frame: Frame) -> tuple[str | None, int | None]:
    return frame.file, frame.line


def _since_ns(seen: _Seen, snapshot: Snapshot) -> int | None:
    """Since when a thread is known to be in one call; None where that was seen once."""
    activity = snapshot.activity.get(seen.stack.thread)
    waits_ns = activity.waiting_since_mono_ns if activity is not None else None
    known = [seen.since_mono_ns] if seen.since_mono_ns < seen.stack.taken_mono_ns else []
    if waits_ns is not None and snapshot.now().mono_ns - waits_ns > _LOOK_S * 1e9:
        known.append(waits_ns)
    return min(known, default=None)


def _needs_native(stack: Stack | None) -> bool:
    """Whether a stack has Python frames alone, and calls a model."""
    if stack is None or stack.layer != "python":
        return False
    return any((frame.file or "").endswith(_CALLS) for frame in stack.frames)


def _libraries(process: Process) -> set[str]:
    """The libraries of models that a process has mapped."""
    try:
        return {mapping.path for mapping in parse_maps(process.pid) if mapping.path.endswith(_LIBRARY)}
    except OSError:
        return set()


def _read(process: Process, name: str) -> Model | None:
    """The generated code lies beside the library: the package was unpacked there, or compiled."""
    wanted = name.removesuffix(".cpp") + ".so"
    for path in sorted(_libraries(process)):
        if Path(path).name == wanted:
            return in_folder(Path(f"/proc/{process.pid}/root{path}").with_suffix(".cpp"))
    return None
