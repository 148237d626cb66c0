"""Shows the kernels of an AOTInductor model as tasks while a thread runs one, and which kernels wait for its buffers.

Invariants:
    aoti_adapter.P1. No target is stopped or changed: stacks taken by other adapters, and the generated code next to the
        model's library are read.
    aoti_adapter.P2. In a continuous session, a call is a task only if the thread was in it in two consecutive stacks,
        or has been in one wait for a second: a model that runs through its calls emits nothing. A session that samples
        once shows where a thread is now.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.adapters.pytorch.aoti.sources import Model, in_folder
from livedbg.adapters.pytorch.aoti.tasks import CALLS, call_edges, call_tasks, in_generated
from livedbg.linux.maps import parse_maps
from livedbg.model import Edge, Frame, Process, Stack, Task
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Context, Request, processes_seen, until
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher

_PATIENCE_S: Final = 5.0
_STACKS_S: Final = 20.0  # a busy machine
_LOOK_S: Final = 1.0
_LIBRARY: Final = ".wrapper.so"


class _Seen(NamedTuple):
    """A thread's newest stack in generated code, and the time of the first consecutive one in the same call."""

    stack: Stack
    frame: Frame | None
    since_mono_ns: int


class ModelsAdapter(PolledAdapter):
    """AOTInductor models of the processes of a session."""

    name = "aoti"
    title = "AOTInductor models"
    sees = "which kernel of an AOTInductor model a thread is in, and which kernels wait for its buffers"
    cost = "no stop; looks at new stacks once a second, and reads the generated code of a model once"

    def __init__(self) -> None:
        super().__init__()
        self._models: dict[tuple[str, int | None, str], Model | None] = {}
        self._seen: dict[str, _Seen] = {}
        self._stacks_seen: object = None
        self._shown = Publisher("pytorch/aoti")

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes) and request.stacks == "native"

    async def begin(self, context: Context) -> bool:
        """In a session that samples once, wait for the stacks of threads that call a model, if there is one."""
        if not context.request.once:
            return True
        await processes_seen(context)
        living = [process for process in context.snapshot().processes.values() if process.target and not process.exited]
        found = await asyncio.to_thread(lambda: any(map(_libraries, living)))
        if found:
            await self._stacks(context)
        return found

    async def _stacks(self, context: Context) -> None:
        """Wait for native stacks of the threads that call a model."""
        begun = time.monotonic()

        def seen(snapshot: Snapshot) -> bool:
            stacks = [snapshot.stacks.get(thread.id) for thread in snapshot.threads.values() if not thread.exited]
            late = time.monotonic() - begun > (_PATIENCE_S if None not in stacks else _STACKS_S)
            return late or not (None in stacks or any(map(_needs_native, stacks)))

        await until(context, seen)

    async def look(self, context: Context) -> float:
        snapshot = context.snapshot()
        if snapshot.stacks is self._stacks_seen and not any(seen.frame for seen in self._seen.values()):
            return _LOOK_S
        self._stacks_seen = snapshot.stacks
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
            if seen.frame is None or process is None or (since_ns is None and not context.request.once):
                continue
            model = await self._model(process, seen.frame)
            call = model.code.at_line(seen.frame.line or 0) if model is not None else None
            if model is not None and call is not None:
                tasks |= {task.id: task for task in call_tasks(model, call, process, thread, since_ns)}
                edges += call_edges(model, call, process, thread)
        context.emit(*self._shown.show(context.stamp(), tasks=tasks.values(), edges=edges))
        return _LOOK_S

    @staticmethod
    def _followed(before: _Seen | None, stack: Stack) -> _Seen:
        """Return a stack with the time since when the thread is in the same call."""
        if before is not None and before.stack is stack:
            return before
        found = in_generated(stack.frames)
        frame = found[1] if found is not None else None
        if frame is None or before is None or before.frame is None or _place(before.frame) != _place(frame):
            return _Seen(stack, frame, stack.taken_mono_ns)
        return _Seen(stack, frame, before.since_mono_ns)

    async def _model(self, process: Process, frame: Frame) -> Model | None:
        name = Path(frame.file or "").name
        key = (process.id, process.start_ticks, name)
        if key not in self._models:
            self._models[key] = await asyncio.to_thread(_read, process, frame.file or name)
        return self._models[key]


def _place(frame: Frame) -> tuple[str | None, int | None]:
    return frame.file, frame.line


def _since_ns(seen: _Seen, snapshot: Snapshot) -> int | None:
    """Return since when a thread is known to be in one call; None if that was seen once."""
    activity = snapshot.activity.get(seen.stack.thread)
    waits_ns = activity.waiting_since_mono_ns if activity is not None else None
    known = [seen.since_mono_ns] if seen.since_mono_ns < seen.stack.taken_mono_ns else []
    if waits_ns is not None and snapshot.now().mono_ns - waits_ns > _LOOK_S * 1e9:
        known.append(waits_ns)
    return min(known, default=None)


def _needs_native(stack: Stack | None) -> bool:
    if stack is None or stack.layer != "python":
        return False
    return any((frame.file or "").endswith(CALLS) for frame in stack.frames)


def _libraries(process: Process) -> set[str]:
    try:
        return {mapping.path for mapping in parse_maps(process.pid) if mapping.path.endswith(_LIBRARY)}
    except OSError:
        return set()


def _read(process: Process, file: str) -> Model | None:
    """Read the generated code next to the library, where the package was unpacked, or where it was compiled."""
    name = Path(file).name
    beside = [str(Path(path).with_name(name)) for path in sorted(_libraries(process))]
    found = (in_folder(Path(f"/proc/{process.pid}/root{path}")) for path in (*beside, file) if path.startswith("/"))
    return next((model for model in found if model is not None), None)
