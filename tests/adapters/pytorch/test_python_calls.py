"""What threads call, read from the memory of a program with functions of torch's names in a file of torch's name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.pytorch.collectives.groups import Groups
from livedbg.adapters.pytorch.collectives.python_calls import CallReader, PythonCall
from livedbg.cpython.interpreter import find_interpreter
from livedbg.cpython.threads import ThreadReader
from tests.conftest import Target, eventually

FUNCTIONS = """
import threading
lock = threading.Lock()
lock.acquire()

def recv(tensor, src=None, group=None, tag=0, group_src=None):
    lock.acquire()

def monitored_barrier(group=None):
    lock.acquire()

def helper():
    lock.acquire()

def init_process_group(world_size=-1, rank=-1):
    helper()

def new_group(ranks, use_local_synchronization=False):
    helper()

def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    lock.acquire()
"""
PROGRAM = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import distributed_c10d as d

def user():
    d.lock.acquire()

group = object()
calls = (
    lambda: d.recv(None, 1, tag=3), lambda: d.recv(None, group_src=1, group=group), lambda: d.recv(None, src=9),
    lambda: d.recv(None), d.monitored_barrier, lambda: d.irecv(None, 1), user,
    lambda: d.init_process_group(4, 3), lambda: d.new_group([0]), lambda: d.new_group([0], True),
)
for call in calls:
    threading.Thread(target=call, daemon=True).start()
print("READY", hex(id(group)), flush=True)
threading.Event().wait()
"""


@pytest.mark.invariant("python_calls.P1")
@pytest.mark.invariant("python_calls.P2")
def test_P1_P2_calls_are_those_of_innermost_frames_with_peers_of_the_group(
    spawn: Callable[..., Target], tmp_path: Path
) -> None:
    module = tmp_path / "torch" / "distributed" / "distributed_c10d.py"
    module.parent.mkdir(parents=True)
    module.write_text(FUNCTIONS)
    target = spawn([sys.executable, "-c", PROGRAM, str(module.parent)])
    found = find_interpreter(target.pid)
    assert found is not None
    reader = CallReader(ThreadReader(target.pid, found))

    def calls(groups: Groups) -> list[PythonCall]:
        return list(reader.calls(reader.threads(), groups))

    known = Groups(ranks={"0": (0, 1, 2)})
    eventually(lambda: len(calls(known)) == 7)
    said = sorted((one.name, one.group, one.peer is not None, one.peer or 0, one.tag) for one in calls(known))
    assert said == [
        ("init_process_group", "0", False, 0, 0),
        ("monitored_barrier", "0", False, 0, 0),
        ("new_group", "0", False, 0, 0),
        ("recv", "", False, 0, 0),  # of a group that is not known
        ("recv", "0", False, 0, 0),
        ("recv", "0", False, 0, 0),  # from rank 9, which there is not
        ("recv", "0", True, 1, 3),
    ]
    assert reader.unknown_group(reader.threads(), known)
    assert reader.joining(reader.threads()) == (3, 4)
