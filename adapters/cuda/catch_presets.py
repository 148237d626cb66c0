"""Catch presets of CUDA."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from livedbg.model.catchpoints import Moment, Preset

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "cuda": Preset(
            moment=Moment.CALL,
            patterns=("cudaGetErrorString", "cudaGetErrorName", "cuGetErrorString", "cuGetErrorName"),
            about="CUDA errors, where the program asks for their text",
        ),
    }
)
