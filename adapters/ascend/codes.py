"""Error codes and stall classes for users (data/codes.toml), and where the device's log is.

Source of the place of a device's log: simpler .claude/rules/running-onboard.md ("507018 triage"), CANN log reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Final

from msgspec import Struct, structs

from livedbg.adapters.ascend.messages import read_data

_RANGES: Final = ((100_000, 199_999), (200_000, 299_999), (500_000, 599_999))
"""CANN's numbers: bad arguments and use, lack of something, failures inside (rt_error_codes.h)."""


class ErrorCode(Struct, frozen=True):
    """An error code of the orchestrator (1 to 11) or the scheduler (from 100).

    Attributes:
        meaning: half a sentence.
        blame: usual cause: `orchestration code`, `kernel`, `configuration`, `the runtime`.
    """

    number: int = 0
    name: str = ""
    meaning: str = ""
    advice: str = ""
    blame: str = ""


class StallClass(Struct, frozen=True):
    """A `sub_class` of code 100 (SCHEDULER_TIMEOUT)."""

    meaning: str
    advice: str


class Group(StrEnum):
    """Kind of a CANN code."""

    HARDWARE = "hardware"  # memory, links or the chip itself
    FAULT = "fault"  # a kernel did something that the device refuses
    MEMORY = "memory"  # none left
    SETUP = "setup"  # the device could not be opened
    TIMEOUT = "timeout"  # something took longer than its limit
    USAGE = "usage"  # a call was wrong
    RESOURCE = "resource"  # streams, events, notifies used up
    MASK = "mask"  # only that something failed


class CannCode(Struct, frozen=True):
    """A return code of CANN's runtime.

    Attributes:
        meaning: half a sentence.
        mask: it only says that something failed: the cause is logged elsewhere.
        advice: "" for a mask (`device_log` says where to look).
    """

    number: int
    name: str
    meaning: str
    mask: bool = True
    advice: str = ""
    group: Group = Group.MASK


class _Codes(Struct, frozen=True):
    codes: dict[str, tuple[str, str]]
    mask: bool = False
    advice: str = ""
    group: Group | None = None


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    runtime: dict[str, ErrorCode]
    host_built: dict[str, ErrorCode]
    unexplained: dict[str, str]
    stall: dict[str, StallClass]
    cann: dict[str, _Codes]


@cache
def _file() -> _File:
    return read_data("codes.toml", _File)


def _name(name: str) -> str:
    return name if name.startswith("ACL") else f"ACL_ERROR_RT_{name}"


@cache
def cann_codes() -> Mapping[int, CannCode]:
    """Return the known codes of CANN, by number."""
    return {
        int(number): CannCode(int(number), _name(name), meaning, table.mask, table.advice, table.group or Group(group))
        for group, table in _file().cann.items()
        for number, (name, meaning) in table.codes.items()
    }


def cann_code(number: int | None) -> CannCode | None:
    """Return CANN's code of a number, also an unknown one in CANN's ranges; None for other numbers."""
    if number is None:
        return None
    number = abs(number)
    known = cann_codes().get(number)
    if known is None and any(first <= number <= last for first, last in _RANGES):
        return CannCode(number, "a code of CANN's that livedbg doesn't know", "something failed below the runtime")
    return known


def error_code(number: int) -> ErrorCode:
    """Return the runtime's code of a number; the sign is ignored (a runtime status is the negated code)."""
    number = abs(number)
    if not number:
        return ErrorCode(advice="read the log lines before it")
    unknown = ErrorCode(name=f"CODE_{number}", meaning="a code that livedbg doesn't know")
    return structs.replace(_file().runtime.get(str(number), unknown), number=number)


def named_code(number: int) -> str:
    """Return `code 3, FLOW_CONTROL_DEADLOCK`; "" for 0."""
    return f"code {number}, {error_code(number).name}" if number else ""


def whole_graph(code: ErrorCode) -> ErrorCode:
    """Return the code's meaning in host_build_graph, which builds the whole graph first, so that nothing is freed."""
    return structs.replace(_file().host_built.get(str(code.number), code), number=code.number)


def unexplained(call: str) -> str:
    """Return the text for a run that only failed with -1, by the host's failed call."""
    said = _file().unexplained
    return said.get(call, said["other"])


def stall_class(sub_class: str) -> StallClass:
    """Return the class of a `sub_class=` text such as `S1:running-stalled`."""
    classes = _file().stall
    return classes.get(sub_class.partition(":")[0], classes["unknown"])


def device_log(environment: Mapping[str, str], pid: int | None = None, device: int | None = None) -> str:
    """Return the path of the device's log by CANN's rule, from the process's environment (maybe empty)."""
    root = environment.get("ASCEND_PROCESS_LOG_PATH") or (
        f"{environment['ASCEND_WORK_PATH']}/log" if environment.get("ASCEND_WORK_PATH") else ""
    )
    folder = f"device-{'ID' if device is None else device}"
    name = f"device-{'PID' if pid is None else pid}_*.log"
    if root:
        return f"{root}/debug/{folder}/{name}"
    return f"$ASCEND_PROCESS_LOG_PATH/debug/{folder}/{name} (where that isn't set: ~/ascend/log/debug/{folder}/)"
