"""Mutable records of the fusions and groups of one process, and the places of their lines in logs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from livedbg.adapters.nvfuser.dumps.failures import Failure
from livedbg.adapters.nvfuser.dumps.segments import SegmentedFusion
from livedbg.adapters.nvfuser.dumps.statements import (
    Arguments,
    Launch,
)
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
    """A line that a claim rests on.

    Attributes:
        file: name of the log; "" for no line.
        line: its number.
        path: the log's path, for commands.
        wall_ns: when it was seen, where it was seen as it came.
        log: id of the log.
    """

    file: str
    line: int | None = None
    path: str = ""
    wall_ns: int | None = None
    log: str = ""

    @property
    def source(self) -> str:
        """`train.log:312`."""
        return self.evidence("").place

    def evidence(self, text: str) -> Evidence:
        """The same as evidence."""
        return Evidence(kind="log", text=text, file=self.file, line=self.line, at_wall_ns=self.wall_ns, log=self.log)


NOWHERE: Final = Mark("")


class Place(Struct, frozen=True):
    """The log that contains a statement.

    Attributes:
        wall_ns: now, where the statement was seen as it came; None where it was there before.
        log: id of the log.
    """

    name: str
    path: str = ""
    wall_ns: int | None = None
    log: str = ""

    def at(self, line: int | None) -> Mark:
        """A line of it."""
        return Mark(self.name, line, self.path, self.wall_ns, self.log)


class GroupRecord(Struct):
    """One segment.

    Attributes:
        phase: "", `compiling`, `compiled`, `executing`, `executed`, `failed`.
        inferred: why the phase is believed, where no line says it.
        about: what the dump says of it: inputs, outputs, operations.
        expressions: how many it has, where a dump says so.
        refused: (scheduler, why) of those that did not take it.
        error: what it failed with.
        error_mark: where that is.
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
        """Its state in the model's words."""
        return _STATES[self.phase]

    def enter(self, phase: str, mark: Mark, text: str, inferred: str = "") -> None:
        """It is in another phase now; one that failed stays so."""
        if self.phase != "failed":
            self.phase, self.mark, self.text, self.inferred = phase, mark, text, inferred


class FusionRecord(Struct):
    """A fusion as it was cut once.

    Attributes:
        ordinal: it was the n-th of its job.
        number, concrete, runtime: as its kernels' names say (`_f0_c1_r0_`), where one did.
        label: its name in identifiers, once given out.
        failures: errors that name no group.
        when: what was going on when it failed: `compile`, `run` or "".
        uncut: why no scheduler took the whole fusion.
        changed: something was said of it that was not emitted yet.
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
        """Something of it failed."""
        return bool(self.failures) or any(group.phase == "failed" for group in self.groups.values())

    def group(self, number: int) -> GroupRecord:
        """A group; made when it is named first."""
        return self.groups.setdefault(number, GroupRecord(number))
