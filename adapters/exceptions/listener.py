"""Listens to one function in one process, in a thread of its own: no stop, nothing traced.

Types that don't match are learnt and then sorted out by the kernel (`_Pass.wanted`), so that they cost no more than
the trap: the address of a type's description identifies it.

Invariants:
    I1. Threads born later are heard from their first instruction: what listens is inherited.
    I2. Changing what the kernel sorts out loses no call and repeats none: a pass hears all calls before the moment
        at which the next one has begun to hear.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from livedbg.adapters.exceptions.calls import Call
from livedbg.adapters.exceptions.hearing import Counts, Heard, Hearing, Nowhere, family, threads_of
from livedbg.adapters.exceptions.subject import Subject, Unheard
from livedbg.linux.places import Found, find_in_files, find_places
from livedbg.probes.perf import TRACEPOINT, PerfEvents, Source
from livedbg.probes.perf_count import Tally
from livedbg.probes.tracefs import TraceEvent, TraceEvents

__all__ = ["Counts", "Heard", "Listener", "Nowhere"]

_GATHER_S: Final = 0.004  # calls that come within this are read at once
_IDLE_S: Final = 0.2
_LIBRARIES_S: Final = 1.0  # how often it is looked for libraries that were loaded meanwhile
_LEARN: Final = 300  # calls of a type that nobody wants, until the kernel is told to drop it
_LEARNT_MOST: Final = 24  # types in one filter (it has a page: 4096 bytes)


@dataclass(slots=True)
class _Pass:
    """One set of events over the places that were known when it began.

    Attributes:
        until_ns: calls from then on belong to the next pass.
    """

    events: PerfEvents
    sources: Sequence[tuple[Found, TraceEvent]]
    since_ns: int
    until_ns: int | None = None


class Listener(Hearing):
    """Hears the calls of some functions.

    Args:
        pid: the process.
        subject: what is listened to.
        wanted: whether a call is, by its type; called in the listener's thread.
        tell: called in the listener's thread with the wanted calls, in the order of time.
        follow: child processes too.
        files: files that the process may load: listened to before it does.
    """

    def __init__(
        self,
        pid: int,
        subject: Subject,
        *,
        wanted: Callable[[Call], bool],
        tell: Callable[[Sequence[Heard]], None],
        follow: bool,
        files: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._all_files = self._files = tuple(files)
        self._pid = pid
        self._subject = subject
        self._wanted = wanted
        self._tell = tell
        self._follow = follow
        self._unwanted: Counter[int] = Counter()
        self._dropped: set[int] = set()
        self._places: dict[tuple[int, int, int], tuple[Found, TraceEvent]] = {}
        self._searched: set[tuple[str, int]] = set()
        self._passes: list[_Pass] = []
        self._unheard: list[Unheard] = []
        self._trace: TraceEvents | None = None
        self._sampled = 0
        self._early = 0  # of those: before the tally began
        self._tally: Tally | None = None
        self._tally_ns = 0
        self._tallied = 0  # by tallies before it

    def _set(self) -> None:
        """Set the probes. Where they are for a runtime that may still be loaded, it is waited for."""
        self._trace = TraceEvents()
        self._find()
        if self._places:
            self._begin_pass()
        elif self._unheard:
            raise self._unheard[0]
        elif not self._subject.awaited:
            raise Nowhere(", ".join(self._subject.functions))

    @property
    def files(self) -> tuple[str, ...]:
        """The files in which functions are listened to, as the process has them."""
        return tuple(dict.fromkeys(found.file for found, _ in list(self._places.values())))

    # what is listened to

    def _find(self) -> bool:
        """Whether there are places that were not known."""
        assert self._trace is not None
        changed = self._subject.changed()
        if changed:
            self._places.clear()
            self._searched.clear()
            self._files = self._all_files
        before = len(self._places)
        for pid in family(self._pid, self._follow):
            try:
                found, missed = find_places(pid, self._subject.functions, self._searched)
            except OSError:
                if pid == self._pid and not self._places:
                    raise
                continue
            self.counts.unread += missed
            self._define(found)
        files, self._files = self._files, ()
        self._define(find_in_files(files, self._subject.functions))
        return changed or len(self._places) > before

    def _define(self, found: Sequence[Found]) -> None:
        assert self._trace is not None
        for one in found:
            with contextlib.suppress(OSError):  # the file is gone, or the kernel finds no code there
                stat = Path(one.place.path).stat()
                key = (stat.st_dev, stat.st_ino, one.place.offset)
                if key in self._places:
                    continue
                try:
                    arguments = self._subject.arguments(one)
                except Unheard as unheard:
                    self._unheard.append(unheard)
                    self.counts.unread.append(str(unheard))
                    continue
                self._places[key] = (one, self._trace.define(one.place.path, one.place.offset, arguments))

    def _begin_pass(self) -> None:
        """Listen to all places; the pass before it ends at the moment from which this one hears everything."""
        sources = list(self._places.values())
        conditions = [self._subject.only] if self._subject.only else []
        wanted = " && ".join([*conditions, *(f"type_info != {address:#x}" for address in sorted(self._dropped))])
        events = PerfEvents(
            [Source(TRACEPOINT, event.number, wanted=wanted) for _, event in sources],
            stack_bytes=self._subject.stack_bytes,
            follow=self._follow,
        )
        try:
            events.add_all(self._threads)
            if self._dropped:
                self._count_anew([Source(TRACEPOINT, event.number, wanted=self._subject.only) for _, event in sources])
        except BaseException:
            events.close()
            raise
        now_ns = time.monotonic_ns()
        if self._passes:
            self._passes[-1].until_ns = now_ns
        self._passes.append(_Pass(events, sources, now_ns if self._passes else 0))

    def _threads(self) -> list[int]:
        return threads_of(self._pid, self._follow)

    # the thread

    def _listen(self) -> None:
        with contextlib.suppress(OSError):  # only root may: what is not read in time is lost
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 0)
        waiting = select.poll()
        waiting.register(self._awake, select.POLLIN)
        for one in self._passes:
            waiting.register(one.events.fileno(), select.POLLIN)
        look_s = time.monotonic() + _LIBRARIES_S
        while not self._over.is_set():
            waiting.poll(1000 * _IDLE_S)
            if not self._over.wait(_GATHER_S):
                self._hear()
            if time.monotonic() < look_s and not self._learnt():
                continue
            look_s = time.monotonic() + _LIBRARIES_S
            if self._again():
                waiting.register(self._passes[-1].events.fileno(), select.POLLIN)
        self._hear()

    def _again(self) -> bool:
        """Look for new libraries; begin a new pass where there is something new to say to the kernel."""
        assert self._trace is not None
        self._count()
        alive = self._threads()
        for one in self._passes:
            one.events.keep(alive)
        try:
            learnt = self._learnt()
            if not self._find() and not learnt:
                return False
            self._dropped.update(
                address for address, count in self._unwanted.most_common(_LEARNT_MOST) if count >= _LEARN
            )
            self._unwanted.clear()
            self._begin_pass()
        except OSError:
            return False  # what is heard so far is still heard
        return True

    def _count(self) -> None:
        """Count those that the kernel sorts out, too."""
        now = self._tally.total() if self._tally is not None else 0
        self.counts.seen = max(self._sampled, self._early + self._tallied + now)

    def _count_anew(self, sources: Sequence[Source]) -> None:
        """Count all calls by other means than samples, from now on."""
        before, self._tally = self._tally, Tally(sources, self._threads(), follow=self._follow)
        if before is None:
            self._tally_ns = self._tally.since_ns
        else:
            self._tallied += before.total()
            before.close()

    def _learnt(self) -> bool:
        """Whether there is a type that comes often and is wanted by nobody."""
        common = self._unwanted.most_common(1)
        return bool(common) and common[0][1] >= _LEARN and len(self._dropped) < _LEARNT_MOST

    def _hear(self) -> None:
        """Take what came, and end the passes that are over."""
        heard = [one for part in self._passes for one in self._of(part)]
        for part in self._passes[:-1]:
            part.events.close()
        del self._passes[:-1]
        heard.sort(key=lambda one: one.sample.mono_ns)
        self.counts.seen = max(self.counts.seen, self._sampled)
        if heard:
            self._tell(heard)

    def _of(self, part: _Pass) -> Iterator[Heard]:
        samples = part.events.read()
        self.counts.lost += part.events.take_lost()
        for sample in samples:
            if sample.mono_ns < part.since_ns or (part.until_ns is not None and sample.mono_ns >= part.until_ns):
                continue
            found, event = part.sources[sample.source]
            call = self._subject.describe(sample, event.fields, found)
            if call is None:
                continue
            self._sampled += 1
            if self._tally is None or sample.mono_ns < self._tally_ns:
                self._early += 1
            if self._wanted(call):
                yield Heard(sample, call, self._subject.python(sample, event.fields, found))
            elif call.type_info:
                self._unwanted[call.type_info] += 1

    def _close(self) -> None:
        for one in self._passes:
            one.events.close()
        self._passes.clear()
        if self._tally is not None:
            self._count()
            self._tally.close()
        if self._trace is not None:
            self._trace.close()
