"""Native stacks of running threads, sampled by the kernel's clock event: no stop, no signal."""

from __future__ import annotations

from livedbg.adapters.samples.adapter import SamplesAdapter

__all__ = ["SamplesAdapter"]
