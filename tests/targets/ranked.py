"""Ranks of a job by a launcher of some kind, each with a helper: `KIND RANKS PORT`. Each rank prints its number, its pid
and that of its helper. No runtime is used.

Kinds: `exec` (programs of their own, whose environment says everything), `fork` (what is set after the fork), `none`
(nothing is set).
"""

from __future__ import annotations

import os
import signal
import sys


def rank(kind: str, number: int, world: int, port: str) -> None:
    """One rank: starts its helper, says who they are, and waits."""
    if kind == "fork":
        os.environ.update(RANK=str(number), WORLD_SIZE=str(world), MASTER_PORT=port)
    helper = os.fork()
    if helper:
        os.write(1, f"{number} {os.getpid()} {helper}\n".encode())
    signal.pause()


def main() -> None:
    """Start them all."""
    kind, world, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if kind == "one":
        rank(kind, int(os.environ["RANK"]), world, port)
    for number in range(world):
        if not os.fork():
            if kind == "exec":
                own = {"RANK": str(number), "WORLD_SIZE": str(world), "MASTER_ADDR": "::1", "MASTER_PORT": port}
                os.execve(sys.executable, [sys.executable, __file__, "one", str(world), port], {**os.environ, **own})
            rank(kind, number, world, port)
    signal.pause()


if __name__ == "__main__":
    main()
