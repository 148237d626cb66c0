"""Lines in which what started a program says with which status it ended: kubectl, compose, CI, supervisors, workflows.

Sources: kubectl exec (`command terminated with exit code N`), docker compose (`NAME-1 exited with code N`), GitHub's
runner (`Process completed with exit code N`), GitLab's (`Job failed: exit code N`), supervisord (`exited: NAME (exit
status N; not expected)`), GNU time, PyCharm, Nextflow (`terminated with an error exit status (N)`), Snakemake (`Error
in rule R`), HTCondor's user log.

Invariants:
    host_exits.E1. Status 0 is no failure, nor is one that was expected.
"""

from __future__ import annotations

import re
import signal
from typing import Final

from livedbg.adapters.hosts.kinds import Ending, Kind, signal_name

__all__ = ["FORMS", "PARTS", "ended"]

_READ: Final = "read what it wrote before it ended"
_BY_KERNEL: Final = "dmesg -T | grep -i 'killed process'   (on that host: whether the kernel killed it for memory)"
_ASKED: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_SHELL: Final = 128  # a shell adds it to the number of a signal

_CODE: Final = r"(?P<code>[1-9]\d{0,2})\b(?!\.\d)"
_KUBECTL = re.compile(rf"\bcommand terminated with exit code {_CODE}")
_COMPOSE = re.compile(rf"^(?P<name>[\w.-]{{1,80}}) exited with code {_CODE}(?! ?\(restarting\))", re.MULTILINE)
_SERVER = re.compile(rf"\b(?P<name>[A-Z]\w{{1,30}}(?: \w{{1,20}}){{0,2}}) exited with (?:exit )?code:? {_CODE}")
_STEP = re.compile(
    rf"\b(?:Process completed|Process finished|Job failed:|Build step .{{1,80}} failed) ?(?:with )?exit code {_CODE}"
)
_TIME = re.compile(rf"^Command exited with non-zero status {_CODE}", re.MULTILINE)
_TIME_SIGNAL = re.compile(r"^Command terminated by signal (?P<signal>\d{1,2})\b", re.MULTILINE)
_SUPERVISOR = re.compile(
    rf"\bexited: (?P<name>[\w:.-]{{1,80}}) \((?:exit status {_CODE}|terminated by (?P<signal>SIG[A-Z]{{2,6}})"
    r"(?: \(core dumped\))?); not expected\)"
)
_NEXTFLOW = re.compile(rf"Process `(?P<name>[^`\n]{{1,120}})` terminated with an error exit status \({_CODE}\)")
_SNAKEMAKE = re.compile(r"^Error in rule (?P<name>\w{1,80}):", re.MULTILINE)
_CONDOR = re.compile(r"\(0\) Abnormal termination \(signal (?P<signal>\d{1,2})\)")


def ended(who: str, code: int, key: str) -> Ending:
    """What an exit code says of somebody.

    Args:
        who: begins the sentence.
        code: not 0.
        key: as in `Ending`.
    """
    number = code - _SHELL
    if number in _ASKED:
        return Ending(Kind.CANCELLED, key, f"{who} was asked to end ({signal_name(number)}, exit code {code})")
    if number == signal.SIGKILL:
        said = f"{who} was killed (exit code {code}: SIGKILL); by whom isn't said, often it is for memory"
        steps = (_BY_KERNEL, "kubectl describe pod, docker inspect: OOMKilled?")
        return Ending(Kind.SUMMARY, key, said, 0, steps, outside=True)
    fault = f" ({signal_name(number)})" if 0 < number < signal.SIGALRM and number != signal.SIGTRAP else ""
    return Ending(Kind.SUMMARY, key, f"{who} ended with exit code {code}{fault}", 0, (_READ,), outside=True)


def _signalled(who: str, number: int, key: str) -> Ending:
    if number in _ASKED:
        return Ending(Kind.CANCELLED, key, f"{who} was asked to end ({signal_name(number)})")
    said = f"{who} ended by signal {number} ({signal_name(number)})"
    return Ending(Kind.SUMMARY, key, said, 0, (_READ, _BY_KERNEL), outside=True)


def _kubectl(match: re.Match[str]) -> Ending:
    return ended("A command that was run in a container", int(match["code"]), "kubectl")


def _named(match: re.Match[str]) -> Ending:
    return ended(match["name"], int(match["code"]), f"named {match['name']}")


def _step(match: re.Match[str]) -> Ending:
    return ended("The program", int(match["code"]), "step")


def _timed(match: re.Match[str]) -> Ending:
    return ended("The timed command", int(match["code"]), "time")


def _timed_signal(match: re.Match[str]) -> Ending:
    return _signalled("The timed command", int(match["signal"]), "time")


def _supervised(match: re.Match[str]) -> Ending:
    who, key = f"Program {match['name']} of supervisord", f"supervised {match['name']}"
    if match["code"]:
        return ended(who, int(match["code"]), key)
    number = getattr(signal, match["signal"], signal.SIGABRT)
    return _signalled(who, int(number), key)


def _nextflow(match: re.Match[str]) -> Ending:
    return ended(f"Nextflow's process {match['name']}", int(match["code"]), f"nextflow {match['name']}")


def _snakemake(match: re.Match[str]) -> Ending:
    said = f"Snakemake's rule {match['name']} failed"
    return Ending(Kind.SUMMARY, f"rule {match['name']}", said, 0, ("read the log of that rule",), outside=True)


def _condor(match: re.Match[str]) -> Ending:
    return _signalled("The job of HTCondor", int(match["signal"]), "condor")


FORMS: Final = (
    ("command terminated with exit code ", _KUBECTL, _kubectl),
    (" exited with code ", _COMPOSE, _named),
    (" exited with ", _SERVER, _named),
    (" exit code ", _STEP, _step),
    ("Command exited with non-zero", _TIME, _timed),
    ("Command terminated by signal ", _TIME_SIGNAL, _timed_signal),
    ("; not expected)", _SUPERVISOR, _supervised),
    ("an error exit status (", _NEXTFLOW, _nextflow),
    ("Error in rule ", _SNAKEMAKE, _snakemake),
    ("Abnormal termination (signal ", _CONDOR, _condor),
)

PARTS: Final = (
    *(
        b"command terminated with exit code ",
        b" exited with code ",
        b" exited with exit code ",
        b"ocess completed with",
    ),
    *(b"rocess finished with exit", b"Job failed: exit", b"Command exited with non-zero", b"Command terminated by sig"),
    *(b"; not expected)", b"an error exit status (", b"Error in rule ", b"Abnormal termination (signal "),
)
"""What such a line holds."""
