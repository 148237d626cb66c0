"""torchrun's account of its workers: who failed first, how, who was ended for it, and what was started again.

Sources: torch/distributed/elastic/multiprocessing/{api.py,errors/__init__.py} (`failed (exitcode: …)`, the block below
`FAILED`), torch/distributed/elastic/agent/server/api.py (`Worker group FAILED. N/M attempts left`).

Invariants:
    elastic_logs.R1. The block names its root cause; a worker that got SIGTERM from the agent is none.
"""

from __future__ import annotations

import re
import signal
from typing import Final

from livedbg.logs.said import Form, Said
from livedbg.model import Severity

__all__ = ["BLOCK", "FAILED", "FORMS", "RESTARTS", "ROOT", "TOLD"]

ROOT: Final = "elastic-root"
FAILED: Final = "elastic-failed"
RESTARTS: Final = "elastic-restarts"
TOLD: Final = "elastic-told"

_ROOT = re.compile(
    r"Root Cause \(first observed failure\):[^\S\n]*\n\s*\[\d{1,9}\]:[^\S\n]*\n"
    r"(?:\s*time\s*: (?P<time>\S{1,40})[^\S\n]*\n)?"
    r"(?:\s*host\s*: (?P<host>\S{1,200})[^\S\n]*\n)?"
    r"\s*rank\s*: (?P<rank>\d{1,9}) \(local_rank: (?P<local>\d{1,9})\)[^\S\n]*\n"
    r"\s*exitcode\s*: (?P<code>-?\d{1,9}) \(pid: (?P<pid>\d{1,10})\)[^\n]*"
    r"(?:\n\s*error_file: ?(?P<file>[^\n]{0,400}))?"
    r"(?:\n\s*traceback\s*: ?(?P<trace>[^\n]{0,400}))?"
)
_ERROR = re.compile(
    r"^[^\S\n]*(?P<error>(?:[A-Za-z_]\w{0,1000}\.)*[A-Z]\w{0,1000}(?:Error|Exception|Interrupt|Exit)\b(?::[^\n]{0,300})?)",
    re.MULTILINE,
)
_FRAME = re.compile(r'File "(?P<file>[^"\n]{1,400})", line (?P<line>\d{1,9}), in (?P<function>[^\n]{1,200})')
_FAILED = re.compile(
    r"failed \(exitcode: (?P<code>-?\d{1,9})\) local_rank: (?P<local>\d{1,9}) \(pid: (?P<pid>\d{1,10})\) of binary: "
    r"(?P<binary>[^\n]{1,300})"
)
_AGAIN = re.compile(
    r"Worker group (?:FAILED|UNHEALTHY)\. (?P<left>\d{1,6})/(?P<all>\d{1,6}) attempts left; will restart worker group"
)
_TOLD = re.compile(
    r"SignalException: Process (?P<pid>\d{1,10}) got signal: (?P<number>\d{1,2})"
    r"|Received (?:Signals\.)?(?P<name>SIG\w{2,8}) death signal, shutting down workers"
)

_READ: Final = "read the last lines that rank {} wrote before it ended"
_MEMORY: Final = "dmesg -T | grep -i 'killed process'   (on {}: whether the kernel killed it for memory)"
_CORE: Final = "coredumpctl info {}   (its core dump, where one is kept); -X faulthandler shows its Python frames"
_RECORD: Final = "decorate main() with torch.distributed.elastic.multiprocessing.errors.record: torchrun then shows it"


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name} (exit code {code})"
    except ValueError:
        return f"was ended by signal {-code}"


def _steps(code: int, rank: str, host: str, pid: str) -> tuple[str, ...]:
    if code == -signal.SIGKILL:
        return (_MEMORY.format(host or "that host"), _READ.format(rank))
    if code in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGILL, -signal.SIGFPE):
        more = ("df -h /dev/shm   (a full one gives SIGBUS)",) if code == -signal.SIGBUS else ()
        return (_CORE.format(pid), *more, _READ.format(rank))
    return (_READ.format(rank),)


def _root(match: re.Match[str]) -> Said:
    rank, code, pid, host = match["rank"], int(match["code"]), match["pid"], match["host"] or ""
    where = f" on {host}" if host else ""
    error, place = _error(match), _place(match)
    steps = _steps(code, rank, host, pid)
    return Said(
        code=ROOT,
        key=f"{rank} {pid}",
        who=f"Rank {rank}{where}",
        sentence=f"failed first: it {_how(code)}{f', {error}' if error else ''}{place}",
        writer=f"rank {rank}",
        steps=steps if error or code < 0 else (*steps, _RECORD),
        attributes={"rank": rank, "exit code": str(code), "pid": pid, "host": host, "error": error},
    )


def _error(match: re.Match[str]) -> str:
    """The error at the end of the worker's own traceback, where torchrun has it."""
    trace = match["trace"] or ""
    if not trace.startswith("Traceback"):
        return ""
    rest = match.string[match.start("trace") : match.start("trace") + 20_000]
    found = list(_ERROR.finditer(rest.partition("\n====")[0]))
    return found[-1]["error"].strip()[:200] if found else ""


def _place(match: re.Match[str]) -> str:
    """The innermost line of the worker's own traceback that is in no library: `, at main (train.py:45)`."""
    if not (match["trace"] or "").startswith("Traceback"):
        return ""
    rest = match.string[match.start("trace") : match.start("trace") + 20_000].partition("\n====")[0]
    found = [
        one for one in _FRAME.finditer(rest) if "-packages/" not in one["file"] and "/lib/python" not in one["file"]
    ]
    return f", at {found[-1]['function']} ({found[-1]['file'].rpartition('/')[2]}:{found[-1]['line']})" if found else ""


def _failed(match: re.Match[str]) -> Said:
    code, local, pid = int(match["code"]), match["local"], match["pid"]
    return Said(
        code=FAILED,
        key=f"{local} {pid}",
        who=f"The worker of local rank {local} (pid {pid})",
        sentence=_how(code),
        writer=f"rank {local}",
        steps=_steps(code, local, "", pid),
        attributes={"local rank": local, "exit code": str(code), "pid": pid},
    )


def _again(match: re.Match[str]) -> Said:
    left = int(match["left"])
    return Said(
        code=RESTARTS,
        key=match["left"],
        sentence=f"torchrun started its workers again ({left} of {match['all']} restarts were left)",
        severity=Severity.WARNING,
        attributes={"left": match["left"]},
    )


def _told(match: re.Match[str]) -> Said:
    number = int(match["number"] or 0)
    name = match["name"] or (signal.Signals(number).name if 0 < number < 32 else f"signal {number}")
    return Said(
        code=TOLD,
        key=name,
        sentence=f"torchrun was ended from outside: it got {name}",
        severity=Severity.WARNING,
        steps=("find who sent it: a scheduler's limit, a failed node's agent, or somebody's Ctrl-C",),
        attributes={"signal": name},
    )


FORMS: Final = (
    Form(("Root Cause (first observed failure)", "  exitcode  :", "  traceback :", "rank      :"), _ROOT, _root),
    Form(("failed (exitcode: ",), _FAILED, _failed),
    Form(("attempts left; will restart worker group",), _AGAIN, _again),
    Form(("SignalException: Process ", "death signal, shutting down workers"), _TOLD, _told),
)
BLOCK: Final = (b"host      : ", b"rank      : ", b"exitcode  : ", b"error_file: ", b"traceback : ")
"""What the other lines of the block contain."""
