"""The decoder of AMD's failures in logs, and its adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from livedbg.adapters.rocm import log_lines
from livedbg.adapters.rocm.agent_decoder import AgentDecoder
from livedbg.adapters.rocm.debugger_decoder import DebuggerDecoder
from livedbg.logs.decoder import LogDecoder
from livedbg.logs.said import Form, SaidDecoder, found_in
from livedbg.model import ExceptionHit
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Request
from livedbg.session.log_adapter import LogsAdapter

__all__ = ["RocmDecoder", "RocmLogsAdapter", "explains"]


class RocmDecoder(SaidDecoder):
    """Makes a diagnostic of each of these messages."""

    name = "rocm"
    forms: ClassVar[Sequence[Form]] = log_lines.FORMS
    triggers: ClassVar[tuple[bytes, ...]] = (
        *(b"Memory access fault by GPU node-", b"HW Exception by GPU node-", b"HSA_STATUS_ERROR", b"HIP error"),
        *(b"HIP runtime error", b"HIP driver error", b"HIP out of memory", b"amdgpu: ", b"*ERROR* ring "),
        *(b"OFFLOAD ERROR: ", b"HSA_AMD_GPU_MEMORY_FAULT_EVENT"),
    )
    together: ClassVar[int] = 1


class RocmLogsAdapter(LogsAdapter):
    """Failures of AMD's runtime and driver, from logs."""

    name = "rocm-logs"
    title = "Failures of ROCm in logs"
    sees = "faults of AMD GPUs, errors of HIP and of the amdgpu driver, in logs"

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """Of messages, and of what rocgdb and the debug agent print."""
        return (RocmDecoder(), DebuggerDecoder(), AgentDecoder())


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Whether an exception carries an error of HIP."""
    return any(True for _ in found_in(f"{hit.type}: {hit.message}", log_lines.FORMS))
