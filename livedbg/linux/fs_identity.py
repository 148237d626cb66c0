"""File system rights of another user, for a moment, on one thread.

Invariants:
    fs_identity.U1. Only the calling thread has them (the system calls change one thread; glibc's setgroups(3) would
        change all), only while `work` runs, and the main thread never: a signal handler runs there, and the change
        would take its PR_SET_PDEATHSIG (commit_creds of Linux). It has another thread do it.
    fs_identity.U2. Rights that can't be had are refused: nothing is done with more rights than requested.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final, TypeVar

from msgspec import Struct

from livedbg.linux.abi import syscall_number
from livedbg.linux.procfs import status_fields

T = TypeVar("T")

_ANY: Final = -1  # setfsuid(2) of no user says who it is
_FS: Final = 3  # of the four ids in /proc/PID/status: real, effective, saved, file system
_libc = ctypes.CDLL(None, use_errno=True)


class FsIdentity(Struct, frozen=True):
    """A user, a group, and further groups, for file access."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def is_privileged() -> bool:
    """Return whether we may read files of others: as root, whom their modes don't stop."""
    return os.geteuid() == 0


def identity_of(pid: int) -> FsIdentity:
    """Return the identity with which a process opens files.

    For a set-user-id program, that of the user who started it: its arguments and environment come from that user.

    Raises:
        OSError: it is gone.
    """
    fields = status_fields(pid)
    uids, gids = ([int(word) for word in fields[name].split()] for name in ("Uid", "Gid"))
    groups = tuple(int(word) for word in fields.get("Groups", "").split())
    return FsIdentity(uids[_FS] or uids[0], gids[_FS] if uids[_FS] else gids[0], groups)


def acting_as(identity: FsIdentity, work: Callable[[], T]) -> T:
    """Return the result of `work`, run with the rights of another. It must be short, and start no thread and no
    program.

    Raises:
        PermissionError: we may not act as that one (U2).
    """
    if threading.current_thread() is not threading.main_thread():
        with _changed(identity):
            return work()
    given: Future[T] = Future()

    def apart() -> None:
        try:
            with _changed(identity):
                done = work()
            given.set_result(done)
        except BaseException as error:
            given.set_exception(error)

    threading.Thread(target=apart, name="livedbg-rights", daemon=True).start()
    return given.result()


@contextmanager
def _changed(identity: FsIdentity) -> Iterator[None]:
    own = FsIdentity(os.geteuid(), os.getegid(), tuple(os.getgroups()))
    try:
        _set_groups(identity.groups)
        _set("setfsgid", identity.gid)
        _set("setfsuid", identity.uid)
        yield
    finally:  # the user first: it brings the rights to set the rest back
        _set("setfsuid", own.uid)
        _set("setfsgid", own.gid)
        _set_groups(own.groups)


def _set(name: str, value: int) -> None:
    """Call setfsuid(2) or setfsgid(2), which report no error, and check the result."""
    call = getattr(_libc, name)
    call(ctypes.c_uint32(value))
    if ctypes.c_uint32(call(_ANY)).value != value:
        raise PermissionError(1, "livedbg may not open files as the target's user (CAP_SETUID, CAP_SETGID)")


def _set_groups(groups: tuple[int, ...]) -> None:
    array = (ctypes.c_uint32 * len(groups))(*groups)
    number = syscall_number("setgroups")
    if number is None:
        raise PermissionError(1, "on this machine livedbg can't open files as the target's user")
    if _libc.syscall(number, ctypes.c_long(len(groups)), array) != 0:
        raise PermissionError(ctypes.get_errno(), "livedbg may not open files as the target's user (CAP_SETGID)")
