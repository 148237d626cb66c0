"""Contributes the decoder of what torch.compile writes, and names its compile workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from livedbg.adapters.pytorch.aoti.log_decoder import PrintedDecoder
from livedbg.adapters.pytorch.traces.decoder import CompileDecoder
from livedbg.adapters.pytorch.traces.workers import Roles
from livedbg.logs.decoder import LogDecoder
from livedbg.session.adapter import Context, Request
from livedbg.session.polling import PolledAdapter

__all__ = ["CompileTracesAdapter"]

_ONCE_S: Final = 0.1  # a session that samples once is over soon
_ONCE_LOOKS: Final = 20
_POLL_S: Final = 2.0


class CompileTracesAdapter(PolledAdapter):
    """Compilations of torch.compile, from TORCH_TRACE and TORCH_LOGS."""

    name = "compile-traces"
    title = "Traces of torch.compile"
    sees = (
        "compilations of torch.compile, their phases, graph breaks, recompilations and failures, from its logs; NaN in "
        "values that its code prints"
    )
    cost = "reads log lines that are read anyway"

    def __init__(self) -> None:
        super().__init__()
        self._roles, self._looks = Roles(), 0

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Any session may read such a log."""
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoders of its logs, and of the values that its code prints."""
        return CompileDecoder(), PrintedDecoder()

    async def begin(self, context: Context) -> bool:
        """Nobody waits for what is not there."""
        context.settled()
        return bool(context.request.processes)

    async def look(self, context: Context) -> float:
        """Watch for compile workers; the decoder does the rest."""
        context.emit(*self._roles.events(context.snapshot(), context.stamp()))
        return _POLL_S

    async def again(self, context: Context) -> bool:
        """A session that samples once is over soon."""
        self._looks += 1
        if context.request.once:
            await context.sleep(_ONCE_S)
        return context.request.once and self._looks < _ONCE_LOOKS
