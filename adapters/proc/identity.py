"""What a process is: the part of its model that rarely changes."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from livedbg.linux import procfs
from livedbg.linux.access import user_name
from livedbg.linux.live_environment import LiveEnvironment, rank_of
from livedbg.linux.procfs import CLOCK_TICK_NS
from livedbg.session.systems import systems
from livedbg.text.sanitize import clean_line

_PREFIXES: Final = ("LIVEDBG_", "OMP_")
_NAMES: Final = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
     "SLURM_JOB_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}
)  # fmt: skip


@cache
def _prefixes() -> tuple[str, ...]:
    """How the names of the variables begin that are shown."""
    return (*_PREFIXES, *(prefix for system in systems() for prefix in system.environment))


def _boot_wall_ns() -> int:
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


_BOOT_WALL_NS: Final = _boot_wall_ns()


class Identity(Struct, frozen=True):
    """What a process is; strings are sanitised.

    Attributes:
        environment: the variables that matter here, without secrets.
        tracer: pid of who traces it; 0 for nobody.
    """

    exe: str | None = None
    command: tuple[str, ...] = ()
    cwd: str | None = None
    user: str | None = None
    rank: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    tracer: int = 0


def start_wall_ns(start_ticks: int) -> int:
    """When a process started, on the wall clock."""
    return _BOOT_WALL_NS + start_ticks * CLOCK_TICK_NS


def read_identity(pid: int, live: LiveEnvironment | None = None) -> Identity:
    """What a process is, as far as it may be seen.

    Args:
        pid: the process.
        live: reads its environment as it is now, for a rank that was set after exec.

    Raises:
        OSError: it is gone.
    """
    status = procfs.status_fields(pid)
    try:
        everything = procfs.read_environment(pid)
    except OSError:
        everything = {}
    if live is not None and rank_of(everything) is None:
        everything |= live.read()
    prefixes = _prefixes()
    wanted = {n: v for n, v in everything.items() if n in _NAMES or n.startswith(prefixes)}
    environment = {clean_line(n, 100): clean_line(v, 400) for n, v in wanted.items()}
    uid = status.get("Uid", "").split()
    return Identity(
        exe=executable(pid),
        command=tuple(clean_line(word, 1000) for word in procfs.command_line(pid)),
        cwd=_link(pid, "cwd"),
        user=user_name(int(uid[1])) if len(uid) > 1 else None,
        rank=rank_of(everything),
        environment=environment,
        tracer=int(status.get("TracerPid", "0")),
    )


def executable(pid: int) -> str | None:
    """The file that a process executes, for telling whether it called exec; None when not allowed."""
    return _link(pid, "exe")


def _link(pid: int, name: str) -> str | None:
    try:
        return clean_line(os.fsdecode(Path(f"/proc/{procfs.living_task(pid)}/{name}").readlink()), 1000)
    except OSError:
        return None
