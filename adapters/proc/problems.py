"""What keeps the adapter from seeing all of a process, as statuses for the user."""

from __future__ import annotations

from livedbg.adapters.proc.runtimes import runtime_of
from livedbg.linux.abi import elf_machine, native_abi
from livedbg.linux.access import Problem
from livedbg.linux.libc import Libc
from livedbg.model import POLLS, UNSEEN_RUNTIME, SourceHealth, SourceStatus, ids

__all__ = ["SOURCE", "ended", "hidden", "libc_problem", "machine_problem", "runtime_problem", "seen", "status_of"]

SOURCE = "proc"
"""The adapter's name in statuses."""


def status_of(host: str, pid: int, problem: Problem) -> SourceStatus:
    """A problem as a status: a part can still be seen."""
    return SourceStatus(
        source=SOURCE,
        target=ids.process(host, pid),
        health=SourceHealth.DEGRADED,
        code=problem.code,
        sentence=problem.sentence,
        remedy=problem.remedy,
    )


def seen(host: str, pid: int, code: str = "") -> SourceStatus:
    """All is well, or the problem `code` is no more."""
    return SourceStatus(source=SOURCE, target=ids.process(host, pid), health=SourceHealth.OK, code=code)


def hidden(host: str, pid: int) -> SourceStatus:
    """A process that was led to may not be seen at all."""
    sentence = f"Process {pid} is involved, but the kernel hides it from this user."
    return status_of(host, pid, Problem("hidden", sentence, f"sudo livedbg attach {pid}"))


def ended(host: str, pid: int, status: int | None, code: str, sentence: str) -> SourceStatus:
    """The process has ended."""
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
    """The process runs code of a machine whose system calls we don't know."""
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


def runtime_problem(pid: int) -> Problem | None:
    """Its threads are those of a runtime that livedbg does not look into."""
    runtime = runtime_of(pid)
    if runtime is None:
        return None
    return Problem(
        POLLS if runtime.polls else UNSEEN_RUNTIME,
        f"Process {pid} runs in {runtime.name}: livedbg does not see {runtime.unseen}.",
        runtime.command.format(pid=pid),
    )


def libc_problem(pid: int, libc: Libc) -> Problem | None:
    """The layouts of its locks aren't known."""
    if libc.layouts_known:
        return None
    return Problem(
        "unknown-libc",
        f"Process {pid} uses {libc.label}, whose lock layouts livedbg does not know: it shows who waits for a lock, "
        "but the holder only where the kernel's ABI contains it.",
        f"livedbg stacks {pid} --native   shows who is inside which lock",
    )
