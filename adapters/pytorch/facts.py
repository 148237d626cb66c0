"""Facts of pending calls, late ranks, Flight Recorder dumps and compilations; names of counters and of diagnostics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import field

from livedbg.model import Diagnostic, Task
from livedbg.model.facts import Facts, facts_from, facts_of
from livedbg.text.patterns import lazy_re

ENQUEUED: Final = "collectives enqueued"
"""Of a process: how many operations its Flight Recorders have had since it began."""

MESSAGES: Final = "bytes of messages"
"""Of a process: how many bytes gloo has written for it since it was first looked at."""

SETTING: Final = "setting"
RAS_BEHIND: Final = "ras-behind"
RAS_MISSING: Final = "ras-missing"
RAS_DEAD: Final = "ras-dead"
"""Codes of diagnostics."""


class CallFacts(Facts, frozen=True, kw_only=True, tag="pytorch.call"):
    """Facts of a pending call that ranks make together.

    Attributes:
        kind: the function, if no Flight Recorder has the call: `recv`, `store`, `init_process_group`; else "".
        ranks: size of the group, or of the job if that is larger.
        inside: ranks that have entered it.
        absent: sampled ranks that have not.
        unseen: ranks about which nothing is known.
        ended: ranks whose process has ended.
        moved: ranks of `absent` of which a thread that may enter it enqueued or completed something between the last
            two samples.
        elsewhere: ranks of `absent` of which any thread did so.
        processes: by rank.
        does: by rank inside: its operation, if they differ.
        shape: of the first tensor, if the same.
        roots: by rank: the root that it uses.
        inferred: ranks whose root follows from what the others wait for.
        timeout_ms: after its enqueue; 0 if not known.
        handles: signals handled by ranks of `absent`.
        enters: threads of ranks of `absent` that have entered other collectives of its group.
        peer: the other rank of a message, if known.
        keys: awaited keys of the store.
        posted: the message was posted before it is waited for.
        under_way: bytes between the two are in flight.
        meets: rendezvous, `10.0.0.1:29500`.
        deserted: it is on this host, and nobody listens there.
        hosts: other hosts that have connections to it.
        others: connections to it from this host by no known rank.
    """

    kind: str = ""
    group: str = ""
    ranks: int = 0
    inside: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()
    unseen: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    elsewhere: tuple[int, ...] = ()
    processes: dict[int, str] = field(default_factory=dict)
    does: dict[int, str] = field(default_factory=dict)
    shape: str = ""
    roots: dict[int, int] = field(default_factory=dict)
    inferred: tuple[int, ...] = ()
    timeout_ms: int = 0
    handles: dict[int, str] = field(default_factory=dict)
    enters: dict[int, tuple[str, ...]] = field(default_factory=dict)
    peer: int | None = None
    tag: int | None = None
    keys: tuple[str, ...] = ()
    posted: bool = False
    under_way: bool = False
    meets: str = ""
    deserted: bool = False
    hosts: tuple[str, ...] = ()
    others: int = 0

    def rank_of(self, process: str) -> int | None:
        return next((rank for rank, one in self.processes.items() if one == process), None)


class RpcFacts(Facts, frozen=True, kw_only=True, tag="pytorch.rpc"):
    """Facts of a torch.distributed.rpc request, or of a worker in `shutdown`.

    Attributes:
        leaves: it is in `shutdown`.
        to, function: asked worker and function; "" if not known.
        asked: the process of that worker.
        absent: ranks that have not called `shutdown`.
        busy: threads of the asked worker that serve requests.
        served_by: those that execute that function.
    """

    leaves: bool = False
    rank: int | None = None
    to: str = ""
    function: str = ""
    asked: str = ""
    absent: tuple[int, ...] = ()
    busy: tuple[str, ...] = ()
    served_by: tuple[str, ...] = ()
    processes: dict[int, str] = field(default_factory=dict)


class LateFacts(Facts, frozen=True, kw_only=True, tag="pytorch.late"):
    """Facts of a late rank: its largest delay, and when it last came."""

    most_ns: int = 0
    last_wall_ns: int = 0


class DumpFacts(Facts, frozen=True, kw_only=True, tag="pytorch.dump"):
    """Facts from dumps of several ranks: how long an operation had been pending, and since when."""

    pending_ns: int = 0
    since_ns: int = 0


class LoggedCallFacts(Facts, frozen=True, kw_only=True, tag="pytorch.logged"):
    """Facts that a watchdog logs of a collective: the rank in group and job, its elements, and the last enqueued."""

    rank: int | None = None
    job_rank: int | None = field(default=None, name="job rank")
    group: str = ""
    seq: int | None = None
    op: str = ""
    size: int | None = None
    enqueued: int | None = None


class WorkerFacts(Facts, frozen=True, kw_only=True, tag="pytorch.worker"):
    """Facts of a failed worker: its run's folder, the start, local rank and error."""

    run: str = ""
    start: int = 0
    local_rank: str = field(default="", name="local rank")
    error: str = ""


class CompileFacts(Facts, frozen=True, kw_only=True, tag="torch.compile"):
    """Facts of a compile diagnostic.

    Attributes:
        pid, rank, process: the compiling process, from the log, and as the session knows it.
        first_ns, last_ns: times of the log's first and last record.
        trace: path of its trace.
        traced: it is a trace, and has phases.
        frame, phase, phases, begun_ns, attempt, task: of the open compilation.
        place: the frame, or where a graph broke.
        times, limit, guard: recompilations of a frame, the setting whose limit they reached, and the guard; for an open
            one, `times` is the number of ended compilations.
        reason, error, text: of a break, a failure, an ended worker.
        lines: numbers of log lines that end a traceback with which a function was left out.
    """

    pid: int = 0
    rank: int | None = None
    process: str = ""
    first_ns: int = 0
    last_ns: int = 0
    trace: str = ""
    traced: bool = False
    frame: str = ""
    phase: str = ""
    phases: str = ""
    begun_ns: int | None = None
    attempt: int = 0
    task: str = ""
    place: str = ""
    times: int = 0
    limit: str = ""
    guard: str = ""
    reason: str = ""
    error: str = ""
    text: str = ""
    lines: tuple[int, ...] = ()


def call_facts(task: Task) -> CallFacts:
    """Return the facts of a pending call; old recordings have them as texts."""
    return facts_of(task.facts, CallFacts) if task.facts is not None else _call_of_texts(task.attributes)


def rpc_facts(task: Task) -> RpcFacts:
    """Return the facts of a request; old recordings have them as texts."""
    return facts_of(task.facts, RpcFacts) if task.facts is not None else _rpc_of_texts(task.attributes)


def compile_facts(said: Diagnostic) -> CompileFacts:
    """Return the facts of a diagnostic; old recordings have them as texts."""
    if said.facts is not None:
        return facts_of(said.facts, CompileFacts)
    return facts_from({**said.attributes, "lines": said.attributes.get("lines", "").split()}, CompileFacts)


_LISTS: Final = {
    "inside": "in it",
    "absent": "not in it",
    "unseen": "not seen",
    "ended": "ended",
    "moved": "moved since",
    "elsewhere": "moves elsewhere",
    "inferred": "roots inferred",
}
_BY_RANK: Final = {
    "processes": r"rank (\d{1,9})",
    "does": r"rank (\d{1,9}) does",
    "roots": r"root of rank (\d{1,9})",
    "handles": r"signals of rank (\d{1,9})",
    "enters": r"rank (\d{1,9}) enters by",
}
_SECONDS: Final = lazy_re(r"(\d{1,9}(?:\.\d{1,9})?) s")


def _call_of_texts(texts: Mapping[str, str]) -> CallFacts:
    found: dict[str, object] = {name: _numbers(texts.get(old, "")) for name, old in _LISTS.items()}
    found |= {name: _by_rank(pattern, texts) for name, pattern in _BY_RANK.items()}
    found["enters"] = {rank: text.split() for rank, text in _by_rank(_BY_RANK["enters"], texts).items()}
    limit = _SECONDS.fullmatch(texts.get("ends with an error after", ""))
    found |= {
        "timeout_ms": round(float(limit[1]) * 1000) if limit is not None else 0,
        "keys": re.findall(r"'([^']*)'", texts.get("keys", "")),
        "posted": "posted" in texts,
        "under_way": "under way" in texts,
        "meets": texts.get("meets at", ""),
        "deserted": "nobody listens" in texts,
        "hosts": texts.get("connected from", "").split(),
        "others": texts.get("others connected", "0"),
    }
    same = ("kind", "group", "ranks", "shape", "peer", "tag")
    return facts_from({**found, **{name: texts[name] for name in same if name in texts}}, CallFacts)


def _rpc_of_texts(texts: Mapping[str, str]) -> RpcFacts:
    found: dict[str, object] = {
        "leaves": texts.get("kind") == "shutdown",
        "absent": _numbers(texts.get("not in it", "")),
        "busy": texts.get("busy", "").split(),
        "served_by": texts.get("carried out by", "").split(),
        "processes": _by_rank(_BY_RANK["processes"], texts),
    }
    same = ("rank", "to", "function", "asked")
    return facts_from({**found, **{name: texts[name] for name in same if name in texts}}, RpcFacts)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdecimal()]


def _by_rank(pattern: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {match[1]: text for name, text in texts.items() if (match := re.fullmatch(pattern, name)) is not None}
