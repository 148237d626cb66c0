"""nvFuser: segments of fusions, what is under way or failed, where a trace stopped (docs/systems/nvfuser.md)."""

from __future__ import annotations

from livedbg.adapters.nvfuser.adapter import NvfuserAdapter
from livedbg.adapters.nvfuser.decoder import NvfuserDecoder
from livedbg.adapters.nvfuser.model import NvfuserModel

__all__ = ["NvfuserAdapter", "NvfuserDecoder", "NvfuserModel"]
