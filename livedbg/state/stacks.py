"""Stacks: merging Python and native frames of a thread, and grouping equal stacks.

CPython runs Python code in `_PyEval_EvalFrameDefault` (Python/ceval.c). Since 3.11 one such native frame can stand for
several Python frames, because calls between Python functions don't leave it. So the Python frames are shared out over
the evaluation frames from the outermost end: each inner evaluation frame stands for the innermost Python frames that
nothing else can stand for. Where the number of evaluation frames is not 1, the places of the middle Python frames are a
guess and the order of all frames is still right.

Invariants:
    stacks.M1. A merged stack holds every Python frame once, in order, and every native frame that is not the
        interpreter's own, in order.
    stacks.M2. One layer alone is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from livedbg.model import Frame, Stack
from livedbg.text.patterns import lazy_re

_EVAL: Final = lazy_re(r"^_PyEval_EvalFrameDefault\b")
_INTERPRETER: Final = lazy_re(
    r"^(_?Py(Eval|Object_(Vectorcall|Call|FastCall)|Function_Vectorcall|VectorcallCall|ObjectCall|MethodDescr|Run|CFunction)"
    r"|_PyObject|_PyFunction|_PyVectorcall|_PyEval|cfunction_|method_vectorcall|vectorcall_|slot_tp_|object_vacall"
    r"|builtin_exec|run_mod|run_eval_code|pymain_|Py_(RunMain|BytesMain)|thread_run|pythread_wrapper|type_call"
    r"|_Py_(Vector|Check)|do_call_core|_TAIL_CALL_|__libc_start_|_start$|pyrun_|partial_vectorcall|bounded_lru_cache_wrapper)"
)
_PYTHON_MODULE: Final = lazy_re(r"^(lib)?python[0-9.]*(\.so[0-9.]*)?$|^libpython")
_APART_NS: Final = 2_000_000_000  # layers taken further apart than this may be of different waits


_WORDS: Final = lazy_re(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_WAITS: Final = frozenset(
    "spin spins spinning spinlock busywait wait waits waiting barrier recv receive synchronize synchronise".split()  # noqa: SIM905
)
"""Words in the names of functions that wait for something."""

_ASKS: Final = lazy_re(
    r"is_?set|is_?done|done|empty|poll\w*|MPI_(Test|Iprobe)\w*|\w*(Stream|Event)Query", re.IGNORECASE
)
"""Functions that a loop asks whether what it waits for has come."""


class StackGroup(Struct, frozen=True):
    """Threads with the same stack; `frames` are of one of them (addresses may differ in the others)."""

    frames: tuple[Frame, ...]
    threads: tuple[str, ...]


def merge_stacks(python: Stack | None, native: Stack | None) -> Stack:
    """Merge the Python stack and the native stack of a thread.

    Raises:
        ValueError: both are None.
    """
    if python is None or native is None:
        found = python or native
        if found is None:
            raise ValueError("no stack to merge")
        return found
    frames = merge_frames(python.frames, native.frames)
    apart = abs(python.taken_mono_ns - native.taken_mono_ns) > _APART_NS
    note = native.note or python.note
    if apart and not note:
        note = "Python and native frames were taken at different times"
    return msgspec.structs.replace(
        native,
        frames=frames,
        source=f"{native.source}+{python.source}",
        layer="merged",
        taken_mono_ns=max(python.taken_mono_ns, native.taken_mono_ns),
        partial=native.partial or python.partial,
        note=note,
        holds_gil=python.holds_gil,
        waits_gil=python.waits_gil,
    )


def merge_frames(python: tuple[Frame, ...], native: tuple[Frame, ...], runs: Sequence[int] = ()) -> tuple[Frame, ...]:
    """Merge the Python frames and the native frames of a thread, innermost first.

    Args:
        runs: how many Python frames each evaluation frame stands for, if known.
    """
    evaluations = [place for place, frame in enumerate(native) if _EVAL.match(frame.function)]
    if not evaluations:
        inner = [frame for frame in native if not _is_interpreter(frame)]
        cut = next((n for n, frame in enumerate(native) if _is_interpreter(frame)), len(native))
        before = sum(1 for frame in native[:cut] if not _is_interpreter(frame))
        return (*inner[:before], *python, *inner[before:])
    shares = runs if len(runs) >= len(evaluations) else _shares(len(python), len(evaluations))
    merged: list[Frame] = []
    taken = 0
    for place, frame in enumerate(native):
        if place in evaluations:
            share = shares[evaluations.index(place)]
            merged.extend(python[taken : taken + share])
            taken += share
        elif not _is_interpreter(frame):
            merged.append(frame)
    merged.extend(python[taken:])
    return tuple(merged)


def interpreters_own(native: Sequence[Frame]) -> tuple[Frame, ...]:
    """Return native frames without those of the interpreter's file, except the evaluation frames.

    Work of the interpreter for Python code thus counts as work of that code.
    """
    return tuple(
        frame
        for frame in native
        if _EVAL.match(frame.function) or frame.module is None or not _PYTHON_MODULE.match(frame.module)
    )


def waiting_frame(frames: Sequence[Frame]) -> Frame | None:
    """Return the outermost frame whose function name means a wait (`MPI_Recv`, `spin_lock`), or None."""
    return next((frame for frame in reversed(frames) if _waits(frame.function)), None)


def place_of(stack: Stack) -> tuple[str, ...]:
    """Return the functions that identify a thread's place; a waiting loop keeps its place.

    These are the functions from the waiting one outwards; without a waiting one, all functions. Lines are left out:
    they change within a loop.
    """
    waits = waiting_frame(stack.frames)
    frames = stack.frames if waits is None else stack.frames[stack.frames.index(waits) :]
    asking = [place for place, frame in enumerate(frames) if _ASKS.fullmatch(_plain(frame.function))]
    frames = frames[asking[-1] + 1 :] if asking else frames
    return tuple(f"{frame.module}:{frame.function}" for frame in frames)


def asks(function: str) -> bool:
    """Return whether a function's name means waiting or polling: `wait`, `sleep`, `is_set`, `poll`."""
    plain = _plain(function)
    return plain.endswith("sleep") or _ASKS.fullmatch(plain) is not None or _waits(function)


def _waits(function: str) -> bool:
    return not _WAITS.isdisjoint(word.lower() for word in _WORDS.findall(_plain(function)))


def _plain(function: str) -> str:
    return re.split(r"[(<]", function, maxsplit=1)[0].rpartition("::")[2]


def runs_python(native: Iterable[Frame]) -> bool:
    """Return whether any frame evaluates Python code."""
    return any(_EVAL.match(frame.function) for frame in native)


def _shares(frames: int, places: int) -> list[int]:
    """Return how many Python frames each evaluation frame stands for, innermost first: one each, the rest outermost."""
    shares = [min(1, max(0, frames - place)) for place in range(places)]
    shares[-1] += max(0, frames - places)
    return shares


def _is_interpreter(frame: Frame) -> bool:
    if _EVAL.match(frame.function) or _INTERPRETER.match(frame.function):
        return True
    unnamed = frame.function.startswith("0x")
    return unnamed and frame.module is not None and _PYTHON_MODULE.match(frame.module) is not None


def group_stacks(stacks: Iterable[Stack]) -> list[StackGroup]:
    """Group equal stacks, the largest group first.

    Equal stacks have the same functions at the same lines, and the same local variables if these were read.
    """
    groups: dict[tuple[tuple[str, str | None, int | None, tuple[str, ...]], ...], list[Stack]] = {}
    for stack in stacks:
        key = tuple((frame.function, frame.module, frame.line, frame.local_variables) for frame in stack.frames)
        groups.setdefault(key, []).append(stack)
    made = [StackGroup(same[0].frames, tuple(sorted(stack.thread for stack in same))) for same in groups.values()]
    return sorted(made, key=lambda group: (-len(group.threads), group.threads))
