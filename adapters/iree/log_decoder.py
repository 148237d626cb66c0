"""The decoder of IREE's status lines, and of what Vulkan prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from livedbg.adapters.iree import status_lines, tool_lines, vulkan_lines
from livedbg.logs.decoder import LogDecoder
from livedbg.logs.said import Form, SaidDecoder, found_in, words_of
from livedbg.model import ExceptionHit
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Request
from livedbg.session.log_adapter import LogsAdapter

__all__ = ["IreeLogDecoder", "IreeLogsAdapter", "explains"]

_FORMS = (*status_lines.FORMS, *vulkan_lines.FORMS, *tool_lines.FORMS)


class IreeLogDecoder(SaidDecoder):
    """Makes a diagnostic of each of these messages."""

    name = "iree"
    forms: ClassVar[Sequence[Form]] = _FORMS
    triggers: ClassVar[tuple[bytes, ...]] = (*words_of(_FORMS), *status_lines.BLOCK, b"vkQueueSubmit(): ")
    together: ClassVar[int] = 4
    near: ClassVar[int] = 8


class IreeLogsAdapter(LogsAdapter):
    """Failures of IREE and Vulkan, from logs."""

    name = "iree-logs"
    title = "Failures of IREE in logs"
    sees = "failed statuses of IREE with their code, call and place, and errors of Vulkan and its validation, in logs"

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoder of the logs."""
        return (IreeLogDecoder(),)


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Whether an exception carries a status of IREE, or an error of Vulkan."""
    return any(True for _ in found_in(f"{hit.type}: {hit.message}", _FORMS))
