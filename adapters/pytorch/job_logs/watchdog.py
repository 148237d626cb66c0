"""Lines of ProcessGroupNCCL's watchdog and its heartbeat monitor, of PyTorch 1.9 to 2.9.

Source: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp. From 2.3 on the lines hold the group, in three forms, and how
far a rank had come.

Invariants:
    nccl_watchdog.W1. A line that says that a watchdog dumps, was told to dump, or will not, is no time-out.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.said import Form, Said
from livedbg.model import Severity

__all__ = ["ENDS", "FORMS", "STATUS", "STUCK", "TIMEOUT", "operation"]

TIMEOUT: Final = "collective-timeout"
STATUS: Final = "collective-status"
STUCK: Final = "watchdog-stuck"
ENDS: Final = "watchdog-ends"

_NAMES: Final = {
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "all_reduce_coalesced",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "all_gather_into_tensor",
    "REDUCE_SCATTER": "reduce_scatter",
    "_REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all_single",
}
_WHO: Final = (
    r"\[(?:PG (?:ID )?(?P<id>\d{1,9}) ?(?:PG GUID (?P<guid>[^\s(\]]{1,80}))?(?: ?\((?P<name>[^)\n]{0,200})\))? ?)?"
    r"Rank (?P<rank>\d{1,9})\]"
)
_CAUGHT = re.compile(
    _WHO + r"[^\n]{0,200}?Watchdog caught collective operation timeout: Work[A-Z]{2,8}\((?:SeqNum=(?P<seq>\d{1,18}), )?"
    r"OpType=(?P<op>\w{1,60})[^\n]{0,300}?\) ran for (?P<ms>\d{1,12}) milliseconds"
)
_HEARD = re.compile(
    _WHO + r" +(?:(?:Timeout at NCCL work: |Exception \(either an error or timeout\) detected by watchdog at work: "
    r"|failure detected by watchdog at work sequence id: )(?P<seq>-?\d{1,18})[^\n]{0,20}?)?(?:, |\W{1,3}PG status: )"
    r"last enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,18}),(?: last started work: (?P<started>-?\d{1,18}),)? "
    r"last completed (?:NCCL )?work: (?P<completed>-?\d{1,18})"
)
_MONITOR = re.compile(
    _WHO + r"[^\n]{0,120}?(?:watchdog got stuck for (?P<seconds>\d{1,9}) ?seconds"
    r"|Heartbeat monitor timed out! Process will be terminated"
    r"|Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang)"
)
_ENDS = re.compile(
    r"(?:" + _WHO + r" +)?(?:To avoid data inconsistency, we are taking the entire process down"
    r"|Terminating the process after attempting to dump debug info"
    r"|Process group watchdog thread terminated with exception)"
)


def operation(name: str) -> str:
    """The collective's name in Python."""
    return _NAMES.get(name, name.strip("_").lower())


def _group(match: re.Match[str]) -> str:
    """`default_pg`, `PG 3`; "" where the line does not say it."""
    return match["name"] or (f"PG {match['id']}" if match["id"] else "")


def _caught(match: re.Match[str]) -> Said:
    rank, seq, op = match["rank"], match["seq"] or "", operation(match["op"])
    number = f" #{seq}" if seq else ""
    seconds = int(match["ms"]) / 1000
    return Said(
        code=TIMEOUT,
        key=f"{rank} {seq} {op}",
        who=f"Rank {rank}",
        sentence=f"timed out in {op}{number} after {seconds:,.0f} s",
        writer=f"rank {rank}",
        attributes={"rank": rank, "seq": seq, "op": op, "seconds": f"{seconds:.0f}", "group": _group(match)},
    )


def _heard(match: re.Match[str]) -> Said:
    rank = match["rank"]
    known = {name: match[name] for name in ("seq", "enqueued", "completed", "started") if match[name]}
    return Said(
        code=STATUS,
        key=" ".join((rank, _group(match), *known.values())),
        who=f"Rank {rank}",
        sentence=f"last enqueued work {match['enqueued']} and completed {match['completed']}",
        severity=Severity.INFO,
        writer=f"rank {rank}",
        attributes={"rank": rank, "group": _group(match), **known},
    )


def _stuck(match: re.Match[str]) -> Said:
    rank = match["rank"]
    since = f" for {match['seconds']} s" if match["seconds"] else ""
    return Said(
        code=STUCK,
        key=rank,
        who=f"Rank {rank}'s NCCL watchdog thread",
        sentence=f"was stuck{since}; its process was ended for it",
        writer=f"rank {rank}",
        steps=(
            "look for a CUDA call that hangs, or for a thread that holds the GIL in one: livedbg stacks PID --native",
            "TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_BUFFER_SIZE=2000 keeps the flight recorder's dump of the next one",
        ),
        attributes={"rank": rank},
    )


def _ends(match: re.Match[str]) -> Said:
    rank = match["rank"] or ""
    who = f"Rank {rank}'s watchdog" if rank else "A watchdog"
    return Said(
        code=ENDS,
        key=rank,
        who=who,
        sentence="ended its process",
        severity=Severity.INFO,
        writer=f"rank {rank}" if rank else "",
        attributes={"rank": rank},
    )


FORMS: Final = (
    Form(("Watchdog caught collective operation timeout",), _CAUGHT, _caught),
    Form(("last enqueued work: ", "last enqueued NCCL work: "), _HEARD, _heard),
    Form(("watchdog got stuck for", "Heartbeat monitor timed out!", "NCCL watchdog hang"), _MONITOR, _stuck),
    Form(
        ("taking the entire process down", "Terminating the process after", "watchdog thread terminated with"),
        _ENDS,
        _ends,
    ),
)
