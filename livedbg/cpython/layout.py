"""CPython's structure offsets by version.

Sources: 3.11 and 3.12 Include/internal/{pycore_runtime,pycore_interp,pycore_frame,pycore_gil}.h,
Include/cpython/{pystate,code}.h, checked with the debug information of 3.11.7 and 3.12.1 builds for x86-64; from 3.13
on `_Py_DebugOffsets` (pycore_runtime.h; from 3.14 pycore_debug_offsets.h), which the process publishes at the start of
`_PyRuntime`. Offsets that this table lacks (the value stack's size, the exception table, the lock types, a thread's
exception) are fixed here; checked with 3.13.0. 3.14 is from its headers only and untried.
"""

from __future__ import annotations

import struct
from typing import Final

from msgspec import Struct, structs

_COOKIE: Final = b"xdebugpy"
DEBUG_OFFSETS_SIZE: Final = 8 * 64
"""Bytes of `_Py_DebugOffsets` that `layout_of` wants."""


class ThreadLayout(Struct, frozen=True):
    """Offsets in PyThreadState.

    Attributes:
        frame: of the innermost frame's address, or of the pointer to the _PyCFrame with it.
        cframe: offset of current_frame in _PyCFrame; None if there is none (3.13 on).
        exception: of current_exception; up to 3.11 of curexc_type, followed by the value and the traceback.
        on_delete_data: weak reference to the lock that `Thread.join` waits for (up to 3.12).
    """

    next: int
    ident: int
    native_id: int
    frame: int
    exception: int
    cframe: int | None = None
    on_delete_data: int | None = None


class FrameLayout(Struct, frozen=True):
    """Offsets in _PyInterpreterFrame.

    Attributes:
        size: of the first local variable.
        entry: of the flag that C code called it; None if a frame of its own marks that (3.12 on).
    """

    code: int
    previous: int
    instruction: int
    owner: int
    size: int
    entry: int | None = None


class CodeLayout(Struct, frozen=True):
    """Offsets in PyCodeObject; `names` is that of co_localsplusnames, a tuple."""

    stack_size: int
    first_line: int
    locals_count: int
    exception_table: int
    filename: int
    qualname: int
    line_table: int
    instructions: int
    names: int


class TaskLayout(Struct, frozen=True):
    """Offsets in FutureObj and TaskObj (Modules/_asynciomodule.c), and PyCoroObject; measured in 3.11.7, 3.12.1 and
    3.13.0.

    The loop is at 16, the callbacks are at 24 and 40, the result is at 64.

    Attributes:
        state: of a future: 0 while it is pending.
        waiter: the future that a task waits for.
        cancels: how often its cancellation was requested.
        frame: offset of the frame inside a coroutine.
    """

    state: int
    waiter: int
    coroutine: int
    name: int
    cancels: int
    frame: int


class Layout(Struct, frozen=True):
    """Offsets of one version.

    Attributes:
        gil_in_runtime: offset of the GIL in _PyRuntime (3.11), else None.
        gil_pointer: offset in PyInterpreterState of the pointer to its GIL (3.12 on).
        ascii_text: size of PyASCIIObject, where a pure ASCII string's characters start.
        other_text: the same for the other compact strings (PyCompactUnicodeObject).
        type_qualname: offset of ht_qualname in PyHeapTypeObject (Include/cpython/object.h; measured in 3.11 to 3.13).
        modules: offset in PyInterpreterState of the dict `sys.modules`.
        lock_word: the lock of a `_thread.lock` is a byte of the object (3.14 PyMutex) and no semaphore.
    """

    version: tuple[int, int]
    interpreters_head: int
    interpreter_next: int
    threads_head: int
    gil_in_runtime: int | None
    gil_pointer: int
    thread: ThreadLayout
    frame: FrameLayout
    code: CodeLayout
    ascii_text: int
    other_text: int
    type_qualname: int = 872
    modules: int = 0
    tasks: TaskLayout | None = None
    lock_word: bool = False
    free_threaded: bool = False


_CODE_311: Final = CodeLayout(68, 72, 76, 40, 112, 128, 136, 184, 96)
_CODE_312: Final = CodeLayout(64, 68, 72, 40, 112, 128, 136, 192, 96)
_LAYOUTS: Final = {
    (3, 11): Layout(
        version=(3, 11),
        interpreters_head=40,
        interpreter_next=0,
        threads_head=16,
        gil_in_runtime=360,
        gil_pointer=0,
        thread=ThreadLayout(next=8, ident=152, native_id=160, frame=56, exception=96, cframe=8, on_delete_data=192),
        frame=FrameLayout(code=32, previous=48, instruction=56, owner=69, size=72, entry=68),
        code=_CODE_311,
        ascii_text=48,
        other_text=72,
        type_qualname=864,
        modules=888,
        tasks=TaskLayout(88, 128, 136, 144, 168, 80),
    ),
    (3, 12): Layout(
        version=(3, 12),
        interpreters_head=40,
        interpreter_next=0,
        threads_head=72,
        gil_in_runtime=None,
        gil_pointer=384,
        thread=ThreadLayout(next=8, ident=136, native_id=144, frame=56, exception=96, cframe=0, on_delete_data=176),
        frame=FrameLayout(code=0, previous=8, instruction=56, owner=70, size=72),
        code=_CODE_312,
        ascii_text=40,
        other_text=56,
        modules=944,
        tasks=TaskLayout(88, 128, 136, 144, 168, 72),
    ),
}

# PyThreadState from 3.13 on: current_frame, two trace functions and their two objects, current_exception
_EXCEPTION_BEHIND_FRAME: Final = 40

# `_Py_DebugOffsets`: cookie, version and free_threaded, then the words of each group in this order
_GROUPS_313: Final = {
    "runtime": "size finalizing interpreters_head",
    "interpreter": "size id next threads_head gc imports_modules sysdict builtins ceval_gil gil_runtime_state "
    "gil_runtime_state_enabled gil_runtime_state_locked gil_runtime_state_holder",
    "thread": "size prev next interp current_frame thread_id native_thread_id datastack_chunk status",
    "frame": "size previous executable instr_ptr localsplus owner",
    "code": "size filename name qualname linetable firstlineno argcount localsplusnames localspluskinds "
    "co_code_adaptive",
}
_GROUPS_314: Final = {
    **_GROUPS_313,
    "interpreter": "size id next threads_head threads_main gc imports_modules sysdict builtins ceval_gil "
    "gil_runtime_state gil_runtime_state_enabled gil_runtime_state_locked gil_runtime_state_holder "
    "code_object_generation tlbc_generation",
    "frame": "size previous executable instr_ptr localsplus owner stackpointer tlbc_index",
}


def layout_of(version: tuple[int, int], published: bytes) -> Layout | None:
    """Return the layout of a version, or None, by the first DEBUG_OFFSETS_SIZE bytes of `_PyRuntime`."""
    if version in _LAYOUTS:
        return _LAYOUTS[version]
    if version not in ((3, 13), (3, 14)) or not published.startswith(_COOKIE):
        return None
    return _from_published(version, published)


def _from_published(version: tuple[int, int], published: bytes) -> Layout:
    newer = version >= (3, 14)
    words = iter(struct.unpack_from(f"<{len(published) // 8 - 1}Q", published, 8))
    next(words)  # the version as PY_VERSION_HEX
    free_threaded = bool(next(words))
    group = {
        name: {member: next(words) for member in members.split()}
        for name, members in (_GROUPS_314 if newer else _GROUPS_313).items()
    }
    interpreter, thread, frame, code = group["interpreter"], group["thread"], group["frame"], group["code"]
    return Layout(
        version=version,
        interpreters_head=group["runtime"]["interpreters_head"],
        interpreter_next=interpreter["next"],
        threads_head=interpreter["threads_head"],
        gil_in_runtime=None,
        gil_pointer=interpreter["ceval_gil"],
        thread=ThreadLayout(
            next=thread["next"],
            ident=thread["thread_id"],
            native_id=thread["native_thread_id"],
            frame=thread["current_frame"],
            exception=thread["current_frame"] + _EXCEPTION_BEHIND_FRAME,
        ),
        frame=FrameLayout(
            frame["executable"], frame["previous"], frame["instr_ptr"], frame["owner"], frame["localsplus"]
        ),
        code=structs.replace(
            _CODE_312,
            filename=code["filename"],
            qualname=code["qualname"],
            line_table=code["linetable"],
            first_line=code["firstlineno"],
            instructions=code["co_code_adaptive"],
            names=code["localsplusnames"],
        ),
        ascii_text=40,
        other_text=56,
        modules=interpreter["imports_modules"],
        tasks=None if newer or free_threaded else TaskLayout(96, 112, 120, 128, 104, 72),
        lock_word=newer,
        free_threaded=free_threaded,
    )
