"""Native stacks of running threads, when somebody asks: each is stopped for a small part of a millisecond."""

from __future__ import annotations

from livedbg.adapters.glance.adapter import GlanceAdapter

__all__ = ["GlanceAdapter"]
