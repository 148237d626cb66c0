"""The rarely changing part of a process's model, and its exit status.

Invariants:
    exit_status.X1. An exit status that can't be read is unknown, never 0.
"""

from __future__ import annotations

import contextlib
import os
import time
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from livedbg.linux import procfs
from livedbg.linux.access import user_name
from livedbg.linux.descriptors import used_up
from livedbg.linux.ending import Ending, noted_end
from livedbg.linux.live_environment import LiveEnvironment, rank_of
from livedbg.linux.procfs import CLOCK_TICK_NS, Stat
from livedbg.model import Resource, ids
from livedbg.model.facts import DescriptorFacts
from livedbg.model.request import GATE
from livedbg.session.systems import systems
from livedbg.text.sanitize import clean_line

_PREFIXES: Final = ("LIVEDBG_", "OMP_")
_NAMES: Final = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
     "SLURM_JOB_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}
)  # fmt: skip


@cache
def _prefixes() -> tuple[str, ...]:
    """Return the name prefixes of the environment variables to show."""
    return (*_PREFIXES, *(prefix for system in systems() for prefix in system.environment))


_BOOT_WALL_NS: Final = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Identity(Struct, frozen=True):
    """Identity of a process; strings are sanitised.

    Attributes:
        environment: the relevant variables, without secrets.
        tracer: pid of its tracer; 0 for none.
        gated: our own child that waits at its gate before it execs its command.
    """

    exe: str | None = None
    command: tuple[str, ...] = ()
    cwd: str | None = None
    user: str | None = None
    rank: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    tracer: int = 0
    gated: bool = False


def start_wall_ns(start_ticks: int) -> int:
    """Return the wall-clock start time of a process."""
    return _BOOT_WALL_NS + start_ticks * CLOCK_TICK_NS


def read_identity(pid: int, live: LiveEnvironment | None = None) -> Identity:
    """Read the identity of a process, as permitted; `live` reads its current environment, for a rank set after exec.

    Raises:
        OSError: the process is gone.
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
    command = procfs.command_line(pid)
    gated = command[: len(GATE)] == GATE
    return Identity(
        exe=executable(pid),
        command=tuple(clean_line(word, 1000) for word in (command[len(GATE) :] if gated else command)),
        cwd=_link(pid, "cwd"),
        user=user_name(int(uid[1])) if len(uid) > 1 else None,
        rank=rank_of(everything),
        environment=environment,
        tracer=int(status.get("TracerPid", "0")),
        gated=gated,
    )


def executable(pid: int) -> str | None:
    """Return the path of the running executable, to detect exec; None if not permitted."""
    return _link(pid, "exe")


def _link(pid: int, name: str) -> str | None:
    try:
        return clean_line(os.fsdecode(Path(f"/proc/{procfs.living_task(pid)}/{name}").readlink()), 1000)
    except OSError:
        return None


class ExitStatus:
    """Reads the exit status of one process. Must be closed.

    With `watched` it keeps a pidfd: the kernel reports the status by it even after the parent's wait (Linux 6.15).
    """

    def __init__(self, pid: int, *, watched: bool = True) -> None:
        self._pid = pid
        self._end: Ending | None = None
        if watched:
            with contextlib.suppress(OSError):  # it is gone, or this kernel has no such descriptors
                self._end = Ending(pid)

    def of(self, stat: Stat | None, start_ticks: int | None, *, denied: bool = False) -> int | None:
        """Return the exit status, negative for a signal; None if it is not known.

        Args:
            stat: of the zombie, if there is one.
            denied: livedbg may not inspect the process.
        """
        noted = noted_end(self._pid, start_ticks)
        if noted is not None:
            return noted
        if stat is not None and (stat.exit_code or not (denied or self._of_another_user())):
            return stat.exit_status  # to others the kernel shows 0 (proc_pid_stat(5), field 52)
        told = self._end.told() if self._end is not None else None
        return None if told is None else os.waitstatus_to_exitcode(told)

    def _of_another_user(self) -> bool:
        if os.geteuid() == 0:
            return False
        try:
            return Path(f"/proc/{self._pid}").stat().st_uid != os.geteuid()
        except OSError:
            return True

    def close(self) -> None:
        if self._end is not None:
            self._end.close()
            self._end = None


KIND: Final = "descriptors"

_EVERY_S: Final = 1.0
"""It costs some 30 us a look, and a leak takes its time."""


class OpenFiles:
    """The descriptor limit of one process."""

    def __init__(self, host: str, pid: int) -> None:
        self._pid = pid
        self._id = ids.fd_object(KIND, host, pid)
        self._taken_s = -1e9
        self._resource: Resource | None = None

    def resource(self) -> Resource | None:
        """Return the process's descriptor table as a resource if no more can be opened."""
        now_s = time.monotonic()
        if now_s - self._taken_s >= _EVERY_S:
            self._taken_s = now_s
            self._resource = self._read()
        return self._resource

    def _read(self) -> Resource | None:
        try:
            limit = used_up(self._pid)
        except OSError:
            return None  # gone, or not ours to look at
        if limit is None:
            return None
        name = f"descriptors of {self._pid}"
        return Resource(id=self._id, kind=KIND, name=name, state="used up", facts=DescriptorFacts(limit=limit))
