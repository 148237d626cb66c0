"""Locks that were held when the process was forked: their owner exists in the parent only.

fork() copies the memory and one thread (fork(2)): a lock that another thread held stays locked in the child for ever.
A child that did not exec has its parent's [vdso] and `_PyRuntime` addresses, and the lock is at the same address.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from livedbg.adapters.python.held import held_locks
from livedbg.adapters.python.samples import LockWait, Sample
from livedbg.cpython.interpreter import Interpreter, find_interpreter
from livedbg.cpython.threads import ThreadReader
from livedbg.linux import procfs
from livedbg.model.entities import FORKED_LIKELY, FORKED_OWNER

_GENERATIONS: Final = 4


class Inherited(NamedTuple):
    """A lock that was inherited locked from a fork.

    Attributes:
        state: for the resource.
        forked: FORKED_OWNER or FORKED_LIKELY, by how sure it is that it was held at the fork; "" if it wasn't.
    """

    state: str
    evidence: str
    forked: str = ""


def find_inherited(pid: int, interpreter: Interpreter, sample: Sample) -> dict[int, Inherited]:
    """Return the awaited locks whose missing owner is explained by a fork, by address."""
    open_waits = {wait.lock.address: wait for wait in sample.lock_waits if wait.owner is None}
    if not open_waits:
        return {}
    found: dict[int, Inherited] = {}
    for ancestor in _ancestors(pid, interpreter):
        reader = ThreadReader(ancestor, interpreter)
        for address, wait in open_waits.items():
            if address not in found or found[address].forked == FORKED_LIKELY:
                inherited = _in_parent(reader, ancestor, wait)
                if inherited is not None:
                    found[address] = inherited
    for address, wait in open_waits.items():
        if wait.orphan and address not in found:
            evidence = f"its owner word {wait.lock.owner:#x} is no thread of this process"
            found[address] = Inherited("owner not in this process (it has ended)", evidence)
    return found


def _ancestors(pid: int, interpreter: Interpreter) -> list[int]:
    """Return the ancestors that run the same image without exec, nearest first."""
    found: list[int] = []
    try:
        for _ in range(_GENERATIONS):
            pid = procfs.read_stat(pid).ppid
            other = find_interpreter(pid) if pid > 1 else None
            if other is None or (other.image, other.runtime) != (interpreter.image, interpreter.runtime):
                break
            found.append(pid)
    except OSError:
        pass  # gone or not ours to read: then nothing is known of it
    return found


def _in_parent(reader: ThreadReader, parent: int, wait: LockWait) -> Inherited | None:
    try:
        same = reader.objects.lock_at(wait.lock.address)
        if same is None or same.word != wait.lock.word:
            return None
        threads = {thread.native_id: thread for thread in reader.threads()}
        if same.recursive:
            owner = next((t for t in threads.values() if t.ident == wait.lock.owner), None)
            where = f", now in {owner.frames[0].where}" if owner is not None and owner.frames else ""
            who = f"thread {owner.native_id} of the parent {parent}{where}" if owner else f"a thread of parent {parent}"
            evidence = f"owner word {wait.lock.owner:#x} is {who}"
            return Inherited("owner not in this process (forked while held)", evidence, FORKED_OWNER)
        holders = held_locks(reader.objects, threads).get(wait.lock.address, [])
    except OSError:
        return None
    if not holders and not same.locked:  # a thread of the child has taken it by hand
        return None
    there = f"thread {holders[0].tid} has the same lock in {holders[0].where}" if holders else "it is locked too"
    return Inherited(
        "owner not found in this process (most likely forked while held)",
        f"no thread here has it in a `with` block; in the parent {parent}, {there}",
        FORKED_LIKELY,
    )
