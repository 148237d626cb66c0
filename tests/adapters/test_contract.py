"""What holds for every adapter, whatever it watches (livedbg.session.adapter)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from livedbg.linux.procfs import status_fields, thread_ids
from livedbg.model.events import Event, LogsSeen, ProcessSeen, StacksSeen, ThreadsSeen
from livedbg.model.intents import Refresh
from livedbg.model.request import Level
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView, adapters_for
from tests.conftest import Target, eventually, settled
from tests.text.hostile import FORBIDDEN, strings
from tests.waiting import WALL_S

ROOT = Path(__file__).parents[2]
EVIL = "\x1b]0;evil\x07\u202e"

IMPORTS = """
import sys
from livedbg.session.registry import adapter_classes
assert len(adapter_classes()) > 8
print([name for name in sys.modules if name.startswith(("textual", "livedbg.app", "livedbg.panels"))])
"""
BLOCKED = """
import pathlib, sys, threading
pathlib.Path("/proc/self/comm").write_bytes(b"\\x1b]0;x\\x07\\xc2\\x9bm")
lock = threading.Lock()
lock.acquire()
blocks = {}
exec(compile("def blocks(lock): lock.acquire()", "evil\\x1b[31m.py", "exec"), blocks)
threading.Thread(target=blocks["blocks"], args=(lock,), daemon=True).start()
sys.stderr.write("before \\x1b]52;c;AAAA\\x07 after\\n")
print("READY", flush=True)
sys.stdin.read()
"""


@pytest.mark.invariant("adapter.A1")
def test_A1_no_adapter_needs_the_app_or_a_panel() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "[]\n"


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.invariant("adapter.A2")
def test_A2_no_adapter_imports_another() -> None:
    rooms = [path for path in (ROOT / "adapters").iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert len(rooms) > 10
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for room in rooms
        for path in room.rglob("*.py")
        for name in imported(path)
        if name.startswith("livedbg.adapters.") and name.split(".")[2] != room.name
    }
    assert wrong == set()


def counters(pid: int) -> dict[int, tuple[str, ...]]:
    names = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches", "TracerPid", "State")
    return {tid: tuple(status_fields(pid, tid)[name] for name in names) for tid in thread_ids(pid)}


@pytest.mark.invariant("adapter.A3")
def test_A3_a_session_of_all_adapters_that_observe_wakes_no_thread(
    build_target: Callable[..., Path], spawn: Callable[..., Target], tmp_path: Path
) -> None:
    targets = [spawn([build_target("waits"), "mutex", tmp_path / "file"]), spawn([sys.executable, "-c", BLOCKED])]
    for target in targets:
        settled(target.pid)
    before = {target.pid: counters(target.pid) for target in targets}
    request = Request(host="box", processes=tuple(TargetProcess(target.pid) for target in targets))
    running, sleeping = adapters_for(request)
    made = (*running, *filter(None, (one.make() for one in sleeping)))
    adapters = [adapter for adapter in made if adapter.level is Level.OBSERVE]
    assert len(adapters) > 4
    view = LiveView(request, adapters=adapters)
    view.start()
    try:
        assert view.wait_settled(WALL_S)
        for _ in range(5):
            now_ns = view.latest().snapshot.now().mono_ns
            view.send(Refresh())
            eventually(lambda since=now_ns: view.latest().snapshot.now().mono_ns > since + 300_000_000)  # type: ignore[misc]
            assert {target.pid: counters(target.pid) for target in targets} == before
        snapshot = view.latest().snapshot
        assert len(snapshot.stacks) >= 4 and not snapshot.intrusions
    finally:
        view.stop()


@pytest.mark.invariant("adapter.A5", "entities.M4")
def test_A5_M4_strings_of_a_target_are_clean_in_events(spawn: Callable[..., Target], tmp_path: Path) -> None:
    folder = tmp_path / f"folder{EVIL}"
    folder.mkdir()
    (folder / f"log{EVIL}.log").write_text(f"ERROR {EVIL} in a log\n")
    (folder / f"out{EVIL}.log").touch()
    target = spawn(["sh", "-c", 'exec "$@" 2>out*.log', "sh", sys.executable, "-c", BLOCKED, EVIL], cwd=folder)
    settled(target.pid)
    seen: list[Event] = []

    def sink(events: Sequence[Event]) -> None:
        seen.extend(events)

    request = Request(host="box", processes=(TargetProcess(target.pid),), logs=(str(folder),), once=True)
    view = LiveView(request, sink=sink)
    view.start()
    assert view.wait_ended(200)
    view.stop()
    assert {ProcessSeen, ThreadsSeen, StacksSeen, LogsSeen} <= {type(event) for event in seen}
    found = [
        (f"{type(event).__name__}{place}", text)
        for event in seen
        for place, text in strings(msgspec.to_builtins(event))
    ]
    assert any("evil" in text or "�" in text for _, text in found)
    obeyed = {place for place, text in found if FORBIDDEN.search(text)}
    assert obeyed == {"LogSourceSeen.source.path"}  # by which it is opened
