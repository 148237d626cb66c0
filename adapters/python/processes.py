"""One Python process under observation: its interpreter, its thread numbers, samples of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from livedbg.adapters.python.forks import Inherited, find_inherited
from livedbg.adapters.python.samples import Sample
from livedbg.adapters.python.waits import Kernel, sample
from livedbg.cpython.interpreter import Interpreter
from livedbg.cpython.threads import PyThread, ThreadReader
from livedbg.linux import memory, namespaces, procfs
from livedbg.linux.abi import native_abi
from livedbg.linux.procfs import SyscallSeen

__all__ = ["PythonProcess"]

_TRIES = 3


class PythonProcess:
    """A process that runs Python. Blocking: to be used in worker threads, one at a time.

    Args:
        pid: the process.
        interpreter: as found in it.

    Attributes:
        last: the newest good sample; empty before the first.
        reader: reads its threads; None where its layout is not known.
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
        self._own_namespace = namespaces.same_namespace(pid)
        self._inner: dict[int, int] = {}

    @property
    def readable(self) -> bool:
        """Whether locks and GIL can be read from its memory: the layout is known."""
        return self.interpreter.layout is not None and self.interpreter.runtime is not None

    def sample(self) -> Sample:
        """Sample it once, and again when it changed meanwhile.

        Raises:
            OSError: gone, or not allowed, or it changes too fast.
        """
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
        """Our number of the thread that the process calls `number`."""
        if number is None or self._own_namespace:
            return number
        if number not in self._inner:
            self._inner = namespaces.inner_tids(self.pid, procfs.thread_ids(self.pid))
        return self._inner.get(number)

    def tid_of(self, ident: int) -> int | None:
        """Our number of the thread with a pthread identifier: as the interpreter has it, or else as
        glibc's thread descriptor does, which a pthread identifier is the address of (nptl/descr.h)."""
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
        """The thread states by our tids. After a fork the only thread may still have its parent's
        number: the one state and the one thread that are left belong together."""
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
        """The system calls of its threads now, by tid."""
        found = {}
        for tid in procfs.thread_ids(self.pid):
            try:
                found[tid] = procfs.blocked_syscall(self.pid, tid)
            except (FileNotFoundError, ProcessLookupError):
                continue
        return found

    def _runs(self, tids: Iterable[int]) -> dict[int, bytes]:
        """How often, and for how long, threads have run (schedstat)."""
        found = {}
        for tid in tids:
            try:
                found[tid] = procfs.read_file(f"/proc/{self.pid}/task/{tid}/schedstat")
            except OSError:
                continue
        return found
