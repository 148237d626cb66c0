"""What holds for every value of the model (livedbg.model.entities)."""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Iterator
from types import NoneType
from typing import get_args, get_type_hints

import msgspec
import pytest
from msgspec import NODEFAULT, Struct

import livedbg.model
from livedbg.model import Process, Thread, entities, observations
from livedbg.model import events as ev

MODULES = [f"livedbg.model.{module.name}" for module in pkgutil.iter_modules(livedbg.model.__path__)]


def structs(*modules: str) -> Iterator[type[Struct]]:
    """The values that these modules define."""
    for name in modules:
        for kind in vars(importlib.import_module(name)).values():
            if isinstance(kind, type) and issubclass(kind, Struct) and kind.__module__ == name:
                yield kind


@pytest.mark.invariant("entities.M1", "dumps.D1")
def test_M1_D1_every_value_of_the_model_is_frozen() -> None:
    kinds = list(structs(*MODULES))
    assert len(kinds) > 50
    assert [kind for kind in kinds if not kind.__struct_config__.frozen] == []
    for kind in kinds:
        wrong = [name for name, hint in get_type_hints(kind).items() if "list[" in str(hint) or "set[" in str(hint)]
        assert [name for name in wrong if "frozenset[" not in str(get_type_hints(kind)[name])] == [], kind
    process = Process(id="process:box/1", host="box", pid=1)
    with pytest.raises(AttributeError):
        process.pid = 2  # type: ignore[misc]


@pytest.mark.invariant("entities.M2")
def test_M2_what_is_not_known_is_none_and_zero_is_known() -> None:
    optional = [
        (kind, field)
        for kind in structs(entities.__name__, observations.__name__)
        for field in msgspec.structs.fields(kind)
        if NoneType in get_args(field.type)
    ]
    assert len(optional) > 40
    assert [(kind, field.name) for kind, field in optional if field.default not in (None, NODEFAULT)] == []
    stamp = ev.Stamper("box")()
    known = Thread(id="thread:box/1/1", process="process:box/1", tid=1, cpu_ns=0, timed=False, waits_in="")
    said = ev.decode(ev.encode(ev.ThreadsSeen(threads=(known,), **stamp)))
    assert isinstance(said, ev.ThreadsSeen)
    (thread,) = said.threads
    assert (thread.cpu_ns, thread.timed, thread.waits_in) == (0, False, "")
    assert (thread.switches, thread.syscall) == (None, None)


@pytest.mark.invariant("entities.M3")
def test_M3_times_are_nanoseconds_of_two_clocks() -> None:
    stamp = ev.Stamper("box")
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns()
    now = stamp()
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns()
    assert before[0] <= now["mono_ns"] <= after[0]
    assert before[1] <= now["wall_ns"] <= after[1]
    times = 0
    for kind in structs(entities.__name__, observations.__name__, ev.__name__):
        for field in msgspec.structs.fields(kind):
            if "mono" in field.name or "wall" in field.name or field.name.endswith("_at"):
                times += 1
                assert field.name.endswith(("mono_ns", "wall_ns")), (kind, field.name)
                assert {int, *get_args(field.type)} == {int, NoneType} or field.type is int, (kind, field.name)
    assert times > 15
