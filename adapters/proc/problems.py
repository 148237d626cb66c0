"""Source statuses for what can't be seen of a process, with the command that would show it.

This includes runtimes whose own threads, locks or tasks livedbg can't inspect. Such a runtime, not its threads, decides
what the program waits for: CPU time of a thread may come from a garbage collector, a timer or a polling loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.linux import target_files
from livedbg.linux.abi import elf_machine, native_abi
from livedbg.linux.access import Problem
from livedbg.linux.live_environment import Libc
from livedbg.linux.maps import Mapping
from livedbg.linux.procfs import living_task
from livedbg.model import POLLS, UNSEEN_RUNTIME, SourceHealth, SourceStatus, ids
from livedbg.text.patterns import lazy_re

_GO: Final = b"\xff Go buildinf:"
"""Begins the section .go.buildinfo (src/debug/buildinfo/buildinfo.go)."""

_SEARCHED: Final = 64 << 20
"""Bytes of a program that are searched for it."""


class UnseenRuntime(Struct, frozen=True):
    """A runtime that livedbg can't inspect.

    Attributes:
        name: for users.
        files: pattern for the path of a mapped file.
        program: pattern for the whole base name of the program.
        unseen: what livedbg can't see of it.
        command: the command that shows it, with `{pid}`.
        polls: its threads use CPU time while they wait.
    """

    name: str
    unseen: str
    command: str
    files: str = ""
    program: str = ""
    polls: bool = False


_RUNTIMES: Final = (
    UnseenRuntime("a JVM", "monitors and Java threads", "jcmd {pid} Thread.print", files=r"/libjvm\.so$"),
    UnseenRuntime(
        "Node.js",
        "promises and callbacks",
        "kill -USR1 {pid}   opens its inspector on port 9229: node inspect -p {pid}",
        program=r"node(?:js)?",
    ),
    UnseenRuntime(".NET", "managed threads and locks", "dotnet-stack report -p {pid}", files=r"/libcoreclr\.so$"),
    UnseenRuntime(
        "Erlang", "processes of the VM", "a remote shell, then erlang:processes()", program=r"beam(?:\.smp)?"
    ),
    UnseenRuntime(
        "Open MPI",
        "messages (its ranks poll while they wait)",
        "livedbg stacks {pid} --native, for each rank",
        files=r"/libmpi\.so[.\d]*$",
        polls=True,
    ),
    UnseenRuntime(
        "PostgreSQL",
        "row and table locks",
        'psql -c "select pid, pg_blocking_pids(pid), wait_event, query from pg_stat_activity"',
        program=r"postgres",
    ),
    UnseenRuntime(
        "MariaDB or MySQL",
        "row and metadata locks",
        "mysql -e 'show engine innodb status; show full processlist'",
        program=r"mariadbd|mysqld",
    ),
    UnseenRuntime(
        "greenlets",
        "which of their waits end by themselves",
        "livedbg stacks {pid}",
        files=r"/_greenlet[^/]*\.so$",
    ),
)

_FILES: Final = lazy_re("|".join(f"(?P<of_{n}>{each.files})" for n, each in enumerate(_RUNTIMES) if each.files))
_PROGRAMS: Final = lazy_re("|".join(f"(?P<of_{n}>{each.program})" for n, each in enumerate(_RUNTIMES) if each.program))

_GO_RUNTIME: Final = UnseenRuntime(
    "the Go runtime", "goroutines", "kill -QUIT {pid}   prints all goroutines and ends the program"
)


def _runtime_of(pid: int, mappings: Sequence[Mapping]) -> UnseenRuntime | None:
    """Return the opaque runtime of a process; None if there is none or the process can't be read."""
    try:
        exe = Path(f"/proc/{living_task(pid)}/exe")
        program = exe.readlink().name.removesuffix(" (deleted)")
        file = target_files.status(exe)
    except OSError:
        return None
    paths = {mapping.path for mapping in mappings if mapping.path.startswith("/")}
    found = [_PROGRAMS.fullmatch(program), *map(_FILES.search, paths)]
    numbers = [int(match.lastgroup.removeprefix("of_")) for match in found if match is not None and match.lastgroup]
    if numbers:
        return _RUNTIMES[min(numbers)]
    return _GO_RUNTIME if _is_go(exe, file.st_dev, file.st_ino, file.st_mtime_ns) else None


@lru_cache(maxsize=64)
def _is_go(exe: Path, device: int, inode: int, changed_ns: int) -> bool:
    """Search a program for Go's section; the other arguments only key the cache."""
    try:
        with target_files.open_binary(exe) as file:
            while file.tell() < _SEARCHED:
                block = file.read(1 << 20)
                if _GO in block:
                    return True
                if len(block) < 1 << 20:
                    return False
                file.seek(-len(_GO), 1)
    except OSError:
        pass
    return False


SOURCE = "proc"
"""The adapter's name in statuses."""


def status_of(host: str, pid: int, problem: Problem) -> SourceStatus:
    """Return a status that the process is partly visible."""
    return SourceStatus(
        source=SOURCE,
        target=ids.process(host, pid),
        health=SourceHealth.DEGRADED,
        code=problem.code,
        sentence=problem.sentence,
        remedy=problem.remedy,
    )


def seen(host: str, pid: int, code: str = "") -> SourceStatus:
    """Return a status that all is well, or that the problem `code` has gone."""
    return SourceStatus(source=SOURCE, target=ids.process(host, pid), health=SourceHealth.OK, code=code)


def hidden(host: str, pid: int) -> SourceStatus:
    """Return a status that a related process is hidden from this user."""
    sentence = f"Process {pid} is involved, but the kernel hides it from this user."
    return status_of(host, pid, Problem("hidden", sentence, f"sudo livedbg attach {pid}"))


def ended(host: str, pid: int, status: int | None, code: str, sentence: str) -> SourceStatus:
    """Return a status that the process has ended."""
    how = "" if status is None else f" by signal {-status}" if status < 0 else f" with status {status}"
    return SourceStatus(
        source=SOURCE,
        target=ids.process(host, pid),
        health=SourceHealth.ENDED,
        code=code,
        sentence=sentence or f"Process {pid} ended{how}.",
        remedy="livedbg launch -- COMMAND   starts it again under livedbg" if not sentence else "",
    )


def machine_problem(pid: int) -> Problem | None:
    """Return a problem if the process runs code of a machine whose system calls we don't know."""
    abi = native_abi()
    machine = elf_machine(pid)
    if abi is None:
        return Problem(
            "unknown-machine",
            "livedbg does not support this machine type: it shows states and CPU times, but no waits.",
            "use x86-64 or aarch64",
        )
    if machine is not None and machine != abi.elf:
        return Problem(
            "foreign-machine",
            f"Process {pid} runs code of another machine type (ELF machine {machine}, e.g. 32-bit): "
            "livedbg shows its states and CPU times, but no waits.",
            "run a native build of the program",
        )
    return None


def runtime_problem(pid: int, mappings: Sequence[Mapping]) -> Problem | None:
    """Return a problem if the process runs in a runtime that livedbg can't inspect."""
    runtime = _runtime_of(pid, mappings)
    if runtime is None:
        return None
    return Problem(
        POLLS if runtime.polls else UNSEEN_RUNTIME,
        f"Process {pid} runs in {runtime.name}: livedbg does not see {runtime.unseen}.",
        runtime.command.format(pid=pid),
    )


def libc_problem(pid: int, libc: Libc) -> Problem | None:
    """Return a problem if the lock layouts of its C library aren't known."""
    if libc.layouts_known or libc.to_come:
        return None
    return Problem(
        "unknown-libc",
        f"Process {pid} uses {libc.label}, whose lock layouts livedbg does not know: it shows who waits for a lock, "
        "but the holder only where the kernel's ABI contains it.",
        f"livedbg stacks {pid} --native   shows who is inside which lock",
    )
