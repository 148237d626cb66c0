"""What the user's Python code called when its thread blocked: the words for waits inside of Python's locks."""

from __future__ import annotations

import pytest

from livedbg.analysis.python_calls import said_call
from livedbg.analysis.user_code import NO_FRAMEWORKS
from livedbg.model import Frame, Stack

FUTEX = Frame(function="__futex_abstimed_wait_common64", module="libc.so.6")
ACQUIRE = Frame(function="lock_PyThread_acquire_lock", module="libpython3.11.so.1.0")
RLOCK = Frame(function="rlock_acquire", module="libpython3.11.so.1.0")
EVAL = Frame(function="_PyEval_EvalFrameDefault", module="libpython3.11.so.1.0")
OWN = Frame(function="serve(int)", file="/home/me/server.cpp", line=31, module="server")


def python(function: str, file: str) -> Frame:
    return Frame(function=function, file=file, line=7, language="python")


MINE = python("fetch_batch", "/home/me/train.py")
PACKAGE = "/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py"
GET = python("Queue.get", "/usr/lib/python3.11/queue.py")
WAIT = python("Condition.wait", "/usr/lib/python3.11/threading.py")


def called(*frames: Frame) -> str:
    return NO_FRAMEWORKS.call(Stack(thread="thread:box/1/1", frames=frames, taken_mono_ns=1, source="test"))


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        ((FUTEX, ACQUIRE, WAIT, GET, MINE), "Queue.get"),
        ((WAIT, GET, MINE), "Queue.get"),  # without native frames
        ((FUTEX, ACQUIRE, MINE), "Lock.acquire"),
        ((FUTEX, Frame(function="lock_PyThread_acquire_lock.lto_priv.0", module="python3.11"), MINE), "Lock.acquire"),
        ((FUTEX, python("main.<locals>.Pool.map", "/usr/lib/python3.11/x.py"), MINE), "Pool.map"),
        ((FUTEX, python("all_reduce", PACKAGE), python("logged.<locals>.wrapper", PACKAGE), MINE), "all_reduce"),
        ((FUTEX, python("all_reduce", PACKAGE), python("wrapper", PACKAGE), MINE), "all_reduce"),  # before 3.11
        ((FUTEX, python("logged.<locals>.wrapper", PACKAGE), MINE), "wrapper"),
        ((FUTEX, python("timed.<locals>.inner", PACKAGE), python("logged.<locals>.wrapper", PACKAGE), MINE), "wrapper"),
        ((FUTEX, ACQUIRE, EVAL, RLOCK, MINE), "RLock.acquire"),  # the one nearest to the user's code
        ((FUTEX, python("fetch.<locals>.<lambda>", "/usr/lib/python3.11/x.py"), MINE), ""),
        ((FUTEX, Frame(function="decode", module="libdecode.so"), MINE), ""),
        ((MINE,), ""),
        ((FUTEX, ACQUIRE, WAIT, GET), ""),  # a library's own thread: nobody's code called it
        ((FUTEX, OWN), ""),
        ((FUTEX, EVAL), ""),
        ((), ""),
    ],
)
def test_the_call_is_what_the_users_frame_called(frames: tuple[Frame, ...], name: str) -> None:
    assert called(*frames) == name


@pytest.mark.parametrize("call", ["sem_wait", "sem_clockwait", "pthread_cond_timedwait", "futex", "futex_wait"])
def test_a_lock_inside_is_said_in_the_users_words(call: str) -> None:
    assert said_call(call, "Queue.get") == "Queue.get"
    assert said_call(call, "") == call


@pytest.mark.parametrize("call", ["recv on socket 5", "sleep 30 s", "poll of 2 descriptors", "pause", ""])
def test_other_calls_are_kept_as_they_are(call: str) -> None:
    assert said_call(call, "Session.get") == call


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        (
            (python("getresponse", PACKAGE), python("urlopen", "/usr/lib/python3.11/urllib/request.py")),
            "urllib.request.urlopen",
        ),
        (
            (
                python("Popen.wait", "/usr/lib/python3.11/subprocess.py"),
                python("run", "/usr/lib64/python3.12/subprocess.py"),
            ),
            "subprocess.run",
        ),
        ((python("get", "/venv/lib/python3.11/site-packages/requests/api.py"),), "requests.get"),
        ((python("get", "/usr/lib/python3/dist-packages/single.py"),), "single.get"),
        ((python("loads", "/usr/lib/python3.11/json/__init__.py"),), "json.loads"),
        ((python("read", "/venv/lib/python3.11/site-packages/not-a-name/api.py"),), "read"),
        ((GET,), "Queue.get"),
        ((FUTEX, ACQUIRE), "Lock.acquire"),
        ((), ""),
    ],
)
def test_the_full_name_of_a_call_has_the_module_of_a_function(frames: tuple[Frame, ...], name: str) -> None:
    stack = Stack(thread="thread:box/1/1", frames=(*frames, MINE), taken_mono_ns=1, source="test")
    assert NO_FRAMEWORKS.call(stack, full=True) == name
