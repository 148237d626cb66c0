"""The unwinding process of a command: forked as the command begins, where it is not started anew.

Its imports cost more than what most tests have it unwind. It is a process of its own as the other one is, a child of
the command, with the files and the environment that the command gives it.
"""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from typing import Any

from livedbg.unwind import helper
from livedbg.unwind.helper_process import _PROGRAM, usable

__all__ = ["imported", "keep_spare_unwinder"]

_LONGEST = 1 << 20
_start = subprocess.Popen._execute_child  # type: ignore[attr-defined]


def imported() -> bool:
    """Import what the unwinding process needs; whether it can."""
    if usable():
        helper._without_plugins()
        import livedbg.unwind.drgn_stacks
        import livedbg.unwind.places  # noqa: F401
    return usable()


def keep_spare_unwinder() -> None:
    """Have the first unwinding process that this process starts be one that is forked now."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os._exit(_serve(theirs, parent))
    theirs.close()
    spare = [(pid, ours)]

    def start(process: subprocess.Popen[Any], args: Any, *rest: Any) -> None:
        if _PROGRAM not in args or not spare:
            _start(process, args, *rest)
            return
        _, preexec_fn, _, pass_fds, cwd, env, _, _, _, *files, _, gid, gids, uid, umask, new_session, group = rest
        assert not pass_fds and (preexec_fn, cwd, gid, gids, uid, umask, group) == (None,) * 5 + (-1, -1)
        assert new_session and list(args[-2:]) == [_PROGRAM, str(parent)]
        process.pid, ours = spare.pop()
        stdin, _, _, stdout, _, stderr = files
        with ours:
            socket.send_fds(ours, [json.dumps(env).encode()], [stdin, stdout, stderr])
        process._child_created = True  # type: ignore[attr-defined]
        process._close_pipe_fds(*files)  # type: ignore[attr-defined]

    subprocess.Popen._execute_child = start  # type: ignore[attr-defined]


def _serve(orders: socket.socket, parent: int) -> int:
    os.closerange(3, orders.fileno())
    os.closerange(orders.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)
    env, files, _, _ = socket.recv_fds(orders, _LONGEST, 3)
    if not env:
        return 0
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(json.loads(env))
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    helper.main(parent)
    return 0
