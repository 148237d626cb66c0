"""A session that catches things in one process, for tests."""

from __future__ import annotations

import os

import pytest

from livedbg.adapters.exceptions import ExceptionsAdapter
from livedbg.adapters.proc import ProcAdapter
from livedbg.model import ExceptionHit
from livedbg.model.catchpoints import Catchpoint, CatchpointState
from livedbg.model.intents import Catch
from livedbg.session.adapter import Adapter, Request, TargetProcess
from livedbg.session.live import LiveView
from tests.conftest import Target, eventually
from tests.touch.patience import LIMITS, LONG_S

__all__ = ["Tracing", "functions", "take_time", "tell"]


def take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the inspection of a stopped thread last longer than users wait."""
    for module, name in LIMITS:
        monkeypatch.setattr(module, name, LONG_S)


class Tracing:
    """The session.

    Args:
        pid: the process.
        more: further adapters.
    """

    def __init__(self, pid: int, *more: Adapter, read_only: bool = False) -> None:
        self.process = f"process:box/{pid}"
        request = Request(host="box", processes=(TargetProcess(pid),), stacks="none", read_only=read_only)
        self.view = LiveView(request, adapters=[ProcAdapter(), ExceptionsAdapter(), *more])
        self.notices: list[str] = []
        self.view.subscribe(lambda update: self.notices.append(update.notice) if update.notice else None)
        self.view.start()

    def catch(self, pattern: str, **options: object) -> None:
        """Set a catchpoint; returns when it is armed, or has failed."""
        known = set(self.points)
        self.view.send(Catch(process=self.process, pattern=pattern, **options))  # type: ignore[arg-type]
        eventually(
            lambda: any(p.state is not CatchpointState.ARMING for name, p in self.points.items() if name not in known)
        )

    @property
    def points(self) -> dict[str, Catchpoint]:
        return dict(self.view.latest().snapshot.catchpoints)

    @property
    def hits(self) -> list[ExceptionHit]:
        return list(self.view.latest().snapshot.exceptions.values())

    def hits_after(self, count: int) -> list[ExceptionHit]:
        """The hits once there are so many calls."""
        eventually(lambda: sum(hit.count for hit in self.hits) >= count)
        return self.hits

    def stop(self) -> None:
        self.view.stop()


def tell(target: Target, command: str) -> int:
    """Let the program do something; the count that it answers with."""
    target.stdin.write(command.encode() + b"\n")
    line = b""
    assert target.process.stdout is not None
    while not line.endswith(b"\n"):
        byte = os.read(target.process.stdout.fileno(), 1)
        assert byte, f"the program ended at {command!r}"
        line += byte
    return int(line.split()[-1])


def functions(hit: ExceptionHit) -> list[str]:
    return [frame.function for frame in hit.stack]
