"""The fusions in one process's output: mutable records with the places of their lines, from statements to states.

Invariants:
    job.J1. A group's state only follows from lines; conclusions are marked (`inferred`).
    job.J2. A fusion's label is permanent: `f0` from its number, `s1` (the first segmented one) if no line has a number.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field, structs

from livedbg.adapters.nvfuser.dumps.failures import Failure, groups_in, parts_of
from livedbg.adapters.nvfuser.dumps.segments import Group, SegmentedFusion
from livedbg.adapters.nvfuser.dumps.statements import (
    Arguments,
    BadOption,
    Considered,
    Definition,
    Domains,
    Failed,
    Kernel,
    Launch,
    Script,
    Segmented,
    Statement,
    Whole,
)
from livedbg.model import Evidence, TaskState

_FUSIONS: Final = 2_000  # of one job that are kept
_CONSIDERED: Final = 5_000
_TEXT: Final = 400

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


class Job:
    """One process's fusions."""

    def __init__(self) -> None:
        self.fusions: list[FusionRecord] = []
        self.scripts: list[tuple[Script, Mark]] = []
        self.bad_options: list[tuple[BadOption, tuple[str, ...], Mark]] = []
        self.changed = False
        self._count = 0
        self._launch: Launch | None = None
        self._considered: dict[tuple[frozenset[int], str], Considered] = {}
        self._uncut: Considered | None = None

    def take(self, statement: Statement, place: Mark) -> None:
        """Process one statement, in log order."""
        self.changed = True
        mark = place.at(statement.line)
        match statement:
            case Segmented():
                self._segmented(statement.fusion, mark)
            case Kernel():
                self._kernel(statement, mark)
            case Arguments():
                self._arguments(statement, mark)
            case Launch():
                self._launch = statement
            case Considered():
                self._consider(statement)
            case Failed():
                self._failed(statement.failure, mark, place)
            case Script():
                self.scripts = [*self.scripts[-9:], (statement, mark)]
            case BadOption():
                if len(self.bad_options) < 20:
                    self.bad_options.append((statement, (), mark))
            case Definition() | Whole() | Domains():
                pass

    # what was cut, and why so

    def _segmented(self, cut: SegmentedFusion, mark: Mark) -> None:
        last = self.fusions[-1] if self.fusions else None
        if last is not None and last.segmented is None and set(last.groups) <= set(cut.groups) and not last.runtime:
            record = last  # its errors (on standard error) came before its dump (on standard output)
        else:
            record = self._new(mark)
        record.segmented = cut
        record.changed = True
        record.mark = mark
        if self._uncut is not None:
            record.uncut, self._uncut = self._uncut.rejected, None
        for number, details in cut.groups.items():
            group = record.group(number)
            group.scheduler, group.expressions, group.about = (
                details.scheduler,
                len(details.expressions),
                _about(details),
            )
            if not group.mark.source:
                group.mark, group.text = mark, f"group {number}: {details.scheduler}"
            asked = self._considered.get((details.defines, details.scheduler))
            group.refused = asked.rejected if asked is not None else []
            details.expressions.clear()  # big, and not needed any more
        self._considered.clear()

    def _consider(self, asked: Considered) -> None:
        if not asked.defines:
            self._uncut = asked if not asked.accepted else None
        elif len(self._considered) < _CONSIDERED:
            self._considered[asked.defines, asked.accepted] = asked

    def _new(self, mark: Mark) -> FusionRecord:
        self._count += 1
        record = FusionRecord(self._count, mark=mark)
        self.fusions.append(record)
        if len(self.fusions) > _FUSIONS:
            del self.fusions[0]
        return record

    # compiling, running

    def _kernel(self, kernel: Kernel, mark: Mark) -> None:
        record = self._of_kernel(kernel) or self._new(mark)
        record.number, record.concrete, record.runtime = kernel.fusion, kernel.concrete, kernel.runtime
        record.changed = True
        record.last = kernel.group
        group = record.group(kernel.group)
        group.kernel = kernel.name
        group.scheduler = group.scheduler or kernel.scheduler
        if group.phase in {"", "compiling"}:
            group.enter("compiling", mark, f"code of {kernel.name}")

    def _of_kernel(self, kernel: Kernel) -> FusionRecord | None:
        name = (kernel.fusion, kernel.concrete, kernel.runtime)
        for record in reversed(self.fusions):
            if (record.number, record.concrete, record.runtime) == name:
                return record
        for record in reversed(self.fusions):
            if record.number is None and (kernel.group in record.groups or record.segmented is None):
                return record
        return None

    def _arguments(self, said: Arguments, mark: Mark) -> None:
        if said.group is None:
            return
        record = next((r for r in reversed(self.fusions) if r.number == said.fusion), None)
        if record is None:
            record = next((r for r in reversed(self.fusions) if r.number is None and said.group in r.groups), None)
        if record is None:
            record = self._new(mark)
        record.number = said.fusion
        record.changed = True
        for group in record.groups.values():
            if group.phase == "compiling":
                group.enter("compiled", mark, group.text, "a group runs only when all are compiled")
            elif group.phase == "executing":
                group.enter("executed", mark, group.text, "the next group was launched")
        now = record.group(said.group)
        self._before(record, {said.group}, mark, "a group that needs its output was launched")
        now.enter("executing", mark, f"arguments of fusion {said.fusion} group {said.group}")
        now.runs += 1
        now.arguments = said
        now.launch, self._launch = self._launch or now.launch, None

    # failing

    def _failed(self, failure: Failure, mark: Mark, place: Mark) -> None:
        option = "failed. Invalid option" in failure.message
        if option and self.bad_options:
            known = next((line for line in failure.lines if line.startswith("Available options: ")), "")
            words = tuple(word.strip() for word in known.partition(": ")[2].split(",") if word.strip())
            said, _, at = self.bad_options[-1]
            self.bad_options[-1] = (said, words, at)
            return
        parts = parts_of(failure)
        groups = [part.group for part in parts if part.group is not None]
        record = self._of_failure(groups) or self._new(mark)
        record.changed = True
        record.when = "compile" if failure.parts else "run" if groups else record.when
        for part in parts:
            part.exception = part.exception or failure.exception
            if part.group is None:
                self._nameless(record, part, mark)
            else:
                self._fail(record.group(part.group), part, place.at(part.at_line))
        self._others(record, set(groups), mark)

    def _of_failure(self, groups: list[int]) -> FusionRecord | None:
        for record in reversed(self.fusions):
            if not groups or all(group in record.groups for group in groups) or record.segmented is None:
                return record
        return None

    def _nameless(self, record: FusionRecord, failure: Failure, mark: Mark) -> None:
        """Process an error without a group: of the only one, or of groups compiled one by one."""
        named = {group for group in groups_in(failure) if group in record.groups}
        group, inferred = None, ""
        if len(named) == 1:
            group = record.groups[named.pop()]
        elif len(record.groups) == 1:
            (group,) = record.groups.values()
            inferred = "it is the only group of its fusion"
        elif record.last is not None and "compiled_kernel.cpp" in failure.file:
            group = record.groups[record.last]
            inferred = "its code was the last before the error"
        if group is not None and group.phase in {"", "compiling", "executing"}:
            record.when = {"executing": "run"}.get(group.phase, "compile")
            self._fail(group, failure, mark)
            group.inferred = inferred
        elif len(record.failures) < 20:
            record.failures.append((failure, mark))

    @staticmethod
    def _fail(group: GroupRecord, failure: Failure, mark: Mark) -> None:
        group.enter("failed", mark, failure.summary)
        group.error, group.error_mark = failure, mark

    @staticmethod
    def _others(record: FusionRecord, failed: set[int], mark: Mark) -> None:
        for group in record.groups.values():
            if record.when == "compile" and group.phase == "compiling":
                group.enter("compiled", mark, group.text, "all compilations had ended when the error was thrown")
            elif record.when == "run" and group.phase == "executing":
                group.enter("executed", mark, group.text, "a later group failed")
            elif record.when == "run" and group.phase == "compiling":
                group.enter("compiled", mark, group.text, "a group runs only when all are compiled")
        if record.when == "run":
            Job._before(record, failed, mark, "a group that needs its output was begun")

    @staticmethod
    def _before(record: FusionRecord, begun: set[int], mark: Mark, why: str) -> None:
        """Conclude that the groups whose outputs some groups need were executed."""
        cut = record.segmented
        for number in {before for one in begun for before in cut.before(one)} if cut is not None else ():
            if record.groups[number].phase in {"", "compiled"}:
                record.groups[number].enter("executed", mark, "", why)


def _about(details: Group) -> dict[str, str]:
    operations = dict.fromkeys(expression.operation or "?" for expression in details.expressions)
    return {
        "expressions": str(len(details.expressions)),
        "inputs": ", ".join([*(f"T{tensor.number}" for tensor in details.inputs), *(n for n, _ in details.scalars)]),
        "outputs": ", ".join(f"T{tensor.number}" for tensor in details.outputs),
        "operations": ", ".join(operations)[:_TEXT],
    }
