"""Dumped tensors: what there is, what one is like, and how a dump compares with a golden one."""

from __future__ import annotations

from livedbg.adapters.values.adapter import ValuesAdapter

__all__ = ["ValuesAdapter"]
