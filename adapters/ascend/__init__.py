"""Ascend NPUs: the `simpler` runtime, from its logs and files (docs/systems/ascend.md)."""

from __future__ import annotations

from livedbg.adapters.ascend.adapter import AscendAdapter
from livedbg.adapters.ascend.decoder import AscendDecoder
from livedbg.adapters.ascend.model import AscendModel

__all__ = ["AscendAdapter", "AscendDecoder", "AscendModel"]
