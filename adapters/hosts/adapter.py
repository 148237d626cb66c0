"""Contributes the decoder of what hosts log of the ends of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.hosts.decoder import HostsDecoder
from livedbg.logs.decoder import LogDecoder
from livedbg.session.adapter import Adapter, Context, Request

__all__ = ["HostsAdapter"]


class HostsAdapter(Adapter):
    """How a job ended, from its logs."""

    name = "hosts"
    title = "Ends of jobs in logs"
    sees = "processes killed for memory, limits of a scheduler, and who ended first, as launchers and shells log it"
    cost = "reads log lines that are read anyway"

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Any session that reads logs may read of an end."""
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoder of the logs."""
        return (HostsDecoder(),)

    async def run(self, context: Context) -> None:
        """Nothing to do: the decoder does it all."""
        context.settled()
