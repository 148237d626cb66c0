"""The watchdogs of the `simpler` runtime and of CANN, and the time limits after which they end a run.

Sources: simpler src/{a2a3,a5}/platform/include/common/platform_config.h, src/common/platform/{sim,onboard}/aicpu/
spin_hint.h, src/common/platform/include/host/runtime_timeout_config.h, pto_ring_buffer.h and pto_runtime2_types.h of
src/a2a3/runtime/tensormap_and_ringbuffer/runtime,
docs/troubleshooting/local-timeout-defaults.md (August 2026). Variables were
called PTO2_… from 2026-06-26 to 2026-07-09 (simpler a405b9541, ff9c85efb), and there were none before; the
limits were 2 s, 3 s and 4 s until 2026-06-27 (c080089d2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

__all__ = ["WATCHDOGS", "Limit", "Watchdog", "limit_of", "others_after"]


class Watchdog(Struct, frozen=True):
    """One that gives up after a time.

    Attributes:
        name: in a sentence: `the scheduler's watchdog`.
        watches: the condition, in words: `no progress`.
        default_s: its default limit.
        variable: the environment variable that sets it, without its prefix; "" where it is compiled in.
        per_s: units of that variable in a second.
        where: for the compiled-in ones: which constant it is.
        device_only: the simulator has none.
    """

    key: str
    name: str
    watches: str
    default_s: float
    variable: str = ""
    per_s: int = 1_000
    where: str = ""
    device_only: bool = False


class Limit(Struct, frozen=True):
    """A limit and by what it is known.

    Attributes:
        by: in words: `SIMPLER_SCHEDULER_TIMEOUT_MS=5000`, `the default`.
        sure: the process's environment or its log says so; otherwise it is the default, and may have been set.
    """

    seconds: float
    by: str
    sure: bool = True


WATCHDOGS: Final[Mapping[str, Watchdog]] = {
    dog.key: dog
    for dog in (
        Watchdog(
            "allocator",
            "the allocator's watchdog",
            "no slot was freed",
            0.5,
            where="PTO2_ALLOC_DEADLOCK_TIMEOUT_CYCLES",
        ),
        Watchdog("scheduler", "the scheduler's watchdog", "no progress", 10.0, "SCHEDULER_TIMEOUT_MS"),
        Watchdog(
            "tensor-wait",
            "the wait for tensor data",
            "the tensor did not come",
            15.0,
            where="PTO2_TENSOR_DATA_TIMEOUT_MS",
        ),
        Watchdog(
            "op-execute",
            "CANN's limit on one operation (STARS)",
            "the operation did not end",
            45.0,
            "OP_EXECUTE_TIMEOUT_US",
            1_000_000,
            device_only=True,
        ),
        Watchdog(
            "stream-sync",
            "the host's wait for the stream",
            "the stream did not end",
            50.0,
            "STREAM_SYNC_TIMEOUT_MS",
            device_only=True,
        ),
    )
}
"""By key, in the order of their default limits."""

_PREFIXES: Final = ("SIMPLER_", "PTO2_")
_INT_MAX: Final = (1 << 31) - 1


def limit_of(key: str, environment: Mapping[str, str] | None) -> Limit:
    """The limit of a watchdog in a process with that environment.

    Args:
        key: of `WATCHDOGS`.
        environment: what the process was started with; None where it isn't known.
    """
    dog = WATCHDOGS[key]
    if not dog.variable:
        return Limit(dog.default_s, f"compiled in as {dog.where}")
    set_to = _settings(environment or {})
    if key in set_to and _ordered(set_to):
        name, value = set_to[key]
        return Limit(value / dog.per_s, f"{name}={value}")
    if environment is None:
        return Limit(dog.default_s, "the default", sure=False)
    return Limit(dog.default_s, "the default")


def _settings(environment: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    found = {}
    for dog in WATCHDOGS.values():
        for name in (prefix + dog.variable for prefix in _PREFIXES if dog.variable):
            value = environment.get(name, "").strip()
            if value.isdecimal() and len(value) < 20 and 0 < int(value) <= _INT_MAX and dog.key not in found:
                found[dog.key] = (name, int(value))
    return found


def _ordered(set_to: Mapping[str, tuple[str, int]]) -> bool:
    """Whether the runtime takes these settings: it ignores all of them on a device when they are out of order.

    A scheduler's limit alone (as on the simulator, which has no other) is taken here.
    """
    if set(set_to) == {"scheduler"}:
        return True
    seconds = [set_to[k][1] / d.per_s if k in set_to else d.default_s for k, d in WATCHDOGS.items() if d.variable]
    scheduler, operation, stream = seconds
    return scheduler < operation < stream and stream > scheduler + 1.5


def others_after(key: str, limit_s: float, environment: Mapping[str, str] | None, simulator: bool | None) -> str:
    """Name the watchdogs with a longer limit, in a sentence; "" if there is none.

    Args:
        key: the watchdog that fired.
        limit_s: its limit.
        environment: of the process; None if unknown.
        simulator: True on the simulator; None if unknown.
    """
    later = []
    for dog in WATCHDOGS.values():
        limit = limit_of(dog.key, environment)
        if not dog.variable or dog.key == key or limit.seconds <= limit_s or (dog.device_only and simulator):
            continue
        later.append(f"{dog.name} ({limit.seconds:g} s)")
    if not later:
        return ""
    device = " (on a device only)" if simulator is None and key != "op-execute" else ""
    names = " and ".join(filter(None, (", ".join(later[:-1]), later[-1])))
    return f"Later limits: {names}{device}."
