"""Merged exception hits, and links from a hit to its thread, log records and task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from livedbg.model import ExceptionHit, Task, TaskState
from livedbg.panels.base import Key, Led, LinePanel, Noticed
from livedbg.panels.draw_context import DrawContext

_S: Final = 1_000_000_000
_SECONDS: Final = 600
"""Seconds of history that are merged at most: more than any screen has columns."""


@dataclass(frozen=True, slots=True)
class HitGroup:
    """Hits of one type and stack, whatever their messages and threads; not empty, newest first."""

    hits: tuple[ExceptionHit, ...]

    @property
    def id(self) -> str:
        """Return a stable id: that of the first hit."""
        return min(self.hits, key=lambda hit: (_first(hit), hit.id)).id

    @property
    def newest(self) -> ExceptionHit:
        return self.hits[0]

    @property
    def count(self) -> int:
        """Return the total number of hits."""
        return sum(hit.count for hit in self.hits)

    @property
    def first_wall_ns(self) -> int:
        """Return when it was first seen; 0 if not known."""
        return min(map(_first, self.hits))

    @property
    def last_wall_ns(self) -> int:
        """Return when it was last seen; 0 if not known."""
        return self.newest.at_wall_ns or 0

    @property
    def threads(self) -> tuple[str, ...]:
        """Return the throwing threads, last one first."""
        return tuple(dict.fromkeys(hit.thread for hit in self.hits if hit.thread is not None))

    @property
    def messages(self) -> dict[str, int]:
        """Return its messages with their counts, last one first."""
        found: dict[str, int] = {}
        for hit in self.hits:
            found[hit.message] = found.get(hit.message, 0) + hit.count
        return found

    @property
    def history(self) -> tuple[int, ...]:
        """Return the hits in each second up to the last hit, newest last."""
        end = self.last_wall_ns // _S
        sums = [0] * _SECONDS
        for hit in self.hits:
            late = end - (hit.at_wall_ns or 0) // _S
            for back, number in enumerate(reversed(hit.history[-_SECONDS:])):
                if late + back < _SECONDS:
                    sums[-1 - late - back] += number
        begin = next((place for place, number in enumerate(sums) if number), _SECONDS)
        return tuple(sums[begin:])


def merged(hits: Mapping[str, ExceptionHit], *, apart: bool = False) -> dict[str, HitGroup]:
    """Return groups by id; with `apart`, every hit is a group of its own."""
    found: dict[object, list[ExceptionHit]] = {}
    for hit in hits.values():
        found.setdefault(hit.id if apart else _shape(hit), []).append(hit)
    groups = (HitGroup(tuple(sorted(same, key=lambda hit: -(hit.at_wall_ns or 0)))) for same in found.values())
    return {group.id: group for group in groups}


def group_of(hits: Mapping[str, ExceptionHit], identity: str) -> HitGroup | None:
    """Return the group that contains a hit."""
    wanted = hits.get(identity)
    if wanted is None:
        return None
    shape = _shape(wanted)
    same = {name: hit for name, hit in hits.items() if hit.type == wanted.type and _shape(hit) == shape}
    return next(iter(merged(same).values()))


def sparkline(history: Sequence[int], width: int, sparks: str) -> str:
    """Return the last `width` seconds as characters; the maximum has the highest one, and any count shows."""
    shown = history[-width:] if width > 0 else ()
    most, top = max(shown, default=0), len(sparks) - 1
    return "".join(sparks[-(-number * top // most)] if number > 0 else sparks[0] for number in shown)


def _first(hit: ExceptionHit) -> int:
    return hit.first_wall_ns or hit.at_wall_ns or 0


def _shape(hit: ExceptionHit) -> object:
    """Return the grouping key of a hit; without a stack the messages must be equal."""
    if not hit.stack:
        return hit.type, hit.message
    return hit.type, tuple((frame.function, frame.file, frame.line) for frame in hit.stack)


LINK_KEYS: Final = (
    Key("T", "T", "to_thread", "go to the thread of the last hit (screen Threads)"),
    Key("L", "L", "to_log", "go to the log records around that time, of that thread if it logs"),
    Key("W", "W", "to_task", "go to the task that the thread works on (screen Tasks)"),
)
_LIKELY: Final = (TaskState.RUNNING, TaskState.FAILED, TaskState.COMPLETED)


class HitLinks(LinePanel):
    """A panel with a selected hit."""

    def selected(self) -> HitGroup | None:
        """Return the selected group."""
        raise NotImplementedError

    def action_to_thread(self) -> None:
        group = self.selected()
        if group is None:
            self._say("Nothing is selected.")
            return
        known = self.context.snapshot.threads
        living = [thread for thread in group.threads if thread in known and not known[thread].exited]
        if living:
            self.post_message(Led("threads", living[0]))
        elif group.threads:
            self._say(f"{self._label(group)} has exited; its stack at the throw is shown here.")
        else:
            self._say("The thread that threw it is unknown.")

    def action_to_log(self) -> None:
        group = self.selected()
        if group is None:
            self._say("Nothing is selected.")
        elif not self.context.snapshot.recent_logs:
            self._say("No logs are read. Use --logs PATH or `livedbg launch`.")
        else:
            newest = group.newest
            self.post_message(Led("logs", newest.thread or newest.process or "", newest.at_wall_ns))

    def action_to_task(self) -> None:
        group = self.selected()
        if group is None:
            self._say("Nothing is selected.")
            return
        task = task_of(self.context, group)
        if task is not None:
            self.post_message(Led("tasks", task.id))
        elif not self.context.snapshot.tasks:
            self._say("There are no tasks: no runtime reports any here.")
        else:
            self._say(f"No task is known for {self._label(group)}: its runtime reports cores, or other threads.")

    def _label(self, group: HitGroup) -> str:
        return self.context.names.label(group.threads[0]) if group.threads else "its thread"

    def _say(self, text: str) -> None:
        self.post_message(Noticed(text))


def task_of(context: DrawContext, group: HitGroup) -> Task | None:
    """Return a task on one of the threads: a running one, else a failed one, else a finished one."""
    threads = set(group.threads)
    if not threads:
        return None
    found = [task for task in context.snapshot.tasks.values() if not threads.isdisjoint(task.where)]
    return min(found, key=lambda task: _LIKELY.index(task.state) if task.state in _LIKELY else 9, default=None)
