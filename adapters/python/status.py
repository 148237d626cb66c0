"""Statuses that say how well the adapter sees each process, each reported once."""

from __future__ import annotations

from livedbg.cpython.interpreter import Interpreter
from livedbg.model import SourceHealth, ids
from livedbg.model.errors import LivedbgError, TargetDenied, TargetGone
from livedbg.session import publisher
from livedbg.session.adapter import Context

_SOURCE = "python"
_RECOVERABLE = ("no-permission", "py-spy-failed", "py-spy-missing")
_UNKNOWN_SENTENCE = (
    "{label}: livedbg can't read locks of this version: stacks and the GIL's holder come from py-spy; "
    "waiters of the GIL, holders of locks and tasks of event loops (asyncio, trio) are unknown."
)
_FREE_SENTENCE = (
    "{label}: this build has no GIL; stacks come from py-spy, "
    "holders of locks and tasks of event loops (asyncio, trio) are unknown."
)


class Statuses:
    """The reported statuses of processes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._said = publisher.Statuses(_SOURCE)

    def report(self, pid: int, health: SourceHealth, code: str, sentence: str = "", remedy: str = "") -> None:
        """Report a status of a process, unless it was reported already."""
        self._said.say(self._context, self._target(pid), code, sentence, remedy, health=health)

    def recovered(self, pid: int, *codes: str) -> None:
        """Withdraw statuses by code; without codes, those that kept stacks from being taken."""
        self._said.withdraw(self._context, self._target(pid), *(codes or _RECOVERABLE))

    def _target(self, pid: int) -> str:
        return ids.process(self._context.request.host, pid)

    def failed(self, pid: int, error: LivedbgError) -> None:
        """Report an error as a status."""
        if isinstance(error, TargetGone):
            health = SourceHealth.ENDED
        elif isinstance(error, TargetDenied):
            health = SourceHealth.FAILED
        else:
            health = SourceHealth.DEGRADED
        self.report(pid, health, error.code, error.message, error.remedy)

    def describe(self, pid: int, interpreter: Interpreter) -> None:
        """Report which parts of an interpreter can't be seen."""
        if interpreter.free_threaded:
            self.report(pid, SourceHealth.DEGRADED, "free-threaded", _FREE_SENTENCE.format(label=interpreter.label))
        elif interpreter.layout is None:
            self.report(pid, SourceHealth.DEGRADED, "locks-unknown", _UNKNOWN_SENTENCE.format(label=interpreter.label))
