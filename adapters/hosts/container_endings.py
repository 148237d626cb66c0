"""Lines that say how a container ended, as Kubernetes' and Docker's tools describe it, and exit codes of Windows.

Sources: the Kubernetes API's `ContainerStateTerminated` and kubectl's describe.go (`State:`/`Last State: Terminated`,
`Reason:`, `Exit Code:`), docker's `inspect` (`"ExitCode"`, `"OOMKilled"`); NTSTATUS values of ntstatus.h, which Python
and shells print as signed numbers too.

Invariants:
    container_endings.K2. What a container that runs now did at its earlier start is no crash; nor are `Completed` and
        exit code 0.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.hosts.exit_endings import ended
from livedbg.adapters.hosts.kinds import Ending, Kind

__all__ = ["FORMS", "PARTS", "container_of", "runs_again"]

_DESCRIBE: Final = "kubectl logs POD --previous   (what it wrote before it ended)"
_TERMINATED = re.compile(
    r"(?P<last>Last )?State: +Terminated[^\S\n]*\n\s*Reason: +(?P<reason>\w{1,60})[^\S\n]*\n"
    r"(?:\s{0,100}Message: [^\n]{0,500}\n)?\s{0,100}Exit Code: +(?P<code>\d{1,3})\b"
)
_RUNS_AGAIN = re.compile(r"\bState:\s+Running\b|\"running\"\s*:\s*\{")
_NAME = re.compile(r"^ {2}(?P<name>[\w.-]{1,100}):\s*$", re.MULTILINE)
_POD = re.compile(
    r"^(?P<pod>[a-z0-9][\w.-]{1,120}) +\d{1,3}/\d{1,3} +(?P<state>Error|CrashLoopBackOff|StartError|ContainerCannotRun"
    r"|DeadlineExceeded|Evicted|ErrImagePull|ImagePullBackOff|CreateContainerError|RunContainerError|UnexpectedAdmissionError"
    r"|NodeLost|Init:Error|Init:CrashLoopBackOff) +\d",
    re.MULTILINE,
)
_WINDOWS = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: (?:code|status))?|code|returned|status)[ :=]{1,3}"
    r"(?:(?P<signed>-\d{10})(?: \((?P<hex>0x[0-9A-Fa-f]{8})\))?|(?P<unsigned>32212\d{5})|(?P<only>0xC[0-9A-Fa-f]{7}))\b"
)
_STATUSES: Final = {
    0xC0000005: "an access violation",
    0xC0000017: "not enough memory",
    0xC000001D: "an illegal instruction",
    0xC0000094: "a division of integers by zero",
    0xC00000FD: "a stack overflow",
    0xC0000135: "a DLL was not found",
    0xC0000139: "an entry point was not found in a DLL",
    0xC0000142: "a DLL could not be initialised",
    0xC000013A: "Ctrl-C",
    0xC0000374: "a corrupted heap",
    0xC0000409: "a stack buffer overrun, or abort()",
}


def container_of(match: re.Match[str]) -> str:
    """Whose state it is, in a description: the heading above it."""
    name = None
    for name in _NAME.finditer(match.string, 0, match.start()):  # noqa: B007 (the last one)
        pass
    return f"Container {name['name']}" if name is not None else "The container"


def runs_again(text: str) -> bool:
    """Whether what ended is the earlier start of a container that runs."""
    return _RUNS_AGAIN.search(text) is not None


def _terminated(match: re.Match[str]) -> Ending | None:
    code, reason = int(match["code"]), match["reason"]
    if code == 0 or reason == "OOMKilled" or (match["last"] and runs_again(match.string)):
        return None
    who = container_of(match)
    key = f"container {who} {match['last'] or ''}"
    ending = ended(who, code, key)
    return Ending(ending.kind, key, f"{ending.sentence}, reason {reason}", 0, (_DESCRIBE, *ending.steps), outside=True)


def _pod(match: re.Match[str]) -> Ending:
    pod, state = match["pod"], match["state"]
    steps = (f"kubectl describe pod {pod}", f"kubectl logs {pod} --previous")
    return Ending(Kind.SUMMARY, f"pod {pod}", f"Pod {pod} is in state {state}", 0, steps, outside=True)


def _windows(match: re.Match[str]) -> Ending | None:
    text = match["signed"] or match["unsigned"] or match["only"]
    number = int(text, 16) if text.startswith("0x") else int(text)
    status = number % (1 << 32)
    what = _STATUSES.get(status)
    if what is None:
        return None
    if status == 0xC000013A:
        return Ending(Kind.CANCELLED, "windows", f"A process was ended by Ctrl-C (0x{status:08X})")
    said = f"A process ended by {what} (exit code {text}, 0x{status:08X})"
    return Ending(Kind.SUMMARY, f"windows {status}", said, 0, ("read what it wrote before it ended",), outside=True)


FORMS: Final = (
    ("Exit Code: ", _TERMINATED, _terminated),
    ("/", _POD, _pod),
    ("-10737", _WINDOWS, _windows),
    ("32212", _WINDOWS, _windows),
    ("0xC0000", _WINDOWS, _windows),
)
_PODS: Final = (b" Error  ", b"CrashLoopBackOff", b"ImagePullBackOff", b"ErrImagePull", b" StartError ", b" Evicted ")
PARTS: Final = (b"Exit Code: ", *_PODS, b"-10737", b"32212", b"0xC0000", b"0xc0000")
"""What such a line holds."""
