"""Which call of a model's generated code a thread is in, by its native stack.

Models are compiled with line tables (`AOT_INDUCTOR_ENABLE_LINE_TABLES`, on by default): the frame of `run_impl` has the
generated file and the line of the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from livedbg.model import Frame, Stack
from livedbg.model.snapshot import Snapshot

_RUN: Final = "AOTInductorModel::run_impl"
_COMPILERS: Final = {
    "/torch/_inductor/compile_fx.py": ("compile_fx", "compile_fx_aot", "_compile_fx_inner"),
    "/torch/_dynamo/convert_frame.py": ("_compile",),
    "/torch/export/_trace.py": ("_export",),
}
"""Functions that are on the stack only while something is compiled or exported (torch 2.13)."""
_SUFFIX: Final = ".wrapper.cpp"


def in_generated(stack: Stack | None) -> tuple[int, Frame] | None:
    """The innermost frame of a stack that is in generated code with its line, and its number from the innermost."""
    for number, frame in enumerate(stack.frames if stack is not None else ()):
        if _RUN in frame.function and (frame.file or "").endswith(_SUFFIX) and frame.line:
            return number, frame
    return None


def model_threads(snapshot: Snapshot) -> Iterator[tuple[str, Frame]]:
    """Threads that are in a model, each with its frame of generated code."""
    for thread in snapshot.threads.values():
        found = in_generated(snapshot.stacks.get(thread.id)) if not thread.exited else None
        if found is not None:
            yield thread.id, found[1]


def compiling(snapshot: Snapshot) -> str:
    """The function of torch's compiler that a thread is in, with its file, or ""."""
    for thread in snapshot.threads.values():
        stack = snapshot.stacks.get(thread.id) if not thread.exited else None
        for frame in stack.frames if stack is not None else ():
            for file, functions in _COMPILERS.items():
                if (frame.file or "").endswith(file) and frame.function.rpartition(".")[2] in functions:
                    return f"{frame.function} ({Path(file).name})"
    return ""
