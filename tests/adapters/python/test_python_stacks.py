"""py-spy's stacks on real processes, and what is said when they can't be had."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.model import EdgeKind, SourceHealth, SourceStatus
from livedbg.model.intents import WantStacks
from livedbg.model.snapshot import Snapshot
from tests.adapters.python.test_python_waits import PROGRAM, Facts, until, watching
from tests.conftest import Target, settled
from tests.cpython.interpreters import interpreters, label

EVERY = interpreters("3.7", "3.8", "3.9", "3.10", "3.12", "3.13", "3.14")


def status(snapshot: Snapshot, code: str) -> SourceStatus | None:
    return next((s for s in snapshot.statuses.values() if s.source == "python" and s.code == code), None)


def names(snapshot: Snapshot, thread: str) -> list[str]:
    stack = snapshot.stacks.get(thread)
    return [frame.function for frame in stack.frames] if stack is not None else []


@pytest.mark.parametrize("python", EVERY, ids=label)
def test_stacks_of_every_version(python: str, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([python, PROGRAM, "lock-cycle"]))
    main = f"thread:box/{facts.pid}/{facts.pid}"
    with watching(facts.pid) as view:
        snapshot = until(
            view,
            lambda s: len(s.stacks) >= 3 and (names(s, main)[:1], names(s, main)[-1:]) == (["forever"], ["<module>"]),
        )
    stack = snapshot.stacks[main]
    assert (stack.layer, stack.source) == ("python", "py-spy")
    assert stack.frames[-1].file == str(PROGRAM)
    assert all(frame.line for frame in stack.frames)


@pytest.mark.parametrize("python", [p for p in EVERY if label(p).startswith(("3.8.", "3.10."))], ids=label)
def test_old_versions_say_what_is_not_known(python: str, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([python, PROGRAM, "gil"]))
    with watching(facts.pid) as view:
        hog = facts.thread("hog")
        snapshot = until(view, lambda s: any(e.kind is EdgeKind.HOLDS and e.source == hog for e in s.edges.values()))
    (holds,) = (e for e in snapshot.edges.values() if e.kind is EdgeKind.HOLDS)
    assert holds.source == hog and holds.target.startswith("gil:") and holds.inferred
    said = status(snapshot, "locks-unknown")
    assert said is not None and said.health is SourceHealth.DEGRADED and "unknown" in said.sentence


def test_local_variables_only_when_asked_for(spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([sys.executable, PROGRAM, "join"]))
    settled(facts.pid)
    with watching(facts.pid) as view:
        snapshot = until(view, lambda s: len(s.stacks) >= 2)
        assert not any(frame.local_variables for stack in snapshot.stacks.values() for frame in stack.frames)
        view.send(WantStacks(process=f"process:box/{facts.pid}", local_variables=True))
        until(view, lambda s: "worker=<Thread" in str(s.stacks[facts.thread("main")].frames))


def test_a_process_without_python(spawn: Callable[..., Target]) -> None:
    target = spawn(["sleep", "600"], wait_for=None)
    with watching(target.pid) as view:
        snapshot = until(view, lambda s: status(s, "not-python"))
    said = status(snapshot, "not-python")
    assert said is not None and said.health is SourceHealth.OK and str(target.pid) in said.sentence


def test_py_spy_is_missing(spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([sys.executable, PROGRAM, "join"]))
    with watching(facts.pid, options={"python.py-spy": "/nowhere/py-spy"}) as view:
        snapshot = until(
            view, lambda s: status(s, "py-spy-missing") and any(e.kind is EdgeKind.WAITS_FOR for e in s.edges.values())
        )
    said = status(snapshot, "py-spy-missing")
    assert said is not None and said.health is SourceHealth.DEGRADED and "pip install py-spy" in said.remedy


def test_py_spy_fails(tmp_path: Path, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([sys.executable, PROGRAM, "join"]))
    program = tmp_path / "py-spy"
    program.write_text("#!/bin/sh\necho 'Error: \x1b[2Jsomething moved' >&2\nexit 1\n")
    program.chmod(0o755)
    with watching(facts.pid, options={"python.py-spy": str(program)}) as view:
        snapshot = until(view, lambda s: status(s, "py-spy-failed"))
    said = status(snapshot, "py-spy-failed")
    assert said is not None and "something moved" in said.sentence and "\x1b" not in said.sentence


def test_the_process_ends(spawn: Callable[..., Target]) -> None:
    facts = Facts(target := spawn([sys.executable, PROGRAM, "end"]))
    with watching(facts.pid) as view:
        until(view, lambda s: s.stacks)
        target.stdin.write(b"x")
        target.process.wait(60)
        snapshot = until(view, lambda s: status(s, "gone"))
    said = status(snapshot, "gone")
    assert said is not None and said.health is SourceHealth.ENDED


def test_no_permission(spawn: Callable[..., Target]) -> None:
    """Another user's process, looked at from a process without rights."""
    facts = Facts(spawn([sys.executable, PROGRAM, "join"]))
    looker = spawn(
        [
            sys.executable,
            "-c",
            "import concurrent.futures.thread, encodings.idna, os, pwd, tomllib\n"
            "from livedbg.session.adapter import Request, TargetProcess\n"
            "from livedbg.adapters.python import PythonAdapter\n"
            "from livedbg.session.live import LiveView\n"
            f"request = Request(host='box', processes=(TargetProcess({facts.pid}),), once=True)\n"
            "view = LiveView(request, adapters=[PythonAdapter()])\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "view.start(); view.wait_ended(100)\n"
            "for status in view.latest().snapshot.statuses.values():\n"
            "    print('SAID', status.health.value, status.code, status.sentence, status.remedy, flush=True)\n",
        ],
        wait_for="SAID",
    )
    assert looker.ready.startswith("SAID failed no-permission"), looker.ready
    assert "livedbg attach" in looker.ready


def test_one_look_settles_and_ends(spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([sys.executable, PROGRAM, "join"]))
    settled(facts.pid)
    with watching(facts.pid, once=True) as view:
        assert view.wait_ended(100)
        snapshot = view.latest().snapshot
    assert len(snapshot.stacks) == 2
    assert (EdgeKind.WAITS_FOR, facts.thread("main"), facts.thread("worker")) in snapshot.edges
