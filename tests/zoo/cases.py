"""The programs of the zoo, and what a report may say of each.

A verdict is *right* if it is one of those that are true of the program, *unknown* if livedbg says that it doesn't know,
and *wrong* otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

__all__ = ["CASES", "PROGRAMS", "Case"]

PROGRAMS: Final = Path(__file__).with_name("programs")

_IDLE: Final = ("running",)
_STUCK: Final = ("deadlock", "stalled")


@dataclass(frozen=True, slots=True)
class Case:
    """A program that is started, and what is true of it.

    Attributes:
        name: of the row.
        argv: its command line; `{tmp}` is a folder of its own, `{build}` the folder of built programs.
        right: states that are true of it; `unknown` is never wrong.
        needs: programs that must be installed.
        build: how it is built first: a command line.
        ready: it is where it should be when its output has this word; "": some seconds after its start.
        settle_s: seconds from then on until it is what it is said to be.
        which: a word in the command line of the process to report on, where that is a descendant.
        keys: it gets a terminal of its own.
        before: a shell command that is run before (in the folder); it may leave services behind, which `after` ends.
        after: a shell command that is run when all is over.
        environment: more environment variables.
    """

    name: str
    argv: tuple[str, ...]
    right: tuple[str, ...]
    needs: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    ready: str = "READY"
    settle_s: float = 1.0
    which: str = ""
    keys: bool = False
    before: str = ""
    after: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def _c(word: str, right: tuple[str, ...], *more: str) -> Case:
    build = ("gcc", "-O1", "-g", "-pthread", str(PROGRAMS / "waits.c"), "-o", "{build}/waits")
    return Case(f"C: {word}", ("{build}/waits", word, *more), right, ("gcc",), build)


def _musl(word: str, right: tuple[str, ...]) -> Case:
    build = ("musl-gcc", "-O1", "-static", "-pthread", str(PROGRAMS / "waits.c"), "-o", "{build}/waits-musl")
    return Case(f"musl: {word}", ("{build}/waits-musl", word), right, ("musl-gcc",), build)


def _cpp(word: str, right: tuple[str, ...], **more: object) -> Case:
    source, program = str(PROGRAMS / "waits.cpp"), "{build}/waits++"
    build = ("g++", "-std=c++20", "-O1", "-g", "-fopenmp", "-pthread", source, "-o", program)
    return Case(f"C++: {word}", (program, word), right, ("g++",), build, **more)  # type: ignore[arg-type]


def _python(word: str, right: tuple[str, ...]) -> Case:
    return Case(f"Python: {word}", (sys.executable, str(PROGRAMS / "waits.py"), word), right)


def _java(word: str, right: tuple[str, ...]) -> Case:
    return Case(f"Java: {word}", ("java", str(PROGRAMS / "Stuck.java"), word), right, ("java",), settle_s=2)


def _go(word: str, right: tuple[str, ...]) -> Case:
    build = ("go", "build", "-o", "{build}/stuck-go", str(PROGRAMS / "stuck.go"))
    return Case(f"Go: {word}", ("{build}/stuck-go", word), right, ("go",), build)


def _rust(word: str, right: tuple[str, ...]) -> Case:
    build = ("rustc", "-o", "{build}/stuck-rs", str(PROGRAMS / "stuck.rs"))
    return Case(f"Rust: {word}", ("{build}/stuck-rs", word), right, ("rustc",), build)


def _mpi(word: str, right: tuple[str, ...]) -> Case:
    build = ("mpicc", "-o", "{build}/mpi", str(PROGRAMS / "mpi.c"))
    run = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "{build}/mpi", word)
    return Case(f"Open MPI: {word}", run, right, ("mpicc", "mpirun"), build, settle_s=12, which="{build}/mpi")


def _torch(name: str, script: str, word: str, right: tuple[str, ...]) -> Case:
    return Case(name, (sys.executable, str(PROGRAMS / script), word), right, settle_s=14)


def _shell(name: str, script: str, right: tuple[str, ...] = _IDLE, **more: object) -> Case:
    return Case(name, ("bash", "-c", script), right, ("bash",), ready="", settle_s=2, **more)  # type: ignore[arg-type]


_POSTGRES: Final = (
    "bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1); mkdir pg; chown postgres . pg; "
    'su postgres -c "$bin/initdb -D pg >/dev/null && $bin/pg_ctl -D pg -o \\"-k $PWD -p 55432\\" -w start >/dev/null"; '
    "su postgres -c \"psql -qh $PWD -p 55432 -c 'create table t(n int); insert into t values (1)'\""
)
_POSTGRES_ENDS: Final = (
    'su postgres -c "$(ls -d /usr/lib/postgresql/*/bin | tail -1)/pg_ctl -D pg -m immediate stop" >/dev/null'
)


def _postgres(name: str, script: str, right: tuple[str, ...], which: str) -> Case:
    psql = 'P="psql -qh $PWD -p 55432 -U postgres"; '
    return Case(
        f"PostgreSQL: {name}",
        ("bash", "-c", psql + script),
        right,
        ("psql",),
        ready="",
        settle_s=8,
        which=which,
        before=_POSTGRES,
        after=_POSTGRES_ENDS,
    )


_LASTS_S: Final = 12.0
"""A stall is one from 10 s on."""

_ALL: Final = (
    # what waits for something from outside, or for a timer of its own
    _shell("bash reads its own FIFO", "exec 9<> <(:); read -u 9"),
    _shell("bash reads a named FIFO", "mkfifo {tmp}/f; exec 3<>{tmp}/f; read -u 3"),
    _shell("bash opens a named FIFO", "mkfifo {tmp}/f; read line <{tmp}/f"),
    _shell("bash waits for a sleep", "sleep 1000; true"),
    _shell("tail -f", "touch {tmp}/l; exec tail -f {tmp}/l"),
    _shell("a pipeline without input", "tail -f /dev/null | cat | wc -l"),
    Case("bash at a prompt", ("bash", "--norc", "-i"), _IDLE, ready="", settle_s=2, keys=True),
    Case(
        "Tcl waits for ever",
        ("sh", "-c", "echo 'vwait forever' >{tmp}/w; exec tclsh {tmp}/w"),
        _IDLE,
        ("tclsh",),
        ready="",
        settle_s=2,
    ),
    Case("less", ("less", "/etc/services"), _IDLE, ("less",), ready="", settle_s=2, keys=True),
    Case("Python at a prompt", (sys.executable, "-i"), _IDLE, ready="", settle_s=2, keys=True),
    Case("gdb at a prompt", ("gdb", "-nx", "-q"), _IDLE, ("gdb",), ready="", settle_s=3, keys=True),
    Case("vim", ("vi", "-u", "NONE"), _IDLE, ("vi",), ready="", settle_s=2, keys=True),
    *(
        _c(word, _IDLE)
        for word in [
            "self-pipe-signal",
            "self-pipe-timer",
            "self-pipe-itimer",
            "self-pipe-sigwait",
            "signalfd",
            "timerfd",
            "sem-handler",
            "sigwait-main",
            "pause",
            "inverted-timed",
            "child-busy",
            "child-sleeps",
            "slow-holder",
            "recv-limited-pair",
            "timed-join",
        ]
    ),
    *(_c(word, _IDLE, "{tmp}/file") for word in ("named-fifo", "named-fifo-open", "other-range")),
    *(
        _python(word, _IDLE)
        for word in [
            "wakeup-fd",
            "http-server",
            "asyncio-server",
            "asyncio-idle-timer",
            "worker-pool",
            "busy-threads",
            "pool-map",
            "sleeps",
            "selector-idle",
            "long-gil",
            "event-ctrl-c",
            "event-sigint",
            "pool-idle",
            "loop-forever",
            "select-beside-worker",
        ]
    ),
    _cpp("async-compute", _IDLE),
    _java("idle", _IDLE),
    _java("busy", _IDLE),
    _go("idle", _IDLE),
    _go("busy", _IDLE),
    Case("node at a prompt", ("node",), _IDLE, ("node",), ready="", settle_s=2, keys=True),
    Case(
        "node serves",
        ("node", "-e", "require('http').createServer().listen(0, () => console.log('READY'))"),
        _IDLE,
        ("node",),
    ),
    Case(
        "redis idle",
        ("redis-server", "--port", "0", "--unixsocket", "{tmp}/s"),
        _IDLE,
        ("redis-server",),
        ready="ready",
    ),
    Case(
        "nginx idle",
        ("nginx", "-p", "{tmp}", "-e", "{tmp}/e", "-g", "daemon off; pid {tmp}/p;", "-c", "{tmp}/nginx.conf"),
        _IDLE,
        ("nginx",),
        ready="",
        settle_s=2,
        before="printf 'events {}\\nhttp { server { listen unix:%s/s; } }\\n' $PWD >nginx.conf",
    ),
    _postgres(
        "idle in a transaction", '(echo "begin; select 1;"; sleep 1000) | $P', ("running",), "idle in transaction"
    ),
    _postgres(
        "pgbench",
        "pgbench -qih $PWD -p 55432 -U postgres postgres; exec pgbench -h $PWD -p 55432 -U postgres -T 900 postgres",
        _IDLE,
        "pgbench -h",
    ),
    _mpi("healthy", _IDLE),
    _torch("gloo: healthy", "ranks.py", "healthy", _IDLE),
    _torch("DataLoader: healthy", "loader.py", "healthy", _IDLE),
    # what nothing can wake
    *(
        _c(word, _STUCK)
        for word in [
            "sem-never",
            "sem-never-ticker",
            "cond-never",
            "barrier-short",
            "own-pipe-alone",
            "eventfd-never",
            "spin-flag",
            "lock-cycle-ticker",
            "dead-child-lock",
            "queues-crossed",
            "timed-join-never",
        ]
    ),
    _c("posix-lock", ("stalled", "deadlock"), "{tmp}/file"),
    *(_musl(word, _STUCK) for word in ("sem-never", "lock-cycle-ticker")),
    *(_cpp(word, _STUCK) for word in ("future-never", "atomic-never", "latch-short", "openmp-lock")),
    *(
        _python(word, _STUCK)
        for word in [
            "event-never",
            "queue-never",
            "barrier-short",
            "locks-crossed",
            "locks-crossed-ticker",
            "semaphore-never",
            "asyncio-crossed",
            "asyncio-future-never",
            "mp-lock-dead-owner",
            "mp-queue-never",
            "fork-in-thread",
            "join-self-made",
            "join-again-and-again",
            "sleep-beside-hang",
            "select-beside-hang",
            "manager-lock",
        ]
    ),
    _java("deadlock", _STUCK),
    _go("deadlock", _STUCK),
    _rust("locks", _STUCK),
    _rust("channel", _STUCK),
    _mpi("mismatch", _STUCK),
    _postgres(
        "row lock",
        '(echo "begin; update t set n = 2;"; sleep 1000) | $P & sleep 2; $P -c "update t set n = 3"',
        _STUCK,
        "UPDATE waiting",
    ),
    _torch("gloo: a rank does not come", "ranks.py", "missing", _STUCK),
    _torch("DataLoader: a worker hangs", "loader.py", "hung", _STUCK),
    _shell("stopped by a signal", "kill -STOP $$", ("stalled",)),
)

CASES: Final = tuple(
    case if "running" in case.right else replace(case, settle_s=max(case.settle_s, _LASTS_S)) for case in _ALL
)
"""All of them: first those that are well."""
