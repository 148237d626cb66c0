"""Probe arguments: the data that the kernel reads when a Python exception passes a frame, by version of CPython.

The eval loop calls `PyTraceBack_Here(frame)` for each frame that an exception is raised in or goes through (CPython
Python/ceval.c, label `error`; Python/traceback.c). The exception is then the thread's current one, and without a
traceback at the first such call: that one is the raise. A thread that runs Python has the GIL, and the GIL has the
thread state that took it last (struct _gil_runtime_state, pycore_gil.h). All of it is reached from `_PyRuntime`, whose
distance from the function is the same in every process: so one definition serves all processes of the file.

Layouts: Include/cpython/pyerrors.h (PyBaseExceptionObject, PyOSErrorObject), Include/cpython/{object,tupleobject}.h,
Include/internal/pycore_frame.h (struct _frame) of 3.11 to 3.14.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from livedbg.cpython.layout import Layout
from livedbg.linux.procfs import status_fields
from livedbg.linux.pthreads import same_namespace
from livedbg.probes.tracefs import pieces

FUNCTION: Final = "PyTraceBack_Here"
RAISED: Final = "trace == 0 && type_info != 0"
"""The kernel's filter: this is the raise, and not its way outwards."""

_DEPTH: Final = 8
"""Frames that the kernel reads: each costs the target time. (10 would be the most: an argument has 63 letters.)"""

_CALLERS: Final = 6  # frames that are read at a call of native code

_LAST_HOLDER: Final = 8  # in struct _gil_runtime_state
_TYPE, _TYPE_NAME = 8, 24
_ARGS, _TRACEBACK, _FILE_NAME = 24, 40, 88
_TUPLE_SIZE, _TUPLE_ITEMS = 16, 24
_INTERPRETER_FRAME: Final = 24  # f_frame in struct _frame
_TEXT, _SHORT, _NAME = 304, 128, 64  # bytes of objects that are read: each word costs the target time


def own_tid(pid: int, tid: int) -> int:
    """Return a thread's number in its own PID namespace (proc_pid_status(5), NSpid)."""
    if _numbered_as_ours(pid):
        return tid
    try:
        return int(status_fields(pid, tid).get("NSpid", "").split()[-1])
    except (OSError, IndexError, ValueError):
        return tid


@lru_cache(maxsize=256)
def _numbered_as_ours(pid: int) -> bool:
    return same_namespace(pid)


def _thread_arguments(layout: Layout, state: str) -> tuple[str, ...]:
    return f"state={state}:x64", f"tid=+{layout.thread.native_id}({state}):x32"


def _frame_arguments(layout: Layout, first: str, depth: int, *, entries: bool) -> tuple[str, ...]:
    """Return the arguments for the innermost frames: code object, instruction; addresses of the last and the next
    frame.
    """
    found: list[str] = []
    frame = first
    for number in range(depth):
        found += (
            f"code{number}=+{layout.frame.code}({frame}):x64",
            f"at{number}=+{layout.frame.instruction}({frame}):x64",
        )
        if entries and layout.frame.entry is not None:
            found.append(f"entry{number}=+{layout.frame.entry}({frame}):x8")
        last, frame = frame, f"+{layout.frame.previous}({frame})"
    return (*found, f"last={last}:x64", f"behind={frame}:x64")


def raise_arguments(layout: Layout, offset: int) -> tuple[str, ...]:
    """Return all arguments at `PyTraceBack_Here`; `offset` is that of `_PyRuntime` in the file."""
    if layout.gil_in_runtime is not None:
        state = f"@+{offset + layout.gil_in_runtime + _LAST_HOLDER:#x}"
    else:
        state = f"+{_LAST_HOLDER}(+{layout.gil_pointer}(@+{offset + layout.interpreters_head:#x}))"
    current = layout.thread.exception
    if layout.version <= (3, 11):  # three words; the value may not be an exception yet, but its arguments
        kind, value, trace = (f"+{current + 8 * place}({state})" for place in range(3))
        raw = (*pieces("self", value, _TEXT), *pieces("item", f"+{_TUPLE_ITEMS}({value})", _SHORT))
    else:
        value = f"+{current}({state})"
        kind, trace, raw = f"+{_TYPE}({value})", f"+{_TRACEBACK}({value})", ()
    arguments = f"+{_ARGS}({value})"
    return (
        *_thread_arguments(layout, state),
        f"type_info={kind}:x64",
        f"trace={trace}:x64",
        f"value={value}:x64",
        *pieces("name", f"+{_TYPE_NAME}({kind})", _NAME),
        *raw,
        f"count=+{_TUPLE_SIZE}({arguments}):x64",
        f"first_at=+{_TUPLE_ITEMS}({arguments}):x64",
        *pieces("first", f"+{_TUPLE_ITEMS}({arguments})", _TEXT),
        f"second_at=+{_TUPLE_ITEMS + 8}({arguments}):x64",
        f"file_at=+{_FILE_NAME}({value}):x64",
        *_frame_arguments(layout, f"+{_INTERPRETER_FRAME}(%di)", _DEPTH, entries=False),
    )


def caller_arguments(layout: Layout, gil: int) -> tuple[str, ...]:
    """Return the arguments at a call of native code: the Python frames of the thread that took the GIL last."""
    state = f"@{gil + _LAST_HOLDER:#x}"
    first = f"+{layout.thread.frame}({state})"
    if layout.thread.cframe is not None:
        first = f"+{layout.thread.cframe}({first})"
    return (*_thread_arguments(layout, state), *_frame_arguments(layout, first, _CALLERS, entries=True))
