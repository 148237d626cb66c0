"""A process that has imported livedbg and forks for each command: the imports are most of what a command costs.

The command is a process of its own, with the outputs, environment and folder that it would have. `python -m livedbg`
itself is what tests with an environment of their own, with a prefix, or in a terminal start.
"""

from __future__ import annotations

import atexit
import functools
import gc
import io
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from livedbg.cli import main
from livedbg.cli.group import livedbg
from livedbg.session.registry import adapter_classes

__all__ = ["run_forked"]

_LONGEST = 1 << 20
_ROOT = Path(__file__).parents[2]


class _Zygote:
    """The process, as tests see it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
        self._socket = ours
        self._lock = threading.Lock()
        with theirs, tempfile.TemporaryFile() as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.zygote"],
                stdin=theirs.fileno(),
                stdout=errors,
                stderr=errors,
                cwd=_ROOT,
            )
        atexit.register(self.end)

    def end(self) -> None:
        self._socket.close()
        self._process.wait()

    def send(self, request: bytes, files: Sequence[int]) -> None:
        with self._lock:
            socket.send_fds(self._socket, [request], list(files))


@functools.cache
def _zygote() -> _Zygote:
    return _Zygote()


def run_forked(words: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run `livedbg WORDS` in a process of its own.

    Args:
        words: its arguments.
        timeout_s: then it is killed.

    Raises:
        subprocess.TimeoutExpired: it has not ended in time.
    """
    status_ours, status_theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with status_ours:
        with status_theirs, Path(os.devnull).open("rb") as nothing:
            out, out_end = os.pipe()
            err, err_end = os.pipe()
            request = json.dumps({"words": list(words), "env": dict(os.environ), "cwd": str(Path.cwd())}).encode()
            try:
                _zygote().send(request, (nothing.fileno(), out_end, err_end, status_theirs.fileno()))
            finally:
                os.close(out_end)
                os.close(err_end)
        status_ours.settimeout(timeout_s)
        pid = int(status_ours.recv(20))
        texts = {out: b"", err: b""}
        readers = [threading.Thread(target=_read, args=(file, texts)) for file in texts]
        for reader in readers:
            reader.start()
        try:
            answer = status_ours.recv(20)
        except TimeoutError:
            os.kill(pid, 9)
            raise subprocess.TimeoutExpired(["livedbg", *words], timeout_s) from None
        finally:
            for reader in readers:
                reader.join(timeout_s)
        assert answer, "the zygote has ended"
        return subprocess.CompletedProcess(["livedbg", *words], int(answer), texts[out], texts[err])


def _read(file: int, texts: dict[int, bytes]) -> None:
    with open(file, "rb") as stream:
        texts[file] = stream.read()


def _serve() -> None:
    context = click.Context(livedbg)
    for name in livedbg.list_commands(context):
        if name not in ("attach", "replay", "demo"):  # with Textual
            livedbg.get_command(context, name)
    adapter_classes()
    gc.collect()
    gc.freeze()
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a fork copies one thread only"
    server = socket.socket(fileno=os.dup(0))
    poll = select.poll()
    poll.register(server, select.POLLIN)
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for ready, _ in poll.poll():
            if ready != server.fileno():
                pid, status = running.pop(ready)
                poll.unregister(ready)
                os.close(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with status:
                    status.send(str(code).encode())
                continue
            request, files, _, _ = socket.recv_fds(server, _LONGEST, 4)
            if not request:
                return
            pid = os.fork()
            if pid == 0:
                server.close()
                os.close(files[3])
                for _, status in running.values():
                    status.close()
                for pidfd in running:
                    os.close(pidfd)
                sys.exit(_command(json.loads(request), files[:3]))
            for file in files[:3]:
                os.close(file)
            status = socket.socket(fileno=files[3])
            status.send(str(pid).encode())
            pidfd = os.pidfd_open(pid)
            running[pidfd] = (pid, status)
            poll.register(pidfd, select.POLLIN)


def _command(request: dict[str, Any], files: Sequence[int]) -> int:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
    sys.argv = ["livedbg", *request["words"]]
    return main()


if __name__ == "__main__":
    _serve()
