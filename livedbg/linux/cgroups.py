"""Control groups of a process: the location of their files, and the state of freezing, CPU time and memory.

Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{freezer-subsystem,memory}.rst of Linux. The
paths in `/proc/PID/cgroup` and the roots in `mountinfo` are both relative to the reader's cgroup namespace
(cgroup_namespaces(7)), so that they can be compared. Where our own mounts do not reach a group (livedbg runs in a
container of its own), the mounts of the process are tried, through `/proc/PID/root`.

Invariants:
    cgroups.C1. A group whose files can't be read is unknown, never taken for one without limits.
    cgroups.C2. Limits of all ancestors count: the kernel applies them too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.linux.lines import number, pressure, rows
from livedbg.linux.procfs import living_task, read_file
from livedbg.linux.target_files import read_bytes
from livedbg.text.patterns import lazy_re

_MOST: Final = 1 << 16  # bytes of a file that are read
_DEEPEST: Final = 64
_ESCAPE: Final = lazy_re(r"\\([0-7]{3})")
_NO_LIMIT: Final = 1 << 60
"""Version 1 writes the greatest multiple of a page for "no limit"."""


class Membership(NamedTuple):
    """A line of `/proc/PID/cgroup`.

    Attributes:
        controllers: of version 1; empty for the group of version 2.
        path: relative to the root of the reader's cgroup namespace.
    """

    controllers: frozenset[str]
    path: str


class Mount(NamedTuple):
    """A mounted hierarchy; `controllers` (and options) are of version 1, and empty for version 2."""

    controllers: frozenset[str]
    root: str
    point: str


class CpuLimit(Struct, frozen=True):
    """CPU limit of a group: the scheduling periods in which it was runnable, and those in which it was throttled."""

    file: str
    control: str
    cores: float
    periods: int
    throttled: int


class MemoryLimit(Struct, frozen=True):
    """Memory use of a group.

    Attributes:
        used: bytes, including the page cache, which can be reclaimed.
        limit: bytes; None without a limit.
        stalled: share of the last 10 s in which no task of the group could run for lack of memory (`full avg10` of
            memory.pressure, Documentation/accounting/psi.rst); None if not reported.
        under_oom: its tasks wait for memory that only another one's end can free (version 1, `oom_kill_disable`).
        kills: tasks that the kernel has killed in it for lack of memory so far; None if not reported.
    """

    file: str
    used: int | None = None
    limit: int | None = None
    stalled: float | None = None
    under_oom: bool = False
    kills: int | None = None


class Group(Struct, frozen=True):
    """The groups of a process, each as the directories from its own one up to the mount.

    Attributes:
        path: the group's name: of version 2, else of version 1's freezer or first controller.
        unified: of version 2; empty if not visible.
        by_controller: of version 1.
    """

    path: str
    unified: tuple[str, ...]
    by_controller: tuple[tuple[str, tuple[str, ...]], ...]

    def of(self, controller: str) -> tuple[str, ...]:
        """Return the directories of a controller of version 1."""
        return next((found for name, found in self.by_controller if name == controller), ())

    @property
    def readable(self) -> bool:
        """True if any directory of the cgroup is visible (C1)."""
        places = [places[0] for places in (self.unified, *dict(self.by_controller).values()) if places]
        return any(os.access(place, os.R_OK | os.X_OK) for place in places)


def parse_memberships(data: bytes) -> list[Membership]:
    """Parse `/proc/PID/cgroup`; a path may contain colons."""

    def parse(line: str) -> Membership:
        _, controllers, path = line.split(":", 2)
        return Membership(frozenset(name for name in controllers.split(",") if name), path)

    return list(rows(data, parse))


def parse_mounts(data: bytes) -> list[Mount]:
    """Return the mounted hierarchies in a `mountinfo` (proc_pid_mountinfo(5))."""

    def parse(line: str) -> Mount | None:
        left, _, right = line.partition(" - ")
        field = left.split(" ")
        kind, _, options = right.split(" ", 2)
        if kind not in ("cgroup", "cgroup2"):
            return None
        controllers = frozenset(options.split(",")) if kind == "cgroup" else frozenset[str]()
        return Mount(controllers, _plain(field[3]), _plain(field[4]))

    return [mount for mount in rows(data, parse) if mount is not None]


def directories(membership: Membership, mounts: Sequence[Mount], prefix: str = "") -> tuple[str, ...]:
    """Return the directories of a group and of its ancestors, its own first; () if no mount reaches it."""
    for mount in mounts:
        if mount.controllers >= membership.controllers and bool(mount.controllers) == bool(membership.controllers):
            below = _below(membership.path, mount.root)
            if below is None:
                continue
            names = [name for name in below.split("/") if name]
            if ".." in names or len(names) > _DEEPEST:
                continue
            base = f"{prefix}{mount.point}".rstrip("/")
            return tuple("/".join((base, *names[:count])) for count in range(len(names), -1, -1))
    return ()


def view_of(pid: int, proc: str = "/proc") -> Group | None:
    """Return the groups of a process, by our mounts, else by its own; None if it is not visible, or there are no
    groups.
    """
    try:
        members = parse_memberships(read_file(f"{proc}/{living_task(pid)}/cgroup"))
        ours = parse_mounts(read_file(f"{proc}/self/mountinfo"))
    except OSError:
        return None
    if not members:
        return None
    theirs: list[Mount] | None = None
    found: dict[str, tuple[str, ...]] = {}
    for member in members:
        places = directories(member, ours)
        if not places or not Path(places[0]).is_dir():
            if theirs is None:
                theirs = _mounts_of(pid, proc)
            places = directories(member, theirs, f"{proc}/{pid}/root")
        for name in member.controllers or ("",):
            found[name] = places
    paths = {name: member.path for member in members for name in member.controllers or ("",)}
    own = next((paths[name] for name in ("", "freezer", "memory") if paths.get(name, "/") != "/"), "/")
    unified = found.pop("", ())
    return Group(own, unified, tuple(sorted(found.items())))


def read_frozen(group: Group) -> str:
    """Return the file that keeps the tasks of a group frozen; "" if they are not, or it can't be read.

    `cgroup.events` and `freezer.state` show that the tasks are frozen; another file, of the group or an ancestor, shows
    why.
    """
    own = group.unified[0] if group.unified else ""
    if own and _words(f"{own}/cgroup.events").get("frozen") == 1:
        files = [f"{place}/cgroup.freeze" for place in group.unified]
        return next((file for file in files if _text(file) == "1"), files[0])
    frozen = group.of("freezer")
    if frozen and _text(f"{frozen[0]}/freezer.state") == "FROZEN":
        by = next((place for place in frozen if _text(f"{place}/freezer.self_freezing") == "1"), frozen[0])
        return f"{by}/freezer.state"
    return ""


def read_cpu(group: Group) -> list[CpuLimit]:
    """Return the CPU limits of a group and its ancestors."""
    found: list[CpuLimit] = []
    for place in group.unified:
        quota, _, period = _text(f"{place}/cpu.max").partition(" ")
        found += _cpu_limit(place, "cpu.max", quota, period)
    for place in group.of("cpu"):
        quota, period = _text(f"{place}/cpu.cfs_quota_us"), _text(f"{place}/cpu.cfs_period_us")
        found += _cpu_limit(place, "cpu.cfs_quota_us", quota, period)
    return found


def read_memory(group: Group) -> MemoryLimit | None:
    """Return a group's use of memory, with the nearest limit; None if not reported."""
    for places, names in (
        (group.unified, ("memory.current", "memory.max")),
        (group.of("memory"), ("memory.usage_in_bytes", "memory.limit_in_bytes")),
    ):
        if not places:
            continue
        limits = [(place, _number(f"{place}/{names[1]}")) for place in places]
        limited = ((place, found) for place, found in limits if found is not None and found < _NO_LIMIT)
        place, limit = next(limited, (places[0], None))
        used = _number(f"{place}/{names[0]}")
        if used is None:
            continue
        control = _words(f"{place}/memory.oom_control") or _words(f"{place}/memory.events")
        stalled = pressure(_text(f"{places[0]}/memory.pressure").encode(), "full")
        if stalled is None and group.unified:  # version 1 has the pressure in the hierarchy of version 2
            stalled = pressure(_text(f"{group.unified[0]}/memory.pressure").encode(), "full")
        under = control.get("under_oom") == 1
        return MemoryLimit(f"{place}/{names[1]}", used, limit, stalled, under, control.get("oom_kill"))
    return None


def _cpu_limit(place: str, control: str, quota: str, period: str) -> Iterable[CpuLimit]:
    try:
        cores = number(quota) / number(period)
    except (ValueError, ZeroDivisionError):
        return  # `max`, -1, or no such file
    counts = _words(f"{place}/cpu.stat")
    if "nr_periods" in counts:
        yield CpuLimit(
            f"{place}/cpu.stat", f"{place}/{control}", cores, counts["nr_periods"], counts.get("nr_throttled", 0)
        )


def _mounts_of(pid: int, proc: str) -> list[Mount]:
    try:
        return parse_mounts(read_file(f"{proc}/{pid}/mountinfo"))
    except OSError:
        return []


def _below(path: str, root: str) -> str | None:
    if root == "/":
        return path
    if path == root or path.startswith(f"{root}/"):
        return path[len(root) :]
    return None


def _plain(word: str) -> str:
    """Unescape a word of `mountinfo`, whose blanks are octal."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), word)


def _text(file: str) -> str:
    try:  # behind a root folder it is the process that says where its groups are mounted
        data = read_bytes(file, _MOST, made_up=True) if "/root/" in file else read_file(file)
        return data.decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _number(file: str) -> int | None:
    try:
        return number(_text(file))
    except ValueError:
        return None  # `max`, or no such file


def _words(file: str) -> dict[str, int]:
    def parse(line: str) -> tuple[str, int]:
        name, _, value = line.partition(" ")
        return name, number(value)

    return dict(rows(_text(file).encode(), parse))
