"""Catch presets of nvFuser."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from livedbg.model.catchpoints import Moment, Preset

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "nvfuser": Preset(moment=Moment.THROW, patterns=("nvfuser::nvfError",), about="nvFuser's exception class"),
    }
)
