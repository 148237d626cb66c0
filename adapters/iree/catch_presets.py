"""Catch presets of IREE."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from livedbg.model.catchpoints import Moment, Preset

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "iree": Preset(
            moment=Moment.CALL,
            patterns=("iree_status_allocate", "iree_status_allocate_f"),
            about="IREE statuses other than OK, where they are created",
        ),
    }
)
