"""What is read of a process follows the files that it has mapped, also while it is being loaded, or loads more."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.watch import ProcessWatch
from livedbg.linux.maps import parse_maps
from livedbg.linux.procfs import read_stat
from livedbg.model import POLLS, UNSEEN_RUNTIME, EdgeKind, ThreadState
from livedbg.model.events import StatusSeen
from livedbg.model.snapshot import Snapshot
from livedbg.state.store import Store
from tests.conftest import Target, eventually

HOST = "box"
LATE = """
import mmap, os, sys
kept = []
print("READY", flush=True)
for path in sys.stdin:
    with open(path.strip(), "rb") as file:
        kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    print("MAPPED", flush=True)
"""


class Seen:
    """What a watch shows, look by look.

    Attributes:
        codes: of all statuses, in their order.
    """

    def __init__(self, pid: int) -> None:
        self._watch = ProcessWatch(Scene(HOST), pid)
        self._store = Store()
        self.codes: list[str] = []

    def look(self) -> Snapshot:
        events = self._watch.sample()
        self.codes += [event.status.code for event in events if isinstance(event, StatusSeen)]
        self._store.apply_all(events)
        return self._store.snapshot()

    def close(self) -> None:
        self._watch.close()


@pytest.fixture
def seen() -> Iterator[Callable[[int], Seen]]:
    """Watches a process."""
    with contextlib.ExitStack() as stack:

        def watch(pid: int) -> Seen:
            made = Seen(pid)
            stack.callback(made.close)
            return made

        yield watch


@pytest.mark.invariant("watch.W4")
def test_W4_a_program_that_was_first_seen_while_its_libraries_were_loaded(
    build_target: Callable[..., Path], spawn: Callable[..., Target], seen: Callable[[int], Seen], tmp_path: Path
) -> None:
    program = build_target("hang_cases", "-std=c++17")
    gate = tmp_path / "gate.so"
    os.mkfifo(gate)
    target = spawn([program, "self-deadlock"], None, env={**os.environ, "LD_PRELOAD": str(gate)})

    def loads() -> bool:  # the loader opens what is to come before the C library: it waits until somebody writes to it
        asleep = read_stat(target.pid).state is ThreadState.WAITING
        return asleep and any(one.path == str(program) for one in parse_maps(target.pid))

    eventually(loads)
    watched = seen(target.pid)
    watched.look()
    assert not any("/libc" in one.path for one in parse_maps(target.pid))
    with gate.open("wb"):
        pass
    target.until("READY")
    holds = {edge.source for edge in watched.look().edges.values() if edge.kind is EdgeKind.HOLDS}
    assert len(holds) == 1
    assert "unknown-libc" not in watched.codes


@pytest.mark.invariant("watch.W4")
@pytest.mark.parametrize(("name", "code"), [("libmpi.so.40", POLLS), ("libjvm.so", UNSEEN_RUNTIME), ("libm.so.6", "")])
def test_W4_a_runtime_that_is_loaded_late(
    spawn: Callable[..., Target], seen: Callable[[int], Seen], tmp_path: Path, name: str, code: str
) -> None:
    library = tmp_path / name
    library.write_bytes(bytes(mmap.PAGESIZE))
    target = spawn([sys.executable, "-c", LATE])
    watched = seen(target.pid)
    watched.look()
    assert set(watched.codes) == {""}
    target.stdin.write(f"{library}\n".encode())
    target.stdin.flush()
    target.until("MAPPED")
    watched.look()
    assert watched.codes[-1] == code
