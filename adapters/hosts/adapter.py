"""Contributes the decoder of what hosts log of the ends of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.hosts.decoder import HostsDecoder
from livedbg.logs.decoder import LogDecoder
from livedbg.session.adapter import Request
from livedbg.session.log_adapter import LogsAdapter

__all__ = ["HostsAdapter"]


class HostsAdapter(LogsAdapter):
    """How a job ended, from its logs."""

    name = "hosts"
    title = "Ends of jobs in logs"
    sees = "processes killed for memory, limits of a scheduler, and who ended first, as launchers and shells log it"

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoder of the logs."""
        return (HostsDecoder(),)
