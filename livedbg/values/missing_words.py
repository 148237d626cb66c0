"""What the graph of a dump's own run lacks, beside values that differ: in sentences and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.graphs.orders import LostOrder
from livedbg.values.dump import Dump

__all__ = ["missing_json", "missing_text"]

_NAMED = 3


def missing_text(dump: Dump, missing: Sequence[LostOrder]) -> str:
    """` deps.json lacks a dependency: r0t1 (INC) reads 1,024 bytes … that r0t0 (SLOW_ADD) wrote, …`; "" for none."""
    if not missing:
        return ""
    parts = []
    for order in missing[:_NAMED]:
        does = "reads" if order.hazard == "read after write" else "overwrites"
        first, second = dump.task_name(order.first), dump.task_name(order.second)
        parts.append(f"{second} {does} {order.region}, which {first} wrote, and no path orders them")
    more = f"; and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    what = "a dependency" if len(missing) == 1 else f"{len(missing)} dependencies"
    return f" {dump.graph_name or 'The task graph'} beside the dump lacks {what}: {'; '.join(parts)}{more}."


def missing_json(dump: Dump, missing: Sequence[LostOrder]) -> list[dict[str, object]]:
    """The same for a program."""
    return [
        {
            "from": dump.short_name(order.first),
            "to": dump.short_name(order.second),
            "hazard": order.hazard,
            "offset": order.offset,
            "bytes": order.size,
            "cause": order.cause.value,
        }
        for order in missing
    ]
