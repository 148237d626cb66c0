"""Contributes the decoder of what compilers say when they fail."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.compilers.decoder import CompilersDecoder
from livedbg.logs.decoder import LogDecoder
from livedbg.session.adapter import Adapter, Context, Request

__all__ = ["CompilersAdapter"]


class CompilersAdapter(Adapter):
    """Failures of compilers, from logs."""

    name = "compilers"
    title = "Failures of compilers in logs"
    sees = "errors of ptxas, nvcc, NVRTC, Triton, MLIR, C++ compilers and linkers in logs, with file and line"
    cost = "reads log lines that are read anyway"

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Any session that reads logs."""
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoder of the logs."""
        return (CompilersDecoder(),)

    async def run(self, context: Context) -> None:
        """Nothing to do: the decoder does it all."""
        context.settled()
