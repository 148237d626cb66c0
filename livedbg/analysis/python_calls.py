"""The blocking call of a thread's Python code, in the user's words: `Queue.get`, `Thread.join`, `Lock.acquire`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import Final

from livedbg.analysis.place_names import Placed
from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

_C_FUNCTIONS: Final = {
    "lock_PyThread_acquire_lock": "Lock.acquire",
    "lock_acquire": "Lock.acquire",
    "rlock_acquire": "RLock.acquire",
    "_thread_RLock_acquire": "RLock.acquire",
    "_queue_SimpleQueue_get_impl": "SimpleQueue.get",
    "_queue_SimpleQueue_get": "SimpleQueue.get",
    "_multiprocessing_SemLock_acquire_impl": "SemLock.acquire",
    "_multiprocessing_SemLock_acquire": "SemLock.acquire",
}
"""Functions of CPython's own modules that wait (Modules/_threadmodule.c, _queuemodule.c, _multiprocessing)."""

_LOCK_CALLS: Final = lazy_re(r"sem_\w+|pthread_(?:cond|mutex|rwlock|join|barrier)\w*|futex(?:_\w+| wait)?")

_WRAPPER: Final = lazy_re(r"<locals>\.[^.]+$|^_?(?:wrapper|wrapped|inner|decorated|decorate_context|_fn)$")
"""Functions that a decorator put around the one that was called: closures, and their usual names before Python 3.11."""

_PACKAGE: Final = lazy_re(r"/(?:site|dist)-packages/([^/]{1,200}?)(?:/.{0,1000})?\.py$")
_MODULE: Final = lazy_re(r"/lib(?:64)?/python\d[^/]{0,100}/(.{1,1000})\.py$")
"""An installed package, and a module of the standard library, in the path of a file."""


def said_call(call: str, called: str) -> str:
    """Return the name for a wait: the user's call, if the thread is blocked inside of a lock, join or barrier.

    Args:
        call: the blocking call, e.g. `sem_wait`, `recv on socket 5`.
        called: see `python_call` and `livedbg.analysis.user_code`.
    """
    return called if called and _LOCK_CALLS.fullmatch(call) else call


def python_call(frames: Sequence[Placed], user: int) -> str:
    """Return the name of the function that a Python frame called.

    Args:
        user: index of the caller among them.

    Returns:
        The qualified name of the Python function, without the functions that it was defined in, or the waiting method
            of CPython's own; "" if the caller isn't Python, or the function is not known.
    """
    if not user or frames[user].language != "python":
        return ""
    called = _called(frames, user)
    if called is not None:
        name = called.function.rpartition("<locals>.")[2]
        return name if name.replace(".", "").replace("_", "a").isalnum() else ""
    inner = (_C_FUNCTIONS.get(frame.function.partition(".")[0], "") for frame in frames[:user][::-1])
    return next((name for name in inner if name), "")


def full_call(frames: Sequence[Placed], user: int) -> str:
    """Return the called function, with its module if it is a library's: `subprocess.run`, `requests.get`, `Queue.get`.

    The module is that of its file; for an installed package, only the package.
    """
    name = python_call(frames, user)
    called = _called(frames, user) if name and "." not in name else None
    file = (called.file or "") if called is not None else ""
    found = _PACKAGE.search(file) or _MODULE.search(file)
    parts = found[1].removesuffix("/__init__").split("/") if found is not None else []
    return ".".join([*parts, name]) if all(part.isidentifier() for part in parts) else name


def _called(frames: Sequence[Placed], user: int) -> Placed | None:
    if not user or frames[user].language != "python":
        return None
    inner = list(takewhile(lambda frame: frame.language == "python", reversed(frames[:user])))
    return next((frame for frame in inner if not _WRAPPER.search(frame.function)), inner[0] if inner else None)


_WORKERS: Final = frozenset(
    {
        ("concurrent/futures/process.py", "_process_worker"),
        ("concurrent/futures/thread.py", "_worker"),
        ("logging/handlers.py", "QueueListener._monitor"),
        ("logging/handlers.py", "_monitor"),
        ("multiprocessing/forkserver.py", "main"),
        ("multiprocessing/pool.py", "worker"),
        ("multiprocessing/resource_tracker.py", "main"),
    }
)
"""Functions of the standard library that take a job, do it, and take the next one (3.11 to 3.14)."""

_FEEDERS: Final = frozenset({("multiprocessing/queues.py", "Queue._feed"), ("multiprocessing/queues.py", "_feed")})
"""They write into a pipe what others have put into a queue."""

_QUEUES: Final = lazy_re(
    r"/(multiprocessing/(queues|connection|synchronize)|asyncio/queues|logging/handlers|queue|threading|selectors)\.py$"
)
"""What they call to take it. A job that runs has other files above them."""


Workers = Collection[tuple[str, str]]
"""`Framework.workers`."""


def waits_for_job(frames: Sequence[Frame], workers: Workers = ()) -> bool:
    """Return whether a thread of a pool waits for its next job, by its frames (innermost first)."""
    inner = ""
    for frame in frames:
        file = frame.file or ""
        if frame.language != "python":
            continue
        if _is_one_of(frame, _FEEDERS):
            return inner.endswith("/threading.py")  # else it writes
        if _is_one_of(frame, _WORKERS) or _is_one_of(frame, workers):
            return True
        if not _QUEUES.search(file):
            return False
        inner = file
    return False


def _is_one_of(frame: Frame, functions: Collection[tuple[str, str]]) -> bool:
    return any(frame.function == name and (frame.file or "").endswith(f"/{file}") for file, name in functions)


_TAKES: Final = frozenset({"Queue.get", "SimpleQueue.get", "get"})
_ANYIO: Final = ("anyio/_backends/_asyncio.py", "WorkerThread.run")


_FOR_CHILD: Final = frozenset(
    {
        *(("subprocess.py", name) for name in ("Popen._wait", "_wait")),
        *(("multiprocessing/popen_fork.py", name) for name in ("Popen.wait", "wait")),
    }
)
"""They wait for the end of a child with a time limit: by naps, or at a pipe that the child has open."""


def waits_for_child(frames: Sequence[Frame]) -> bool:
    """Return whether a thread of Python waits for a child process to end, by its frames."""
    return any(_is_one_of(frame, _FOR_CHILD) for frame in frames if frame.language == "python")


def in_job(frames: Sequence[Frame], workers: Workers = ()) -> bool:
    """Return whether a thread of a pool does a job, and doesn't wait for the next item of a queue in it."""
    if takes_item(frames):
        return False
    return any(_is_one_of(frame, {*_WORKERS, *workers, _ANYIO}) for frame in frames if frame.language == "python")


def takes_item(frames: Sequence[Frame]) -> bool:
    """Return whether a thread or a task waits for the next item of a queue."""
    python = (frame for frame in frames if frame.language == "python")
    takes = next((frame for frame in python if not (frame.file or "").endswith("/threading.py")), None)
    return takes is not None and takes.function in _TAKES and _QUEUES.search(takes.file or "") is not None


_POOLS: Final = lazy_re(r"/(concurrent/futures/(_base|thread|process)|multiprocessing/pool)\.py$")
_AT_EXIT: Final = "_python_exit"  # of an interpreter that ends: the job may be a server


def awaits_jobs(frames: Sequence[Frame]) -> bool:
    """Return whether a thread waits until a pool, or who takes from a queue, has done its jobs: each is to end."""
    for frame in frames:
        file = frame.file or ""
        if frame.language != "python":
            continue
        if _POOLS.search(file):
            return frame.function != _AT_EXIT
        if not _QUEUES.search(file):
            return False
        if frame.function.rpartition(".")[2] == "join" and not file.endswith("/threading.py"):
            return True
    return False


_UNTIL_STOPPED: Final = frozenset({"wait_for_termination", "serve_forever"})
"""Methods of servers in libraries that return when the server was stopped; other threads serve meanwhile."""


def waits_to_be_stopped(frames: Sequence[Frame]) -> bool:
    """Return whether a thread or a task waits in a library until its server is stopped."""
    inside = (one for one in frames if one.function.rpartition(".")[2] in _UNTIL_STOPPED and one.language == "python")
    return any(_PACKAGE.search(one.file or "") or _MODULE.search(one.file or "") for one in inside)


_TASKS: Final = lazy_re(
    r"/(?:asyncio/tasks|trio/_timeouts|anyio/_core/_eventloop|gevent/hub|eventlet/greenthread)\.py$"
)


def sleeps_in_task(frames: Sequence[Frame]) -> bool:
    """Return whether a task is in its runtime's `sleep`."""
    return any(one.function.startswith("sleep") for one in frames if _TASKS.search(one.file or ""))


def awaits_tasks(frames: Sequence[Frame]) -> bool:
    """Return whether a task waits for the first of some tasks that ends, by `asyncio.as_completed`."""
    inside = (one for one in frames if (one.file or "").endswith("/asyncio/tasks.py"))
    return any(one.function.endswith("_wait_for_one") for one in inside)


def gives_up_in_task(frames: Sequence[Frame]) -> bool:
    """Return whether a task is in its runtime's `wait_for`, which has a time limit."""
    return any(one.function == "wait_for" for one in frames if _TASKS.search(one.file or ""))


_TIMERS: Final = frozenset({("threading.py", "Timer.run"), ("threading.py", "run")})


def is_timer(frames: Sequence[Frame]) -> bool:
    """Return whether a thread is a `threading.Timer` whose time has not come."""
    waits = (one for one in frames if one.language == "python" and one.function.rpartition(".")[2] != "wait")
    first = next(waits, None)
    return first is not None and _is_one_of(first, _TIMERS)


def waits_for_semaphore(frames: Sequence[Frame]) -> bool:
    """Return whether a Python thread is in `Semaphore.acquire` or `Barrier.wait` of `threading`."""
    python = [frame for frame in frames if frame.language == "python"][:3]
    inside = [frame.function for frame in python if (frame.file or "").endswith("/threading.py")]
    return any(name.startswith(("Semaphore.", "Barrier.")) for name in inside)
