"""The task graph that a run declared (`deps.json`), as the Ascend adapter uses it: reading it, orders that it lost.

The work is done in livedbg.graphs; here stand the limits of what one run puts on the stream.
"""

from __future__ import annotations

from typing import Final

from livedbg.graphs.declared import Access, DeclaredTask, Dependency, TaskGraph
from livedbg.graphs.depsfile import parse_graph
from livedbg.graphs.lost import LostGroup, LostOrder, LostOrders, grouped, lost_orders

__all__ = [
    "LOST_SHOWN",
    "NO_ORDERS",
    "Access",
    "DeclaredTask",
    "Dependency",
    "LostGroup",
    "LostOrder",
    "LostOrders",
    "TaskGraph",
    "grouped",
    "lost_orders",
    "parse_graph",
]

LOST_SHOWN: Final = 20
"""Kinds of lost orders that one run reports one by one."""

NO_ORDERS: Final = LostOrders((), ())
"""Nothing is lost."""
