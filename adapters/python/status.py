"""What the adapter says of how well it sees each process: one sentence for each code, said once."""

from __future__ import annotations

from livedbg.adapters.python.interpreter import Interpreter
from livedbg.model import SourceHealth, SourceStatus, ids
from livedbg.model.errors import LivedbgError, TargetDenied, TargetGone
from livedbg.model.events import StatusSeen
from livedbg.session.adapter import Context

__all__ = ["Statuses"]

_SOURCE = "python"
_MENDABLE = frozenset({"py-spy-failed", "py-spy-missing", "no-permission"})
_UNKNOWN_SENTENCE = (
    "{label}: livedbg can't read locks of this version: stacks and the GIL's holder come from py-spy; "
    "who waits for the GIL, and who holds which lock, is not known."
)
_FREE_SENTENCE = "{label}: this build has no GIL; stacks come from py-spy, who holds which lock is not known."


class Statuses:
    """Emits statuses when they change.

    Args:
        context: of the adapter.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._said: dict[tuple[int, str], SourceStatus] = {}

    def say(self, pid: int, health: SourceHealth, code: str, sentence: str = "", remedy: str = "") -> None:
        """Say something about a process, unless it was said already."""
        status = SourceStatus(
            source=_SOURCE,
            target=ids.process(self._context.request.host, pid),
            health=health,
            code=code,
            sentence=sentence,
            remedy=remedy,
        )
        if self._said.get((pid, code)) != status:
            self._said[pid, code] = status
            self._context.emit(StatusSeen(status=status, **self._context.stamp()))

    def failed(self, pid: int, error: LivedbgError) -> None:
        """Say what an error means."""
        if isinstance(error, TargetGone):
            health = SourceHealth.ENDED
        elif isinstance(error, TargetDenied):
            health = SourceHealth.FAILED
        else:
            health = SourceHealth.DEGRADED
        self.say(pid, health, error.code, error.message, error.remedy)

    def mended(self, pid: int) -> None:
        """Stacks come in again: take back what was said against it."""
        for (about, code), status in list(self._said.items()):
            if about == pid and code in _MENDABLE and status.health is not SourceHealth.OK:
                self.say(pid, SourceHealth.OK, code)

    def describe(self, pid: int, interpreter: Interpreter) -> None:
        """Say what can be seen of an interpreter, where that is not everything."""
        if interpreter.free_threaded:
            self.say(pid, SourceHealth.DEGRADED, "free-threaded", _FREE_SENTENCE.format(label=interpreter.label))
        elif interpreter.layout is None:
            self.say(pid, SourceHealth.DEGRADED, "locks-unknown", _UNKNOWN_SENTENCE.format(label=interpreter.label))
