"""What a system knows of a task, a resource or a diagnostic beyond the fields that all have: one tagged value.

Each system, and each source of the core, owns its Struct; the model knows none of them but those below: of the kernel's
and the C library's resources, and of messages in logs. In a recording a value is an object with its tag; one whose tag
nobody here knows is kept and shown as it is.

Invariants:
    facts.F1. What was emitted is read back as the same value, live and from a recording.
    facts.F2. Facts of another kind than the one that is asked for, of an unknown tag, or with damaged fields are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct, field, structs

F = TypeVar("F", bound="Facts")


class Facts(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="of"):
    """Base of all of them; a subclass has a tag, and a default for each field."""


class LockFacts(Facts, frozen=True, kw_only=True, tag="lock"):
    """Of a lock.

    Attributes:
        ended_owner: number of the thread that its owner word names, where no living thread of the process has it.
        forked: why it is believed to have been held when its process was forked: `owner`, its owner is a thread of the
            parent; `likely`, a thread of the parent has the same lock now, and none of the child.
        inherited: what shows that, in words.
    """

    ended_owner: int | None = None
    forked: str = ""
    inherited: str = ""


class GroupFacts(Facts, frozen=True, kw_only=True, tag="cgroup"):
    """Of a control group that holds its processes back.

    Attributes:
        frozen_by: the file that says so.
        throttled: share of the last scheduling periods in which it had no CPU time left.
        cores: so many it may use.
        throttled_by: the file with that limit.
        cpu_stat: the file with the counts.
        under_oom: its tasks wait for memory, and none may be ended for it.
        memory_stalled: share of the last 10 s that went into waiting for memory.
        killed: tasks that were killed for memory while it was watched.
        memory_file: the file with its memory limit.
        memory_limit: bytes; None for none.
        memory_used: share of it.
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
    """Of the open files of a process: `limit`, how many it may have."""

    limit: int = 0


class SocketFacts(Facts, frozen=True, kw_only=True, tag="socket"):
    """Of a socket.

    Attributes:
        servers: of one that listens, the processes that have it open.
        accepted: inodes of the connections to it that the process has open.
        other_end: inode of that; 0 where that isn't known.
        unread: bytes that were sent to the other end, and that nobody has read there.
    """

    servers: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    other_end: int = 0
    unread: int = 0


class RequestFacts(Facts, frozen=True, kw_only=True, tag="request"):
    """Of a task: `held_up`, it answers a request of a server, and waits for what only its own process can give."""

    held_up: bool = False


class MessageFacts(Facts, frozen=True, kw_only=True, tag="message"):
    """Of a message that a log has.

    Attributes:
        signature: id of the signature that found it; "" where none did.
        ends: what it says to have ended (livedbg.signatures.model.Ends); "" where no signature found it.
        first, last: numbers of the first and the last line of its record; 0 where they are not known.
        count: how often it came.
        pid: of the process that it is about.
        steps: what to do.
        over: a later line says that it is over.
        warned: it was logged as a warning.
        marks: what its signature says of it (`marks`).
        values: what its signature took from it (`attributes`), by name.
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
        """What its signature took from it, as typed values."""
        return facts_from(self.values, kind)


def facts_of(value: object, kind: type[F]) -> F:
    """The facts if they are of this kind, else those of which nothing is known (F2)."""
    if isinstance(value, kind):
        return value
    if isinstance(value, dict) and value.get("of") == kind.__struct_config__.tag:
        try:
            return msgspec.convert(value, kind, str_keys=True)
        except msgspec.ValidationError:
            pass
    return kind()


def facts_from(texts: Mapping[str, object], kind: type[F]) -> F:
    """The facts that texts say by the names of their fields, `yes` for true; damaged ones are none (F2)."""
    flags = _flags(kind)
    said = {name: text == "yes" if name in flags and isinstance(text, str) else text for name, text in texts.items()}
    given = {name: value for name, value in said.items() if value != ""}
    try:
        return msgspec.convert({**given, "of": kind.__struct_config__.tag}, kind, strict=False, str_keys=True)
    except msgspec.ValidationError:
        return kind()


@cache
def _flags(kind: type[Facts]) -> frozenset[str]:
    """The names of the fields that are true or false."""
    return frozenset(one.encode_name for one in structs.fields(kind) if one.type in (bool, bool | None))


class _Known(Protocol):
    """A task, a resource or a diagnostic."""

    @property
    def facts(self) -> Any: ...

    @property
    def attributes(self) -> Mapping[str, str]: ...


def read_facts(one: _Known, kind: type[F]) -> F:
    """The facts of a task, a resource or a diagnostic; in recordings of before they are texts."""
    return facts_of(one.facts, kind) if one.facts is not None else facts_from(one.attributes, kind)


def facts_shown(value: object) -> dict[str, str]:
    """Facts as text by name, for who shows what it does not understand."""
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
