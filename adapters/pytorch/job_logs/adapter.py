"""Contributes the decoder of what jobs log as they end."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.pytorch.aoti.log_decoder import PrintedDecoder
from livedbg.adapters.pytorch.job_logs.decoder import JobLogsDecoder
from livedbg.logs.decoder import LogDecoder
from livedbg.session.adapter import Request
from livedbg.session.log_adapter import LogsAdapter

__all__ = ["JobLogsAdapter"]


class JobLogsAdapter(LogsAdapter):
    """Watchdogs, stores and torchrun, from logs."""

    name = "job-logs"
    title = "Ends of distributed jobs in logs"
    sees = (
        "time-outs of collectives, ranks that never came, errors of NCCL and gloo, torchrun's first failure, NaN in "
        "printed values"
    )

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoders of ends of jobs, and of printed values."""
        return JobLogsDecoder(), PrintedDecoder()
