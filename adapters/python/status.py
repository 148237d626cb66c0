"""How well the adapter sees each process: one sentence for each code, reported once."""

from __future__ import annotations

from livedbg.cpython.interpreter import Interpreter
from livedbg.model import SourceHealth, SourceStatus, ids
from livedbg.model.errors import LivedbgError, TargetDenied, TargetGone
from livedbg.model.events import StatusSeen
from livedbg.session.adapter import Context

__all__ = ["Statuses"]

_SOURCE = "python"
_RECOVERABLE = frozenset({"py-spy-failed", "py-spy-missing", "no-permission"})
_UNKNOWN_SENTENCE = (
    "{label}: livedbg can't read locks of this version: stacks and the GIL's holder come from py-spy; "
    "waiters of the GIL, holders of locks and tasks of event loops (asyncio, trio) are unknown."
)
_FREE_SENTENCE = (
    "{label}: this build has no GIL; stacks come from py-spy, "
    "holders of locks and tasks of event loops (asyncio, trio) are unknown."
)


class Statuses:
    """Emits statuses when they change.

    Args:
        context: of the adapter.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._reported: dict[tuple[int, str], SourceStatus] = {}

    def report(self, pid: int, health: SourceHealth, code: str, sentence: str = "", remedy: str = "") -> None:
        """Report something about a process, unless it was reported already."""
        status = SourceStatus(
            source=_SOURCE,
            target=ids.process(self._context.request.host, pid),
            health=health,
            code=code,
            sentence=sentence,
            remedy=remedy,
        )
        if self._reported.get((pid, code)) != status:
            self._reported[pid, code] = status
            self._context.emit(StatusSeen(status=status, **self._context.stamp()))

    def has(self, pid: int, code: str) -> bool:
        """Whether something was reported about a process that is not good."""
        known = self._reported.get((pid, code))
        return known is not None and known.health is not SourceHealth.OK

    def failed(self, pid: int, error: LivedbgError) -> None:
        """Report what an error means."""
        if isinstance(error, TargetGone):
            health = SourceHealth.ENDED
        elif isinstance(error, TargetDenied):
            health = SourceHealth.FAILED
        else:
            health = SourceHealth.DEGRADED
        self.report(pid, health, error.code, error.message, error.remedy)

    def recovered(self, pid: int) -> None:
        """Stacks come in again: withdraw what was reported against it."""
        for (about, code), status in list(self._reported.items()):
            if about == pid and code in _RECOVERABLE and status.health is not SourceHealth.OK:
                self.report(pid, SourceHealth.OK, code)

    def describe(self, pid: int, interpreter: Interpreter) -> None:
        """Report what can be seen of an interpreter, where that is not everything."""
        if interpreter.free_threaded:
            self.report(pid, SourceHealth.DEGRADED, "free-threaded", _FREE_SENTENCE.format(label=interpreter.label))
        elif interpreter.layout is None:
            self.report(pid, SourceHealth.DEGRADED, "locks-unknown", _UNKNOWN_SENTENCE.format(label=interpreter.label))
