"""What ranks say of each other's absence: the store of a job (TCPStore), gloo, and connections that were closed.

Sources: torch/csrc/distributed/c10d/{TCPStore,TCPStoreBackend,socket,ProcessGroupNCCL,ProcessGroupGloo}.cpp,
torch/distributed/distributed_c10d.py (store based barrier), torch/distributed/elastic/rendezvous; gloo
gloo/transport/tcp/{pair,unbound_buffer}.cc, gloo/rendezvous/context.cc.

Invariants:
    job_stores.J1. A store that closes as its job ends is no failure: `failed to check the "should dump" flag`, a broken
        pipe of a warning, are reported as what they are, and decide nothing.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.said import Form, Said
from livedbg.model import Severity

__all__ = ["FORMS", "MISSING", "PEER", "STORE_LOST", "STORE_TIMEOUT", "UNREACHED", "USED"]

MISSING: Final = "ranks-missing"
STORE_TIMEOUT: Final = "store-timeout"
UNREACHED: Final = "store-unreached"
STORE_LOST: Final = "store-lost"
PEER: Final = "peer-closed"
USED: Final = "address-in-use"

_OTHERS: Final = "read the last lines of the other ranks: the first that ended, or never came, is the cause"
_NETWORK: Final = "check that MASTER_ADDR and MASTER_PORT are reachable from this host: nc -vz HOST PORT"
_START: Final = "check that each node started its ranks, with the same --nnodes, --nproc-per-node and --rdzv-endpoint"

_CLIENTS = re.compile(
    r"Timed out after (?P<seconds>\d{1,9}) ?seconds waiting for clients\. "
    r"(?P<came>\d{1,9})/(?P<all>\d{1,9}) clients joined"
)
_BARRIER = re.compile(
    r"Timed out initializing process group in store based barrier on rank:? (?P<rank>\d{1,9}), for key: \S{1,200} "
    r"\(world_size=(?P<all>\d{1,9}), (?:worker_count|num_workers_joined)=(?P<came>\d{1,9})"
)
_CONNECT = re.compile(
    r"[Cc]lient socket has timed out after (?P<time>\d{1,12}m?s) while trying to connect to "
    r"\((?P<host>[^\s,)]{1,200}), (?P<port>\d{1,6})\)"
)
_LISTEN = re.compile(
    r"server socket has failed to (?:listen on any local network address|bind to \S{1,100})"
    r"[^\n]{0,200}?(?P<why>EADDRINUSE|Address already in use|address already in use)"
)
_PORT = re.compile(r"\bport: (\d{1,6})|\]:(\d{1,6})\b")
_UNIQUE = re.compile(
    r"\[(?P<rank>\d{1,9})\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(?P<root>\d{1,9})\]"
    r"[^\n]{0,200}? got error: (?P<error>[^\n]{1,200})"
)
_WAIT = re.compile(r"\bwait timeout after (?P<ms>\d{1,12})ms, keys: (?P<keys>[^\s,]{1,200})")
_MONITORED = re.compile(
    r"Rank (?P<rank>\d{1,9}) successfully reached monitoredBarrier, but received errors while waiting for "
    r"send/recv from rank (?P<other>\d{1,9})"
    r"|(?:\[Rank (?P<by>\d{1,9})\]: )?"
    r"Ranks? (?P<late>[\d, ]{1,200}) failed to pass monitoredBarrier in \d{1,12} ms"
)
_PEER = re.compile(
    r"gloo/transport/tcp/(?:pair|buffer|unbound_buffer|socket|device)\.cc:\d{1,6}\] "
    r"(?:(?P<how>Connection closed by peer|Read error|Write error|Connection reset by peer|writev|connect)"
    r" \[(?P<peer>[\w.:]{1,60})\](?::(?P<port>\d{1,6}))?(?::? (?P<why>[^\n\"']{1,100}))?"
    r"|Timed out waiting (?P<ms>\d{1,12})ms for (?P<op>send|recv) operation to complete"
    r"|(?P<timeout>Application timeout caused pair closure|Connect timeout))"
)
_MESH = re.compile(r"Gloo connectFullMesh failed with (?P<why>[^\n]{1,300})")
_SIZES = re.compile(
    r"gloo/transport/tcp/pair\.cc:\d{1,6}\] "
    r"(?P<what>op\.preamble\.length <= op\.nbytes\. (?P<got>\d{1,18}) vs (?P<want>\d{1,18}))"
)
_LOST = re.compile(
    r"(?P<call>recvValue|sendBytes|recvBytes|recvVector|sendValue) failed on SocketImpl\((?P<socket>[^\n)]{0,300})\): "
    r"(?P<why>[^\n]{1,100})"
)
_REMOTE = re.compile(r"remote=\[(?P<host>[^\]\n]{1,200})\]:(?P<port>\d{1,6})")
_RESET = re.compile(r"\b(?:Dist(?:Network|Store)Error|RuntimeError): (?P<why>Connection reset by peer|Broken pipe)\b")
_RENDEZVOUS = re.compile(r"(?P<name>Rendezvous(?:Timeout|Connection|Closed)Error)\b")


def _joined(match: re.Match[str]) -> Said:
    came, world = int(match["came"]), int(match["all"])
    seconds = int(match["seconds"])
    return Said(
        code=MISSING,
        key=f"clients {came}/{world}",
        sentence=f"Only {came} of {world} ranks reached the job's store in {seconds:,} s",
        steps=(_START, _NETWORK),
        attributes={"came": str(came), "world": str(world)},
    )


def _barrier(match: re.Match[str]) -> Said:
    came, world, rank = int(match["came"]), int(match["all"]), match["rank"]
    if came > world:
        said = f"found {came} ranks in a group of {world}: a store of an earlier start is still in use"
    else:
        said = f"waited in vain for all ranks to start: {came} of {world} came"
    return Said(
        code=MISSING,
        key=f"barrier {rank}",
        who=f"Rank {rank}",
        sentence=said,
        writer=f"rank {rank}",
        steps=(_START, _OTHERS),
        attributes={"came": str(came), "world": str(world), "rank": rank},
    )


def _connect(match: re.Match[str]) -> Said:
    host, port = match["host"], match["port"]
    return Said(
        code=UNREACHED,
        key=f"{host} {port}",
        sentence=f"The job's store at {host}:{port} could not be reached in {match['time']}",
        steps=(f"look at the process that holds the store on {host}: it never began, or has ended", _NETWORK),
        attributes={"host": host, "port": port},
    )


def _listen(match: re.Match[str]) -> Said:
    port = _PORT.search(match[0])
    number = next((group for group in port.groups() if group), "") if port is not None else ""
    return Said(
        code=USED,
        key=number,
        sentence=f"Port {number or 'of the job store'} is in use: another job or an earlier start still holds it",
        steps=(
            f"ss -ltnp 'sport = :{number}'" if number else "ss -ltnp",
            "use another --master-port or --rdzv-endpoint",
        ),
        attributes={"port": number},
    )


def _unique(match: re.Match[str]) -> Said:
    rank, root, error = match["rank"], match["root"], match["error"].strip(" .")
    if root == rank:
        root = "0"
    return Said(
        code=MISSING,
        key=f"unique {rank}",
        who=f"Rank {rank}",
        sentence=f"waited for rank {root}'s NCCL id, which never came ({_short(error)})",
        writer=f"rank {rank}",
        steps=(f"read the log of rank {root}: it failed first, or never got there", _OTHERS),
        attributes={"rank": rank, "missing": root},
    )


def _wait(match: re.Match[str]) -> Said:
    seconds = int(match["ms"]) / 1000
    return Said(
        code=STORE_TIMEOUT,
        key=match["keys"],
        sentence=f"A rank waited {seconds:,.0f} s for the store's key {match['keys']}, which nobody set",
        steps=(_OTHERS,),
    )


def _monitored(match: re.Match[str]) -> Said:
    late = match["other"] or match["late"].strip(" ,")
    by = match["rank"] or match["by"] or ""
    many = "," in late
    return Said(
        code=MISSING,
        key=f"monitored {late}",
        who=f"Rank{'s' if many else ''} {late}",
        sentence="did not reach monitored_barrier",
        writer=f"rank {by}" if by else "",
        steps=(f"read the log of rank {late.split(',')[0]}: where it is instead",),
        attributes={"missing": late.split(",")[0].strip()},
    )


def _closed(match: re.Match[str]) -> Said:
    peer = f"{match['peer']}:{match['port']}" if match["port"] else match["peer"] or ""
    if match["ms"]:
        said = (
            f"gloo waited {int(match['ms']) / 1000:,.0f} s for a {match['op']} to complete: another rank did not come"
        )
    elif match["timeout"]:
        said = "gloo timed out: another rank did not come"
    elif match["how"] == "connect" or (match["why"] or "").startswith("Connection refused"):
        said = f"gloo could not connect to {peer}: {match['why'] or 'it failed'}"
    else:
        said = f"The peer at {peer} closed its gloo connection ({(match['why'] or match['how']).strip(' .')})"
    return Said(code=PEER, key=said, sentence=said, steps=(_OTHERS,), attributes={"peer": peer})


def _mesh(match: re.Match[str]) -> Said:
    why = match["why"].strip(" .\"'")
    said = "gloo could not connect all ranks to each other"
    step = "set GLOO_SOCKET_IFNAME to the interface that reaches the other hosts; check /etc/hosts for 127.0.1.1"
    return Said(code=PEER, key=why[-80:], sentence=said, steps=(step, _OTHERS), attributes={"why": why})


def _sizes(match: re.Match[str]) -> Said:
    said = f"gloo received {match['got']} bytes where {match['want']} fit: ranks called different collectives or sizes"
    step = "compare the ranks' calls: TORCH_DISTRIBUTED_DEBUG=DETAIL names the first that differs"
    return Said(code=PEER, key=match["what"], sentence=said, steps=(step,))


def _lost(match: re.Match[str]) -> Said | None:
    remote = _REMOTE.search(match["socket"])
    where = f" at {remote['host']}:{remote['port']}" if remote is not None else ""
    why = match["why"].strip(" .")
    said = f"The job's store{where} went away ({why}): the process that holds it, often rank 0, has ended"
    return Said(
        code=STORE_LOST,
        key=where,
        sentence=said,
        severity=Severity.WARNING,
        steps=("read the last lines of the rank, or of torchrun's agent, that holds the store", _OTHERS),
    )


def _reset(match: re.Match[str]) -> Said:
    said = f"A connection to the job's store was lost ({match['why'].lower()}): its holder, often rank 0, has ended"
    return Said(code=STORE_LOST, key="reset", sentence=said, severity=Severity.WARNING, steps=(_OTHERS,))


def _rendezvous(match: re.Match[str]) -> Said:
    kind = match["name"]
    said = {
        "RendezvousTimeoutError": "torchrun's agents did not all join in time",
        "RendezvousConnectionError": "torchrun's agent lost its rendezvous store, or could not reach it",
        "RendezvousClosedError": "torchrun's rendezvous was closed: another agent has ended the job",
    }.get(kind, "torchrun's rendezvous failed")
    return Said(code=UNREACHED, key=kind, sentence=f"{said} ({kind})", steps=(_START, _NETWORK))


def _short(text: str) -> str:
    return text.split("\n", maxsplit=1)[0].split(" Exception raised from", maxsplit=1)[0][:80]


FORMS: Final = (
    Form(("waiting for clients",), _CLIENTS, _joined),
    Form(("in store based barrier",), _BARRIER, _barrier),
    Form(("lient socket has timed out after",), _CONNECT, _connect),
    Form(("server socket has failed to",), _LISTEN, _listen),
    Form(("is setting up NCCL communicator and retrieving ncclUniqueId",), _UNIQUE, _unique),
    Form(("wait timeout after ",), _WAIT, _wait),
    Form(("monitoredBarrier",), _MONITORED, _monitored),
    Form(("gloo/transport/tcp/",), _PEER, _closed),
    Form(("gloo/transport/tcp/pair.cc",), _SIZES, _sizes),
    Form(("Gloo connectFullMesh failed",), _MESH, _mesh),
    Form((" failed on SocketImpl(",), _LOST, _lost),
    Form(("Error: Connection reset by peer", "Error: Broken pipe"), _RESET, _reset),
    Form(("RendezvousTimeoutError", "RendezvousConnectionError", "RendezvousClosedError"), _RENDEZVOUS, _rendezvous),
)
