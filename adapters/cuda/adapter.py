"""The CUDA adapter: the decoder of logs, and the kernel's log where it may be read."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapter import Adapter, Context, Request
from livedbg.adapters.cuda.decoder import CudaDecoder
from livedbg.logs.decoder import LogDecoder

__all__ = ["CudaAdapter"]


class CudaAdapter(Adapter):
    """Errors of CUDA, from logs."""

    name = "cuda"
    sees = (
        "errors of CUDA in logs: the driver's own log, compute-sanitizer, device asserts, Xids, PyTorch's error blocks"
    )
    cost = "reads log lines that are read anyway; the target is not touched"

    def __init__(self) -> None:
        self._decoder = CudaDecoder()

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Every session that reads logs may read of CUDA."""
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoder of CUDA's errors."""
        return (self._decoder,)

    async def run(self, context: Context) -> None:
        """Nothing to watch but the logs."""
        context.settled()
