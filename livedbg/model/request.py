"""The request of a session: processes, logs, and how intrusive its adapters may be."""

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
    """Intrusiveness of an adapter, from reading only to attaching gdb (docs/glossary.md)."""

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
        stdout: file that captures its standard output, if livedbg launched it.
        cwd: the folder that livedbg launched it in; the process may end before it can be read.
    """

    pid: int
    start_ticks: int | None = None
    stdout: Path | None = None
    stderr: Path | None = None
    cwd: Path | None = None


class Request(Struct, frozen=True):
    """The targets and settings of a session.

    Attributes:
        logs: files, directories and globs to read.
        signatures: folders of failure texts besides those of the systems and the user's own.
        ends_with_processes: the session is over when the processes have ended, even if logs were named.
        stacks: `none`, `python`, or `native` (Python and native merged).
        once: one sample for a report: an adapter reads what is there and settles.
        read_only: refuse every intrusive action (livedbg.touch.config.refuse_touch).
        read_only_by: the reason for read-only, if not `--read-only`.
        redact: mask likely passwords, tokens and keys (livedbg.session.redaction).
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
        """Return the address at which to query a runtime's service (`--ask SERVICE[=ADDRESS]`).

        "" for its usual address; None if it is not to be queried.
        """
        return self.options.get(f"{_ASK}.{service}")

    @staticmethod
    def ask(services: Iterable[str]) -> dict[str, str]:
        """Return the options for `--ask`: `SERVICE` or `SERVICE=ADDRESS` each."""
        return {f"{_ASK}.{name}": at for name, _, at in (service.partition("=") for service in services)}
