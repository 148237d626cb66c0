"""Lines that say how a batch system, Kubernetes or systemd ended a job.

Sources: OpenPBS src/resmom (`=>> PBS: job killed: …`), LSF's bhist and mail (`TERM_MEMLIMIT: …`), Grid Engine's qacct
and execd messages, Kubernetes pkg/kubelet/eviction and batch/v1 Job's `DeadlineExceeded`, systemd src/core/service.c.
"""

from __future__ import annotations

import re
import signal
from typing import Final

from livedbg.adapters.hosts.kinds import Ending, Kind, signal_name

__all__ = ["FORMS"]

_LESS: Final = "ask for more memory, or let the job use less"
_TIME: Final = "ask for more time, or have the job save its state before the limit"

_PBS = re.compile(
    r"=>> PBS: job killed: (?P<what>walltime|mem|vmem|pmem|pvmem|cput|ncpus|node \S+)[^\n]{0,20}? ?"
    r"(?P<used>[\d.]{1,20}\w{0,3})? ?exceeded(?: job)? limit ?(?P<limit>[\d.]{1,20}\w{0,3})?"
)
_LSF = re.compile(
    r"\b(?P<name>TERM_(?:MEMLIMIT|RUNLIMIT|SWAP|CPULIMIT|PROCESSLIMIT|OWNER|ADMIN|PREEMPT))\b: (?P<text>[^\n]{1,200})"
)
_SGE = re.compile(
    r"job (?P<id>[\d.]{1,20}) exceed\w{1,3} job hard limit \"(?P<limit>\w{1,20})\""
    r"|failed +(?P<code>\d{1,3}) *: (?P<text>[^\n]{0,60}enforced h_\w[^\n]{0,60})"
)
_EVICTED = re.compile(r"The node was low on resource: (?P<what>[\w-]{1,40})\.?(?P<more>[^\n]{0,200})")
_DEADLINE = re.compile(r"(?:Pod|Job) was active (?:on the node )?longer than (?:the )?specified deadline")
_UNIT = re.compile(
    r"(?P<unit>[\w@.\\-]{1,200}\.(?:service|scope)): Main process exited, code=(?P<how>killed|dumped|exited), "
    r"status=(?P<number>\d{1,3})/(?P<name>\w{1,30})"
)
_WATCHDOG = re.compile(r"(?P<unit>[\w@.\\-]{1,200}\.service): (?P<why>Watchdog timeout|Failed with result 'watchdog')")


def _pbs(match: re.Match[str]) -> Ending:
    what = match["what"]
    numbers = f" ({match['used']} of {match['limit']})" if match["used"] and match["limit"] else ""
    if what == "walltime":
        said = f"PBS killed the job: its time limit was reached{numbers}"
        return Ending(Kind.CAUSE, "pbs time", said, 0, (_TIME,), limit=True)
    named = "memory" if "mem" in what else what
    said = f"PBS killed the job: it exceeded its {named} limit{numbers}"
    return Ending(Kind.CAUSE, f"pbs {what}", said, 0, (_LESS,) if named == "memory" else ())


def _lsf(match: re.Match[str]) -> Ending:
    name = match["name"]
    if name in ("TERM_OWNER", "TERM_ADMIN"):
        return Ending(Kind.CANCELLED, name, f"LSF ended the job: {match['text'].strip(' .')} ({name})")
    time = name in ("TERM_RUNLIMIT", "TERM_CPULIMIT")
    why = {
        "TERM_MEMLIMIT": "it exceeded its memory limit",
        "TERM_RUNLIMIT": "its time limit was reached",
    }.get(name, match["text"].strip(" ."))
    return Ending(Kind.CAUSE, name, f"LSF killed the job: {why} ({name})", 0, (_TIME if time else _LESS,), limit=time)


def _sge(match: re.Match[str]) -> Ending:
    limit = match["limit"] or ""
    why = f"it exceeded {limit}" if limit else match["text"].strip()
    said = f"Grid Engine killed the job: {why}"
    time = limit in ("h_rt", "h_cpu", "s_rt")
    return Ending(Kind.CAUSE, f"sge {limit}", said, 0, (_TIME if time else _LESS,), limit=time)


def _evicted(match: re.Match[str]) -> Ending:
    said = f"Kubernetes evicted the pod: its node was low on {match['what']}"
    return Ending(Kind.CAUSE, f"evicted {match['what']}", said, 0, ("kubectl describe pod POD   (who used it)", _LESS))


def _deadline(match: re.Match[str]) -> Ending:
    said = "Kubernetes ended the job: its deadline was reached (activeDeadlineSeconds)"
    return Ending(Kind.CAUSE, "deadline", said, 0, (_TIME,), limit=True)


def _unit(match: re.Match[str]) -> Ending | None:
    unit, number = match["unit"], int(match["number"])
    if match["how"] == "exited":
        if number == 0:
            return None
        return Ending(Kind.SUMMARY, unit, f"{unit} ended with status {number}", 0, (f"journalctl -u {unit}",))
    steps = (f"journalctl -u {unit}   (its last lines)", f"coredumpctl info {unit}")
    if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return Ending(Kind.CANCELLED, unit, f"{unit} was asked to end ({signal_name(number)})", 0, steps[:1])
    kind = Kind.KILLED if number == signal.SIGKILL else Kind.SUMMARY
    return Ending(kind, unit, f"{unit} was ended by {signal_name(number)}", 0, steps)


def _watchdog(match: re.Match[str]) -> Ending:
    unit = match["unit"]
    said = f"systemd ended {unit}: it did not report to its watchdog in time"
    return Ending(Kind.CAUSE, f"watchdog {unit}", said, 0, (f"journalctl -u {unit}",))


FORMS: Final = (
    ("=>> PBS: job killed: ", _PBS, _pbs),
    ("TERM_", _LSF, _lsf),
    ("job hard limit", _SGE, _sge),
    ("enforced h_", _SGE, _sge),
    ("The node was low on resource", _EVICTED, _evicted),
    ("longer than", _DEADLINE, _deadline),
    (": Main process exited, code=", _UNIT, _unit),
    ("atchdog", _WATCHDOG, _watchdog),
)
