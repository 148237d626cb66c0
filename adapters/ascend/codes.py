"""What the error codes and stall classes of the `simpler` runtime mean, in a user's words.

Source: simpler src/common/runtime_status/error_names.h,
src/{a2a3,a5}/runtime/{tensormap_and_ringbuffer,host_build_graph}/common/pto_runtime_status.h and
docs/troubleshooting/device-error-codes.md (August 2026); the sentences are ours. Code 6 was retired in 2026-07, 104
exists in host_build_graph only. The names of variables were checked against the calls of getenv: there is none for the
wait for tensor data, which the runtime's own hint names one for.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, structs

__all__ = ["ErrorCode", "StallClass", "error_code", "stall_class", "whole_graph"]


class ErrorCode(Struct, frozen=True):
    """One code that the orchestrator (1 to 11) or the scheduler (100 and up) latches.

    Attributes:
        meaning: half a sentence, what happened.
        advice: what to do about it.
        blame: whose fault it mostly is: `orchestration code`, `kernel`, `configuration`, `the runtime`.
    """

    number: int
    name: str
    meaning: str
    advice: str
    blame: str = ""


class StallClass(Struct, frozen=True):
    """A `sub_class` of code 100 (SCHEDULER_TIMEOUT).

    Attributes:
        meaning: what the scheduler saw.
        advice: where to look.
    """

    key: str
    meaning: str
    advice: str


_CODES: Final = (
    (
        1,
        "SCOPE_DEADLOCK",
        "one scope holds as many tasks as the ring has slots, and slots come free only when the scope ends",
        "split the scope, or raise PTO2_RING_TASK_WINDOW",
    ),
    (
        2,
        "HEAP_RING_DEADLOCK",
        "the ring's heap has no room for the next task's output",
        "check the task at the ring's head first; raise PTO2_RING_HEAP only if that task is healthy",
    ),
    (
        3,
        "FLOW_CONTROL_DEADLOCK",
        "the ring has no free slot for the next task",
        "check the task at the ring's head first; raise PTO2_RING_TASK_WINDOW only if that task is healthy",
    ),
    (
        4,
        "DEP_POOL_OVERFLOW",
        "a task has more producers than the runtime can record",
        "cut the task's fan-in, or raise PTO2_RING_DEP_POOL",
    ),
    (
        5,
        "INVALID_ARGS",
        "an orchestration call was given arguments that it refuses",
        "check the arguments of the orchestration call that the log names",
    ),
    (
        6,
        "DEPENDENCY_OVERFLOW",
        "a task has more producers than the runtime can record (a code of before July 2026; today it is code 4)",
        "cut the task's fan-in, or raise PTO2_RING_DEP_POOL",
    ),
    (
        7,
        "REQUIRE_SYNC_START_INVALID",
        "a task wants more blocks to start together than there are cores of that type",
        "lower the task's block_num, or drop require_sync_start",
    ),
    (
        8,
        "TENSOR_WAIT_TIMEOUT",
        "the orchestrator waited for a tensor whose producer or consumers did not complete",
        "check the producing kernel; the limit of 15 s is compiled in (PTO2_TENSOR_DATA_TIMEOUT_MS in "
        "pto_runtime2_types.h is a constant, no environment variable)",
    ),
    (
        9,
        "EXPLICIT_ORCH_FATAL",
        "the orchestration code itself called rt_report_fatal()",
        "follow the message that the orchestration code passed to rt_report_fatal()",
    ),
    (
        10,
        "SCOPE_TASKS_OVERFLOW",
        "the buffer of tasks per scope is full (inside the runtime)",
        "keep the device log and report it to the runtime's maintainers",
    ),
    (
        11,
        "TENSORMAP_OVERFLOW",
        "the tensor map has no free entry for another task's outputs",
        "check the task at the ring's head; raise PTO2_TENSORMAP_POOL_SIZE if it is healthy",
    ),
    (
        100,
        "SCHEDULER_TIMEOUT",
        "the scheduler saw no progress for its time limit",
        "check the stuck task; SIMPLER_SCHEDULER_TIMEOUT_MS raises the limit for a kernel that is only slow",
    ),
    (
        101,
        "ASYNC_COMPLETION_INVALID",
        "a kernel registered an invalid completion condition",
        "check the kernel's completion type and counter address",
    ),
    (
        102,
        "ASYNC_WAIT_OVERFLOW",
        "a task has more asynchronous completions in flight than the runtime can hold",
        "cut the asynchronous completions of one task, and make sure that they are polled and retired",
    ),
    (
        103,
        "ASYNC_REGISTRATION_FAILED",
        "the scheduler was sent an asynchronous completion of an illegal kind",
        "keep the device log and report it to the runtime's maintainers",
    ),
    (
        104,
        "READY_QUEUE_OVERFLOW",
        "a ready queue of the scheduler is full",
        "keep PTO2_RING_TASK_WINDOW at or below the ready queue's capacity",
    ),
)

_BLAME: Final = {
    **dict.fromkeys((1, 3, 5, 7, 9), "orchestration code"),
    **dict.fromkeys((2, 4, 6), "orchestration code or configuration"),
    8: "kernel or orchestration code",
    **dict.fromkeys((10, 103), "the runtime"),
    **dict.fromkeys((11, 104), "the runtime or configuration"),
    **dict.fromkeys((101, 102), "kernel"),
}
"""As device-error-codes.md has it ("Whose bug, usually"); 100 depends on its class."""

_BY_NUMBER: Final = {
    number: ErrorCode(number, name, meaning, advice, _BLAME.get(number, "")) for number, name, meaning, advice in _CODES
}

_CLASSES: Final = {
    "S1": StallClass(
        "S1",
        "a task is on a core and does not complete",
        "check that kernel for an endless loop, or a wait for a flag or signal that is never set",
    ),
    "S2": StallClass(
        "S2", "a class that no version of the runtime prints", "keep the device log and report it as a runtime bug"
    ),
    "S3": StallClass(
        "S3",
        "a task has all it waits for, yet all cores are idle: it was not dispatched, or its kernel returned and its "
        "asynchronous completion was never signalled",
        "if the kernel registers a deferred completion, find what should increment its counter",
    ),
    "S4": StallClass(
        "S4",
        "only tasks that wait for others are left: their dependencies can never be met",
        "check the orchestration code for a cycle, or for a producer that it never submits",
    ),
    "S5": StallClass(
        "S5",
        "all submitted tasks are done and the orchestrator submits no more",
        "find what the orchestrator (AICPU thread) waits for",
    ),
}
_UNKNOWN_CLASS: Final = StallClass(
    "unknown",
    "the scheduler's counts contradict each other: its bookkeeping or its memory is damaged",
    "keep the device log and report it as a runtime bug",
)


def error_code(number: int) -> ErrorCode:
    """The code of that number; the sign is ignored (a runtime status is the negated code)."""
    number = abs(number)
    if not number:
        return ErrorCode(0, "", "", "read the log lines before it")
    return _BY_NUMBER.get(number) or ErrorCode(number, f"CODE_{number}", "a code that livedbg doesn't know", "")


def whole_graph(code: ErrorCode) -> ErrorCode:
    """Code 2 or 3 of host_build_graph, which builds the whole graph before it runs, so nothing is freed.

    Source: report_capacity_exhausted in simpler src/a2a3/runtime/host_build_graph/runtime/pto_ring_buffer.h.
    """
    what, variable = ("heap", "PTO2_RING_HEAP") if code.number == 2 else ("task slots", "PTO2_RING_TASK_WINDOW")
    return structs.replace(
        code,
        meaning=f"the graph needs more {what} than there are; it is built whole before it runs, so none come free",
        advice=f"raise {variable}, or cut the graph into several runs",
        blame="orchestration code or configuration",
    )


def stall_class(sub_class: str) -> StallClass:
    """The class of a `sub_class=` text such as `S1:running-stalled`."""
    return _CLASSES.get(sub_class.partition(":")[0], _UNKNOWN_CLASS)
