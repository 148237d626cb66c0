"""Real programs that hang (or don't), through the real command line: state, roots and cycles by name."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from livedbg.session.hostinfo import host_name
from tests.conftest import TARGETS, Target
from tests.reports import report_when, stalled_report_when

HOST = host_name()
EXIT = {"deadlock": 10, "stalled": 10, "running": 0, "unknown": 5}


@dataclass(frozen=True)
class Case:
    """What is true of a program.

    Attributes:
        state: the verdict, or several that are all true of it.
        members: names of the threads (`t:`), processes (`p:`) and addresses (`a:`) that the chief finding
            must name, and of which each named thread must be one.
        bystanders: names that it must not name.
        functions: expressions for the functions of the user's code that its first sentence names, with the lines of the
            target that are marked with `@MODE`.
        calls: what Python code of its threads called, as the report says it.
    """

    mode: str
    state: tuple[str, ...]
    members: tuple[str, ...] = ()
    bystanders: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


LAMBDA = r"(?:[\w:]*lambda[\w:()]*|operator\(\))"
"""How a lambda is named, by what the debug information says of it."""

NATIVE = [
    Case(
        "lock-cycle",
        ("deadlock",),
        ("t:alpha", "t:beta", "t:gamma", "a:m0", "a:m1", "a:m2"),
        ("t:delta", "t:main"),
        functions=(LAMBDA,),
    ),
    Case("self-deadlock", ("deadlock",), ("t:alpha", "a:m0"), ("t:main",), functions=(LAMBDA,)),
    Case("dead-owner", ("deadlock", "stalled"), ("a:m0",), ("t:main",), functions=(LAMBDA,)),
    Case("rwlock-cycle", ("deadlock",), ("t:writer", "t:locker", "a:m0", "a:rw"), ("t:main",), functions=(LAMBDA,)),
    Case("spinning-holder", ("running", "stalled", "unknown"), ("t:spinner",), ("t:main",), functions=(LAMBDA,)),
    Case("sleeping-holder", ("stalled", "running", "unknown"), ("t:sleeper",), ("t:main",), functions=(LAMBDA,)),
    Case("join-cycle", ("deadlock",), ("t:alpha", "t:beta"), ("t:main",), functions=(LAMBDA,)),
    Case("own-pipe", ("deadlock",), ("t:reader",), functions=(LAMBDA,)),
    Case(
        "two-pipes",
        ("deadlock",),
        ("t:main", "t:peer"),
        functions=(
            "main",
            LAMBDA,
        ),
    ),
    Case(
        "full-pipe",
        ("deadlock",),
        ("t:main", "t:producer"),
        functions=(
            "main",
            LAMBDA,
        ),
    ),
    Case(
        "sockets",
        ("deadlock",),
        ("t:main", "t:peer"),
        functions=(
            "main",
            LAMBDA,
        ),
    ),
    Case(
        "tcp",
        ("deadlock",),
        ("t:main", "t:client"),
        functions=(
            "main",
            LAMBDA,
        ),
    ),
    Case(
        "shared-mutexes",
        ("deadlock",),
        ("t:main", "t:peer"),
        functions=(
            "main",
            LAMBDA,
        ),
    ),
    Case(
        "flocks",
        ("deadlock",),
        ("t:main", "t:peer"),
        functions=(
            "main",
            LAMBDA,
        ),
    ),
    Case("stopped-child", ("stalled",), ("p:frozen",), functions=("main",)),
    Case("idle-server", ("running", "unknown"), functions=("main",)),
    Case("idle-epoll", ("running", "unknown"), functions=("main",)),
    Case("cron", ("running", "unknown"), functions=("main",)),
    Case("joins-worker", ("running",), functions=(LAMBDA,)),
    Case("joins-poller", ("unknown",), functions=(LAMBDA,)),
    Case("rests-beside-a-lost-wait", ("unknown",)),
    Case("busy", ("unknown",)),  # it computes, or spins: nothing else shows
    Case("busy-locks", ("running",)),
]
PYTHON = [
    Case(
        "lock-cycle",
        ("deadlock",),
        ("t:left", "t:right"),
        ("t:main",),
        functions=("left", "right"),
        calls=("Lock.acquire",),
    ),
    Case(
        "rlock-cycle",
        ("deadlock",),
        ("t:left", "t:right"),
        ("t:main",),
        functions=("left", "right"),
        calls=("RLock.acquire",),
    ),
    Case(
        "join-behind-lock",
        ("stalled", "unknown", "running"),
        ("t:holder",),
        functions=("holder",),
        calls=("Lock.acquire", "Thread.join"),
    ),
    Case("gil-held", ("stalled",), ("t:hog",), functions=("hog",)),
    Case("idle-queue", ("running", "unknown"), functions=("idle_queue",)),
    Case("pipe-full", ("deadlock",), ("t:main", "t:child"), functions=("pipe_full",)),
    Case("fork-lock", ("deadlock", "stalled"), ("t:child",), ("t:holder",), functions=("work",)),
    Case("self-call", ("deadlock",), ("t:main", "t:client"), functions=("self_call",)),
    Case("self-call-later", ("unknown",)),
    Case("polls-often", ("unknown",), functions=("polls_often",)),
    Case("progress", ("running",)),
]


def spell(target: Target, name: str) -> str:
    """The identifier of a name in the target's READY line, as far as the test knows it."""
    known = json.loads(target.ready.partition("READY ")[2])
    kind, _, key = name.partition(":")
    if kind == "p":
        return f"process:{HOST}/{known['p'][key]}"
    if kind == "a":
        return f"{HOST}/{known['pid']}/{known['a'][key]}"
    if key in known["t"]:
        return f"thread:{HOST}/{known['pid']}/{known['t'][key]}"
    return f"thread:{HOST}/{known['p'][key]}/{known['p'][key]}"


def place_missing(case: Case, source: Path, sentence: str) -> str:
    """The function or line of the user's code that a verdict's first sentence does not name, or ""."""
    first = sentence.partition(". ")[0]
    if len(first.split()) > 25 or "0x" in first:
        return f"too long, or an address: {first}"
    lines = enumerate(source.read_text().splitlines(), 1)
    numbers = [number for number, line in lines if re.search(rf"@{case.mode}(?: |$)", line)]
    assert bool(numbers) == bool(case.functions), "a case that names functions has marked lines"
    for function in case.functions:
        if re.search(rf"(?<![\w:]){function}(?![\w:])", first) is None:
            return f"{function} is not in: {first}"
    for number in numbers:
        if re.search(rf"(?:{re.escape(source.name)}|[ (]):{number}\b", first) is None:
            return f"{source.name}:{number} is not in: {first}"
    return "" if source.name in first or not case.functions else f"{source.name} is not in: {first}"


def check(case: Case, target: Target, source: Path, said: dict[str, Any]) -> str:
    """Why the verdict of a report is not what it should be, or ""."""
    verdict = said["verdict"]
    if verdict["state"] not in case.state:
        return f"state {verdict['state']}: {verdict['sentence']}"
    if said["exit"] != EXIT[verdict["state"]]:
        return f"exit code {said['exit']} with {verdict['state']}"
    chief = next((f for f in said["findings"] if f["id"] in verdict["findings"]), {"entities": []})
    named = [*verdict["roots"], *chief["entities"]] if case.state[0] not in {"deadlock"} else chief["entities"]
    for name in case.members:
        if not any(entity.endswith(spell(target, name)) for entity in named):
            return f"{name} = {spell(target, name)} is not in {named}: {verdict['sentence']}"
    for name in case.bystanders:
        if spell(target, name) in chief["entities"]:
            return f"{name} takes no part, but {chief['entities']} names it"
    called = {entity.get("called") for entity in said["entities"].values()}
    if not called.issuperset(case.calls):
        return f"{case.calls} is not in what is called: {called}"
    if {touch["what"] for touch in said["intrusions"]["touches"]} - {"samples"}:
        return f"touched: {said['intrusions']}"
    return place_missing(case, source, verdict["sentence"])


def settle(case: Case, target: Target, source: Path) -> None:
    """Look until the verdict is right: the target may take a moment to be stuck."""
    pid = json.loads(target.ready.partition("READY ")[2])["pid"]
    report_of = stalled_report_when if case.state[0] == "stalled" else report_when

    def is_right(said: dict[str, Any]) -> bool:
        said["problem"] = check(case, target, source, said)
        return not said["problem"]

    report_of(pid, is_right)


@pytest.mark.parametrize("case", NATIVE, ids=lambda case: case.mode)
def test_native(case: Case, build_target: Callable[..., Path], spawn: Callable[..., Target]) -> None:
    settle(case, spawn([build_target("hang_cases", "-std=c++17"), case.mode]), TARGETS / "hang_cases.cpp")


@pytest.mark.parametrize("case", PYTHON, ids=lambda case: case.mode)
def test_python(case: Case, spawn: Callable[..., Target]) -> None:
    settle(case, spawn([sys.executable, TARGETS / "hang_py.py", case.mode]), TARGETS / "hang_py.py")
