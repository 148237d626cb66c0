"""What livedbg does to a target while the chaos test strikes: each is a command that is run again when it has ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.probes.refused import refused

__all__ = ["ACTIONS", "Action"]

_HERE: Final = Path(__file__).parent
_LIVEDBG: Final = [sys.executable, "-m", "livedbg"]
_NO_PROBES: Final = ["setpriv", "--bounding-set=-sys_admin,-perfmon"] if os.geteuid() == 0 else []


class Action(NamedTuple):
    """A way of touching.

    Attributes:
        argv: of a target and of what it throws.
        victims: who can be struck.
        span_s: the blow comes within this time from when its victims are there.
        ready: a line that it prints when it is at work; b"" where it is from its start on.
        refused: why it can't be done on this box; "" where it can.
    """

    name: str
    argv: Callable[[int, str], list[str]]
    victims: tuple[str, ...]
    span_s: float
    ready: bytes = b""
    refused: Callable[[], str] = str


ACTIONS: Final = (
    Action(
        "attach, hold, detach",
        lambda pid, _: [sys.executable, str(_HERE / "driver.py"), str(pid)],
        ("livedbg", "gdb", "guard", "livedbg and guard", "all"),
        0.09,  # a little more than one turn takes
        b"READY\n",
    ),
    Action(
        "glance, again and again",
        lambda pid, _: [sys.executable, str(_HERE / "glancer.py"), str(pid)],
        ("livedbg",),
        0.05,
        b"READY\n",
    ),
    Action(
        "stacks --glance",
        lambda pid, _: [*_LIVEDBG, "stacks", str(pid), "--glance"],
        ("livedbg", "unwinder", "all"),
        0.6,
    ),
    Action(
        "catch by probe events",
        lambda pid, thrown: [*_LIVEDBG, "catch", str(pid), thrown, "--count", "9"],
        ("livedbg", "unwinder", "all"),
        0.6,
        refused=refused,
    ),
    Action(
        "catch by debug registers",
        lambda pid, thrown: [*_NO_PROBES, *_LIVEDBG, "catch", str(pid), thrown, "--count", "9"],
        ("livedbg", "unwinder", "all"),
        0.6,
    ),
    Action(
        "catch --stop",
        lambda pid, thrown: [*_LIVEDBG, "catch", str(pid), thrown, "--stop", "--count", "9"],
        ("livedbg", "gdb", "guard", "livedbg and guard", "all"),
        1.0,
    ),
)
