"""Launches of kernels, by probes on the functions that launch."""

from __future__ import annotations

from livedbg.adapters.launches.adapter import LaunchesAdapter

__all__ = ["LaunchesAdapter"]
