"""The messages of the `simpler` runtime about what goes wrong: full resources, fatal errors, codes, crashes.

Sources: as for livedbg.adapters.ascend.messages.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FAILURE_SHAPES"]

FAILURE_SHAPES: Final[tuple[tuple[str, str, str, bool], ...]] = (
    ("harmless", "for config symbol", r"dlsym failed for config symbol '", False),  # it is optional: the run goes on
    (
        "fatal_code",
        "FATAL(code=",
        r"FATAL\(code=(?P<code>\d+)(?:, latched=(?P<latched>\d+))?\)(?:: (?P<text>.*))?",
        False,
    ),
    ("fatal", "FATAL: ", r"FATAL: (?P<text>.*)", False),
    (
        "ring_state",
        "Task ring ",
        r"Task ring (?P<ring>\d+): current=(?P<current>\d+), last_alive=(?P<alive>\d+),"
        r" active=(?P<active>\d+)/(?P<window>\d+)",
        False,
    ),
    (
        "ring_head",
        "Head task ",
        r"Head task (?P<local>\d+): state=(?P<state>\d+), consumers=(?P<done>\d+)/(?P<all>\d+),"
        r" scope_released=(?P<released>[01])",
        False,
    ),
    (
        "heap_state",
        "Heap ring ",
        r"Heap ring (?P<ring>\d+): top=\d+, tail=\d+, size=(?P<size>\d+), used=(?P<used>\d+),"
        r" available=(?P<available>\d+)",
        False,
    ),
    ("heap_request", "Requested:", r"Requested: +(?P<bytes>\d+) bytes", False),
    ("resource", "Pool used:", r"Pool used: +(?P<used>\d+) / (?P<size>\d+)", False),
    ("resource", "entries alive", r"exhausted: (?P<used>\d+) entries alive \(capacity=(?P<size>\d+)\)", False),
    ("resource", "Needed:", r"Needed: +(?P<wanted>\d+) entries", False),
    ("resource", "last_task_alive:", r"last_task_alive: (?P<oldest>\d+) \(stuck here\)", False),
    ("resource", "scope_task_count:", r"scope_task_count: +(?P<in_scope>\d+)", False),
    ("resource", "active_tasks:", r"active_tasks: +(?P<active>\d+) / (?P<window>\d+)", False),
    ("scope_head", "Head task ", r"Head task (?P<local>\d+) is the oldest task owned by an open scope", False),
    (
        "fatal_seen",
        "atal error",
        r"Thread (?P<thread>\d+): (?:Scheduler f|F)atal error(?: detected)? \(code=(?P<code>\d+)\)?",
        False,
    ),
    (
        "unacknowledged",
        "did not acknowledge",
        r"Emergency shutdown: (?P<count>\d+) cores did not acknowledge exit",
        False,
    ),
    ("deinit_timeout", "deinit timed out", r"Core (?P<core>\d+) deinit timed out", False),
    (
        "failed_rc",
        "failed with rc=",
        r"(?:PTO2 runtime|AICPU execution|Scheduler|Thread execution|aicpu_execute) failed with rc=(?P<rc>-?\d+)",
        False,
    ),
    (
        "failed_codes",
        "PTO2 runtime failed:",
        r"PTO2 runtime failed: orch_error_code=(?P<orch>\d+) sched_error_code=(?P<sched>\d+)"
        r" runtime_status=(?P<status>-?\d+)",
        False,
    ),
    ("error_detail", "error detail:", r"error detail: \w+=(?P<code>\d+) (?P<text>.*)", False),
    ("error_hint", "error hint:", r"error hint: (?P<text>.*)", False),
    ("host_error", "failed with code", r"(?:(?P<call>\w+) )?failed with code (?P<rc>-?\d+)", True),
    ("not_run", "Skipping tensor copy-back", r"Skipping tensor copy-back because execution failed", False),
    # what CANN says, and which limits hold
    ("acl_failed", "aclrt", r"aclrt\w+(?: \(\w+\))? failed: (?P<rc>-?\d+)", False),
    ("acl_failed", "ACL error detail:", r"ACL error detail: (?P<rc>-?\d+) (?P<name>\S+)", False),
    ("operation_set", "aclrtSetOpExecuteTimeOut", r"requested=(?P<requested>\d+) us, actual=(?P<actual>\d+) us", False),
    (
        "stream_sync",
        "Stream sync timeout",
        r"Stream sync timeout: stream=(?P<stream>\w+) timeout_ms=(?P<limit>\d+) device_id=(?P<device>-?\d+)",
        False,
    ),
    ("op_execute", "HandleTaskTimeout", r"(?P<text>HandleTaskTimeout.*)", True),
    ("op_execute", "aicpu-sd", r"(?P<text>kill(?:ed|ing|s)? aicpu-sd.*)", True),
    ("reclaim", "No reclaim progress", r"No reclaim progress for ~(?P<ms>\d+) ms", False),
    ("limits_ignored", "timeout env overrides", r"Ignoring PTO2 timeout env overrides: (?P<text>.*)", False),
    (
        "limits_ignored",
        "invalid, using default",
        r"(?P<text>(?:SIMPLER|PTO2)_\w+=\S* invalid, using default \d+)",
        False,
    ),
    ("simulator", "(sim)", r"\(sim\)", False),
    ("fault_kernel", "fault kernel_name=", r"fault kernel_name=\[?(?P<kernel>[^\],\s]+)", True),
    (
        "core_fault",
        "instruction error",
        r"(?P<text>(?:VEC|CUBE|MTE|CCU|FIXP|BIU|IFU)[^\"]*instruction error[^\"]*)",
        True,
    ),
    (
        "terminate",
        "terminate called",
        r"(?:^|[:\]] )terminate called (?:after throwing an instance of '(?P<type>[^']+)'|without an"
        r" active exception)",
        True,
    ),
    ("what", "what():", r"^\s*(?:\S{1,40} )?what\(\):\s+(?P<text>.*)", True),
    ("signal", "Fatal Python error", r"^Fatal Python error: (?P<text>.*)", True),
    ("signal", "egmentation fault", r"(?P<text>Segmentation fault)", True),
    ("signal", "Bus error", r"(?P<text>Bus error)", True),
    ("names", "names={", r"\bnames=(?P<names>\{\"\d+\": \"[^{}]*\"\})", True),
)
"""Kind, keyword that must stand in the message, shape, also in lines without the runtime's level tag."""
