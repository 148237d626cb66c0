"""The watchdogs of the `simpler` runtime and of CANN: their time limits, and which one ended a run.

Sources: simpler src/{a2a3,a5}/platform/include/common/platform_config.h, src/common/platform/{sim,onboard}/aicpu/
spin_hint.h, src/common/platform/include/host/runtime_timeout_config.h, pto_ring_buffer.h and pto_runtime2_types.h of
src/a2a3/runtime/tensormap_and_ringbuffer/runtime, docs/troubleshooting/local-timeout-defaults.md (August 2026).
Variables were called PTO2_… from 2026-06-26 to 2026-07-09 (simpler a405b9541, ff9c85efb), and there were none before;
the limits were 2 s, 3 s and 4 s until 2026-06-27 (c080089d2). Until 2026-05-31 (0309e7873) the scheduler had no
limit of time: it gave up after MAX_IDLE_ITERATIONS idle turns, with the same code (scheduler_types.h).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import cache
from typing import Final

from msgspec import Struct, field, structs

from livedbg.adapters.ascend.messages import NOWHERE, Mark, read_data
from livedbg.linux.last_ran import Load
from livedbg.text.wording import listing


class Watchdog(Struct, frozen=True):
    """One watchdog.

    Attributes:
        name: in a sentence: `the scheduler's watchdog`.
        watches: the condition: `no progress`.
        variable: the environment variable that sets it, without its prefix; "" if it is compiled in.
        per_s: units of that variable in a second.
        where: for the compiled-in ones: its constant.
        device_only: the simulator has none.
    """

    name: str
    watches: str
    default_s: float
    variable: str = ""
    per_s: int = 1_000
    where: str = ""
    device_only: bool = False


@cache
def watchdogs() -> Mapping[str, Watchdog]:
    """Return all watchdogs, ordered by default limit (data/watchdogs.toml)."""
    return read_data("watchdogs.toml", dict[str, Watchdog])


class Limit(Struct, frozen=True):
    """A limit with its source.

    Attributes:
        by: source: `SIMPLER_SCHEDULER_TIMEOUT_MS=5000`, `the default`.
        sure: it comes from the process's environment or log; otherwise the default is assumed.
    """

    seconds: float
    by: str
    sure: bool = True


MAX_IDLE_ITERATIONS: Final = frozenset({800_000, 8_000_000})
"""On a device, and from 2026-05-25 on (a06ed8b0d) on the simulator: such a version's last line has the very number."""
_PREFIXES: Final = ("SIMPLER_", "PTO2_")
_LOADS: Final = 1_000  # samples of the machine's load that are kept
_NEAR_NS: Final = 15_000_000_000  # a sample further away says nothing of a moment
_INT_MAX: Final = (1 << 31) - 1
_CLOSE: Final = 1.25  # a measured time of up to so many times a limit is no reason to doubt it


def limit_of(key: str, environment: Mapping[str, str] | None) -> Limit:
    """Return the limit of one of `watchdogs`, by the process's start environment (None if not known)."""
    dog = watchdogs()[key]
    if not dog.variable:
        return built_in(key, dog.default_s)
    set_to = _settings(environment or {})
    if key in set_to and _ordered(set_to):
        name, value = set_to[key]
        return Limit(value / dog.per_s, f"{name}={value}")
    if environment is None:
        return Limit(dog.default_s, "the default", sure=False)
    return Limit(dog.default_s, "the default")


def _settings(environment: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    found = {}
    for key, dog in watchdogs().items():
        for name in (prefix + dog.variable for prefix in _PREFIXES if dog.variable):
            value = environment.get(name, "").strip()
            if value.isdecimal() and len(value) < 20 and 0 < int(value) <= _INT_MAX and key not in found:
                found[key] = (name, int(value))
    return found


def _ordered(set_to: Mapping[str, tuple[str, int]]) -> bool:
    """Return whether the runtime accepts these settings: on a device, it ignores all of them if they are out of order.

    A scheduler's limit alone (as on the simulator, which has no other) is accepted here.
    """
    if set(set_to) == {"scheduler"}:
        return True
    seconds = [set_to[k][1] / d.per_s if k in set_to else d.default_s for k, d in watchdogs().items() if d.variable]
    scheduler, operation, stream = seconds
    return scheduler < operation < stream and stream > scheduler + 1.5


def built_in(key: str, seconds: float) -> Limit:
    """Return a limit that a line states for a watchdog whose limit is compiled in."""
    return Limit(seconds, f"compiled in as {watchdogs()[key].where}")


def others_after(key: str, limit_s: float, environment: Mapping[str, str] | None, simulator: bool | None) -> str:
    """Return a sentence on the watchdogs with a longer limit than the one that fired; "" if there is none."""
    later = []
    for other, dog in watchdogs().items():
        limit = limit_of(other, environment)
        if not dog.variable or other == key or limit.seconds <= limit_s or (dog.device_only and simulator):
            continue
        later.append(f"{dog.name} ({limit.seconds:g} s)")
    if not later:
        return ""
    device = " (on a device only)" if simulator is None and key != "op-execute" else ""
    return f"Later limits: {listing(later)}{device}."


class Fired(Struct, frozen=True):
    """A watchdog that fired.

    Attributes:
        key: of `watchdogs`.
        said: the limit in the line itself.
        took_s: time without progress before it, by the log's times; at least the limit.
        within_s: duration of the whole run, by its span; at least the limit.
        turns: its limit, where that is a number of idle turns; 0 for a time.
    """

    key: str
    mark: Mark
    said: Limit | None = None
    took_s: float | None = None
    within_s: float | None = None
    turns: int = 0

    def limit(self, environment: Mapping[str, str] | None) -> Limit:
        """Return its limit: from the line, the environment, the log's times, or the default."""
        known = self.said or limit_of(self.key, environment)
        if not known.sure and self.took_s is None and self.within_s is not None and self.within_s < known.seconds:
            by = f"at most: so long the whole run took, by its span in the log; the default is {known.seconds:g} s"
            return Limit(round(self.within_s, 1), by)
        if known.sure or self.took_s is None or known.seconds <= self.took_s <= known.seconds * _CLOSE:
            return known
        return Limit(round(self.took_s, 1), f"as the log's times show; the default is {known.seconds:g} s")


class Timeouts(Struct):
    """The watchdogs that fired in a run, in log order, and the runtime's text on settings that it ignores.

    `operation` is the limit of an operation that CANN was given.
    """

    fired: list[Fired] = field(default_factory=list)
    simulator: bool | None = None
    ignored: str = ""
    ignored_mark: Mark = NOWHERE
    operation: Limit | None = None

    def first(self) -> Fired | None:
        """Return the first that fired, by the lines' own times if they have them, else in log order."""
        timed = [fired for fired in self.fired if fired.mark.exact and fired.mark.wall_ns is not None]
        if len(timed) == len(self.fired) and timed:
            return min(timed, key=lambda fired: fired.mark.wall_ns or 0)
        return self.fired[0] if self.fired else None

    def add(self, key: str, mark: Mark, said: Limit | None = None, took_s: float | None = None, turns: int = 0) -> None:
        """Note a watchdog that fired; repetitions by other threads count once."""
        if all(fired.key != key for fired in self.fired):
            self.fired.append(Fired(key, mark, said, took_s, turns=turns if turns in MAX_IDLE_ITERATIONS else 0))

    def run_took(self, seconds: float) -> None:
        """Note the run's duration: no watchdog in it can have waited longer."""
        self.fired = [structs.replace(fired, within_s=seconds) for fired in self.fired]


class LoadHistory:
    """The newest samples of machine load, to tell a false time-out from a stall."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, Load]] = deque(maxlen=_LOADS)

    def add(self, wall_ns: int, load: Load) -> None:
        self._samples.append((wall_ns, load))

    def around(self, wall_ns: int | None) -> Load | None:
        """Return the highest load around a time; None if there is none."""
        if wall_ns is None:
            return None
        near = [load for at_ns, load in self._samples if abs(at_ns - wall_ns) <= _NEAR_NS]
        return max(near, key=lambda load: load.minute, default=None)
