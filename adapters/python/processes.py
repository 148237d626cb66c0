"""Sample one Python process: its interpreter, thread numbers, waits for the GIL, locks, threads and notifications.

How the owner of a lock is found (CPython 3.11 to 3.13):
    RLock           the owner's identifier is in the object
    Lock            has none; but `with lock:` leaves the bound method `lock.__exit__` on the value stack of the frame
                    that holds it (inferred)
    Thread.join     up to 3.12 the lock that the thread state's on_delete_data refers to; from 3.13 on an
                    event inside the ThreadHandle, found through the parking lot's wait entry
    Condition.wait  none: it waits to be notified
Sources: Modules/_threadmodule.c, Python/{thread_pthread.h,parking_lot.c,ceval_gil.c}, Lib/threading.py.

Invariants:
    processes.W1. A wait is reported only if the thread sat in the same call before and after the sample, and has not
        run in between: so all waits and holders of one sample existed at one moment.
    processes.W2. A holder of the GIL is reported only if it and the switch number were the same before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from livedbg.adapters.python.forks import Inherited, find_inherited
from livedbg.adapters.python.held import Held, held_locks
from livedbg.adapters.python.samples import GilWait, JoinWait, LockWait, NotifyWait, Sample
from livedbg.cpython.interpreter import Interpreter
from livedbg.cpython.objects import LockObject, ObjectReader, is_pointer
from livedbg.cpython.threads import Gil, PyThread, ThreadReader
from livedbg.linux import memory, procfs, pthreads
from livedbg.linux.abi import native_abi
from livedbg.linux.procfs import BlockedSyscall, Running, SyscallSeen

_LIBRARY: Final = ("/threading.py", "/queue.py", "/concurrent/futures/_base.py", "/concurrent/futures/thread.py")


def user_frame(thread: PyThread) -> str:
    """Return the innermost frame outside the threading library."""
    for frame in thread.frames:
        if not frame.code.file.endswith(_LIBRARY):
            return frame.where
    return thread.frames[-1].where if thread.frames else ""


def library_call(thread: PyThread) -> tuple[str, int]:
    """Return the outermost of the library's frames, the user's call (`Queue.get`, `Event.wait`), and its `self`."""
    name, own = "", 0
    for frame in thread.frames:
        if not frame.code.file.endswith(_LIBRARY):
            break
        name, own = frame.code.name, next(iter(frame.slots), 0)
    return name, own


_NEAR: Final = 3  # innermost frames that may have the lock among their values
_STACK_REACH: Final = 1 << 16
_EVENT_TO_IDENT: Final = 57 - 32  # ThreadHandle: PyEvent thread_is_exiting at 57, ident at 32 (3.13)
_SIMPLE_QUEUE: Final = "_queue.SimpleQueue"  # its lock is at +16 too, up to 3.12 (Modules/_queuemodule.c)


class Kernel(NamedTuple):
    """Kernel data about the threads of a process.

    Attributes:
        calls: reads the system call of each thread.
        runs: reads a value that changes whenever a thread runs; threads that can't be read are left out.
        futex: number of futex(2).
    """

    calls: Callable[[], Mapping[int, SyscallSeen]]
    runs: Callable[[Iterable[int]], Mapping[int, bytes]]
    futex: int


def sample(
    reader: ThreadReader,
    number_threads: Callable[[list[PyThread]], Mapping[int, PyThread]],
    kernel: Kernel,
    before: Sample,
) -> Sample:
    """Sample all threads of a process once.

    Args:
        number_threads: maps thread states to our tids.
        before: the last sample; a thread that waited for the GIL then, and only woke to ask for it again, still waits.

    Raises:
        OSError: the process is gone, can't be read, or changed too much during the sample.
    """
    calls, runs, futex = kernel
    gils_before = reader.gils()
    calls_before = calls()
    asleep = [tid for tid, call in calls_before.items() if isinstance(call, BlockedSyscall) and call.number == futex]
    runs_before = runs(asleep)
    threads = number_threads(reader.threads())
    finder = _Finder(reader.objects, threads, futex)
    found = [finder.wait_of(tid, call) for tid, call in calls_before.items() if tid in threads]
    needs_owner = any(isinstance(wait, LockWait) and not wait.lock.recursive for wait in found)
    held = held_locks(reader.objects, threads) if needs_owner else {}
    calls_after = calls()
    runs_after = runs(asleep)
    still = {
        tid
        for tid in asleep
        if calls_after.get(tid) == calls_before[tid] and runs_after.get(tid) == runs_before.get(tid)
    }
    gils = {gil.address: gil for gil in reader.gils()}
    steady = {gil.address for gil in gils_before if gils.get(gil.address) == gil}
    by_address = {thread.address: tid for tid, thread in threads.items()}
    holders = {
        address: by_address[gil.holder]
        for address, gil in gils.items()
        if address in steady and gil.holder is not None and gil.holder in by_address
    }
    return Sample(
        threads=threads,
        gils=gils,
        holders=holders,
        gil_waits=_gil_waits(threads, gils, holders, _Seen(calls_before, calls_after, futex), before),
        lock_waits=tuple(
            finder.with_owner(wait, held) for wait in found if isinstance(wait, LockWait) and wait.tid in still
        ),
        notify_waits=tuple(wait for wait in found if isinstance(wait, NotifyWait) and wait.tid in still),
        join_waits=tuple(wait for wait in found if isinstance(wait, JoinWait) and wait.tid in still),
    )


class _Seen(NamedTuple):
    """System calls by tid before and after a sample, and the number of futex(2)."""

    before: Mapping[int, SyscallSeen]
    after: Mapping[int, SyscallSeen]
    futex: int

    def asks_for(self, gil: Gil, tid: int) -> bool:
        """Return whether a thread was seen asleep on a GIL."""
        calls = (self.before.get(tid), self.after.get(tid))
        return any(
            isinstance(call, BlockedSyscall) and call.number == self.futex and gil.contains(call.args[0])
            for call in calls
        )

    def runs(self, tid: int) -> bool:
        return all(isinstance(call, Running) for call in (self.before.get(tid), self.after.get(tid)))


def _gil_waits(
    threads: Mapping[int, PyThread], gils: Mapping[int, Gil], holders: Mapping[int, int], seen: _Seen, before: Sample
) -> tuple[GilWait, ...]:
    """Find the threads that wait for the GIL's condition variable.

    Each waiter wakes every 5 ms to ask for it again (ceval_gil.c, take_gil), so one that was seen asleep once and only
    runs since still waits.
    """
    waited_before = {
        wait.tid for wait in before.gil_waits if gils.get(wait.gil.address) == wait.gil
    }  # the GIL went through no other hands since
    found = []
    for tid, thread in threads.items():
        gil = gils.get(thread.gil)
        if gil is None or gil.address not in holders or holders[gil.address] == tid:
            continue
        if seen.asks_for(gil, tid) or (tid in waited_before and seen.runs(tid)):
            found.append(GilWait(tid, gil))
    return tuple(found)


class _Finder:
    """Finds the waits of single threads."""

    def __init__(self, objects: ObjectReader, threads: Mapping[int, PyThread], futex: int) -> None:
        self._objects = objects
        self._threads = threads
        self._futex = futex
        self._by_ident = {thread.ident: tid for tid, thread in threads.items()}
        self._by_join_lock = {thread.join_lock: tid for tid, thread in threads.items() if thread.join_lock}

    def wait_of(self, tid: int, call: SyscallSeen) -> LockWait | NotifyWait | JoinWait | None:
        if not isinstance(call, BlockedSyscall) or call.number != self._futex or not self._threads[tid].frames:
            return None
        word, timed = call.args[0], call.args[3] != 0
        thread = self._threads[tid]
        where = user_frame(thread)
        parked = self._parked_on(call)
        if parked is not None:
            target = self._joined(thread, parked)
            if target is not None:
                return JoinWait(tid, target, where, timed)
            if not self._objects.layout.lock_word:
                return None
            lock = self._objects.lock_at(parked - 16)
        else:
            lock = self._lock_asleep_on(thread, word)
            if lock is None:
                queue = self._simple_queue(thread, word)
                return NotifyWait(tid, queue, "SimpleQueue.get", where, timed, word, queue) if queue else None
        if lock is None:
            return None
        if lock.address in self._by_join_lock:
            return JoinWait(tid, self._by_join_lock[lock.address], where, timed)
        inner = thread.frames[0]
        if inner.code.name == "Condition.wait" and inner.code.file.endswith("/threading.py") and inner.slots:
            label, own = library_call(thread)
            return NotifyWait(tid, inner.slots[0], label, where, timed, word, own)
        return LockWait(tid, lock, where, timed, None)

    def with_owner(self, wait: LockWait, held: Mapping[int, list[Held]]) -> LockWait:
        if wait.lock.recursive:
            owner = self._by_ident.get(wait.lock.owner)
            if owner is None:
                return wait._replace(orphan=wait.lock.owner != 0)
            return wait._replace(owner=Held(owner, user_frame(self._threads[owner]), False))
        holders = held.get(wait.lock.address, [])
        return wait._replace(owner=holders[0]) if len({holder.tid for holder in holders}) == 1 else wait

    def _parked_on(self, call: BlockedSyscall) -> int | None:
        """Return the address that a thread of 3.13 or later is parked on.

        Its semaphore is on its own stack in a wait_entry, 8 bytes after that address (Python/parking_lot.c).
        """
        if self._objects.layout.version < (3, 13) or not 0 <= call.args[0] - call.sp < _STACK_REACH:
            return None
        try:
            return self._objects.word(call.args[0] - 8)
        except OSError:
            return None

    def _joined(self, thread: PyThread, event: int) -> int | None:
        if not thread.frames[0].code.file.endswith("/threading.py"):
            return None
        try:
            return self._by_ident.get(self._objects.word(event - _EVENT_TO_IDENT))
        except (OSError, OverflowError):
            return None

    def _lock_asleep_on(self, thread: PyThread, word: int) -> LockObject | None:
        for pointer, head in self._near(thread):
            lock = self._objects.lock(pointer, head)
            if lock is not None and lock.word == word:
                return lock
        return None

    def _simple_queue(self, thread: PyThread, word: int) -> int | None:
        for pointer, head in self._near(thread):
            if int.from_bytes(head[16:24], "little") == word and self._objects.type_name(head) == _SIMPLE_QUEUE:
                return pointer
        return None

    def _near(self, thread: PyThread) -> list[tuple[int, bytes]]:
        """Return the objects that the innermost frames refer to, and `__self__` of bound built-in methods."""
        words = [slot for frame in thread.frames[:_NEAR] for slot in frame.slots if is_pointer(slot)]
        pointers = list(dict.fromkeys(words))
        found = [(p, h) for p, h in zip(pointers, self._objects.heads(pointers), strict=True) if h is not None]
        bound = [
            int.from_bytes(head[24:32], "little")
            for _, head in found
            if self._objects.type_name(head) == "builtin_function_or_method"
        ]
        bound = [pointer for pointer in bound if is_pointer(pointer)]
        found += [(p, h) for p, h in zip(bound, self._objects.heads(bound), strict=True) if h is not None]
        return found


_TRIES = 3


class PythonProcess:
    """A process that runs Python. Blocking: use it in worker threads, one at a time.

    Attributes:
        last: the newest good sample; empty before the first.
        reader: reads its threads; None if the layout is not known.
        inherited: locks whose owner is no thread of this process, by address.
    """

    def __init__(self, pid: int, interpreter: Interpreter) -> None:
        self.pid = pid
        self.interpreter = interpreter
        self.last = Sample()
        self.inherited: dict[int, Inherited] = {}
        self.reader = ThreadReader(pid, interpreter) if self.readable else None
        self._abi = native_abi()
        self._futex = self._abi.futex if self._abi is not None else -1
        self._own_namespace = pthreads.same_namespace(pid)
        self._inner: dict[int, int] = {}

    @property
    def readable(self) -> bool:
        """Return whether locks and GIL can be read from memory: the layout is known."""
        return self.interpreter.layout is not None and self.interpreter.runtime is not None

    def sample(self) -> Sample:
        """Sample once, with retries if it changes; raise OSError if it is gone, denied, or changes too fast."""
        if self.reader is None:
            return self.last
        for attempt in range(_TRIES):
            try:
                kernel = Kernel(self.calls, self._runs, self._futex)
                self.last = sample(self.reader, self._numbered, kernel, self.last)
                break
            except (PermissionError, ProcessLookupError):
                raise
            except OSError:
                if attempt == _TRIES - 1:
                    raise
        self.inherited = find_inherited(self.pid, self.interpreter, self.last)
        return self.last

    def our_tid(self, number: int | None) -> int | None:
        """Map the process's own thread number to our tid."""
        if number is None or self._own_namespace:
            return number
        if number not in self._inner:
            self._inner = pthreads.inner_tids(self.pid, procfs.thread_ids(self.pid))
        return self._inner.get(number)

    def tid_of(self, ident: int) -> int | None:
        """Return our tid of the thread with a pthread identifier.

        It is taken from the interpreter, or else from glibc's thread descriptor, whose address is the pthread
        identifier (nptl/descr.h).
        """
        for tid, thread in self.last.threads.items():
            if thread.ident == ident:
                return tid
        if self._abi is None or self._abi.descriptor_tid is None:
            return None
        try:
            data = memory.read(self.pid, ident + self._abi.descriptor_tid, 4)
            number = self.our_tid(int.from_bytes(data, "little"))
            return number if number in procfs.thread_ids(self.pid) else None
        except (OSError, OverflowError):
            return None

    def _numbered(self, threads: list[PyThread]) -> Mapping[int, PyThread]:
        """Map our tids to the thread states.

        After a fork the only thread may still have its parent's number: a single remaining state and thread belong
        together.
        """
        alive = set(procfs.thread_ids(self.pid))
        found: dict[int, PyThread] = {}
        rest = []
        for thread in threads:
            tid = self.our_tid(thread.native_id)
            if tid in alive and tid is not None:
                found[tid] = thread
            else:
                rest.append(thread)
        left = alive - set(found)
        if len(rest) == len(left) == 1:
            found[left.pop()] = rest[0]
        return found

    def calls(self) -> dict[int, SyscallSeen]:
        """Return the current system calls by tid."""
        found = {}
        for tid in procfs.thread_ids(self.pid):
            try:
                found[tid] = procfs.blocked_syscall(self.pid, tid)
            except (FileNotFoundError, ProcessLookupError):
                continue
        return found

    def _runs(self, tids: Iterable[int]) -> dict[int, bytes]:
        """Return run counts and times of threads (schedstat)."""
        found = {}
        for tid in tids:
            try:
                found[tid] = procfs.read_file(f"/proc/{self.pid}/task/{tid}/schedstat")
            except OSError:
                continue
        return found
