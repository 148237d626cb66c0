"""Contributes the decoder of what torch.compile writes, and names its compile workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from livedbg.adapters.pytorch.traces.decoder import CompileDecoder
from livedbg.adapters.pytorch.traces.workers import Roles
from livedbg.logs.decoder import LogDecoder
from livedbg.session.adapter import Adapter, Context, Request, targets_ended

__all__ = ["CompileTracesAdapter"]

_ONCE_S: Final = 0.1  # a session that samples once is over soon
_ONCE_LOOKS: Final = 20
_POLL_S: Final = 2.0


class CompileTracesAdapter(Adapter):
    """Compilations of torch.compile, from TORCH_TRACE and TORCH_LOGS."""

    name = "compile-traces"
    title = "Traces of torch.compile"
    sees = "compilations of torch.compile, their phases, graph breaks, recompilations and failures, from its logs"
    cost = "reads log lines that are read anyway"

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Any session may read such a log."""
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoder of the logs."""
        return (CompileDecoder(),)

    async def run(self, context: Context) -> None:
        """Watch for compile workers; the decoder does the rest."""
        context.settled()
        roles, looks, once = Roles(), 0, context.request.once
        while context.request.processes and not targets_ended(context) and not (once and looks >= _ONCE_LOOKS):
            context.emit(*roles.events(context.snapshot(), context.stamp()))
            await context.sleep(_ONCE_S if once else _POLL_S)
            looks += 1
