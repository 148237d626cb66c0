"""What a user can write for TARGET on the command line, and which processes that is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.model.errors import TargetError, TargetGone, UsageError
from livedbg.session.adapter import TargetProcess
from livedbg.session.hostinfo import check_target, find_by_name
from livedbg.session.jobs import ranks_of_job
from livedbg.session.systems import systems
from livedbg.text.shell import shell_word

__all__ = ["Targets", "resolve", "target_forms"]

_REMOTE: Final = re.compile(r"^(?P<host>[^:/\s]+):(?P<rest>\d+)$")
_LATER: Final = ("slurm:", "kubectl:", "ssh:")


class Targets(Struct, frozen=True):
    """The processes that were named.

    Attributes:
        problems: why some of them can be seen in part only; the session shows it too.
    """

    processes: tuple[TargetProcess, ...]
    problems: tuple[TargetError, ...] = ()


def resolve(words: Sequence[str], *, all_ranks: bool = False) -> Targets:
    """The processes behind the TARGETs of a command line.

    Args:
        words: `PID`, `NAME` (of exactly one process), or `LAUNCHER:PID` (all local ranks of that process's job, and its
            whole tree; `System.launchers`).
        all_ranks: each of them stands for all local ranks of its job.

    Raises:
        UsageError: a name that fits several processes, or a form of target that this version can't do.
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
    """What TARGET can be, for a help text.

    Args:
        more: further forms.
    """
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
