"""Facts: the data of a task, resource or diagnostic that only its system knows, as one tagged value.

Each system, and each source of the core, owns its Struct; the model defines only those below: for resources of the
kernel and the C library, and for messages in logs. In a recording a value is an object with its tag; a value with an
unknown tag is kept and shown as it is.

Invariants:
    facts.F1. A value is read back as it was emitted, live and from a recording.
    facts.F2. A value of another kind than requested, of an unknown tag, or with damaged fields reads as empty facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct, field, structs

F = TypeVar("F", bound="Facts")


class Facts(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="of"):
    """Base of all facts; a subclass has a tag, and a default for each field."""


class LockFacts(Facts, frozen=True, kw_only=True, tag="lock"):
    """Facts of a lock.

    Attributes:
        ended_owner: thread id in its owner word, if no living thread of the process has that id.
        forked: why it is believed to have been held when its process was forked: `owner`, its owner is a thread of the
            parent; `likely`, a thread of the parent has the same lock now, and none of the child.
        inherited: evidence for that, in words.
        contended: the word of a futex that is no lock of the C library is 2, as of a lock that others wait for.
    """

    ended_owner: int | None = None
    forked: str = ""
    inherited: str = ""
    contended: bool = False


class WaitedFacts(Facts, frozen=True, kw_only=True, tag="waited"):
    """Facts of a queue, an event or a condition that somebody waits for.

    Attributes:
        givers: threads and tasks that will come to code that may end such a wait.
    """

    givers: tuple[str, ...] = ()


class GroupFacts(Facts, frozen=True, kw_only=True, tag="cgroup"):
    """Facts of a control group that holds back its processes.

    Attributes:
        frozen_by: the file that shows it is frozen.
        throttled: share of the last scheduling periods in which its CPU quota was used up.
        under_oom: its tasks wait for memory, and none may be killed for it.
        memory_stalled: share of the last 10 s spent waiting for memory.
        killed: tasks that were killed for memory while it was watched.
    """

    frozen_by: str = ""
    throttled: float | None = None
    cores: float | None = None
    throttled_by: str = ""
    cpu_stat: str = ""
    under_oom: bool = False
    memory_stalled: float | None = None
    killed: int = 0
    memory_file: str = ""
    memory_limit: int | None = None
    memory_used: float | None = None


class DescriptorFacts(Facts, frozen=True, kw_only=True, tag="descriptors"):
    """Facts of the open files of a process; `limit` is their maximum number."""

    limit: int = 0


class SocketFacts(Facts, frozen=True, kw_only=True, tag="socket"):
    """Facts of a socket.

    Attributes:
        accepted: inodes of connections to it that the process has open.
        other_end: inode of the peer socket; 0 if not known.
        unread: bytes that were sent and not yet read at the other end.
    """

    servers: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    other_end: int = 0
    unread: int = 0


class RequestFacts(Facts, frozen=True, kw_only=True, tag="request"):
    """Facts of a task.

    Attributes:
        held_up: it serves a request and waits for something that only its own process can provide.
        moved: it has run since it was first seen.
    """

    held_up: bool = False
    moved: bool = False


class MessageFacts(Facts, frozen=True, kw_only=True, tag="message"):
    """Facts of a message in a log.

    Attributes:
        signature: id of the signature that matched; "" if none did.
        ends: the entity that ended, by the message (livedbg.signatures.model.Ends); "" if no signature matched.
        first, last: numbers of the first and the last line of its record; 0 if not known.
        over: a later line says that the problem is over.
        values: `attributes` that its signature extracted, by name.
    """

    signature: str = ""
    ends: str = ""
    first: int = 0
    last: int = 0
    count: int = 1
    pid: int | None = None
    steps: tuple[str, ...] = ()
    over: bool = False
    warned: bool = False
    marks: tuple[str, ...] = ()
    values: dict[str, str] = field(default_factory=dict)

    def read(self, kind: type[F]) -> F:
        """Return the extracted values as typed facts."""
        return facts_from(self.values, kind)


def facts_of(value: object, kind: type[F]) -> F:
    """Return the facts if they are of this kind, else empty facts (F2)."""
    if isinstance(value, kind):
        return value
    if isinstance(value, dict) and value.get("of") == kind.__struct_config__.tag:
        try:
            return msgspec.convert(value, kind, str_keys=True)
        except msgspec.ValidationError:
            pass
    return kind()


def facts_from(texts: Mapping[str, object], kind: type[F]) -> F:
    """Build facts from texts by field name, `yes` for true; empty facts if they are damaged (F2)."""
    flags = _flags(kind)
    said = {name: text == "yes" if name in flags and isinstance(text, str) else text for name, text in texts.items()}
    given = {name: value for name, value in said.items() if value != ""}
    try:
        return msgspec.convert({**given, "of": kind.__struct_config__.tag}, kind, strict=False, str_keys=True)
    except msgspec.ValidationError:
        return kind()


@cache
def _flags(kind: type[Facts]) -> frozenset[str]:
    return frozenset(one.encode_name for one in structs.fields(kind) if one.type in (bool, bool | None))


class _Known(Protocol):
    @property
    def facts(self) -> Any: ...

    @property
    def attributes(self) -> Mapping[str, str]: ...


def read_facts(one: _Known, kind: type[F]) -> F:
    """Return the facts of a task, a resource or a diagnostic; old recordings have them as texts."""
    return facts_of(one.facts, kind) if one.facts is not None else facts_from(one.attributes, kind)


def facts_shown(value: object) -> dict[str, str]:
    """Return facts as text by name, for display of unknown kinds."""
    plain: Any = msgspec.to_builtins(value)
    if not isinstance(plain, Mapping):
        return {}
    shown = ((name, one) for name, one in plain.items() if name != "of" and (one or type(one) in (int, float)))
    return {str(name): _shown(one) for name, one in shown}


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_shown(one)}" for name, one in value.items())
    return "yes" if value is True else f"{value:g}" if isinstance(value, float) else str(value)
