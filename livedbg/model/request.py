"""What a session is asked to do: which processes and logs, and how far its adapters may go."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import Final

from msgspec import Struct, field

_ASK: Final = "ask"
CORES: Final = "cores.wanted"
"""Among the options: a fault of a launched process leaves a core, which livedbg removes."""


class Level(IntEnum):
    """How intrusive an adapter is, from reading only to attaching gdb (docs/glossary.md)."""

    OBSERVE = 0
    TRACE = 1
    GLANCE = 2
    TOUCH = 3


GATE: Final = ("/bin/sh", "-c", 'read -r _ && exec "$0" "$@" </dev/null')
"""Behind which livedbg launches a command: it waits for a line, or for the end of its input, which ends it; then it
becomes the command that its other words are."""


class TargetProcess(Struct, frozen=True):
    """A process that the user named.

    Attributes:
        pid: its pid in the PID namespace of livedbg.
        start_ticks: its start time when it was named (clock ticks since boot), against pid reuse.
        stdout: file that its standard output is captured in, when livedbg launched it.
        stderr: the same for its standard error.
        cwd: the folder that livedbg launched it in; it may end before anybody can ask it.
    """

    pid: int
    start_ticks: int | None = None
    stdout: Path | None = None
    stderr: Path | None = None
    cwd: Path | None = None


class Request(Struct, frozen=True):
    """What a session debugs, and how.

    Attributes:
        host: name of this host, as in identifiers.
        processes: the processes that were named.
        logs: files, directories and globs to read.
        signatures: folders of failure texts besides those of the systems and the user's own.
        ends_with_processes: it is over when they have ended, also where logs were named.
        tree: follow the child processes too.
        interval_s: shortest time between two samples of a process.
        stacks: take stacks: `none`, `python`, or `native` (Python and native merged).
        local_variables: local variables in stacks.
        once: one sample for a report: an adapter reads what is there and settles.
        read_only: no touch of any kind, whatever is asked for (livedbg.touch.config.refuse_touch).
        read_only_by: what forbids it, where that is not `--read-only`.
        redact: mask what looks like a password, a token or a key (livedbg.session.redaction).
        gdb: path of the gdb to use, or None to find one.
        options: settings of single adapters, `adapter.key` -> value.
    """

    host: str
    processes: tuple[TargetProcess, ...] = ()
    logs: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    ends_with_processes: bool = False
    tree: bool = True
    interval_s: float = 0.5
    stacks: str = "native"
    local_variables: bool = False
    once: bool = False
    read_only: bool = False
    read_only_by: str = ""
    redact: bool = True
    gdb: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def asked(self, service: str) -> str | None:
        """The address at which a service of a runtime is to be asked (`--ask SERVICE[=ADDRESS]`): "" for its usual one;
        None where it is not to be asked."""
        return self.options.get(f"{_ASK}.{service}")

    @staticmethod
    def ask(services: Iterable[str]) -> dict[str, str]:
        """The options of `--ask`: `SERVICE` or `SERVICE=ADDRESS` each."""
        return {f"{_ASK}.{name}": at for name, _, at in (service.partition("=") for service in services)}
