"""Fixtures for tests that look at real programs."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from livedbg.linux import target_files
from tests.runner_output import write_through_pipe
from tests.waiting import CPU_S, WALL_S, Bound, until

write_through_pipe()

gc.disable()
"""What the collection of thousands of tests makes is not looked through for garbage, then nor later."""


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix the modules for parallel runs: those of one folder wait for programs, those of the next one only compute."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: zlib.crc32(item.nodeid.partition("::")[0].encode()))


os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
"""Each of the thousand commands that the tests start would compile livedbg anew: half of the suite's CPU time."""

SLOW = [HealthCheck.too_slow]
"""What is drawn slowly on a busy machine is as good."""
settings.register_profile("same-every-time", derandomize=True, deadline=None, suppress_health_check=SLOW)
settings.register_profile("search", deadline=None, max_examples=1000, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("LIVEDBG_HYPOTHESIS", "same-every-time"))

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""What a shell puts into the background ignores Ctrl-C, what nohup starts the end of the terminal, and all that the
tests start would inherit that."""

_leave = subprocess.Popen.__exit__


def _leave_or_end(process: subprocess.Popen[bytes], kind: type[BaseException] | None, *rest: object) -> None:
    """Leave `with Popen(…)`: where the test has failed, the program is ended, for it may wait for the test for ever."""
    if kind is not None:
        process.kill()
    _leave(process, kind, *rest)  # type: ignore[arg-type]


subprocess.Popen.__exit__ = _leave_or_end  # type: ignore[method-assign]

_SHOWN, _LONGEST = 6, 6000
"""How many programs a failed test shows, and how many characters of what each printed."""
_ended: deque[tuple[object, int | None, object, object]] = deque(maxlen=_SHOWN)
"""The programs that `communicate` has read to their end in this test: arguments, exit code, output, errors."""
_communicate = subprocess.Popen.communicate


def _communicate_and_note(process: subprocess.Popen[bytes], *args: Any, **options: Any) -> tuple[Any, Any]:
    out, err = _communicate(process, *args, **options)
    _ended.append((process.args, process.returncode, out, err))
    return out, err


subprocess.Popen.communicate = _communicate_and_note  # type: ignore[method-assign]


def pytest_runtest_setup() -> None:
    _ended.clear()
    target_files.forget()  # as root, a target of another user in one test would decide how files of the next are opened


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show of a failed test which programs it ran to their end, their exit codes, and what they printed."""
    report = yield
    if report.failed:
        for args, code, out, err in _ended:
            words = " ".join(map(str, args)) if isinstance(args, list | tuple) else args
            said = f"exit code {code}\n--- stdout\n{_tail(out)}\n--- stderr\n{_tail(err)}"
            report.sections.append((f"{str(words)[:300]}", said))
    return report


def _tail(printed: object) -> str:
    text = printed.decode("utf-8", "replace") if isinstance(printed, bytes) else str(printed)
    return text if len(text) <= _LONGEST else f"[…]{text[-_LONGEST:]}"


TARGETS = Path(__file__).parent / "targets"
BUILD = TARGETS / "build"


T = TypeVar("T")


class Target:
    """A started program.

    Attributes:
        pid: its process.
        ready: the line with which it said that it is where it should be.
        process: the Popen behind it.
        errors: the file that is its standard error.
    """

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self.process = process
        self.pid = process.pid
        self.ready = ""
        self.errors = errors

    @property
    def words(self) -> list[str]:
        """The words of the ready line behind the word that was waited for."""
        return self.ready.split()[1:]

    @property
    def stdin(self) -> IO[bytes]:
        """Its standard input."""
        assert self.process.stdin is not None
        return self.process.stdin

    def line(self) -> str:
        """Its next line of standard output."""
        return self._line(Bound([self.pid]))

    def until(self, word: str, *, cpu_s: float = CPU_S, wall_s: float = WALL_S) -> None:
        """Read its output until a line has that word; that line is `ready` then."""
        bound = Bound([self.pid], cpu_s, wall_s)
        while word not in self.ready:
            self.ready = self._line(bound)

    def _line(self, bound: Bound) -> str:
        assert self.process.stdout is not None
        line, problem = b"", ""
        while not line.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], 0.0 if problem else 0.1)[0]:
                if problem:
                    raise TimeoutError(f"no whole line, only {line!r}: {problem}")
                problem = bound.problem()
            elif byte := os.read(self.process.stdout.fileno(), 1):
                line += byte
            else:
                raise EOFError(f"the program ended after {line!r}")
        return line.decode("utf-8", "replace").rstrip("\n")

    def kill(self) -> None:
        """End it and all of its session, reap it, and show its errors (pytest prints them for a test that failed)."""
        if self.errors.closed:  # killed before
            return
        another = self.process.returncode is not None and Path(f"/proc/{self.pid}").exists()
        if not another:  # reaped long ago, its number can be that of another test's program
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(60)
        if self.errors.closed:
            return  # the test has ended it before
        self.errors.seek(0)
        sys.stderr.write(self.errors.read().decode("utf-8", "replace"))
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                stream.close()


def start(
    argv: Sequence[str | Path],
    *,
    user: int | None = None,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> Target:
    """Start a program in a session of its own, with outputs of its own: livedbg reads them as its logs."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (Target.kill closes it)
    process = subprocess.Popen(
        [str(word) for word in argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        bufsize=0,
        start_new_session=True,
        user=user,
        env=env,
        cwd=cwd,
    )
    return Target(process, errors)


def gives_way(target: Target) -> Target:
    """Have a program that computes for ever leave the processor to what looks at it (sched(7), autogroup too)."""
    os.setpriority(os.PRIO_PROCESS, target.pid, 5)
    with contextlib.suppress(OSError):
        Path(f"/proc/{target.pid}/autogroup").write_text("5")
    return target


def settled(pid: int, but: Collection[int] = ()) -> None:
    """Wait until all threads of a process sleep and none has run for a while.

    A program says READY before its last step (a join, a read); a look in between sees a thread that still runs.

    Args:
        pid: the process.
        but: threads that never sleep.
    """
    before: dict[str, str] = {}
    calm = 0

    def rests() -> bool:
        nonlocal before, calm
        try:
            now = {
                task.name: "".join(
                    line
                    for line in (task / "status").read_text().splitlines()
                    if line.startswith(("State:", "vol", "nonvol"))
                )
                for task in Path(f"/proc/{pid}/task").iterdir()
                if int(task.name) not in but
            }
        except OSError:  # a thread has just ended
            now = {}
        sleep = bool(now) and all("S (sleeping)" in words for words in now.values())
        calm = calm + 1 if now == before and sleep else 0
        before = now
        return calm >= 4

    until(rests, of=[pid], told=lambda: f"process {pid} does not come to rest: {before}")


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder of this run that all its workers share."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def build_target() -> Callable[..., Path]:
    """Compile tests/targets/NAME.{c,cpp} once; gives the path of the program."""

    def build(name: str, *flags: str, output: str | None = None) -> Path:
        source = next(path for path in (TARGETS / f"{name}.c", TARGETS / f"{name}.cpp") if path.exists())
        program = BUILD / (output or name)
        BUILD.mkdir(exist_ok=True)
        with (BUILD / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
                compiler = "gcc" if source.suffix == ".c" else "g++"
                fresh = program.with_suffix(".new")
                subprocess.run(
                    [compiler, "-O1", "-g", "-pthread", str(source), "-o", str(fresh), *flags], check=True, timeout=250
                )
                fresh.rename(program)
        return program

    return build


@pytest.fixture
def spawn() -> Iterator[Callable[..., Target]]:
    """Start a program in a session of its own, wait for its READY line; all are killed at the end."""
    started: list[Target] = []

    def ready(
        argv: Sequence[str | Path],
        wait_for: str | None = "READY",
        *,
        user: int | None = None,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Target:
        target = start(argv, user=user, env=env, cwd=cwd)
        started.append(target)
        if wait_for is not None:
            target.until(wait_for)
        return target

    yield ready
    for target in reversed(started):  # one that traces another before that one, whose end it holds up
        target.kill()


def eventually(look: Callable[[], bool]) -> None:
    """Look again and again until it is true (tests.waiting).

    Raises:
        AssertionError: it did not come true.
    """
    until(look)


def seen_when(true: Callable[[T], object], look: Callable[[], T], told: Callable[[], object] = str) -> T:
    """Look again and again; gives what was seen as something was first true of it, and not what came later.

    Raises:
        AssertionError: it did not come true.
    """
    seen: list[T] = []

    def is_true() -> bool:
        seen[:] = [look()]
        return bool(true(seen[0]))

    until(is_true, told=told)
    return seen[0]


def _built(name: str, *flags: str) -> Path:
    BUILD.mkdir(exist_ok=True)
    source, made = TARGETS / "cuda_standin.c", BUILD / name
    with (BUILD / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(
                ["gcc", "-O1", "-shared", "-fPIC", "-fno-optimize-sibling-calls", *flags, source, "-o", made],
                check=True,
            )
    return made


@pytest.fixture(scope="session")
def libraries() -> tuple[str, str]:
    """The stand-ins for libcuda.so.1 and libcudart.so.12."""
    return str(_built("libcuda.so.1")), str(_built("libcudart.so.12", "-DRUNTIME"))
