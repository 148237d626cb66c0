"""From something caught to the screens that say more: its thread, what was logged around it, the task it belongs to."""

from __future__ import annotations

from typing import Final

from livedbg.model import Task, TaskState
from livedbg.panels.base import LinePanel
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.hits import HitGroup
from livedbg.panels.keys import Key
from livedbg.panels.messages import Led, Noticed

LINK_KEYS: Final = (
    Key("T", "T", "to_thread", "go to the thread of the last hit (screen Threads)"),
    Key("L", "L", "to_log", "go to the log records around that time, of that thread if it logs"),
    Key("W", "W", "to_task", "go to the task that the thread works on (screen Tasks)"),
)
_LIKELY: Final = (TaskState.RUNNING, TaskState.FAILED, TaskState.COMPLETED)


class HitLinks(LinePanel):
    """A panel in which something caught is selected."""

    def selected(self) -> HitGroup | None:
        """What is selected."""
        raise NotImplementedError

    def action_to_thread(self) -> None:
        """Show its thread; where that has ended, say so."""
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
        """Show what was logged around its last time."""
        group = self.selected()
        if group is None:
            self._say("Nothing is selected.")
        elif not self.context.snapshot.recent_logs:
            self._say("No logs are read. Use --logs PATH or `livedbg launch`.")
        else:
            newest = group.newest
            self.post_message(Led("logs", newest.thread or newest.process or "", newest.at_wall_ns))

    def action_to_task(self) -> None:
        """Show its task; where none is known, say why."""
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
    """A task on one of the threads: one that runs before one that failed, and that before one that is over."""
    threads = set(group.threads)
    if not threads:
        return None
    found = [task for task in context.snapshot.tasks.values() if not threads.isdisjoint(task.where)]
    return min(found, key=lambda task: _LIKELY.index(task.state) if task.state in _LIKELY else 9, default=None)
