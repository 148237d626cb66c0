"""NCCL's own warnings (`NCCL WARN …`) that say why a job fails, and its tests' word for a failure.

Sources: NCCL src/misc/{socket,ibvwrap,shmutils}.cc, src/transport/{net_ib,net_socket,shm}.cc, src/{init,proxy}.cc;
nccl-tests src/common.h (`Test NCCL failure`); InfiniBand's status numbers: rdma-core libibverbs/verbs.h.

Invariants:
    nccl_warnings.W1. A warning of a try that NCCL makes again, or of a setting, is none of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from livedbg.logs.said import Form, Said
from livedbg.model import CauseClass, Severity

__all__ = ["CLOSED", "FORMS", "TEST", "WARNED"]

WARNED: Final = "nccl-warning"
TEST: Final = "nccl-test-failed"
CLOSED: Final = "nccl-peer"

_WARN = re.compile(
    r"(?:(?P<host>[\w.-]{1,255}):(?P<pid>\d{1,10}):\d{1,10} \[(?P<gpu>-?\d{1,4})\] "
    r"(?:[\w./+-]{1,300}:\d{1,18} )?)?"
    r"NCCL WARN (?P<text>[^\n]{1,1000})"
)
_AGAIN = re.compile(r"retrying|try again|ignor|disabl|using \w+ instead", re.IGNORECASE)
_STATUS: Final = {
    "4": "local protection error",
    "5": "flushed: an earlier transfer had failed",
    "10": "remote access error",
    "12": "the peer did not answer: transport retries exceeded",
    "13": "the peer was not ready: retries exceeded",
}
_SHARED: Final = "df -h /dev/shm   (docker run --shm-size=16g, or --ipc=host)"
_LINKS: Final = "ibstat; ibv_devinfo; ulimit -l   (NCCL_IB_DISABLE=1 shows whether it is InfiniBand)"
_FABRIC: Final = "look at the rank at the other end: it may have ended first; fi_info -p efa, dmesg -T"
_SOCKETS: Final = "check that the peer's process lives; NCCL_SOCKET_IFNAME names the interface that reaches it"
_OWN: Final = "give each rank its own GPU: torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"
_SAME: Final = "let all nodes run the same NCCL: NCCL_DEBUG=VERSION prints it"
_SIZES: Final = "compare the ranks' calls and sizes"

_OURS: Final = (_OWN, _SAME, _SHARED)  # the job's own faults

_What = Callable[[re.Match[str]], tuple[str, str]]


def _completion(match: re.Match[str]) -> tuple[str, str]:
    number = match["status"]
    return f"InfiniBand transfer with {match['peer']} failed: {_STATUS.get(number, 'status')} ({number})", _LINKS


_KNOWN: Final[tuple[tuple[re.Pattern[str], _What], ...]] = (
    (
        re.compile(
            r"Duplicate GPU detected : rank (?P<one>\d+) and rank (?P<two>\d+) both on CUDA device (?P<gpu>\w+)"
        ),
        lambda match: (f"ranks {match['one']} and {match['two']} use the same GPU ({match['gpu']})", _OWN),
    ),
    (
        re.compile(r"Got completion from peer (?P<peer>\S+) with (?:status|error)[ =](?P<status>\d+)"),
        _completion,
    ),
    (
        re.compile(
            r"NET/OFI [^\n]{0,60}completed with error\. RC: \d+\. Error: (?P<number>\d+) \((?P<why>[^)\n]{1,200})\)"
        ),
        lambda match: (f"a transfer of libfabric failed{_why(match)} ({match['number']})", _FABRIC),
    ),
    (
        re.compile(r"Call to (?P<call>ibv_\w+) failed(?: with error (?P<why>[^\n]+))?"),
        lambda match: (f"{match['call']} failed{_why(match)}", _LINKS),
    ),
    (
        re.compile(r"Got async(?: fatal)? event ?: (?P<why>[^\n]+)"),
        lambda match: (f"the InfiniBand device reported: {match['why'].strip()}", _LINKS),
    ),
    (
        re.compile(
            r"(?:[Cc]onnect(?:ing)? to (?P<peer>\S+?)(?: \S+)? (?:failed|returned)(?: :)? ?(?P<why>[A-Z][^\n]*)?"
            r"|Call to connect (?:to \S+ )?(?:failed|returned) ?:? ?(?P<more>[^\n]+))"
        ),
        lambda match: (f"connecting to {match['peer'] or 'a peer'} failed{_why(match)}", _SOCKETS),
    ),
    (
        re.compile(r"Call to (?:recv|send)\w* (?:from|to) (?P<peer>\S+?)(?: \S+)? failed ?:? ?(?P<why>[^\n]+)?"),
        lambda match: (f"the connection to {match['peer']} broke{_why(match)}", _SOCKETS),
    ),
    (
        re.compile(r"(?:Connection closed by remote peer|closed by) (?P<peer>\S+)"),
        lambda match: (f"peer {match['peer']} closed its connection", _SOCKETS),
    ),
    (
        re.compile(r"[Ss]ocket (?:recv|send)\w* failed|Accept failed|wrong (?:type|magic) |socket \S+ closed"),
        lambda match: (f"a socket to a peer failed ({match.string[match.start() :][:60].strip()})", _SOCKETS),
    ),
    (
        re.compile(r"[Mm]ismatch\w{0,20}[^\n]{0,60} version[^\n]*|version[^\n]{0,60} mismatch[^\n]*"),
        lambda match: (f"ranks run different versions of NCCL ({match[0][:90].strip()})", _SAME),
    ),
    (
        re.compile(r"shared memory segment (?P<file>\S+)|/dev/shm/(?P<name>\S+)|posix_fallocate failed|shm_open"),
        lambda match: ("shared memory could not be made: /dev/shm is full or too small", _SHARED),
    ),
    (
        re.compile(r"[Mm]essage truncated ?: receiv\w+ (?P<got>\d+) bytes instead of (?P<want>\d+)"),
        lambda match: (
            f"received {match['got']} bytes instead of {match['want']}: ranks called different sizes or collectives",
            _SIZES,
        ),
    ),
    (
        re.compile(r"Failed to execute operation (?P<what>\w+) from rank (?P<rank>\d+), retcode (?P<code>\d+)"),
        lambda match: (f"{match['what'].lower()} for rank {match['rank']} failed (code {match['code']})", _SOCKETS),
    ),
    (
        re.compile(r"no socket interface found|No route to host|Network is unreachable"),
        lambda match: (f"no way to the other hosts: {match[0]}", _SOCKETS),
    ),
)


def _why(match: re.Match[str]) -> str:
    groups = match.groupdict()
    words = (groups.get("why") or groups.get("more") or "").strip(" :.")
    return f": {words[:80]}" if words else ""


def _warning(match: re.Match[str]) -> Said | None:
    text = match["text"]
    if _AGAIN.search(text) is not None or "Cuda failure" in text:  # the latter is read as an error of CUDA
        return None
    for pattern, make in _KNOWN:
        known = pattern.search(text)
        if known is not None:
            what, step = make(known)
            who = f"NCCL on {match['host']} (pid {match['pid']}, GPU {match['gpu']})" if match["host"] else "NCCL"
            return Said(
                code=WARNED,
                key=f"{match['host']} {match['pid']} {what}",
                sentence=f"{who}: {what}",
                severity=Severity.WARNING,
                cause=CauseClass.HOST if step is _LINKS else CauseClass.PROCESS if step in _OURS else CauseClass.PEER,
                steps=(step,),
                attributes={"what": what, "pid": match["pid"] or "", "host": match["host"] or ""},
            )
    return None


_CLOSED = re.compile(
    r"(?:(?P<host>[\w.-]{1,255}):\d{1,10}:\d{1,10} \[-?\d{1,4}\] )?NCCL INFO \[Service thread\] "
    r"Connection closed by localRank (?P<rank>\d{1,6})"
)


def _closed(match: re.Match[str]) -> Said:
    where = f" on {match['host']}" if match["host"] else ""
    return Said(
        code=CLOSED,
        key=f"{match['host']} {match['rank']}",
        sentence=f"Local rank {match['rank']}{where} closed its NCCL connections: it ended, or tore down its group",
        severity=Severity.INFO,
        attributes={"rank": match["rank"]},
    )


_TEST = re.compile(
    r"(?:(?P<host>[\w.-]{1,255}): )?Test (?P<what>NCCL|CUDA) failure (?P<place>\S{1,300}:\d{1,9}) "
    r"'(?P<why>[^'\n]{1,400})'?"
)


def _failed(match: re.Match[str]) -> Said:
    where = f" on {match['host']}" if match["host"] else ""
    why = match["why"].strip(" /.")
    place = match["place"].rpartition("/")[2]
    return Said(
        code=TEST,
        key=f"{match['host']} {why}",
        sentence=f"The test{where} ended at {place}, since {match['what']} failed: {why}",
        cause=CauseClass.PEER,
        steps=("NCCL_DEBUG=INFO   (NCCL then logs what it tried; livedbg reads it)",),
    )


FORMS: Final = (
    Form(("NCCL WARN ",), _WARN, _warning),
    Form(("Connection closed by localRank",), _CLOSED, _closed),
    Form(("Test NCCL failure ", "Test CUDA failure "), _TEST, _failed),
)
