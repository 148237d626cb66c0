"""What a system knows of a task, a resource or a diagnostic beyond the fields that all have: one tagged value.

Each system, and each source of the core, owns its Struct; the model knows none of them but those of the kernel's and
the C library's resources below. In a recording a value is an object with its tag; one whose tag nobody here knows is
kept and shown as it is.

Invariants:
    facts.F1. What was emitted is read back as the same value, live and from a recording.
    facts.F2. Facts of another kind than the one that is asked for, of an unknown tag, or with damaged fields are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

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
    """The facts that recordings of before have as texts, by the names of their fields; damaged ones are none (F2)."""
    try:
        return msgspec.convert({**texts, "of": kind.__struct_config__.tag}, kind, strict=False, str_keys=True)
    except msgspec.ValidationError:
        return kind()


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
