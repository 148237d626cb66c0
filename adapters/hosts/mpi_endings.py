"""Lines that Open MPI, PRRTE and MPICH write as a process or a node of theirs fails.

Sources: Open MPI opal/util/stacktrace.c (`*** Process received signal ***`), ompi/errhandler/errhandler_predefined.c
(`*** An error occurred in`), orte/mca/errmgr/base/help-errmgr-base.txt and PRRTE src/mca/errmgr/base (a daemon that is
lost), help-prun.txt (`has exited due to process rank`), orte/mca/rmaps/base/help-orte-rmaps-base.txt (slots); MPICH
src/mpi/errhan/errutil.c (`Fatal error in`).
"""

from __future__ import annotations

import re
import signal
from typing import Final

from livedbg.adapters.hosts.kinds import Ending, Kind, signal_name, signal_words

__all__ = ["FORMS", "PARTS"]

_ASKED: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_CORE: Final = "run it with ulimit -c unlimited, or under gdb: the frames below it in the log have no source lines"
_CALLER: Final = "read what that process wrote before it; a debugger at MPI_Abort shows who called it"
_MOST_RANKS: Final = 10_000_000  # older versions write a job's number where the rank should stand

_SIGNAL = re.compile(
    r"^\[(?P<node>[^\s:\[\]]{1,100}):(?P<pid>\d{1,10})\] Signal: [A-Z][^\n(]{2,60}\((?P<number>\d{1,2})\)"
)
_CALL = re.compile(
    r"^\[(?P<node>[^\s:\[\]]{1,100}):(?P<pid>\d{1,10})\] \*\*\* An error occurred in (?P<call>\w{1,80})\n"
    r"(?:[^\n]{1,120} reported by process \[\d{1,20},(?P<rank>\d{1,20})\]\n)?"
    r"(?:[^\n]{1,120} on (?:communicator|a NULL communicator|win|file) ?(?P<comm>[^\n]{0,100})\n)?"
    r"[^\n]{1,120}\*\*\* (?P<name>MPI_ERR_\w{1,40})(?:: (?P<text>[^\n]{1,200}))?",
    re.MULTILINE,
)
_NO_INIT = re.compile(
    r"\*\*\* An error occurred in (?P<call>\w{1,80})\n(?:[^\n]{1,120}\n)?[^\n]{0,120}\*\*\* MPI_ERRORS_ARE_FATAL"
)
_LOST = re.compile(
    r"has lost communication with a remote daemon\.[^\n]{0,20}\n(?:[^\n]{0,120}\n){0,2}?"
    r" *Remote daemon *: \S{1,120} on node (?P<node>\S{1,120})"
)
_IMPROPER = re.compile(
    r"run has exited due to process rank (?P<rank>\d{1,9}) with PID (?P<pid>\d{1,10}) on\s+node (?P<node>\S{1,120}) "
    r"(?P<how>exiting\s+improperly|calling \"abort\")"
)
_SLOTS = re.compile(r"There are not enough slots available in the system to satisfy the (?P<slots>\d{1,9})\s*slots")
_NO_START = re.compile(
    r"run was unable to (?:launch|start) the specified application as it [^\n]{1,80}\n(?:[^\n]{0,80}\n){0,3}? *"
    r"(?P<key>Executable|Error name|Error code|Node|Host|Directory): +(?P<value>[^\n]{1,160})"
)
_FATAL = re.compile(
    r"(?:Abort\(\d{1,12}\) on node \d{1,9} \(rank (?P<rank>\d{1,9}) in comm \d{1,9}\): )?"
    r"Fatal error in (?P<call>(?:internal_|P?MPI_)\w{1,60}): (?P<text>[^\n]{1,200}?)(?:, error stack:|$)",
    re.MULTILINE,
)

_PETSC = re.compile(r"^\[(?P<rank>\d{1,9})\]PETSC ERROR: Caught signal number (?P<number>\d{1,2})\b", re.MULTILINE)


def _by_signal(match: re.Match[str]) -> Ending:
    number, pid, node = int(match["number"]), int(match["pid"]), match["node"]
    who = f"Process {pid} on {node}"
    if number in _ASKED:
        return Ending(Kind.CANCELLED, f"{node} {pid}", f"{who} was asked to end ({signal_name(number)})", pid)
    return Ending(
        Kind.WORKER, f"{node} {pid}", f"{who} got signal {number} ({signal_words(number)})", pid, (_CORE,), late=False
    )


def _petsc(match: re.Match[str]) -> Ending:
    rank, number = match["rank"], int(match["number"])
    who, key = f"Rank {rank}", f"rank {rank}"
    if number in _ASKED:
        return Ending(Kind.CANCELLED, key, f"{who} was asked to end ({signal_name(number)})", 0, (), key)
    said = f"{who} caught signal number {number} ({signal_words(number)}), as PETSc says"
    return Ending(Kind.WORKER, key, said, 0, (_CORE,), key, late=False)


def _call(match: re.Match[str]) -> Ending:
    rank = match["rank"] or ""
    known = rank if rank and int(rank) < _MOST_RANKS else ""
    who = f"Rank {known}" if known else f"Process {match['pid']} on {match['node']}"
    why = f": {match['text'].strip()}" if match["text"] else ""
    on = f" on {match['comm'].strip()}" if match["comm"] and match["comm"].strip() else ""
    said = f"{who} failed in {match['call']}{on}: {match['name']}{why}"
    writer = f"rank {known}" if known else ""
    return Ending(Kind.ABORTED, f"{match['node']} {match['pid']}", said, int(match["pid"]), (_CALLER,), writer)


def _no_init(match: re.Match[str]) -> Ending:
    said = f"{match['call']} failed, which MPI takes for fatal"
    return Ending(Kind.ABORTED, f"call {match['call']}", said, 0, (_CALLER,))


def _lost(match: re.Match[str]) -> Ending:
    node = match["node"]
    said = f"mpirun lost its daemon on {node}: the node, its network or the daemon failed"
    steps = (f"look at {node}: is it up, and what does its kernel log (dmesg -T) or its pod's last state say?",)
    return Ending(Kind.LOST, f"daemon {node}", said, 0, steps)


def _improper(match: re.Match[str]) -> Ending:
    rank, node = match["rank"], match["node"]
    how = "called abort" if match["how"].startswith("calling") else "ended without MPI_Finalize"
    step = f"read the last lines of rank {rank}: it ended by itself, or was killed"
    return Ending(
        Kind.SUMMARY, f"rank {rank}", f"Rank {rank} on {node} {how}", int(match["pid"]), (step,), f"rank {rank}"
    )


def _slots(match: re.Match[str]) -> Ending:
    said = f"mpirun did not start the program: fewer than {match['slots']} slots are free on its hosts"
    return Ending(
        Kind.ABORTED, "slots", said, 0, ("mpirun -host NODE:SLOTS, a hostfile with slots=, or --oversubscribe",)
    )


def _no_start(match: re.Match[str]) -> Ending:
    said = f"mpirun could not start the program ({match['key']}: {match['value'].strip()})"
    return Ending(Kind.ABORTED, "start", said, 0, ("check that the program is there, and runs, on each of its nodes",))


def _fatal(match: re.Match[str]) -> Ending:
    rank = match["rank"] or ""
    who = f"Rank {rank}" if rank else "A process"
    said = f"{who} failed in {match['call']}: {match['text'].strip().rstrip(',:')}"
    writer = f"rank {rank}" if rank else ""
    return Ending(Kind.ABORTED, f"fatal {rank}", said, 0, (_CALLER,), writer)


FORMS: Final = (
    ("] Signal: ", _SIGNAL, _by_signal),
    ("]PETSC ERROR: Caught signal number ", _PETSC, _petsc),
    ("*** An error occurred in MPI", _CALL, _call),
    ("*** MPI_ERRORS_ARE_FATAL", _NO_INIT, _no_init),
    ("Remote daemon", _LOST, _lost),
    ("run has exited due to process rank", _IMPROPER, _improper),
    ("not enough slots available", _SLOTS, _slots),
    ("run was unable to ", _NO_START, _no_start),
    ("Fatal error in ", _FATAL, _fatal),
)

PARTS: Final = (
    *(b"*** reported by process [", b"*** on communicator ", b"*** on a NULL", b"*** MPI_ERR"),
    *(b"has lost communication with", b"HNP daemon", b"slots that were requested", b"improperly", b'calling "abort"'),
    *(b"Executable: ", b"Error name: ", b"Error code: "),
)
"""What else lines hold that make up such a message."""
