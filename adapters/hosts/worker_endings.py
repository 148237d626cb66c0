"""Lines that say how a helper of a job ended: workers of DataLoader, of pools, of Ray, processes of a launcher.

Sources: torch/utils/data/_utils/signal_handling.py and dataloader.py, torch/csrc/DataLoader.cpp, torch/multiprocessing/
spawn.py; CPython Lib/concurrent/futures/process.py; joblib's loky; Ray src/ray/raylet/{node_manager,worker_killing}.cc,
src/ray/gcs and python/ray/exceptions.py; DeepSpeed deepspeed/launcher/launch.py.
"""

from __future__ import annotations

import re
import signal
from typing import Final

from livedbg.adapters.hosts.kinds import Ending, Kind, signal_name

__all__ = ["FORMS"]

_LESS: Final = "give the job more memory, or let it use less (smaller batches, fewer DataLoader workers, less cached)"
_BY_KERNEL: Final = "dmesg -T | grep -i 'killed process'   (on that host: whether the kernel killed it for memory)"
_SHARED: Final = "df -h /dev/shm   (docker run --shm-size=16g, or --ipc=host; or num_workers=0)"
_ALONE: Final = "num_workers=0 runs the dataset in the main process, where the error shows; or -X faulthandler"
_RAY: Final = "ray logs cluster   (and the worker's .err file there: its last lines)"

_SIGNALS: Final = {
    "Killed": signal.SIGKILL,
    "Bus error": signal.SIGBUS,
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Terminated": signal.SIGTERM,
    "Floating point exception": signal.SIGFPE,
    "Illegal instruction": signal.SIGILL,
}
_KILLED = re.compile(r"DataLoader worker \(pid (?P<pid>\d{1,10})\) is killed by signal: (?P<name>[A-Z][\w ]{1,40})\b")
_GONE = re.compile(
    r"DataLoader worker \(pid(?:\(s\))? (?P<pids>[\d, ]{1,200})\) exited unexpectedly"
    r"(?: with exit code (?P<code>\d{1,4}))?"
)
_MET = re.compile(
    r"ERROR: Unexpected (?P<what>bus error|segmentation fault|floating-point exception) encountered in worker"
)
_POOL = re.compile(
    r"BrokenProcessPool: (?:A process in the process pool was terminated abruptly|A child process terminated)"
)
_LOKY = re.compile(r"TerminatedWorkerError: A worker process managed by the executor was unexpectedly terminated")
_CODES = re.compile(r"exit codes? of the workers? (?:are|is) \{(?P<codes>[^}\n]{1,200})\}")
_SPAWN = re.compile(
    r"ProcessExitedException: process (?P<rank>\d{1,9}) terminated with "
    r"(?:signal (?P<signal>SIG\w{2,8})|exit code (?P<code>\d{1,3}))"
)
_DEEPSPEED = re.compile(r"exits with return code = (?P<code>-?\d{1,3})\b")

_RAY_TASK = re.compile(r"(?:Task|Actor|Worker)[^\n]{0,40} was killed due to the node running low on memory")
_RAY_OOM = re.compile(
    r"Memory on the node \(IP: (?P<ip>[^\s,)]{1,60})[^\n]{0,400}?was (?P<used>[\d.]{1,12} ?[GMK]B) / "
    r"(?P<all>[\d.]{1,12} ?[GMK]B)"
)
_RAY_PRESSURE = re.compile(
    r"(?P<count>\d{1,9}) Workers \(tasks / actors\) killed due to memory pressure \(OOM\)[^\n]{0,200}?at node "
    r"\(ID: \w{1,80}, IP: (?P<ip>[^\s)]{1,60})\)"
)
_RAY_NODE = re.compile(
    r"[Tt]he node with node id: (?P<id>\w{1,80})(?: and (?:address|ip): (?P<ip>[^\s,]{1,60}))?[^\n]{0,200}? has been "
    r"marked dead(?: because (?P<why>[^\n.]{1,200}))?"
)
_RAY_THROWN = re.compile(
    r"logging\.cc:\d{1,6}: Unhandled exception: (?P<type>\S{1,300}?)\. what\(\): (?P<what>[^\n]{1,300})"
)
_RAY_WORKER = re.compile(r"WorkerCrashedError: The worker died unexpectedly while executing this task")
_RAY_ACTOR = re.compile(
    r"(?:RayActorError|ActorDiedError|ActorUnavailableError): (?:The actor[^\n]{0,120}(?:died|dead|unavailable))"
    r"(?:[^\n]{0,400}(?:\n[^\n]{0,600}){0,12}?Worker exit type: (?P<type>\w{1,40}))?"
)


def _worker(who: str, number: int) -> tuple[str, tuple[str, ...]]:
    """What a signal says of a worker, and what to do."""
    if number == signal.SIGBUS:
        return f"{who} was ended by SIGBUS (Bus error): /dev/shm is full or too small", (_SHARED,)
    if number == signal.SIGKILL:
        said = f"{who} was killed by SIGKILL; by whom isn't said, often it is the kernel for memory"
        return said, (_BY_KERNEL, _LESS)
    name = next((name for name, known in _SIGNALS.items() if known == number), "")
    return f"{who} was ended by {signal_name(number)}{f' ({name})' if name else ''}", (_ALONE,)


def _killed(match: re.Match[str]) -> Ending | None:
    number = _SIGNALS.get(match["name"].strip())
    if number is None:
        return None
    pid = match["pid"]
    said, steps = _worker(f"DataLoader worker {pid}", number)
    kind = Kind.CANCELLED if number == signal.SIGTERM else Kind.WORKER
    return Ending(kind, f"worker {pid}", said, 0, steps, late=False)


def _gone(match: re.Match[str]) -> Ending:
    pids = match["pids"].strip(" ,")
    code = f" with exit code {match['code']}" if match["code"] else ""
    who = f"DataLoader worker{'s' if ',' in pids else ''} {pids}"
    return Ending(Kind.LOST, f"gone {pids}", f"{who} exited unexpectedly{code}", 0, (_ALONE, _BY_KERNEL))


def _met(match: re.Match[str]) -> Ending:
    what = match["what"]
    steps = (_SHARED,) if what == "bus error" else (_ALONE,)
    more = ": /dev/shm is full or too small" if what == "bus error" else ""
    return Ending(Kind.LOST, f"met {what}", f"A DataLoader worker met a {what}{more}", 0, steps)


def _pool(match: re.Match[str]) -> Ending:
    said = "A worker of a process pool died abruptly (BrokenProcessPool)"
    return Ending(Kind.LOST, "pool", said, 0, (_BY_KERNEL, "run its task in the main process, or with -X faulthandler"))


def _loky(match: re.Match[str]) -> Ending:
    codes = _CODES.search(match.string, match.end())
    ended = f": {codes['codes'].strip()}" if codes is not None else ""
    return Ending(Kind.LOST, "loky", f"A joblib worker died unexpectedly{ended}", 0, (_BY_KERNEL, _LESS))


def _spawn(match: re.Match[str]) -> Ending:
    rank = match["rank"]
    how = f"was ended by {match['signal']}" if match["signal"] else f"ended with exit code {match['code']}"
    step = f"read the last lines that process {rank} wrote before it ended"
    steps = (_BY_KERNEL, step) if match["signal"] == "SIGKILL" else (step,)
    return Ending(Kind.SUMMARY, f"spawned {rank}", f"Spawned process {rank} {how}", 0, steps, writer=f"rank {rank}")


def _deepspeed(match: re.Match[str]) -> Ending | None:
    code = int(match["code"])
    if code == 0:
        return None
    if code < 0:
        said, steps = _worker("A process of DeepSpeed's launcher", -code)
        return Ending(Kind.SUMMARY, f"deepspeed {code}", f"{said} (return code {code})", 0, steps)
    said = f"A process of DeepSpeed's launcher ended with return code {code}"
    return Ending(Kind.SUMMARY, f"deepspeed {code}", said, 0, ("read what that process wrote before it ended",))


def _ray_task(match: re.Match[str]) -> Ending:
    return Ending(Kind.LOST, "ray task", "Ray killed a task, since its node ran low on memory", 0, (_LESS,))


def _ray_oom(match: re.Match[str]) -> Ending:
    said = f"Ray killed a worker on node {match['ip']}, which ran low on memory: {match['used']} of {match['all']}"
    step = "ask for more CPUs per task, so that fewer run at once; or RAY_memory_usage_threshold"
    return Ending(Kind.CAUSE, f"ray {match['ip']}", said, 0, (_LESS, step), late=False)


def _ray_pressure(match: re.Match[str]) -> Ending | None:
    count = int(match["count"])
    if not count:
        return None
    said = f"Ray killed {count:,} worker{'s' if count > 1 else ''} on node {match['ip']} for memory"
    return Ending(Kind.CAUSE, f"ray pressure {match['ip']}", said, 0, (_LESS,), late=False)


def _ray_node(match: re.Match[str]) -> Ending:
    who = match["ip"] or match["id"][:12]
    why = f": {match['why'].strip()}" if match["why"] else ""
    steps = (f"look on {who}: dmesg -T, and whether the host, its network or its raylet is down",)
    return Ending(Kind.CAUSE, f"ray node {who}", f"Ray marked node {who} as dead{why}", 0, steps)


def _ray_thrown(match: re.Match[str]) -> Ending:
    what = re.sub(r"(?: \[repeated \d{1,40}x[^\n]{0,2000})$", "", match["what"]).strip()
    steps = (_RAY, "ulimit -u, and pids.max of the container: fewer threads or processes fit than are started")
    said = f"A process of Ray ended by an exception of C++ that nothing caught: {what}"
    return Ending(Kind.WORKER, f"ray thrown {what}", said, 0, steps if "thread" in what else steps[:1], late=False)


def _ray_worker(match: re.Match[str]) -> Ending:
    said = "A Ray worker died while it executed a task"
    return Ending(Kind.LOST, "ray worker", said, 0, (_RAY, _BY_KERNEL))


def _ray_actor(match: re.Match[str]) -> Ending:
    kind = f" ({match['type']})" if match["type"] else ""
    return Ending(Kind.LOST, "ray actor", f"A Ray actor died: its worker process ended{kind}", 0, (_RAY, _BY_KERNEL))


FORMS: Final = (
    ("is killed by signal: ", _KILLED, _killed),
    ("exited unexpectedly", _GONE, _gone),
    ("encountered in worker", _MET, _met),
    ("BrokenProcessPool: ", _POOL, _pool),
    ("TerminatedWorkerError: ", _LOKY, _loky),
    ("ProcessExitedException: ", _SPAWN, _spawn),
    ("exits with return code = ", _DEEPSPEED, _deepspeed),
    ("running low on memory", _RAY_TASK, _ray_task),
    ("Memory on the node (IP", _RAY_OOM, _ray_oom),
    ("memory pressure (OOM)", _RAY_PRESSURE, _ray_pressure),
    ("has been marked dead", _RAY_NODE, _ray_node),
    ("Unhandled exception: ", _RAY_THROWN, _ray_thrown),
    ("WorkerCrashedError: ", _RAY_WORKER, _ray_worker),
    ("ActorError: ", _RAY_ACTOR, _ray_actor),
    ("ActorDiedError: ", _RAY_ACTOR, _ray_actor),
)
