"""The adapter of the decoders that no signature can replace: of sessions and dumps of AMD's debuggers."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.rocm.agent_decoder import AgentDecoder
from livedbg.adapters.rocm.debugger_decoder import DebuggerDecoder
from livedbg.logs.decoder import LogDecoder
from livedbg.session.adapter import Request
from livedbg.session.log_adapter import LogsAdapter

__all__ = ["RocmLogsAdapter"]


class RocmLogsAdapter(LogsAdapter):
    """What debuggers of AMD GPUs print, from logs."""

    name = "rocm-logs"
    title = "ROCm's debuggers in logs"
    sees = "kernels, waves and faults that rocgdb and the ROCR debug agent print, in logs"

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """Of what rocgdb and the debug agent print."""
        return (DebuggerDecoder(), AgentDecoder())
