"""How reports spell moments."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["timestamp"]


def timestamp(wall_ns: int) -> str:
    """`2026-01-01T00:00:00.000Z`: UTC, to the millisecond."""
    seconds, rest = divmod(wall_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
