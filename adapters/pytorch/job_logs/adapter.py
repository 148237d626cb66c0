"""Contributes the decoder of what jobs log as they end."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.pytorch.aoti.log_decoder import PrintedDecoder
from livedbg.adapters.pytorch.job_logs.decoder import JobLogsDecoder
from livedbg.logs.decoder import LogDecoder
from livedbg.session.adapter import Adapter, Context, Request

__all__ = ["JobLogsAdapter"]


class JobLogsAdapter(Adapter):
    """Watchdogs, stores and torchrun, from logs."""

    name = "job-logs"
    title = "Ends of distributed jobs in logs"
    sees = (
        "time-outs of collectives, ranks that never came, errors of NCCL and gloo, torchrun's first failure, NaN in "
        "printed values"
    )
    cost = "reads log lines that are read anyway"

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Any session that reads logs."""
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoders of ends of jobs, and of printed values."""
        return JobLogsDecoder(), PrintedDecoder()

    async def run(self, context: Context) -> None:
        """Nothing to do: the decoder does it all."""
        context.settled()
