"""Lines that say how a job, or a process of it, ended.

Sources of the texts: Linux mm/oom_kill.c; Slurm src/slurmd/slurmstepd (mgr.c, req.c), src/srun (task_state.c,
libsrun/launch.c); Open MPI orte/tools/orterun/help-orterun.txt and PRRTE src/tools/prte/help-prun.txt, Open MPI
ompi/mpi/help/help-mpi-api.txt (MPI_ABORT); MPICH src/mpi/init/mpi_init.h and hydra's
src/pm/hydra/mpiexec/pmiserv_utils.c, Intel MPI's form of it; bash jobs.c; systemd src/core/unit.c; the Kubernetes API's
`ContainerStateTerminated.reason` and Docker's `State.OOMKilled`.

Invariants:
    host_endings.N1. A line that only speaks of such an end (a limit that is set, a flag that is false, a plan,
        advice) is none.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from typing import Final

from livedbg.adapters.hosts import (
    batch_endings,
    container_endings,
    exit_endings,
    fabric_endings,
    mpi_endings,
    worker_endings,
)
from livedbg.adapters.hosts.container_endings import container_of, runs_again
from livedbg.adapters.hosts.kinds import Ending, Kind, fault_of, signal_name
from livedbg.text.wording import sentence_case

__all__ = ["TRIGGERS", "endings"]

_LONGEST: Final = 4_000  # characters of a record that are read


_LESS: Final = "give the job more memory, or let it use less (smaller batches, fewer DataLoader workers, less cached)"
_WHO_ELSE: Final = "dmesg -T | grep -iE 'out of memory|killed process|oom-kill'   (on that host: who used the memory)"
_BY_KERNEL: Final = "dmesg -T | grep -i 'killed process'   (on that host: whether the kernel killed it for memory)"
_ASKED: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_INTERPRETERS: Final = ("python", "pt_main_thread", "torchrun", "ray::", "julia", "mpi")
_BY_WHOM: Final = "; by whom isn't said, often it is the kernel for memory"
_FIRST: Final = "read the last lines that this process wrote before it ended"
_STEPS: Final = "sacct -j {} --format=JobID,State,ExitCode,Elapsed,Timelimit,MaxRSS,ReqMem"

_OOM = re.compile(
    r"(?P<group>[Mm]emory cgroup o|O)ut of memory: Kill(?:ed)? process (?P<pid>\d{1,10}) \((?P<name>[^)\n]{1,64})\)"
    r"(?:.{0,200}?anon-rss:(?P<kb>\d{1,15}) ?kB)?"
)
_STEP = re.compile(
    r"slurmstepd: error: (?:\S+: )?\*\*\* (?P<what>STEP|JOB) (?P<id>[\w.+]{1,40}) (?:ON (?P<node>\S{1,100}) )?"
    r"CANCELLED AT (?P<at>[\dT:-]{19})(?: DUE (?:TO|to) (?P<why>[A-Za-z ]{1,60}?))?(?:,[^*\n]{0,100})? \*\*\*"
)
_STEP_OOM = re.compile(
    r"Detected (?P<count>\d{1,9}) oom[-_]kill events?(?:\(s\))? in (?:StepId=|step )(?P<id>[\w.+]{0,38}\w)"
    r"|(?:[Jj]ob|[Ss]tep) (?P<over>[\w.+]{0,38}\w) exceeded (?:job )?memory limit[^\n]{0,80}being killed"
)
_TASKS = re.compile(
    r"srun: error: (?P<node>\S{1,100}): tasks? (?P<tasks>[\d,-]{1,200}): (?P<how>Out Of Memory|Killed"
    r"|Exited with exit code (?P<code>\d{1,3})|(?P<fault>Segmentation fault|Aborted|Bus error|Illegal instruction"
    r"|Floating point exception))"
)
_NODE = re.compile(r"srun: error: Node failure on (?P<node>\S{1,300})")
_LAUNCH = re.compile(
    r"srun: error: (?:Task launch for (?:StepId=)?(?P<id>[\w.+]{1,40}) failed on node (?P<node>\S{1,100})"
    r"|Unable to (?:create step for job (?P<job>\d{1,12})|(?P<what>allocate resources|confirm allocation[^:\n]{0,40}))"
    r"): (?P<why>[^\n]{1,200})"
)
_NOTICED = re.compile(
    r"\b\w*run noticed that process rank (?P<rank>\d{1,9}) with PID (?P<pid>\d{1,10}) on node (?P<node>\S{1,100}) "
    r"exited on\s+signal (?P<signal>\d{1,2})\b"
)
_FIRST_TO = re.compile(r"Process name: \[\[[^\]\n]{1,40}\],(?P<rank>\d{1,9})\]\s+Exit code:\s+(?P<code>\d{1,3})\b")
_ABORT = re.compile(
    r"MPI_ABORT was invoked on rank (?P<rank>\d{1,9}) in communicator (?P<comm>[^\n]{1,80}?)\s*"
    r"(?:\n[^\n]{0,80}?){1,3}(?:with errorcode|Errorcode:) (?P<code>-?\d{1,10})"
)
_CALLED = re.compile(
    r"application called MPI_Abort\((?P<comm>[^,\n]{1,60}), (?P<code>-?\d{1,10})\) - process (?P<rank>\d{1,9})"
)
_BAD = re.compile(
    r"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\s*\n(?:=\s*\n)?=\s+(?:RANK (?P<rank>\d{1,9}) )?"
    r"PID (?P<pid>\d{1,10}) RUNNING AT (?P<node>\S{1,100})\s*\n"
    r"=\s+(?:EXIT CODE: (?P<code>\d{1,3})|KILLED BY SIGNAL: (?P<signal>\d{1,2}))"
)
_COLLECTIVE = re.compile(
    r"rank (?P<rank>\d{1,9}) in job \S{1,40} +(?P<node>\S{1,100}) +caused collective abort of all ranks[^\S\n]*\n"
    r"\s*exit status of rank \d{1,9}: (?:killed by signal (?P<signal>\d{1,2})|return code (?P<code>\d{1,3}))"
)
_CONTAINER = re.compile(
    r"(?:[Rr]eason\"?\s*[:=]\s*\"?|\b\d/\d +|State:\s+Terminated\s+Reason:\s+)OOMKilled\b|\"OOMKilled\"\s*:\s*true\b"
)
_UNIT = re.compile(
    r"(?P<unit>[\w@.\\-]{1,200}\.(?:service|scope|slice)): (?:A process of this unit has been killed by the OOM killer"
    r"|Failed with result 'oom-kill')"
)
_SHELL = re.compile(
    r"^(?:\S{1,200}: line \d{1,9}: +(?P<pid>\d{1,10}) +|\[\d{1,4}\][+-]? +(?:\d{1,10} +)?)?Killed"
    r"(?: *$| {2,}(?P<command>[^\n]{0,200}))",
    re.MULTILINE,
)


def _oom(match: re.Match[str]) -> Ending:
    had = f", which had {int(match['kb']) / 1024**2:,.1f} GiB" if match["kb"] else ""
    why = "it reached the memory limit of its cgroup" if match["group"] != "O" else "the host had no memory left"
    who = f"process {match['pid']} ({match['name']}){had}"
    said = f"The kernel killed {who}: {why}"
    pid, interpreter = match["pid"], match["name"].startswith(_INTERPRETERS)
    return Ending(Kind.CAUSE, pid, said, int(pid), (_LESS, _WHO_ELSE), late=False, interpreter=interpreter)


_WHY: Final = {
    "TIME LIMIT": "its time limit was reached",
    "PREEMPTION": "it was preempted for another job",
    "NODE FAILURE": "a node failed",
}


def _step(match: re.Match[str]) -> Ending:
    name = f"{match['what'].lower()} {match['id']}"
    where = f" on {match['node']}" if match["node"] else ""
    why = (match["why"] or "").strip()
    job = match["id"].partition(".")[0]
    if not why:
        return Ending(Kind.CANCELLED, match["id"], f"Slurm cancelled {name}{where}", 0, (_STEPS.format(job),))
    if why.upper() == "TASK FAILURE":
        return Ending(Kind.SUMMARY, match["id"], f"Slurm ended {name}{where}: a task had failed", 0, (_FIRST,))
    said = _WHY.get(why.upper(), why.lower())
    steps = [_STEPS.format(job)]
    if why.upper() == "TIME LIMIT":
        steps.append("ask for more time (sbatch --time), or have it save its state before the limit (sbatch --signal)")
    sentence = f"Slurm cancelled {name}{where}: {said} ({why.upper()}, {match['at']})"
    limit = why.upper() == "TIME LIMIT"
    return Ending(Kind.CAUSE, f"step {match['id']} {why}", sentence, 0, tuple(steps), limit=limit)


def _step_oom(match: re.Match[str]) -> Ending:
    step = match["id"] or match["over"]
    if match["over"]:
        said = f"Slurm killed {step}: it exceeded its memory limit"
    else:
        count = int(match["count"])
        whom = "a process" if count == 1 else f"{count:,} processes"
        said = f"The kernel killed {whom} of Slurm's step {step} for memory"
    job = step.partition(".")[0]
    return Ending(Kind.CAUSE, f"oom {step}", said, 0, (_LESS, _STEPS.format(job)))


def _tasks(match: re.Match[str]) -> Ending:
    many = re.search(r"[,-]", match["tasks"]) is not None
    who = f"Task{'s' if many else ''} {match['tasks']} on {match['node']}"
    key = f"{match['node']} {match['tasks']} {match['how']}"
    was = "were" if many else "was"
    if match["how"] == "Out Of Memory":
        return Ending(Kind.CAUSE, key, f"{who} {was} killed for memory", 0, (_LESS,))
    if match["how"] == "Killed":
        return Ending(Kind.KILLED, key, f"{who} {was} killed by SIGKILL", 0, (_BY_KERNEL,))
    how = f"with exit code {match['code']}" if match["code"] else f"by a fault ({match['fault']})"
    return Ending(Kind.SUMMARY, key, f"{who} ended {how}", 0, (_FIRST,))


def _node(match: re.Match[str]) -> Ending:
    return Ending(Kind.CAUSE, match["node"], f"Node {match['node']} failed", 0, (f"sinfo -R -n {match['node']}",))


def _launch(match: re.Match[str]) -> Ending:
    if match["node"]:
        said = f"Slurm could not launch step {match['id']} on {match['node']}"
    else:
        said = f"Slurm could not {match['what'] or 'create a step of job ' + match['job']}"
    steps = (f"sinfo -R; scontrol show node {match['node'] or 'NODE'}",)
    return Ending(Kind.CAUSE, f"launch {match['node']}", f"{said}: {match['why'].strip()}", 0, steps)


def _by_signal(who: str, number: int, key: str, pid: int = 0) -> Ending:
    """A process that a launcher saw end by a signal."""
    writer = key if key.startswith("rank ") else ""
    if number == signal.SIGKILL:
        said = f"{who} was killed by signal 9 (SIGKILL){_BY_WHOM}"
        return Ending(Kind.KILLED, key, said, pid, (_BY_KERNEL,), writer)
    if number in _ASKED:
        return Ending(Kind.CANCELLED, key, f"{who} was asked to end ({signal_name(number)})", pid, (), writer)
    said = f"{who} ended by signal {number} ({signal_name(number)})"
    return Ending(Kind.SUMMARY, key, said, pid, (_FIRST,), writer, fault=True)


def _noticed(match: re.Match[str]) -> Ending:
    who = f"Rank {match['rank']} on {match['node']}"
    return _by_signal(who, int(match["signal"]), f"rank {match['rank']}", int(match["pid"]))


def _first_to(match: re.Match[str]) -> Ending:
    said = f"Rank {match['rank']} ended first, with exit code {match['code']}"
    return Ending(Kind.SUMMARY, f"rank {match['rank']}", said, 0, (_FIRST,), f"rank {match['rank']}")


def _aborted(match: re.Match[str]) -> Ending:
    call = f"MPI_Abort({match['comm'].strip()}, {match['code']})"
    said = f"Rank {match['rank']} called {call}: the program ended the job itself"
    return Ending(Kind.ABORTED, f"rank {match['rank']}", said, 0, (_FIRST,), f"rank {match['rank']}")


def _bad(match: re.Match[str]) -> Ending:
    key = f"rank {match['rank']}" if match["rank"] else f"process {match['pid']}"
    who = f"{sentence_case(key)} on {match['node']}"
    if match["signal"]:
        return _by_signal(who, int(match["signal"]), key, int(match["pid"]))
    said = f"{who} ended with exit code {match['code']}{fault_of(int(match['code']))}"
    return Ending(Kind.SUMMARY, key, said, int(match["pid"]), (_FIRST,), key if match["rank"] else "")


def _collective(match: re.Match[str]) -> Ending:
    who = f"Rank {match['rank']} on {match['node']}"
    if match["signal"]:
        return _by_signal(who, int(match["signal"]), f"rank {match['rank']}")
    said = f"{who} ended first, with exit code {match['code']}"
    return Ending(Kind.SUMMARY, f"rank {match['rank']}", said, 0, (_FIRST,), f"rank {match['rank']}")


def _container(match: re.Match[str]) -> Ending | None:
    if runs_again(match.string):
        return None
    who = container_of(match)
    said = f"{who} was killed: it reached its memory limit (OOMKilled)"
    return Ending(Kind.CAUSE, who, said, 0, (_LESS, "kubectl describe pod POD   (its limits and last state)"))


def _unit(match: re.Match[str]) -> Ending:
    said = f"The kernel killed a process of {match['unit']} for memory"
    return Ending(Kind.CAUSE, match["unit"], said, 0, (_LESS, _WHO_ELSE))


def _shell(match: re.Match[str]) -> Ending:
    command = (match["command"] or "").strip()
    of = f" ({command})" if command else ""
    who = f"Process {match['pid']}{of}" if match["pid"] else f"A process of the job{of}"
    said = f"{who} was killed by signal 9 (SIGKILL), as a shell says{_BY_WHOM}"
    return Ending(Kind.KILLED, match["pid"] or "shell", said, int(match["pid"] or 0), (_BY_KERNEL,), shell=True)


_FORMS: Final[tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], Ending | None]], ...]] = (
    ("ut of memory: Kill", _OOM, _oom),
    ("slurmstepd: error: ", _STEP, _step),
    ("oom", _STEP_OOM, _step_oom),
    ("memory limit", _STEP_OOM, _step_oom),
    ("srun: error: ", _TASKS, _tasks),
    ("srun: error: Node failure", _NODE, _node),
    ("srun: error: ", _LAUNCH, _launch),
    ("run noticed that process rank", _NOTICED, _noticed),
    ("Process name: [[", _FIRST_TO, _first_to),
    ("MPI_ABORT was invoked", _ABORT, _aborted),
    ("application called MPI_Abort(", _CALLED, _aborted),
    ("BAD TERMINATION OF ONE", _BAD, _bad),
    ("caused collective abort", _COLLECTIVE, _collective),
    ("OOMKilled", _CONTAINER, _container),
    ("OOM killer", _UNIT, _unit),
    ("result 'oom-kill'", _UNIT, _unit),
    ("Killed", _SHELL, _shell),
    *batch_endings.FORMS,
    *worker_endings.FORMS,
    *mpi_endings.FORMS,
    *exit_endings.FORMS,
    *container_endings.FORMS,
    *fabric_endings.FORMS,
)

TRIGGERS: Final = (
    *(b"ut of memory: Kill", b"slurmstepd: error: ", b"oom_kill event", b"oom-kill event", b"exceeded memory limit"),
    *(b"exceeded job memory limit", b"srun: error: ", b"run noticed that process rank", b"Process name: [["),
    *(
        b"MPI_ABORT was invoked",
        b"application called MPI_Abort(",
        b"BAD TERMINATION OF ONE",
        b"collective abort of all",
    ),
    *(b"OOMKilled", b"killed by the OOM killer", b"result 'oom-kill'", b"Killed"),
    *(b"with errorcode", b"Errorcode:", b"EXIT CODE: ", b"KILLED BY SIGNAL: ", b" RUNNING AT ", b"Exit code: "),
    b"exit status of rank ",
    *(f"signal {number} (".encode() for number in (1, 2, 4, 6, 7, 8, 9, 11, 15)),
    *(b"=>> PBS: job killed: ", b"job hard limit", b"enforced h_", b"The node was low on resource"),
    *(b"TERM_MEMLIMIT", b"TERM_RUNLIMIT", b"TERM_SWAP", b"TERM_CPULIMIT", b"TERM_PROCESSLIMIT", b"TERM_PREEMPT"),
    *(b"TERM_OWNER", b"TERM_ADMIN", b"specified deadline", b"Main process exited, code=", b"Watchdog timeout"),
    b"result 'watchdog'",
    *(word.encode() for word, _, _ in worker_endings.FORMS),
    b"Worker exit type: ",
    *(word.encode() for word, _, _ in mpi_endings.FORMS),
    *mpi_endings.PARTS,
    *exit_endings.PARTS,
    *container_endings.PARTS,
    *(word.encode() for word, _, _ in fabric_endings.FORMS),
)
"""What records contain that say, or help to say, how something ended."""


def endings(text: str) -> list[Ending]:
    """What a text says; of the same kind and key once.

    Args:
        text: lines, without the prefixes of ranks.
    """
    text = text[:_LONGEST]
    found: dict[tuple[str, str], Ending] = {}
    for word, pattern, make in _FORMS:
        if word in text:
            for match in pattern.finditer(text):
                ending = make(match)
                if ending is not None:
                    found.setdefault((ending.kind, ending.key), ending)
    return list(found.values())
