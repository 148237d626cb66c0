"""What is reported when there are no samples, and withdrawn when there are."""

from __future__ import annotations

from livedbg.linux.access import access_problem
from livedbg.model.errors import LivedbgError
from livedbg.probes.clock_samples import Refused, refused
from livedbg.probes.perf_event import NoPerf
from livedbg.session.adapter import Context
from livedbg.session.publisher import Statuses


class Troubles:
    """The statuses of a source.

    Args:
        source: its name.
    """

    def __init__(self, source: str) -> None:
        self._refused, self._failed = Statuses(source), Statuses(source)

    def deny(self, context: Context, error: NoPerf, instead: str = "") -> None:
        """Report that there are no samples, and why.

        Args:
            context: of the session.
            error: of the kernel.
            instead: a sentence that says what there is.
        """
        why = _refusal(context, error)
        sentence = f"{why.sentence} {instead}" if instead else why.sentence
        self._refused.only(context, "", {why.code: (sentence, why.remedy)})

    def allowed(self, context: Context) -> None:
        """Withdraw what `deny` reported."""
        self._refused.withdraw(context, "")

    def report(self, context: Context, target: str, error: LivedbgError) -> None:
        """Report that samples of a process can't be unwound."""
        sentence = f"No native stacks of running threads: {error.message}"
        self._failed.say(context, target, error.code or "samples", sentence, error.remedy)


def _refusal(context: Context, error: NoPerf) -> Refused:
    """Why there are no samples: the targets may be somebody else's, whatever the kernel allows for our own."""
    problems = (access_problem(target.pid) for target in context.request.processes)
    for problem in filter(None, problems):
        return Refused("samples-refused", f"No native stacks of running threads: {problem.sentence}", problem.remedy)
    return refused(error)
