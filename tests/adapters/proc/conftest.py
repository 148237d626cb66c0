"""Looking at real programs with the /proc adapter alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.proc import ProcAdapter
from livedbg.linux.procfs import child_pids
from livedbg.model import Edge, EdgeKind, Resource, Thread
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.session import Session
from livedbg.session.view import Update
from tests.conftest import seen_when, settled

HOST = "box"


@dataclass
class Sample:
    """What one look has found, with short names for tests."""

    snapshot: Snapshot
    told: dict[str, str]

    @property
    def pid(self) -> int:
        return int(self.told["pid"])

    def thread_id(self, key: str) -> str:
        """Identifier of the thread whose tid the program told as `key`."""
        return f"thread:{HOST}/{self.pid}/{self.told[key]}"

    def thread(self, key: str) -> Thread:
        return self.snapshot.threads[self.thread_id(key)]

    def process_id(self, key: str) -> str:
        return f"process:{HOST}/{self.told[key]}"

    def lock_id(self, kind: str, key: str) -> str:
        return f"{kind}:{HOST}/{self.pid}/{int(self.told[key], 16):#x}"

    def edges(self, kind: EdgeKind) -> Iterable[Edge]:
        return [edge for edge in self.snapshot.edges.values() if edge.kind is kind]

    def waits(self, source: str) -> dict[str, Edge]:
        """target -> edge, of what `source` waits for."""
        return {e.target: e for e in self.edges(EdgeKind.WAITS_FOR) if e.source == source}

    def holders(self, target: str) -> dict[str, Edge]:
        """source -> edge, of who holds `target`."""
        return {e.source: e for e in self.edges(EdgeKind.HOLDS) if e.target == target}

    def resource(self, target: str) -> Resource:
        return self.snapshot.resources[target]


def observe_once(*pids: int, tree: bool = True) -> Snapshot:
    """What a one-look session finds."""
    updates: list[Update] = []
    request = Request(host=HOST, processes=tuple(TargetProcess(pid) for pid in pids), once=True, tree=tree)
    session = Session(request, [ProcAdapter()], updates.append)
    asyncio.run(session.run())
    return updates[-1].snapshot


def at_rest(pid: int) -> None:
    """Wait until a process and all below it have come to where they wait: each says READY a step before."""
    settled(pid)
    for child in child_pids(pid):
        at_rest(child)


@pytest.fixture
def waits(build_target: Callable[..., Path]) -> Path:
    """The program that waits."""
    return build_target("waits")


@pytest.fixture
def sample(waits: Path, spawn: Callable[..., Any], tmp_path: Path) -> Callable[..., Sample]:
    """Start `waits MODE` and look at it once it waits; where it never does, until `until` is true of what was seen."""

    def start(mode: str, until: Callable[[Sample], bool] | None = None) -> Sample:
        target = spawn([waits, mode, tmp_path / "file"])
        told = dict(word.split("=", 1) for word in target.words)
        if until is None:
            at_rest(target.pid)
        return seen_when(until or bool, lambda: Sample(observe_once(target.pid), told), lambda: f"{mode}: not seen")

    return start


@pytest.fixture
def observe() -> Callable[..., Snapshot]:
    """What a one-look session of the /proc adapter finds of some pids."""
    return observe_once
