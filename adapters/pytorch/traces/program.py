"""The compilations of one process, merged from all of its logs.

Invariants:
    compile_program.P1. State is bounded, however long a program goes on compiling: only the first of the ended
        compilations, places and failures are kept, and the total number.
    compile_program.P2. A compilation that occurs in two logs of one process counts once.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from msgspec import Struct, field

_KEPT: Final = 1_000  # compilations that have ended, places of breaks, frames that were compiled again
_FAILURES: Final = 50
_DEPTH: Final = 64  # phases within each other
_PHASES: Final = 200  # names of phases
_ZONE_NS: Final = 600_000_000_000  # clocks that differ by more are of two time zones


class Place(NamedTuple):
    """A user function, or a line of it.

    Attributes:
        function: "" if not known.
        file: as in the log.
        line: where the function begins, or the specific line; 0 if not known.
    """

    function: str = ""
    file: str = ""
    line: int = 0


class Phase(Struct):
    """An open phase; `within_ns` is the time of its ended inner phases."""

    name: str
    since_wall_ns: int
    within_ns: int = 0


class Compilation(Struct):
    """One compilation of one frame.

    Attributes:
        key: torch's number, `0/1`: frame 0 for the second time; "" for none (AOTInductor).
        attempt: how often its analysis was restarted.
        phases: the open ones, outermost first.
        begun_wall_ns: when the outermost of them began.
        took_ns: duration of an ended one.
        error: type of its failure.
        reason: message of its failure.
    """

    key: str
    place: Place = Place()
    attempt: int = 0
    phases: list[Phase] = field(default_factory=list)
    begun_wall_ns: int = 0
    took_ns: int = 0
    error: str = ""
    reason: str = ""


class Break(Struct):
    """A place where a graph broke, with the reason and the compilations in which it did."""

    reason: str = ""
    function: str = ""
    keys: set[str] = field(default_factory=set)
    at_wall_ns: int | None = None


class Again(Struct):
    """A frame that was compiled more than once.

    Attributes:
        times: recompilations.
        key: the newest of these compilations.
        guard: the failed guard, as torch writes it: `0/0: L['n'] == 3`.
        limit: the limit that was reached; 0 for none.
        setting: name of that limit.
    """

    times: int = 0
    key: str = ""
    guard: str = ""
    limit: int = 0
    setting: str = ""
    at_wall_ns: int | None = None


class Failure(Struct):
    error: str
    reason: str
    at_wall_ns: int | None = None


class Program:
    """The compilations of one process.

    Args:
        name: for its entities: its pid, with a suffix if two processes have one pid.
        pid: as the process knows itself.
        wall_ns: time of the first record.

    Attributes:
        first_wall_ns: time of the oldest record, on the clock of the process.
        last_wall_ns: of the newest.
        trace: id of the LogSource of its trace; "" if there is only text.
        sources: ids of all logs about it.
        process: id of the process that has the log open, if known.
        finished: compilations that have ended without an error.
        finished_ns: total time of compilations.
        spent_ns: that time by phase, without inner phases.
        longest: the longest compilation.
    """

    def __init__(self, name: str, pid: int, wall_ns: int) -> None:
        self.name = name
        self.pid = pid
        self.first_wall_ns = self.last_wall_ns = wall_ns
        self._ahead_ns = 0
        self.trace = ""
        self.sources: dict[str, None] = {}
        self.process = ""
        self.rank: int | None = None
        self.compilations: dict[str, Compilation] = {}
        self.places: dict[str, Place] = {}
        self.breaks: dict[Place, Break] = {}
        self.again: dict[str, Again] = {}
        self.failures: dict[str, Failure] = {}
        self.lost_workers: dict[str, int | None] = {}
        self.finished = self.finished_ns = 0
        self.spent_ns: Counter[str] = Counter()
        self.longest: Compilation | None = None
        self.news: dict[str, None] = {}

    def seen(self, wall_ns: int) -> None:
        """Note the header time of a record."""
        self.first_wall_ns = min(self.first_wall_ns, wall_ns - self._ahead_ns)
        self.last_wall_ns = max(self.last_wall_ns, wall_ns - self._ahead_ns)

    def seen_exactly(self, header_wall_ns: int | None, wall_ns: int) -> None:
        """Note the UTC time of a record: its header may be in another time zone than this machine's."""
        ahead = (header_wall_ns or wall_ns) - wall_ns
        if abs(ahead) > _ZONE_NS:
            self._ahead_ns, self.first_wall_ns, self.last_wall_ns = ahead, wall_ns, wall_ns
        self.last_wall_ns = max(self.last_wall_ns, wall_ns)

    def begin_trace(self, source: str) -> None:
        """Switch to a trace, which shows open phases more exactly than a text does."""
        self.trace = source
        for one in self.compilations.values():
            one.phases.clear()

    @property
    def open(self) -> Compilation | None:
        """Return the newest open compilation."""
        opened = [one for one in self.compilations.values() if one.phases]
        return max(opened, key=lambda one: one.begun_wall_ns, default=None)

    def compilation(self, key: str) -> Compilation:
        """Return the compilation with a key, created if needed."""
        known = self.compilations.get(key)
        if known is None:
            known = self.compilations[key] = Compilation(key, self.place_of(key))
            if len(self.compilations) > _KEPT:
                self._forget()
        self.news[key] = None
        return known

    def place_of(self, key: str) -> Place:
        return self.places.get(frame_of(key), Place())

    def starts(self, key: str, place: Place, attempt: int = 0) -> None:
        one = self.compilation(key)
        one.attempt = max(one.attempt, attempt)
        if place.function:
            one.place = place
            if len(self.places) < _KEPT:
                self.places.setdefault(frame_of(key), place)

    def begins(self, key: str, phase: str, wall_ns: int) -> None:
        one = self.compilation(key)
        if one.phases and one.phases[0].name == phase:
            one.phases.clear()  # the end of the last one was not written
        if not one.phases:
            one.begun_wall_ns = wall_ns
        if len(one.phases) < _DEPTH:
            one.phases.append(Phase(phase, wall_ns))

    def ends(self, key: str, phase: str, wall_ns: int) -> None:
        """End a phase and its inner phases."""
        one = self.compilations.get(key)
        names = [open_.name for open_ in one.phases] if one is not None else []
        if one is None or phase not in names:
            return
        self.news[key] = None
        ended = one.phases[len(names) - 1 - names[::-1].index(phase)]
        del one.phases[one.phases.index(ended) :]
        took = max(0, wall_ns - ended.since_wall_ns)
        if phase in self.spent_ns or len(self.spent_ns) < _PHASES:
            self.spent_ns[phase] += max(0, took - ended.within_ns)
        if one.phases:
            one.phases[-1].within_ns += took
            return
        one.took_ns += took
        self.finished_ns += took
        self.finished += 0 if one.error else 1
        if self.longest is None or one.took_ns > self.longest.took_ns:
            self.longest = one

    def fails(self, key: str, error: str, reason: str, wall_ns: int | None) -> None:
        one = self.compilation(key)
        one.error, one.reason = error, reason
        if key in self.failures or len(self.failures) < _FAILURES:
            self.failures[key] = Failure(error, reason, wall_ns)

    def breaks_at(self, key: str, place: Place, reason: str, wall_ns: int | None) -> None:
        line = place._replace(function="")
        if line not in self.breaks and len(self.breaks) < _KEPT:
            self.breaks[line] = Break()
        if (known := self.breaks.get(line)) is not None:
            known.at_wall_ns = wall_ns
            known.reason = reason or known.reason
            known.function = place.function or known.function
            if len(known.keys) < _KEPT:
                known.keys.add(key)

    def recompiles(self, key: str, guard: str, wall_ns: int | None) -> None:
        """Note that a guard failed and a frame is compiled again."""
        known = self._again(key)
        number = key.rpartition("/")[2]
        if known is not None and number.isdecimal() and int(number) >= known.times:
            known.times, known.key, known.at_wall_ns = int(number), key, wall_ns
            known.guard = guard or known.guard

    def reaches_limit(self, key: str, setting: str, limit: int) -> None:
        """Note that torch gives up on a frame that was compiled too often."""
        known = self._again(key)
        if known is not None:
            known.setting, known.limit = setting, limit

    def _again(self, key: str) -> Again | None:
        frame = frame_of(key)
        if frame not in self.again and len(self.again) < _KEPT:
            self.again[frame] = Again()
        return self.again.get(frame)

    def _forget(self) -> None:
        """Forget the compilation that ended longest ago."""
        for key, one in self.compilations.items():
            if not one.phases and key not in self.news:
                del self.compilations[key]
                return


def frame_of(key: str) -> str:
    """Return the frame of a compilation: `3` for `3/1`, `!0/3` for `!0/3/1`."""
    return key.rpartition("/")[0]
