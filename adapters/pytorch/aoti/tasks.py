"""The calls of a model as tasks, and its buffers as dependencies, for the inference that a thread runs.

The current call follows from the native stack. Models are compiled with line tables
(`AOT_INDUCTOR_ENABLE_LINE_TABLES`, on by default): the frame of `run_impl` has the generated file and the call's line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import field

from livedbg.adapters.pytorch.aoti.generated import Call
from livedbg.adapters.pytorch.aoti.sources import Model
from livedbg.model import Edge, EdgeKind, EdgeState, Frame, Process, Task, TaskState, Thread, ids
from livedbg.model.facts import Facts
from livedbg.model.snapshot import Snapshot

_SYSTEM = "aotinductor"
PREFIX = f"task:{_SYSTEM}/"
"""How the identifiers of these tasks begin."""


class ModelCallFacts(Facts, frozen=True, kw_only=True, tag="pytorch.aoti"):
    """Facts of a model's call.

    Attributes:
        call: `2 of 9`.
        generated: its line in the generated code.
        model: the source line of the model; "" if not known.
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
    """Yield the tasks of a model: calls before the current one have completed, later ones have not begun."""
    waiting, ended = _behind(model, current), TaskState.COMPLETED
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
            state=TaskState.RUNNING if running else ended if call.index < current.index else TaskState.SUBMITTED,
            since_mono_ns=since_ns if running else None,
            where=(thread.id,),
            owner=f"process {process.pid}",
            facts=facts,
        )


def call_edges(model: Model, current: Call, process: Process, thread: Thread) -> Iterator[Edge]:
    """Yield the dependencies of each call on the makers of its inputs."""
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
    """Return the calls that depend on the current one, directly or indirectly."""
    found: dict[int, Call] = {current.index: current}
    for call in model.code.calls[current.index + 1 :]:
        if any(maker in found for _, maker in call.makers):
            found[call.index] = call
    return [call for index, call in found.items() if index != current.index]


def _id(call: Call, process: Process, thread: Thread) -> str:
    return ids.task(_SYSTEM, f"{process.pid}.{thread.tid}", str(call.index + 1))


_RUN: Final = "AOTInductorModel::run_impl"
_COMPILERS: Final = {
    "/torch/_inductor/compile_fx.py": ("compile_fx", "compile_fx_aot", "_compile_fx_inner"),
    "/torch/_dynamo/convert_frame.py": ("_compile",),
    "/torch/export/_trace.py": ("_export",),
}
"""Functions that are on the stack only while something is compiled or exported (torch 2.13)."""
_SUFFIX: Final = ".wrapper.cpp"
CALLS: Final = "/pt2_archive/_package.py"
"""The file of the Python function that calls a model: torch/export/pt2_archive/_package.py, AOTICompiledModel."""
_NATIVE_CALL: Final = "AOTIModel"
"""In the names of the C++ classes that load and run one: AOTIModelPackageLoader, AOTIModelContainerRunner."""


def in_generated(frames: Iterable[Frame]) -> tuple[int, Frame] | None:
    """Return the innermost frame in generated code that has a line, and its depth."""
    for number, frame in enumerate(frames):
        if _RUN in frame.function and (frame.file or "").endswith(_SUFFIX) and frame.line:
            return number, frame
    return None


def model_threads(snapshot: Snapshot) -> Iterator[tuple[str, Frame]]:
    """Yield threads that are in a model, each with its frame of generated code."""
    for thread, frames in _stacks(snapshot):
        if (found := in_generated(frames)) is not None:
            yield thread, found[1]


def _stacks(snapshot: Snapshot) -> Iterator[tuple[str, tuple[Frame, ...]]]:
    """Yield the living threads, with their frames."""
    for thread in snapshot.threads.values():
        if not thread.exited and (stack := snapshot.stacks.get(thread.id)) is not None:
            yield thread.id, stack.frames


def called_by(frame: Frame, snapshot: Snapshot) -> tuple[Frame, ...]:
    """Return the frames of what a frame of generated code has called and a thread is in, innermost first."""
    stacks = (stack.frames for stack in snapshot.stacks.values() if frame in stack.frames)
    return next((frames[: frames.index(frame)] for frames in stacks), ())


def crashed_at(snapshot: Snapshot) -> Frame | None:
    """Return the frame of generated code in which a signal was caught last, also if code that it called crashed."""
    for hit in sorted(snapshot.exceptions.values(), key=lambda hit: hit.at_wall_ns or 0, reverse=True):
        found = in_generated(hit.stack) if hit.type.startswith("SIG") else None
        if found is not None:
            return found[1]
    return None


def in_model(snapshot: Snapshot) -> str:
    """Return the caller of a model as `, in FUNCTION (FILE:LINE)`, even with a stack cut before its code; or ""."""
    for _, frames in _stacks(snapshot):
        calls = [number for number, frame in enumerate(frames) if _is_model_call(frame)]
        own = (frame for frame in frames[: calls[0]] if _is_own(frame)) if calls else ()
        for frame in own:
            return f", in {frame.function} ({Path(frame.file or '').name}:{frame.line})"
    return ""


def _is_model_call(frame: Frame) -> bool:
    return (frame.file or "").endswith(CALLS) or _NATIVE_CALL in frame.function


def _is_own(frame: Frame) -> bool:
    """Return whether a frame is in user source: not the C library (relative paths) and not headers."""
    return bool(frame.line) and (frame.file or "").startswith("/") and not (frame.file or "").startswith("/usr/")


def compiling(snapshot: Snapshot) -> str:
    """Return the function of torch's compiler that a thread is in, with its file, or ""."""
    for _, frames in _stacks(snapshot):
        for frame in frames:
            for file, functions in _COMPILERS.items():
                if (frame.file or "").endswith(file) and frame.function.rpartition(".")[2] in functions:
                    return f"{frame.function} ({Path(file).name})"
    return ""
