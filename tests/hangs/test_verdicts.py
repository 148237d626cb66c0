"""Real programs that hang (or don't), through the real command line: state, roots and cycles by name."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from livedbg.session.hostinfo import host_name
from tests.cli.zygote import run_livedbg
from tests.conftest import TARGETS, Target

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
        rule: the chief finding's rule, where it is clear.
    """

    mode: str
    state: tuple[str, ...]
    members: tuple[str, ...] = ()
    bystanders: tuple[str, ...] = ()


NATIVE = [
    Case("lock-cycle", ("deadlock",), ("t:alpha", "t:beta", "t:gamma", "a:m0", "a:m1", "a:m2"), ("t:delta", "t:main")),
    Case("self-deadlock", ("deadlock",), ("t:alpha", "a:m0"), ("t:main",)),
    Case("dead-owner", ("deadlock", "stalled"), ("a:m0",), ("t:main",)),
    Case("rwlock-cycle", ("deadlock",), ("t:writer", "t:locker", "a:m0", "a:rw"), ("t:main",)),
    Case("spinning-holder", ("running", "stalled", "unknown"), ("t:spinner",), ("t:main",)),
    Case("sleeping-holder", ("stalled", "running", "unknown"), ("t:sleeper",), ("t:main",)),
    Case("join-cycle", ("deadlock",), ("t:alpha", "t:beta"), ("t:main",)),
    Case("own-pipe", ("deadlock",), ("t:reader",)),
    Case("two-pipes", ("deadlock",), ("t:main", "t:peer")),
    Case("full-pipe", ("deadlock",), ("t:main", "t:producer")),
    Case("sockets", ("deadlock",), ("t:main", "t:peer")),
    Case("tcp", ("deadlock",), ("t:main", "t:client")),
    Case("shared-mutexes", ("deadlock",), ("t:main", "t:peer")),
    Case("flocks", ("deadlock",), ("t:main", "t:peer")),
    Case("stopped-child", ("stalled",), ("p:frozen",)),
    Case("idle-server", ("running", "unknown")),
    Case("idle-epoll", ("running", "unknown")),
    Case("cron", ("running", "unknown")),
    Case("busy", ("unknown",)),  # it computes, or spins: nothing else shows
    Case("busy-locks", ("running",)),
]
PYTHON = [
    Case("lock-cycle", ("deadlock",), ("t:left", "t:right"), ("t:main",)),
    Case("rlock-cycle", ("deadlock",), ("t:left", "t:right"), ("t:main",)),
    Case("join-behind-lock", ("stalled", "unknown", "running"), ("t:holder",)),
    Case("gil-held", ("stalled",), ("t:hog",)),
    Case("idle-queue", ("running", "unknown")),
    Case("pipe-full", ("deadlock",), ("t:main", "t:child")),
    Case("fork-lock", ("deadlock", "stalled"), ("t:child",), ("t:holder",)),
    Case("progress", ("running",)),
]


def report(pid: int) -> tuple[int, dict[str, Any]]:
    """What `livedbg report PID --json` says and exits with."""
    done = run_livedbg(["report", pid, "--json", "--timeout", "90"], 150)
    assert done.stdout, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


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


def check(case: Case, target: Target) -> str:
    """Why the verdict is not what it should be, or ""."""
    pid = json.loads(target.ready.partition("READY ")[2])["pid"]
    code, said = report(pid)
    verdict = said["verdict"]
    if verdict["state"] not in case.state:
        return f"state {verdict['state']}: {verdict['sentence']}"
    if code != EXIT[verdict["state"]]:
        return f"exit code {code} with {verdict['state']}"
    chief = next((f for f in said["findings"] if f["id"] in verdict["findings"]), {"entities": []})
    named = [*verdict["roots"], *chief["entities"]] if case.state[0] not in {"deadlock"} else chief["entities"]
    for name in case.members:
        if not any(entity.endswith(spell(target, name)) for entity in named):
            return f"{name} = {spell(target, name)} is not in {named}: {verdict['sentence']}"
    for name in case.bystanders:
        if spell(target, name) in chief["entities"]:
            return f"{name} takes no part, but {chief['entities']} names it"
    if said["intrusions"] != {"paused_ms": 0.0, "stops": 0, "touches": []}:
        return f"touched: {said['intrusions']}"
    return ""


def settle(case: Case, target: Target) -> None:
    """Look until the verdict is right: the target may take a moment to be stuck."""
    end = time.monotonic() + 120
    while wrong := check(case, target):
        assert time.monotonic() < end, wrong
        time.sleep(0.2)


@pytest.mark.parametrize("case", NATIVE, ids=lambda case: case.mode)
def test_native(case: Case, build_target: Callable[..., Path], spawn: Callable[..., Target]) -> None:
    settle(case, spawn([build_target("hang_cases", "-std=c++17"), case.mode]))


@pytest.mark.parametrize("case", PYTHON, ids=lambda case: case.mode)
def test_python(case: Case, spawn: Callable[..., Target]) -> None:
    settle(case, spawn([sys.executable, TARGETS / "hang_py.py", case.mode]))
