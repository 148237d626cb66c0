"""Translates events of old recordings to today's: names of sources, counters and engines; where evidence was read;
kinds of waits; facts of resources.

Invariants:
    old_names.O1. A recording made before a rename replays as one made after it.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import structs

from livedbg.model import Diagnostic, Evidence, Resource, Thread, WaitKind
from livedbg.model.events import (
    CatchpointSeen,
    CounterSeen,
    DiagnosticSeen,
    Event,
    ResourcesSeen,
    StacksSeen,
    ThreadsSeen,
)
from livedbg.model.facts import DescriptorFacts, Facts, GroupFacts, LockFacts, facts_from
from livedbg.model.launches import TRACED, TRACED_TO

__all__ = ["renamed", "sleeps_s", "wait_kind"]

_SOURCES: Final = {"zero": "no stop", "zero+py-spy": "no stop+py-spy"}
_COUNTERS: Final = {"launches heard": TRACED, "launches heard to": TRACED_TO}
_ENGINES: Final = {"listen": "probes"}
_WAITS: Final = (
    (r"sleep\b", WaitKind.SLEEP),
    (r"sigwait|sigsuspend|pause|read of signalfd", WaitKind.SIGNAL),
    (r"(?:poll|select) of|epoll_wait", WaitKind.POLL),
    (r"pthread_mutex|lock of a stdio", WaitKind.MUTEX),
    (r"pthread_rwlock", WaitKind.RWLOCK),
    (r"pthread_cond", WaitKind.CONDITION),
    (r"pthread_barrier", WaitKind.BARRIER),
    (r"pthread_join", WaitKind.JOIN),
    (r"sem_", WaitKind.SEMAPHORE),
    (r"futex", WaitKind.FUTEX),
    (r"accept on", WaitKind.ACCEPT),
    (r"connect of", WaitKind.CONNECT),
    (r"(?:read of|recv on|splice from|tee from|vmsplice of)", WaitKind.READ),
    (r"(?:write to|send on|sendfile to)", WaitKind.WRITE),
    (r"open of", WaitKind.OPEN),
    (r"wait(?:p?id)|vfork", WaitKind.CHILD),
    (r"flock|fcntl", WaitKind.FILE_LOCK),
    (r"(?:receive from|send to)", WaitKind.MESSAGE_QUEUE),
    (r"(?:msgrcv|msgsnd|semop)", WaitKind.SYSTEM_V),
    (r"page fault", WaitKind.FAULT),
    (r"stopped|a freeze", WaitKind.STOP),
)
"""How `Thread.waits_in` begins -> what kind of wait that is: recordings of before 0.2 have the words alone."""
_SLEEP: Final = re.compile(r"sleep ([\d.]+(?:e[+-]?\d+)?) s")

_FACTS: Final[dict[str, type[Facts]]] = {
    "cgroup": GroupFacts,
    "descriptors": DescriptorFacts,
    **dict.fromkeys(("mutex", "rwlock", "pylock"), LockFacts),
}
_DIGITS: Final = 19  # a number of more is no line, and no recording can hold it


def wait_kind(words: str | None) -> WaitKind | None:
    """The kind of wait that words of `Thread.waits_in` name."""
    if words is None:
        return None
    return next((kind for begin, kind in _WAITS if re.match(begin, words)), WaitKind.UNKNOWN)


def sleeps_s(words: str | None) -> float | None:
    """The time that a sleep asked for, by words of `Thread.waits_in`."""
    asleep = _SLEEP.match(words or "")
    return float(asleep[1]) if asleep is not None else None


def _with_kind(thread: Thread) -> Thread:
    return structs.replace(thread, wait=wait_kind(thread.waits_in), sleeps_s=sleeps_s(thread.waits_in))


def renamed(event: Event) -> Event:
    """The event with today's names."""
    match event:
        case StacksSeen() if any(stack.source in _SOURCES for stack in event.stacks):
            stacks = (structs.replace(s, source=_SOURCES.get(s.source, s.source)) for s in event.stacks)
            return structs.replace(event, stacks=tuple(stacks))
        case CounterSeen() if event.name in _COUNTERS:
            return structs.replace(event, name=_COUNTERS[event.name])
        case ThreadsSeen() if any(thread.waits_in is not None and thread.wait is None for thread in event.threads):
            return structs.replace(event, threads=tuple(map(_with_kind, event.threads)))
        case CatchpointSeen() if event.catchpoint.engine in _ENGINES:
            point = structs.replace(event.catchpoint, engine=_ENGINES[event.catchpoint.engine])
            return structs.replace(event, catchpoint=point)
        case ResourcesSeen() if any(one.attributes for one in event.resources):
            return structs.replace(event, resources=tuple(map(_resource, event.resources)))
        case DiagnosticSeen():
            return structs.replace(event, diagnostic=_as_fields(event.diagnostic))
        case _:
            return event


def _resource(resource: Resource) -> Resource:
    """A resource of which all that is known was text: with the fields and facts that this was."""
    text = dict(resource.attributes)
    facts = resource.facts
    if facts is None and (kind := _FACTS.get(resource.kind)) is not None:
        owner, _, ended = text.pop("owner", "").partition(" ")
        said = {
            **{name: value for name, value in text.items() if name not in ("memory_limit", "memory_used")},
            **({"ended_owner": owner} if ended == "(exited)" else {}),
            **({"under_oom": True} if "under_oom" in text else {}),
            **({"inherited": text["evidence"]} if "evidence" in text else {}),
        }
        known = facts_from(said, kind)
        facts = known if known != kind() else None
    return structs.replace(
        resource,
        outside=resource.outside or text.pop("outside", ""),
        idle=resource.idle or text.pop("idle", ""),
        lost=resource.lost or text.pop("lost", ""),
        listening=resource.listening or text.pop("listening", "") == "yes",
        wakes_itself=resource.wakes_itself or bool(text.pop("wake-up", "")),
        facts=facts,
        attributes={} if isinstance(facts, GroupFacts) else text,
    )


def _as_fields(said: Diagnostic) -> Diagnostic:
    """A diagnostic whose flags were words among its attributes, and whose evidence had its line in a text."""
    evidence = tuple(map(_with_line, said.evidence))
    resolved, late = (said.attributes.get(name) == "yes" for name in ("resolved", "late"))
    attributes = {name: text for name, text in said.attributes.items() if name not in ("resolved", "late")}
    return structs.replace(
        said, evidence=evidence, attributes=attributes, resolved=said.resolved or resolved, late=said.late or late
    )


def _with_line(proof: Evidence) -> Evidence:
    """Evidence whose place was one text, `err.txt:214`, with file and line."""
    name, colon, number = proof.source.rpartition(":")
    if proof.kind in ("log", "file") and name and colon and number.isdecimal() and len(number) < _DIGITS:
        return structs.replace(proof, source="", file=name, line=int(number))
    return proof
