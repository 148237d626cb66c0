"""What threads call, read from the memory of a program with functions of torch's names in a file of torch's name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.pytorch.collectives.c_calls import MethodCall, MethodCalls
from livedbg.adapters.pytorch.collectives.groups import Groups
from livedbg.adapters.pytorch.collectives.python_calls import STORE, WORK, CallReader, PythonCall, method_wait
from livedbg.cpython.heap import HeapReader
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


METHODS = """
import threading, time
store = type("torch._C._distributed_c10d.TCPStore", (float,), {})(3600)
other = type("a.TCPStore", (float,), {})(3600)

def in_store():
    time.sleep(store)

def elsewhere():
    time.sleep(other)

def left():
    [store, store, store].count(store)
    threading.Event().wait()

for call in (in_store, elsewhere, left):
    threading.Thread(target=call, daemon=True).start()
print("READY", flush=True)
threading.Event().wait()
"""


@pytest.mark.invariant("c_calls.C1")
def test_C1_a_method_is_called_of_an_object_of_torch(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, "-c", METHODS])
    found = find_interpreter(target.pid)
    assert found is not None
    reader = ThreadReader(target.pid, found)
    methods = MethodCalls(HeapReader(reader.objects))

    def calls() -> list[tuple[str, str]]:
        return [(call.method, call.owner) for call in methods.of(reader.threads()).values()]

    eventually(lambda: sum(thread.frames != [] for thread in reader.threads()) == 4 and calls() != [])
    assert calls() == [("sleep", "TCPStore")]


@pytest.mark.invariant("python_calls.P3")
def test_P3_whom_a_posted_message_is_with_is_known_among_two() -> None:
    wait = MethodCall("wait", "Work", (8, 16))

    def peer(rank: int | None, *ranks: int) -> int | None:
        found = method_wait(1, wait, Groups(ranks={"0": ranks}, rank=rank))
        assert found is not None and (found.name, found.tag) == (WORK, None)
        return found.peer

    assert (peer(1, 0, 1), peer(1, 0, 1, 2), peer(None, 0, 1), peer(0, 0)) == (0, None, None, None)
    store = method_wait(1, MethodCall("get", "PrefixStore", (8, 16, 24)), Groups())
    assert store is not None and store.name == STORE
    assert method_wait(1, MethodCall("set", "PrefixStore", (8, 16, 24)), Groups()) is None
    assert method_wait(1, MethodCall("wait", "Future", (8, 16)), Groups()) is None


RPC = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
import api, internal

def serves():
    time.sleep(3600)

def asks():
    api.rpc_sync("worker1", serves)

for call in (serves, asks, api.shutdown, lambda: internal._run_function(serves), lambda: internal._run_function(asks)):
    threading.Thread(target=call, daemon=True).start()
print("READY", flush=True)
threading.Event().wait()
"""
RPC_API = """
import threading, time
future = type("torch._C.Future", (float,), {})(3600)

def rpc_sync(to, func):
    time.sleep(future)

def shutdown():
    threading.Event().wait()
"""
RPC_INTERNAL = """
def _run_function(python_udf):
    python_udf()
"""


@pytest.mark.invariant("rpc_tasks.F1")
def test_F1_who_asks_who_serves_and_who_leaves(spawn: Callable[..., Target], tmp_path: Path) -> None:
    folder = tmp_path / "torch" / "distributed" / "rpc"
    folder.mkdir(parents=True)
    (folder / "api.py").write_text(RPC_API)
    (folder / "internal.py").write_text(RPC_INTERNAL)
    target = spawn([sys.executable, "-c", RPC, str(folder)])
    found = find_interpreter(target.pid)
    assert found is not None
    reader = CallReader(ThreadReader(target.pid, found))

    def seen() -> list[tuple[str, bool]]:
        return sorted((one.serves, one.leaves) for one in reader.rpc(reader.threads()))

    eventually(lambda: seen() == [("", True), ("asks", False), ("serves", False)])
