"""Lines of UCX about a transfer over InfiniBand or RoCE that failed: the peer, or the network between, did not answer.

Source: openucx/ucx src/uct/ib/mlx5/ib_mlx5_log.c (`Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 …)`).
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.hosts.kinds import Ending, Kind

__all__ = ["FORMS"]

_LINKS: Final = "ibstat; perfquery; dmesg -T | grep -i mlx5   (on both ends: is the port up, does it count errors?)"
_PEER: Final = "look at the process at the other end: it may have ended first"
_WHAT: Final = {
    "Transport retry count exceeded": "the peer, or the network to it, did not answer",
    "Receiver-not-ready retry count exceeded": "the peer did not receive in time",
}
_FAILED = re.compile(
    r"(?:\[(?P<node>[\w.-]{1,100}):(?P<pid>\d{1,10}) ?:\d{1,6}(?::\d{1,10})?\][^\n]{0,120}?)?"
    r"(?P<what>(?:Transport|Receiver-not-ready) retry count exceeded"
    r"|(?:Local|Remote) (?:length|QP operation|EE operation|protection|access|invalid request|operation|abort\w*) "
    r"(?:error|violation)) on (?P<port>\w{1,40}:\d{1,3}/\w{1,10})"
)


def _failed(match: re.Match[str]) -> Ending:
    what, node = match["what"], match["node"]
    who = f"process {match['pid']} on {node}, " if node else ""
    why = f": {_WHAT[what]}" if what in _WHAT else ""
    said = f"A transfer of UCX failed ({who}port {match['port']}): {what[0].lower()}{what[1:]}{why}"
    pid = int(match["pid"] or 0)
    return Ending(Kind.LOST, f"ucx {node} {match['pid']} {what}", said, pid, (_PEER, _LINKS), late=False)


FORMS: Final = (
    ("retry count exceeded on ", _FAILED, _failed),
    (" error on mlx", _FAILED, _failed),
    (" violation on mlx", _FAILED, _failed),
)
