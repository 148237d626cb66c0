"""Contributes the decoder of what compilers say when they fail."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.compilers.decoder import CompilersDecoder
from livedbg.logs.decoder import LogDecoder
from livedbg.session.adapter import Request
from livedbg.session.log_adapter import LogsAdapter

__all__ = ["CompilersAdapter"]


class CompilersAdapter(LogsAdapter):
    """Failures of compilers, from logs."""

    name = "compilers"
    title = "Failures of compilers in logs"
    sees = "errors of ptxas, nvcc, NVRTC, Triton, MLIR, C++ compilers and linkers in logs, with file and line"

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoder of the logs."""
        return (CompilersDecoder(),)
