"""Which watchdogs fired in a run, in which order, and after how long: collected from its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field, structs

from livedbg.adapters.ascend.marks import NOWHERE, Mark
from livedbg.adapters.ascend.messages import Fields, number, optional_number
from livedbg.adapters.ascend.watchdogs import WATCHDOGS, Limit, limit_of

__all__ = ["Fired", "Timeouts"]

_A2A3_HZ: Final = 50_000_000
_A5_HZ: Final = (
    1_000_000_000  # PLATFORM_PROF_SYS_CNT_FREQ of simpler src/{a2a3,a5}/platform/include/common/platform_config.h
)
_MANY_CYCLES: Final = 5_000_000_000  # more than any limit has at a2a3's frequency
_CLOSE: Final = 1.25  # a measured time of up to so many times a limit is no reason to doubt it


class Fired(Struct, frozen=True):
    """One watchdog that gave up.

    Attributes:
        key: of `WATCHDOGS`.
        said: the limit that the line itself names.
        took_s: how long nothing went on before it, where the log's times tell; never less than the limit.
        within_s: how long the whole run took, where its span tells; never less than the limit.
    """

    key: str
    mark: Mark
    said: Limit | None = None
    took_s: float | None = None
    within_s: float | None = None

    def limit(self, environment: Mapping[str, str] | None) -> Limit:
        """Its limit: as the line says, as the environment says, as the log's times show, or the default."""
        known = self.said or limit_of(self.key, environment)
        if not known.sure and self.took_s is None and self.within_s is not None and self.within_s < known.seconds:
            by = f"at most: so long the whole run took, by its span in the log; the default is {known.seconds:g} s"
            return Limit(round(self.within_s, 1), by)
        if known.sure or self.took_s is None or known.seconds <= self.took_s <= known.seconds * _CLOSE:
            return known
        return Limit(round(self.took_s, 1), f"as the log's times show; the default is {known.seconds:g} s")


class Timeouts(Struct):
    """All of them.

    Attributes:
        simulator: whether it ran on the simulator; None while the log has not told.
        ignored: what the runtime said of settings that it doesn't take.
    """

    fired: list[Fired] = field(default_factory=list)
    simulator: bool | None = None
    ignored: str = ""
    ignored_mark: Mark = NOWHERE
    _operation: Limit | None = None

    def begin(self) -> None:
        """A new run begins: what the process was set to stays."""
        self.fired.clear()

    def first(self) -> Fired | None:
        """The one that fired first: by the lines' own times, where they have them, else in the order of the log."""
        timed = [fired for fired in self.fired if fired.mark.exact and fired.mark.wall_ns is not None]
        if len(timed) == len(self.fired) and timed:
            return min(timed, key=lambda fired: fired.mark.wall_ns or 0)
        return self.fired[0] if self.fired else None

    def add(self, key: str, mark: Mark, said: Limit | None = None, took_s: float | None = None) -> None:
        """A watchdog gave up; said again by other threads it counts once."""
        if all(fired.key != key for fired in self.fired):
            self.fired.append(Fired(key, mark, said, took_s))

    def run_took(self, seconds: float) -> None:
        """The run's span: no watchdog that fired in it can have waited longer."""
        self.fired = [structs.replace(fired, within_s=seconds) for fired in self.fired]

    def reclaim(self, fields: Fields, mark: Mark) -> None:
        """`No reclaim progress for ~500 ms (N cycles wall clock).`"""
        self.add(
            "allocator", mark, Limit(number(fields, "ms") / 1_000, f"compiled in as {WATCHDOGS['allocator'].where}")
        )

    def tensor_wait(self, text: str, mark: Mark) -> None:
        """`Timeout (N cycles): producer …`."""
        digits = text.partition("(")[2].partition(" ")[0]
        if digits.isdecimal() and len(digits) < 20 and text.startswith("Timeout ("):
            cycles = int(digits)
            seconds = cycles / (_A5_HZ if cycles >= _MANY_CYCLES else _A2A3_HZ)
            self.add("tensor-wait", mark, Limit(seconds, f"compiled in as {WATCHDOGS['tensor-wait'].where}"))

    def stream_sync(self, fields: Fields, mark: Mark) -> None:
        """`Stream sync timeout: stream=… timeout_ms=…`."""
        self.simulator = False
        self.add("stream-sync", mark, Limit(number(fields, "limit") / 1_000, "as the log says"))

    def operation_set(self, fields: Fields) -> None:
        """`aclrtSetOpExecuteTimeOutV2: requested=… us, actual=… us`."""
        self.simulator = False
        actual = optional_number(fields, "actual")
        if actual:
            self._operation = Limit(actual / 1_000_000, "as the log says")

    def operation(self, mark: Mark) -> None:
        """`HandleTaskTimeout`: CANN ended the operation."""
        self.simulator = False
        self.add("op-execute", mark, self._operation)

    def refused(self, why: str, mark: Mark) -> None:
        """The runtime doesn't take a setting."""
        self.ignored, self.ignored_mark = why, mark
