"""What is reported when there are no samples, and withdrawn when there are."""

from __future__ import annotations

from livedbg.linux.access import access_problem
from livedbg.model import SourceHealth, SourceStatus
from livedbg.model.errors import LivedbgError
from livedbg.model.events import StatusSeen
from livedbg.probes.clock_refused import Refused, refused
from livedbg.probes.perf_event import NoPerf
from livedbg.session.adapter import Context

__all__ = ["Troubles"]


class Troubles:
    """The statuses of a source.

    Args:
        source: its name.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._refused: Refused | None = None

    def deny(self, context: Context, error: NoPerf, instead: str = "") -> None:
        """Report once that there are no samples, and why.

        Args:
            context: of the session.
            error: of the kernel.
            instead: a sentence that says what there is.
        """
        why = _refusal(context, error)
        if instead:
            why = why._replace(sentence=f"{why.sentence} {instead}")
        if self._refused != why:
            self.allowed(context)
            self._refused = why
            status = SourceStatus(
                source=self._source,
                target="",
                health=SourceHealth.DEGRADED,
                code=why.code,
                sentence=why.sentence,
                remedy=why.remedy,
            )
            context.emit(StatusSeen(status=status, **context.stamp()))

    def allowed(self, context: Context) -> None:
        """Withdraw what was reported."""
        if self._refused is not None:
            status = SourceStatus(source=self._source, target="", health=SourceHealth.OK, code=self._refused.code)
            self._refused = None
            context.emit(StatusSeen(status=status, **context.stamp()))

    def report(self, context: Context, target: str, error: LivedbgError) -> None:
        """Report that samples of a process can't be unwound."""
        status = SourceStatus(
            source=self._source,
            target=target,
            health=SourceHealth.DEGRADED,
            code=error.code or "samples",
            sentence=f"No native stacks of running threads: {error.message}",
            remedy=error.remedy,
        )
        context.emit(StatusSeen(status=status, **context.stamp()))


def _refusal(context: Context, error: NoPerf) -> Refused:
    """Why there are no samples: the targets may be somebody else's, whatever the kernel allows for our own."""
    problems = (access_problem(target.pid) for target in context.request.processes)
    for problem in filter(None, problems):
        return Refused("samples-refused", f"No native stacks of running threads: {problem.sentence}", problem.remedy)
    return refused(error)
