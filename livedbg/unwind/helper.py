"""The unwinding process of a session, shown as livedbg-unwind; its parent calls `main` in a new Python.

It reads the stacks that the session copied, and the debug information of the files that their frames lie in. A damaged
or hostile file ends this process and not the session.

Its data is limited: mapped files count, since elfutils maps them private and writable.

Invariants:
    helper.H1. It ends with its session.
    helper.H2. Its memory is bounded (livedbg.unwind.data_limit), and where memory runs out the kernel ends it first.
    helper.G1. The limit is that of its own data, and `TIMES` the size of each file that a process which it looks at has
        mapped with code; `MOST` at most.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from livedbg.linux import target_files
from livedbg.linux.maps import Mapping
from livedbg.linux.target_files import register
from livedbg.text.typed import ready
from livedbg.unwind.wire import LENGTH, MOST_BYTES, Reply, Request, packed

OWN: Final = 2 << 30
"""Bytes of data of its own."""

TIMES: Final = 4
"""A file is mapped once for names, and once by each of drgn's programs that still exists."""

MOST: Final = 64 << 30
"""The greatest limit, in bytes."""


class DataLimit:
    """The limit of this process's data (RLIMIT_DATA, setrlimit(2)). It only grows."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, int], int] = {}  # of files, by device and inode
        self._set()

    def allow(self, pid: int, mappings: Iterable[Mapping]) -> None:
        """Raise the limit for the files of a process."""
        before = len(self._sizes)
        for mapping in mappings:
            key = (mapping.device, mapping.inode)
            if mapping.executable and mapping.path.startswith("/") and key not in self._sizes:
                self._sizes[key] = 0
                with contextlib.suppress(OSError, ValueError):  # it is not there any more
                    self._sizes[key] = target_files.status(f"/proc/{pid}/root{mapping.path}").st_size
        if len(self._sizes) != before:
            self._set()

    def _set(self) -> None:
        most = min(OWN + TIMES * sum(self._sizes.values()), MOST)
        with contextlib.suppress(OSError, ValueError):
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(
                resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
            )


_NAME: Final = b"livedbg-unwind"
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_FIRST_TO_END: Final = "500"  # proc_pid_oom_score_adj(5)


def main(parent: int) -> None:
    """Answer requests until the session, process `parent`, closes our input."""
    _limit(parent)
    limit = DataLimit()
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does not disturb
    _without_plugins()
    try:
        from livedbg.unwind.drgn_files import Programs
        from livedbg.unwind.drgn_stacks import answer, in_words
        from livedbg.unwind.places import Places
    except ImportError as error:
        _send(replies, Reply(str(error)))
        return
    places, programs = Places(), Programs()
    _send(replies, Reply())
    while (request := _next(requests)) is not None:
        register(request.pid)
        try:
            limit.allow(request.pid, (mapping.mapping() for mapping in request.mappings))
            reply = answer(request, places, programs)
        except Exception as error:
            reply = Reply(in_words(error))
        _send(replies, reply)


def _limit(parent: int) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before that
        sys.exit(0)
    libc.prctl(_PR_SET_NAME, _NAME, 0, 0, 0)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _without_plugins() -> None:
    """Keep drgn from loading its plugins: they are for kernels, and take as long as the rest of its start."""
    os.environ.pop("DRGN_PLUGINS", None)
    os.environ["DRGN_DISABLE_PLUGINS"] = "*"


def _send(replies: BinaryIO, reply: Reply) -> None:
    replies.write(packed(reply))
    replies.flush()


def _next(requests: BinaryIO) -> Request | None:
    head = requests.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    if size > MOST_BYTES:
        return None
    return msgspec.msgpack.decode(requests.read(size), type=ready(Request))
