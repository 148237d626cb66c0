"""TARGETs of the command line, and their processes.

Also the ranks of one job on this host, whatever has launched them: from one of them, or from their launcher.

Invariants:
    targets.R1. Processes are ranks of one job only if they run the same program, in one network, and the same variables
        say where the ranks meet and how many they are; where nothing says so, only below one process.
    targets.R2. Of a rank and its helpers, which have its environment or a copy of its memory, only the rank itself is
        taken: the one that started the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from glob import has_magic
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.linux import procfs, target_files
from livedbg.linux.live_environment import RANKS, LiveEnvironment, Place, detect_libc, place_of
from livedbg.linux.maps import parse_maps
from livedbg.model import ThreadState
from livedbg.model.errors import TargetError, TargetGone, UsageError
from livedbg.model.intents import VALUES_DUMP, VALUES_GOLDEN
from livedbg.model.request import Request
from livedbg.session.adapter import TargetProcess
from livedbg.session.hostinfo import check_target, find_by_name
from livedbg.session.systems import declared, systems
from livedbg.text.patterns import lazy_re
from livedbg.text.shell import shell_word

_WRAPPERS: Final = 2
"""Other programs (shells, launchers) between a rank and what it has in common with the others."""


class _Rank(Struct, frozen=True):
    """A process with a rank; `job` is a key of its job, which includes where its ranks meet if `meets`."""

    pid: int
    rank: int
    job: tuple[object, ...]
    meets: bool


def ranks_of_job(pid: int) -> list[int]:
    """Return the pids of all local ranks of a job, by rank; [] if no rank is known.

    `pid` is a rank, a helper of one, or their launcher. The process that has started them comes last, if it runs the
    same program.
    """
    host = _Host()
    rank = next((one for near in (pid, *host.above(pid)) if (one := host.rank(near)) is not None), None)
    if host.rank(pid) is None and (launched := list(host.ranks_below(pid))):
        return host.pids(launched)
    if rank is None:
        return []
    rank = host.leading(rank)
    if rank.meets:
        return host.pids(one for one in map(host.known, host.parents) if one is not None and one.job == rank.job)
    for above in host.around(rank.pid):
        found = host.chosen(one for one in host.ranks_below(above) if one.job == rank.job)
        numbers = {one.rank for one in found}
        if len(numbers) > 1:
            return host.pids(found) if len(numbers) == len(found) else [rank.pid]  # of several jobs
    return [rank.pid]


class _Host:
    def __init__(self) -> None:
        self._exact: dict[int, Place | None] = {}
        self._ranks: dict[int, _Rank | None] = {}

    @cached_property
    def parents(self) -> Mapping[int, int]:
        found = {}
        for pid in procfs.process_ids():
            try:
                stat = procfs.read_stat(pid)
            except (OSError, ValueError, IndexError):
                continue  # it is gone
            if stat.state not in (ThreadState.ZOMBIE, ThreadState.DEAD) and not stat.kernel_thread:
                found[pid] = stat.ppid
        return found

    @cached_property
    def _children(self) -> Mapping[int, list[int]]:
        found: dict[int, list[int]] = {}
        for pid, parent in self.parents.items():
            found.setdefault(parent, []).append(pid)
        return found

    def above(self, pid: int) -> Iterator[int]:
        seen = {pid}
        while (pid := self.parents.get(pid, 0)) > 1 and pid not in seen:
            seen.add(pid)
            yield pid

    def below(self, pid: int) -> Iterator[int]:
        left = [pid]
        while left:
            children = self._children.get(left.pop(), ())
            yield from children
            left += children

    def ranks_below(self, pid: int) -> Iterator[_Rank]:
        return (rank for one in self.below(pid) if (rank := self.rank(one)) is not None)

    def around(self, pid: int) -> Iterator[int]:
        """Yield the ancestors of a rank that may have launched the ranks of its job."""
        others = 0
        for above in self.above(pid):
            others += _program(above) != _program(pid)
            yield above
            if others == _WRAPPERS:
                return

    def known(self, pid: int) -> _Rank | None:
        if pid not in self._exact:
            try:
                self._exact[pid] = place_of(procfs.read_environment(pid))
            except OSError:
                self._exact[pid] = None  # gone, or not ours to see
        return _rank(pid, self._exact[pid], meets=True)

    def rank(self, pid: int) -> _Rank | None:
        """Return the rank by the environment at exec, or by memory.

        A rank that was set later goes before one of a launcher around it.
        """
        if pid not in self._ranks:
            found = self.known(pid)
            if found is None or found.job[0] != RANKS[0]:
                found = _rank(pid, _later(pid), meets=False) or found
            self._ranks[pid] = found
        return self._ranks[pid]

    def leading(self, rank: _Rank) -> _Rank:
        """Return the rank that another one helps and shares its rank with; else itself."""
        for above in map(self.rank, self.above(rank.pid)):
            if above is None or (above.rank, above.job[0], above.job[-1]) != (rank.rank, rank.job[0], rank.job[-1]):
                break
            rank = above
        return rank

    def chosen(self, ranks: Iterable[_Rank]) -> list[_Rank]:
        """Return those that are no helpers of others, by rank."""
        found = {rank.pid: rank for rank in ranks}
        own = (rank for rank in found.values() if not self._helps(rank, found))
        return sorted(own, key=lambda rank: (rank.rank, rank.pid))

    def pids(self, ranks: Iterable[_Rank]) -> list[int]:
        """Return those that are no helpers of others, and the process that started them."""
        pids = [rank.pid for rank in self.chosen(ranks)]
        starters = {self.parents.get(pid, 0) for pid in pids}
        if len(pids) > 1 and len(starters) == 1:
            (starter,) = starters
            if starter > 1 and _program(starter) == _program(pids[0]) != "":
                pids.append(starter)
        return pids

    def _helps(self, rank: _Rank, found: Mapping[int, _Rank]) -> bool:
        above = (found.get(pid) for pid in self.above(rank.pid))
        return any(one is not None and (one.rank, one.job) == (rank.rank, rank.job) for one in above)


def _rank(pid: int, place: Place | None, *, meets: bool) -> _Rank | None:
    if place is None:
        return None
    job = (place.variable, place.meeting, _link(pid, "ns/net"), _program(pid))
    return _Rank(pid, place.rank, job, meets and bool(place.meeting))


def _later(pid: int) -> Place | None:
    """Return the place that a process has set since exec, or that its runtime knows; None if unreadable."""
    try:
        mappings = parse_maps(pid)
        place = place_of(LiveEnvironment(pid, mappings, detect_libc(pid, mappings)).read())
        if place is not None and place.variable == RANKS[0]:
            return place
        for _, rank_in_memory in declared(lambda system: system.rank_in_memory):
            rank = rank_in_memory(pid)
            if rank is not None:
                return Place(rank, "", ())
    except OSError:
        pass
    return None


def _program(pid: int) -> str:
    return _link(pid, "exe")


def _link(pid: int, name: str) -> str:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/{name}").readlink())
    except OSError:
        return ""


_REMOTE: Final = lazy_re(r"^(?P<host>[^:/\s]+):(?P<rest>\d+)$")
_LATER: Final = ("slurm:", "kubectl:", "ssh:")


class Targets(Struct, frozen=True):
    """The named processes, and why some of them can be seen in part only."""

    processes: tuple[TargetProcess, ...]
    problems: tuple[TargetError, ...] = ()


def resolve(words: Sequence[str], *, all_ranks: bool = False) -> Targets:
    """Resolve the TARGETs of a command line.

    Args:
        words: `PID`, `NAME` (of exactly one process), or `LAUNCHER:PID` (all local ranks of that process's job, and its
            whole tree; `System.launchers`).
        all_ranks: each of them stands for all local ranks of its job.

    Raises:
        UsageError: a name that fits several processes, or an unknown form of target.
        TargetGone: no such process.
        TargetUnsuitable: a kernel thread or a zombie.
        TargetDenied: not even its state can be seen.
    """
    processes: dict[int, TargetProcess] = {}
    problems: list[TargetError] = []
    for word in words:
        named = _checked(_pid(word), problems)
        processes[named.pid] = named
        launched = word.partition(":")[0] in _launchers() and ":" in word
        if all_ranks or launched:
            ranks = ranks_of_job(named.pid)
            if not ranks and not launched:
                raise UsageError(
                    f"No rank is known of process {named.pid}, nor of processes beside it or below it.",
                    "name the process that launched the job: its child processes are included",
                    "no-ranks",
                )
            if launched and named.pid not in ranks:
                ranks.append(named.pid)
            processes.pop(named.pid)
            for rank in ranks:
                processes.setdefault(rank, _checked(rank, problems))
    return Targets(tuple(processes.values()), tuple(problems))


_HOPELESS: Final = {"gone", "zombie", "kernel-thread", "hidepid"}


def _checked(pid: int, problems: list[TargetError]) -> TargetProcess:
    try:
        return check_target(pid)
    except TargetError as error:
        if error.code in _HOPELESS:
            raise
        problems.append(error)
        return check_target(pid, partial=True)


def _launchers() -> list[str]:
    return [name for system in systems() for name in system.launchers]


def target_forms(*more: str) -> str:
    """Return the forms of TARGET, for a help text."""
    launchers = (f"{name}:PID" for name in _launchers())
    *forms, last = ("a PID", "a process NAME that is unique on this host", *launchers, *more)
    return f"{', '.join(forms)}, or {last}"


def _pid(word: str) -> int:
    launcher, colon, pid = word.partition(":")
    if colon and launcher in _launchers():
        word = pid
        if not word.isdigit():
            raise UsageError(f"{launcher}: needs the pid of the launcher.", f"pgrep -f {launcher}", "usage")
    if word.isdigit():
        return int(word)
    later = word.startswith(_LATER)
    if later or _REMOTE.match(word):
        host = word.partition(":")[0]
        raise UsageError(
            f"{word}: targets on other hosts are not supported in this version.",
            "run livedbg on that host" if later else f"run livedbg there: ssh -t {shell_word(host)} livedbg attach PID",
            "remote",
        )
    found = find_by_name(word)
    if not found:
        remedy = f"to read it as a log: --logs {word}" if Path(word).exists() else "livedbg ps lists candidates"
        raise TargetGone(f"No process is named {word!r}.", remedy, "gone")
    if len(found) > 1:
        pids = " ".join(str(pid) for pid in found[:8])
        raise UsageError(f"{len(found)} processes are named {word!r}: {pids}.", "give one of the pids", "ambiguous")
    return found[0]


def note_trust(request: Request) -> None:
    """Register the targets and the paths that the user named as trusted (livedbg.linux.target_files).

    A file that matches a pattern is registered when it is found.
    """
    for target in request.processes:
        target_files.register(target.pid)
        for captured in (target.stdout, target.stderr):
            if captured is not None:
                target_files.vouch(captured)
    options = (request.options.get(name, "") for name in (VALUES_DUMP, VALUES_GOLDEN))
    for named in (*request.logs, *options):
        if named and not has_magic(named):
            target_files.vouch(Path(named).expanduser())
