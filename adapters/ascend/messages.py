"""The messages of the `simpler` runtime: one table of shapes, one function to apply it.

Sources: simpler src/{a2a3,a5}/runtime/{tensormap_and_ringbuffer,host_build_graph}, its
scheduler_cold_path.cpp, scheduler_dispatch.cpp, pto_ring_buffer.h, pto_orchestrator.cpp,
pto_runtime2.cpp, aicpu_executor.cpp and runtime_maker.cpp, February to August 2026; the shapes
before 2026-05-12 (`STUCK-…`, `PTO2 stall`) from the same files at 67a405ea0^.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from livedbg.adapters.ascend.failure_messages import FAILURE_SHAPES

__all__ = ["BEATS", "EXACT", "TRIGGERS", "Fields", "Message", "classify", "number", "optional_number"]

_BITS: Final = 64

Fields = dict[str, str | None]


class Message(NamedTuple):
    """A message that was understood.

    Attributes:
        kind: which shape it has (a name of `_SHAPES`).
        fields: the named groups of the shape.
    """

    kind: str
    fields: Fields


_SUB: Final = r"(?:aic|aiv0|aiv1|AIC|AIV0|AIV1|AIV|MIX|\?)"
_KERNELS: Final = r"kernels=\[aic:(?P<aic>-?\d+) aiv0:(?P<aiv0>-?\d+) aiv1:(?P<aiv1>-?\d+)\]"
_STALL: Final = r"\[STALL thread=(?P<thread>\d+) idle_iterations=(?P<idle>\d+)\] "
_VERDICT: Final = (
    r"sub_class=(?P<sub_class>\S+)(?: \(detail=-?\d+\))? completed=(?P<completed>\d+)/(?P<total>\d+)"
    r" running=(?P<running>\d+) ready=(?P<ready>\d+) waiting=(?P<waiting>\d+) orch_done=(?P<orch_done>[01])"
    r" stuck_task_id=(?P<stuck_task>-?\d+) stuck_core=(?P<stuck_core>-?\d+)"
)

# (kind, keyword that must stand in the message, shape, also in lines without the runtime's level tag)
_SHAPES: Final[tuple[tuple[str, str, str, bool], ...]] = (
    # the scheduler's work
    (
        "dispatched",
        "Dispatched ",
        rf"Thread (?P<thread>\d+): Dispatched (?P<slot>idle|pending) (?P<sub>{_SUB}) task (?P<task>-?\d+)"
        r" kernel_id=\[(?P<aic>-?\d+),(?P<aiv0>-?\d+),(?P<aiv1>-?\d+)\]"
        r" block_idx=(?P<block>\d+)/total_blocks=(?P<blocks>\d+) to core_offset=(?P<offset>\d+) core_id=(?P<core>\d+)",
        False,
    ),
    (
        "dispatched",
        "Dispatched ",
        rf"Thread (?P<thread>\d+): Dispatched (?P<slot>idle|pending) (?P<sub>{_SUB}) task (?P<task>-?\d+)"
        r" block (?P<block>\d+)/(?P<blocks>\d+) to core_offset (?P<offset>\d+)",
        False,
    ),
    ("completed", "PTO2 completed tasks", r"PTO2 completed tasks (?P<completed>\d+)/(?P<total>\d+)", False),
    ("progress", "PTO2 progress", r"PTO2 progress: completed=(?P<completed>\d+) total=(?P<total>\d+)", False),
    ("executed", "Executed ", r"Thread (?P<thread>\d+): Executed (?P<count>\d+) tasks from runtime", False),
    # what was submitted
    ("ring_total", "total_tasks=", r"\[Orchestrator\] ring (?P<ring>\d+): total_tasks=(?P<total>\d+)", False),
    ("submitted", "PTO2 total submitted", r"PTO2 total submitted tasks = (?P<total>\d+)", False),
    ("submitted", "host-orch", r"host-orch: submitted (?P<total>\d+) tasks on host", False),
    ("orchestrated", "Orchestrator completed", r"Orchestrator completed", False),
    # the life of a run
    ("begin", "AicpuExecutor: Initializing", r"AicpuExecutor: Initializing", False),
    ("bind", "RT2 bind", r"RT2 bind: .*?(?P<mode>host|device) orchestration mode", False),
    (
        "span",
        "[STRACE]",
        r"\[STRACE\] v=\d+ pid=(?P<pid>\d+) .*?depth=(?P<depth>-?\d+) name=(?P<name>\S+) (?:ts=\d+ dur=(?P<dur>\d+))?",
        False,
    ),
    (
        "anchor",
        "CLOCK_ANCHOR",
        r"\[CLOCK_ANCHOR\] v=\d+ pid=(?P<pid>\d+) mono_ns=(?P<mono>\d+) wall_ns=(?P<wall>\d+)",
        False,
    ),
    ("drained", "All threads completed", r"All threads completed", False),
    (
        "cluster_map",
        "cluster ",
        r"Thread (?P<thread>\d+): cluster (?P<cluster>\d+) \(AIC=(?P<aic>\d+), AIV0=(?P<aiv0>\d+),"
        r" AIV1=(?P<aiv1>\d+)\)",
        False,
    ),
    ("chip_process", "chip_process pid=", r"\[chip_process pid=(?P<pid>\d+) dev=(?P<device>\d+)\] ready", True),
    # what the watchdog dumps, from 2026-05-12
    (
        "stall_task",
        "[STALL ",
        _STALL + r"TASK ring=(?P<ring>\d+) task_id=(?P<task>-?\d+) state=(?P<state>RUNNING|READY|WAIT)\s+"
        r"fanin_(?:refcount|met)=(?P<met>-?\d+)/(?P<fanin>\d+) "
        + _KERNELS
        + r"(?: running_on=\[(?:owner_thread=(?P<owner>-?\d+) )?cores=\[(?P<cores>[^\]]*)\]?\]?)?"
        r"(?: missing_deps=(?P<missing>-?\d+))?",
        True,
    ),
    (
        "stall_summary",
        "[STALL ",
        _STALL + r"SUMMARY completed=(?P<completed>\d+)/(?P<total>\d+) last_progress_iteration=(?P<last>-?\d+)"
        r" scan_ready=(?P<ready>\d+) scan_waiting=(?P<waiting>\d+) scan_running=(?P<running>\d+)",
        True,
    ),
    (
        "stall_cluster",
        "[STALL ",
        _STALL + r"CLUSTER cluster_id=(?P<cluster>\d+) aic=(?P<aic>core\d+\([^)]*\))"
        r" aiv0=(?P<aiv0>core\d+\([^)]*\)) aiv1=(?P<aiv1>core\d+\([^)]*\))",
        True,
    ),
    ("timeout_exit", "[STALL ", _STALL + r"TIMEOUT_EXIT after_idle_iterations=\d+(?: " + _VERDICT + ")?", True),
    (
        "snapshot",
        "[SHUTDOWN_SNAPSHOT",
        r"\[SHUTDOWN_SNAPSHOT trigger_thread=(?P<thread>\d+) reason=(?P<reason>\w+) idle_iterations=(?P<idle>\d+)\]",
        True,
    ),
    ("timeout_host", "PTO2 scheduler timeout", r"PTO2 scheduler timeout " + _VERDICT, False),
    # the same before 2026-05-12
    (
        "old_stall",
        "PTO2 stall",
        r"PTO2 stall: no progress for (?P<idle>\d+) iterations, completed=(?P<completed>\d+) total=(?P<total>\d+)",
        False,
    ),
    (
        "old_task",
        "STUCK-",
        r"STUCK-(?P<state>READY|WAIT)\s+(?:ring=(?P<ring>\d+) )?task_id=(?P<task>-?\d+) kernel_id=(?P<kernel>-?\d+)"
        r" refcount=(?P<met>-?\d+) fanin=(?P<fanin>\d+)",
        False,
    ),
    (
        "resolution_stall",
        "P resolution stall",
        r"Thread (?P<thread>\d+): P resolution stall \((?P<completed>\d+)/(?P<total>\d+) resolved\)",
        False,
    ),
    (
        "old_scan",
        "scan result",
        r"scan result: stuck_ready=(?P<ready>\d+) stuck_waiting=(?P<waiting>\d+) in_flight=(?P<running>\d+)",
        False,
    ),
    (
        "old_core",
        "cond=0x",
        r"core=(?P<core>\d+) cond=0x[0-9a-f]+\(state=(?P<state>\d+),id=(?P<id>-?\d+)\)"
        r" exec_id=(?P<exec>-?\d+) kernel=(?P<kernel>-?\d+)",
        False,
    ),
    (
        "old_timeout",
        "PTO2 timeout after",
        r"Thread (?P<thread>\d+): PTO2 timeout after (?P<idle>\d+) idle iterations",
        False,
    ),
    # the first host_build_graph, until 2026-07
    (
        "old_timeout",
        "Timeout after",
        r"Thread (?P<thread>\d+): Timeout after (?P<idle>\d+) idle iterations",
        False,
    ),
    ("old_counts", "Progress: ", r"^Progress: (?P<completed>\d+)/(?P<total>\d+) tasks \(", False),
    (
        "old_running",
        "RUNNING]: COND=",
        r"Core (?P<core>\d+) \[(?P<sub>\w+), RUNNING\]: COND=0x[0-9a-f]+ \([^)]*\), running_id=(?P<task>\d+),"
        r" func_id=(?P<kernel>-?\d+)",
        False,
    ),
    ("old_waiting", "waiting for dependencies", r"Task (?P<task>\d+): fanin=(?P<fanin>\d+) \(waiting", False),
    *FAILURE_SHAPES,
)

_KEYWORDS: Final = tuple(dict.fromkeys(keyword for _, keyword, _, _ in _SHAPES))
_FIND: Final = re.compile("|".join(re.escape(keyword) for keyword in sorted(_KEYWORDS, key=len, reverse=True)))

TRIGGERS: Final = (*(keyword.encode() for keyword in _KEYWORDS), b"rc=")
"""Byte strings, one of which stands in every line that says something."""

EXACT: Final = {
    b"aclrt": re.compile(rb"aclrt\w{1,200}(?: \(\w{1,200}\))? failed: "),
    b"cluster ": re.compile(rb"cluster \d+ \(AIC="),
    b"Progress: ": re.compile(rb"Progress: \d+/\d+ tasks \("),
    b"Requested:": re.compile(rb"Requested: +\d"),
    b"Needed:": re.compile(rb"Needed: +\d"),
    b"rc=": re.compile(rb"(?<!\w)(?<![,;] )rc=-?\d"),
}
"""What of them stands in lines of other programs too, and with what behind it it counts."""

BEATS: Final = (b"[mono_ns=", b"][T0x")
"""Byte strings, one of which stands in every other line that carries a time."""


@cache
def _with(keyword: str) -> tuple[tuple[str, re.Pattern[str], bool], ...]:
    """The shapes of messages with a keyword; most logs have few of them."""
    return tuple((kind, re.compile(shape), bare) for kind, key, shape, bare in _SHAPES if key == keyword)


def classify(message: str, tagged: bool) -> Message | None:
    """What a message says, or None when it is none of ours.

    Args:
        message: one line (without its head when it is tagged).
        tagged: the line carries the runtime's level tag.
    """
    for keyword in dict.fromkeys(_FIND.findall(message)):
        for kind, shape, bare in _with(keyword):
            if tagged or bare:
                match = shape.search(message)
                if match is not None:
                    return Message(kind, match.groupdict())
    return None


def number(fields: Fields, name: str) -> int:
    """A field that must be there, as a number.

    Raises:
        ValueError: no field of the runtime is that wide: the line is damaged.
    """
    return _narrow(int(fields[name] or 0))


def optional_number(fields: Fields, name: str) -> int | None:
    """A field as a number, or None where the shape has it not.

    Raises:
        ValueError: as `number`.
    """
    value = fields.get(name)
    return _narrow(int(value)) if value else None


def _narrow(value: int) -> int:
    if value.bit_length() > _BITS:
        raise ValueError(f"a number of {value.bit_length()} bits")
    return value
