"""Catch presets of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from livedbg.model.catchpoints import Moment, Preset

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "c10": Preset(moment=Moment.THROW, patterns=("c10::Error", "c10::*Error"), about="PyTorch errors"),
    }
)
