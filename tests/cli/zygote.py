"""A process that has imported livedbg and forks for each command: the imports are most of what a command costs.

The command is a process of its own, with the files, environment and folder that it would have; its unwinding process
is forked too (tests.cli.spare_unwinder). Another such process has imported Textual, and forks for each program on a
terminal. `python -m livedbg` itself is what tests with a prefix or in a terminal start, and what `Livedbg` starts where
the interpreter or the libraries would read the environment before livedbg does.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import gc
import importlib
import io
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from livedbg.analysis import engine
from livedbg.analysis.rules.base import Settings
from livedbg.cli import main
from livedbg.cli.group import livedbg
from livedbg.session.filereaders import known_log_formats
from livedbg.session.registry import adapter_classes
from livedbg.session.rulebook import all_rules, user_code
from livedbg.session.signatures import book
from livedbg.signatures.crashes import crash_book
from tests.cli.spare_unwinder import imported, keep_spare_unwinder
from tests.touch.patience import LIMITS, LONG_S
from tests.waiting import until

__all__ = ["Livedbg", "OnTerminal", "patient", "run_livedbg", "stalls_after", "terminal_environment", "until_reported"]

T = TypeVar("T")
_LONGEST = 1 << 20
_ROOT = Path(__file__).parents[2]
_RUN = "import sys; exec(sys.argv.pop(1))"
_STALL_S = "TESTS_STALL_S"
"""In the environment of a command: after how many seconds a wait is a stall."""
_LOOKS = ("report", "stacks", "watch", "record", "catch")
"""Commands that start an unwinding process."""
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "GLIBC_", "MALLOC_", "OPENBLAS_", "OMP_", "TZ")


class _Zygote:
    """The process, as tests see it.

    Args:
        for_screens: whether it has imported what the screens need, and runs programs on terminals.
        env: its environment.
    """

    def __init__(self, for_screens: bool, env: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
        self._socket = ours
        self.read_at_start = _read_at_start(env)
        self._lock = threading.Lock()
        with theirs, tempfile.TemporaryFile() as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.zygote", "screens" if for_screens else "commands"],
                stdin=theirs.fileno(),
                stdout=errors,
                stderr=errors,
                cwd=_ROOT,
                env=env,
            )
        self.pid = self._process.pid
        atexit.register(self.end)

    def end(self) -> None:
        self._socket.close()
        self._process.wait()

    def send(self, request: bytes, files: Sequence[int]) -> None:
        with self._lock:
            socket.send_fds(self._socket, [request], list(files))


@functools.cache
def _zygote() -> _Zygote:
    return _Zygote(False, os.environ)


@functools.cache
def _zygote_for_screens() -> _Zygote:
    return _Zygote(True, terminal_environment())


def terminal_environment() -> dict[str, str]:
    """The environment of a program on a terminal of its own."""
    own = {"TERM": "xterm-256color", "TZ": "UTC", "LANG": "C.UTF-8", "PYTHONPATH": str(_ROOT)}
    return {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "COLORTERM", "LC_ALL"}} | own


class Livedbg(subprocess.Popen[Any]):
    """`livedbg WORDS` beside the test: a Popen in all that tests do with one.

    Its first argument are the words behind `livedbg`; the others are those of `subprocess.Popen`, of which these have
    an effect: stdin, stdout, stderr, env, cwd, start_new_session, and those that say how the streams are read.

    Overrides what subprocess.py of CPython 3.11 to 3.14 starts a process with and waits for it by.
    """

    _of_its_own: tuple[str, ...] = ("-m", "livedbg")
    _status: socket.socket | None = None
    _answers: threading.Lock

    def _wanted(self, words: list[str]) -> tuple[list[str], _Zygote]:
        return patient(words), _zygote()

    def _execute_child(self, args: Sequence[object], *rest: Any) -> None:
        words, zygote = self._wanted([str(word) for word in args])
        _, preexec_fn, _, pass_fds, cwd, env, _, _, _, *files, _, gid, gids, uid, umask, new_session, group = rest
        assert not pass_fds and (gid, gids, uid, umask, group) == (None, None, None, -1, -1)
        env = {os.fsdecode(key): os.fsdecode(value) for key, value in (os.environ if env is None else env).items()}
        if preexec_fn is not None or _read_at_start(env) != zygote.read_at_start:
            assert _STALL_S not in env, "only the zygote knows it"
            super()._execute_child([sys.executable, *self._of_its_own, *words], *rest)  # type: ignore[misc]
            return
        stdin, _, _, stdout, _, stderr = files
        request = {
            "words": words,
            "env": env,
            "cwd": str(Path.cwd() if cwd is None else Path(cwd).absolute()),
            "new_session": new_session,
        }
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        used = [number if file == -1 else file for number, file in enumerate((stdin, stdout, stderr))]
        try:
            with theirs:
                zygote.send(json.dumps(request).encode(), (*used, theirs.fileno()))
        finally:
            self._close_pipe_fds(*files)  # type: ignore[attr-defined]
        self.pid = int(ours.recv(20))
        self._child_created = True
        self._answers = threading.Lock()
        self._status = ours

    def _internal_poll(self, *deadstate: Any, **others: Any) -> int | None:
        if self._status is None and self.returncode is None:
            return super()._internal_poll(*deadstate, **others)  # type: ignore[misc, no-any-return]
        return self._ended(0.0)

    def _wait(self, timeout: float | None) -> int:
        if self._status is None and self.returncode is None:
            return super()._wait(timeout)  # type: ignore[misc, no-any-return]
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, timeout_s: float | None) -> int | None:
        """Its exit code, once it has one within a time."""
        status = self._status
        if status is None:
            return self.returncode
        poll = select.poll()
        poll.register(status, select.POLLIN)
        if not poll.poll(None if timeout_s is None else timeout_s * 1000):
            return None
        with self._answers:
            if self._status is not None:  # no other thread has had the answer meanwhile
                answer = status.recv(20)
                assert answer, "the zygote has ended"
                self._status, self.returncode = None, int(answer)
                status.close()
        return self.returncode


class OnTerminal(Livedbg):
    """A program of Python, given as its text and its arguments, whose input becomes the terminal of its session."""

    _of_its_own = ("-c", f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n{_RUN}")

    def _wanted(self, words: list[str]) -> tuple[list[str], _Zygote]:
        return words, _zygote_for_screens()


def stalls_after(seconds: float, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command for which a wait is a stall after other than the 10 s that users wait for that."""
    return {**(os.environ if env is None else env), _STALL_S: str(seconds)}


def run_livedbg(words: Sequence[object], timeout_s: float = 200, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run `livedbg WORDS` to its end.

    Args:
        words: its arguments.
        timeout_s: then it is killed.
        options: of subprocess.Popen; without stdout and stderr these are read, and without stdin there is none.

    Raises:
        subprocess.TimeoutExpired: it has not ended in time.
    """
    files = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Livedbg(words, **files | options) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def until_reported(true: Callable[[], T], told: Callable[[], object] = str) -> T:
    """Make reports until something is true, with a bound in the CPU time that the commands of this test use.

    Args:
        true: makes a report, and looks at it.
        told: what is known, where it did not come true.

    Raises:
        AssertionError: it did not come true.
    """
    return until(true, of=[_zygote().pid], naps_s=(0.5, 3.0), told=told)


def patient(words: Iterable[str]) -> list[str]:
    """The words with a time limit for a look that has none: 30 s are not enough at 20 times the load."""
    words = list(words)
    if words[:1] not in (["report"], ["stacks"]) or any(word.startswith(("--timeout", "--help")) for word in words):
        return words
    return [*words, "--timeout", "140"]


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """What the interpreter and the libraries read of an environment before livedbg is there."""
    return {key: value for key, value in env.items() if key.startswith(_READ_AT_START)}


def _serve(for_screens: bool) -> None:
    if for_screens:
        for module in ("livedbg.app", "livedbg.app.application", "tests.app.scenarios"):
            importlib.import_module(module)
    context = click.Context(livedbg)
    for name in livedbg.list_commands(context):
        if for_screens or name not in ("attach", "replay", "demo"):  # with Textual
            livedbg.get_command(context, name)
    adapter_classes()
    all_rules()
    user_code()
    known_log_formats()
    crash_book().found("")
    known = book()[0]
    known.found("")
    assert known.triggers and known.opens and known.exact is not None
    for module, name in LIMITS:
        setattr(module, name, LONG_S)
    spare_unwinders = not for_screens and imported()
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
                for _, status in running.values():
                    status.close()
                for pidfd in running:
                    os.close(pidfd)
                wanted = json.loads(request)
                if spare_unwinders and wanted["words"][:1] and wanted["words"][0] in _LOOKS:
                    keep_spare_unwinder()
                sys.exit(_command(wanted, files, for_screens))
            for file in files[:3]:
                os.close(file)
            status = socket.socket(fileno=files[3])
            pidfd = os.pidfd_open(pid)
            running[pidfd] = (pid, status)
            poll.register(pidfd, select.POLLIN)


def _command(request: dict[str, Any], files: Sequence[int], on_terminal: bool) -> int:
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])
    stall_s = os.environ.pop(_STALL_S, None)
    if stall_s is not None:
        settings = functools.partial(Settings, thread_stall_s=float(stall_s), task_stall_s=float(stall_s))
        engine.Settings = settings
    os.chdir(request["cwd"])
    if request["new_session"]:
        os.setsid()
    if on_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    with socket.socket(fileno=files[3]) as status:
        status.send(str(os.getpid()).encode())
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
    if on_terminal:
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
        sys.argv = ["-c", *request["words"]]
        exec(_RUN, {"__name__": "__main__"})
        return 0
    sys.argv = ["livedbg", *request["words"]]
    return main()


if __name__ == "__main__":
    _serve(sys.argv[1] == "screens")
