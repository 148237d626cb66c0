"""The adapter that asks NVML, once a second at most. Where there is no NVIDIA driver it costs one failed dlopen."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Final

from livedbg.session.adapter import Adapter, Context

__all__ = ["NvmlAdapter"]

_LIBRARY: Final = "libnvidia-ml.so.1"


class NvmlAdapter(Adapter):
    """Utilisation, memory, clocks, heat and errors of NVIDIA's GPUs.

    Options of a request: `nvml.interval_s` between two looks, `nvml.limit_s` for an answer.
    """

    name = "nvml"
    sees = "how busy, full and hot NVIDIA's GPUs are, their errors, and which processes use them (NVML)"
    cost = "some ten calls of NVML a second and GPU, none without an NVIDIA driver; the target is not touched"

    async def run(self, context: Context) -> None:
        """Ask again and again, where there is a driver."""
        if not await asyncio.to_thread(_loadable):
            context.settled()
            return
        from livedbg.adapters.cuda.nvml.watching import Watch

        await Watch().run(context)


def _loadable() -> bool:
    """Whether there is an NVIDIA driver's library."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return False
    return True
