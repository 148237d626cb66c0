"""Mutable records of the fusions and groups of one process, and the places of their lines in logs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field, structs

from livedbg.adapters.nvfuser.dumps.failures import Failure
from livedbg.adapters.nvfuser.dumps.segments import SegmentedFusion
from livedbg.adapters.nvfuser.dumps.statements import Arguments, Launch
from livedbg.model import Evidence, TaskState

_STATES: Final = {
    "": TaskState.SUBMITTED,
    "compiling": TaskState.RUNNING,
    "compiled": TaskState.READY,
    "executing": TaskState.RUNNING,
    "executed": TaskState.COMPLETED,
    "failed": TaskState.FAILED,
}


class Mark(Struct, frozen=True):
    """A log line as evidence.

    Attributes:
        file: name of the log; "" for no line.
        path: the log's path, for commands.
        wall_ns: when it was read, if it was read as it was written.
        log: id of the log.
    """

    file: str
    line: int | None = None
    path: str = ""
    wall_ns: int | None = None
    log: str = ""

    def at(self, line: int | None) -> Mark:
        """Return another line of its log."""
        return structs.replace(self, line=line)

    @property
    def source(self) -> str:
        """Return `train.log:312`."""
        return self.evidence("").place

    def evidence(self, text: str) -> Evidence:
        return Evidence(kind="log", text=text, file=self.file, line=self.line, at_wall_ns=self.wall_ns, log=self.log)


NOWHERE: Final = Mark("")


class GroupRecord(Struct):
    """One segment.

    Attributes:
        phase: "", `compiling`, `compiled`, `executing`, `executed`, `failed`.
        inferred: evidence for the phase, if no line states it.
        about: details from the dump: inputs, outputs, operations.
        expressions: number of them, if a dump has it.
        refused: (scheduler, reason) of those that refused it.
    """

    number: int
    scheduler: str = ""
    kernel: str = ""
    phase: str = ""
    inferred: str = ""
    mark: Mark = NOWHERE
    text: str = ""
    about: dict[str, str] = field(default_factory=dict)
    expressions: int = 0
    launch: Launch | None = None
    arguments: Arguments | None = None
    runs: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)
    error: Failure | None = None
    error_mark: Mark = NOWHERE

    @property
    def state(self) -> TaskState:
        return _STATES[self.phase]

    def enter(self, phase: str, mark: Mark, text: str, inferred: str = "") -> None:
        """Enter another phase, unless it has failed."""
        if self.phase != "failed":
            self.phase, self.mark, self.text, self.inferred = phase, mark, text, inferred


class FusionRecord(Struct):
    """A fusion, segmented once.

    Attributes:
        ordinal: its index in its job.
        number, concrete, runtime: from its kernels' names (`_f0_c1_r0_`), if known.
        label: its permanent name in ids.
        failures: errors without a group.
        when: activity when it failed: `compile`, `run` or "".
        uncut: why no scheduler took the whole fusion.
        changed: there are changes to emit.
        last: the group whose code was printed last.
    """

    ordinal: int
    number: int | None = None
    concrete: int | None = None
    runtime: int | None = None
    label: str = ""
    segmented: SegmentedFusion | None = None
    groups: dict[int, GroupRecord] = field(default_factory=dict)
    mark: Mark = NOWHERE
    failures: list[tuple[Failure, Mark]] = field(default_factory=list)
    when: str = ""
    uncut: list[tuple[str, str]] = field(default_factory=list)
    changed: bool = True
    last: int | None = None

    @property
    def failed(self) -> bool:
        """Return whether any part of it failed."""
        return bool(self.failures) or any(group.phase == "failed" for group in self.groups.values())

    def group(self, number: int) -> GroupRecord:
        """Return a group, created if needed."""
        return self.groups.setdefault(number, GroupRecord(number))
