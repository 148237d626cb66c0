"""Finds the first task whose result differs from a golden run: two dumps, compared task by task.

Verdicts by inputs and outputs of a task:

- `equal`: both are within tolerance;
- `culprit`: its inputs are equal and its outputs differ: its kernel computes a different result;
- `order`: its inputs differ, though the tasks that write them computed the same: it read too early or too late (a lost
  dependency, a race, memory that was overwritten);
- `given`: its inputs differ, and no task writes them: the runs were given different data;
- `inherited`: its inputs differ because a task before it wrote different outputs;
- `shape`: an argument has another shape;
- `uncompared`: nothing of it can be compared.

Invariants:
    divergence.D1. A task is `culprit` only when no input that can be compared is outside.
    divergence.D2. The first divergence is the first task in walking order that is neither `equal`, `inherited` nor
        `uncompared`; where there is none, the first `inherited` one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from livedbg.graphs.declared import LostOrder
from livedbg.values.buffers import Wiring
from livedbg.values.compare import Difference, Tolerance, compare, compare_scalars
from livedbg.values.dump import Dump, Entry
from livedbg.values.tensor import ElementType

CAUSES = ("culprit", "order", "given", "shape")
"""Verdicts that are no consequence of another task's."""

CANDIDATES = 8
"""Tasks that are named where it is not known which of them wrote something."""

_Key = tuple[int, str]


@dataclass(slots=True)
class Comparison:
    """An argument at one stage in both dumps; `skipped` is the reason why it was not compared."""

    entry: Entry
    other: Entry
    difference: Difference = field(default_factory=Difference)
    skipped: str = ""


@dataclass(slots=True)
class TaskVerdict:
    """The verdict on one task.

    Attributes:
        inputs: arguments before dispatch.
        outputs: arguments after completion.
        certain: every argument that the dumps list was compared.
        producers: for `inherited` and `order`: the tasks that wrote what it found; where no graph says which, the first
            `CANDIDATES` that wrote different outputs before.
        lost: producers that it waits for in the golden run only.
        missing: dependencies of it that its own run's graph lacks.
        redeclared: arguments that the orchestration declares otherwise: (arg, here, golden).
    """

    task: int
    verdict: str = "uncompared"
    inputs: list[Comparison] = field(default_factory=list)
    outputs: list[Comparison] = field(default_factory=list)
    certain: bool = True
    producers: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    missing: list[LostOrder] = field(default_factory=list)
    redeclared: list[tuple[int, str, str]] = field(default_factory=list)
    note: str = ""

    @property
    def wrong(self) -> list[Comparison]:
        """The arguments outside, inputs first."""
        return [one for one in (*self.inputs, *self.outputs) if one.difference.differs]


@dataclass(slots=True)
class Divergence:
    """The result of comparing two dumps.

    Attributes:
        verdicts: all tasks that both dumps have, in walking order.
        ordered: tasks are walked in the order of dependencies.
        only_here: tasks that the golden dump lacks.
        only_golden: tasks that the dump lacks.
    """

    verdicts: list[TaskVerdict] = field(default_factory=list)
    ordered: bool = True
    order_problem: str = ""
    only_here: list[int] = field(default_factory=list)
    only_golden: list[int] = field(default_factory=list)
    elements: set[ElementType] = field(default_factory=set)

    @property
    def first(self) -> TaskVerdict | None:
        """The first divergence (D2)."""
        causes = (one for one in self.verdicts if one.verdict in CAUSES)
        return next(causes, None) or next((one for one in self.verdicts if one.verdict == "inherited"), None)

    def counted(self, verdict: str) -> int:
        """Return the number of tasks with a verdict."""
        return sum(one.verdict == verdict for one in self.verdicts)


def diverge(
    dump: Dump, golden: Dump, wiring: Wiring, golden_wiring: Wiring, tolerance: Tolerance | None = None
) -> Divergence:
    tolerance = tolerance or Tolerance()
    here, there = _by_task(dump), _by_task(golden)
    walked = wiring if wiring.graph is not None or golden_wiring.graph is None else golden_wiring
    found = Divergence(ordered=walked.graph is not None, order_problem=wiring.problem)
    found.only_golden = [task for task in there if task not in here]
    left: dict[int, TaskVerdict] = {}
    spoilt: list[int] = []
    for task in walked.order(dump):
        if task not in there:
            found.only_here.append(task)
            continue
        verdict = TaskVerdict(task)
        _compare(verdict, (dump, here[task]), (golden, there[task]), tolerance)
        _judge(verdict, left, spoilt, (wiring, golden_wiring))
        if len(spoilt) < CANDIDATES and any(one.difference.differs for one in verdict.outputs):
            spoilt.append(task)
        _say_kernel(verdict, dump, golden)
        compared = (one for one in (*verdict.inputs, *verdict.outputs) if one.difference.compared)
        found.elements |= {dump.element(one.entry) for one in compared}
        left[task] = verdict
        found.verdicts.append(verdict)
    if found.first is not None:
        found.first.missing = wiring.missing_into({found.first.task})
    return found


def _by_task(dump: Dump) -> dict[int, dict[tuple[int, str], Entry]]:
    tasks: dict[int, dict[_Key, Entry]] = {}
    for entry in dump.entries:
        tasks.setdefault(entry.task, {})[entry.arg, entry.stage] = entry
    return tasks


def _compare(
    verdict: TaskVerdict,
    here: tuple[Dump, dict[_Key, Entry]],
    there: tuple[Dump, dict[_Key, Entry]],
    tolerance: Tolerance,
) -> None:
    for key, entry in here[1].items():
        other = there[1].get(key)
        if other is None:
            verdict.certain = False
            continue
        one = Comparison(entry, other)
        (verdict.inputs if entry.before else verdict.outputs).append(one)
        _compare_entries(one, here[0], there[0], tolerance)
        verdict.certain = verdict.certain and not one.skipped and one.difference.compared == one.difference.total
    verdict.certain = verdict.certain and there[1].keys() <= here[1].keys()


def _compare_entries(one: Comparison, dump: Dump, golden: Dump, tolerance: Tolerance) -> None:
    if one.entry.scalar or one.other.scalar:
        if one.entry.scalar != one.other.scalar:
            one.difference.reason = f"a {one.entry.kind}, expected a {one.other.kind}"
        else:
            one.difference = compare_scalars(one.entry, one.other, tolerance)
        return
    (here, actual), (there, expected) = dump.values(one.entry), golden.values(one.other)
    if actual is None:
        one.skipped = f"{here} here"
    elif expected is None:
        one.skipped = f"{there} in the golden dump"
    else:
        one.difference = compare(actual, expected, tolerance)
        if one.difference.total and not one.difference.compared and not one.difference.reason:
            one.skipped = "nothing of it is there"


def _judge(
    verdict: TaskVerdict, left: dict[int, TaskVerdict], spoilt: list[int], wirings: tuple[Wiring, Wiring]
) -> None:
    inputs = [one for one in verdict.inputs if one.difference.differs]
    outputs = [one for one in verdict.outputs if one.difference.differs]
    if any(one.difference.reason for one in (*inputs, *outputs)) and not any(one.difference.outside for one in inputs):
        verdict.verdict = "shape"
    elif inputs and all(wiring.graph is None for wiring in wirings):
        verdict.producers = list(spoilt)
        verdict.verdict = "inherited" if spoilt else "given"
    elif inputs:
        verdict.verdict = _origin(verdict, [one.entry.arg for one in inputs], left, wirings)
    elif outputs:
        verdict.producers = _spoilt(verdict, left, wirings)
        verdict.verdict = "inherited" if verdict.producers else "culprit"
    elif any(
        one.difference.compared or not one.difference.total
        for one in (*verdict.inputs, *verdict.outputs)
        if not one.skipped
    ):
        verdict.verdict = "equal"


def _spoilt(verdict: TaskVerdict, left: dict[int, TaskVerdict], wirings: tuple[Wiring, Wiring]) -> list[int]:
    unseen = [one.entry.arg for one in verdict.inputs if one.skipped]
    before = {task for wiring in wirings for arg in unseen for task in wiring.producers(verdict.task, arg)}
    if not verdict.inputs:
        verdict.certain = False
        before = {task for wiring in wirings for task in wiring.before(verdict.task)}
    return sorted(task for task in before if task in left and any(o.difference.differs for o in left[task].outputs))


def _origin(verdict: TaskVerdict, args: list[int], left: dict[int, TaskVerdict], wirings: tuple[Wiring, Wiring]) -> str:
    verdicts = []
    for arg in args:
        producers = {task for wiring in wirings for task in wiring.producers(verdict.task, arg)}
        wrong = sorted(
            task
            for task in producers
            if task not in left or not _left_the_same(left[task], (verdict.task, arg), wirings)
        )
        if wrong:
            verdicts.append("inherited")
            verdict.producers = sorted({*verdict.producers, *wrong})
            continue
        verdicts.append("order" if producers else "given")
        verdict.producers = sorted({*verdict.producers, *producers})
        verdict.lost = [
            task
            for task in verdict.producers
            if wirings[1].has_edge(task, verdict.task)
            and wirings[0].graph
            and not wirings[0].has_edge(task, verdict.task)
        ]
        _say_declared(verdict, arg, wirings)
    return next(word for word in ("order", "given", "inherited") if word in verdicts)


def _left_the_same(producer: TaskVerdict, reader: tuple[int, int], wirings: tuple[Wiring, Wiring]) -> bool:
    """Return whether what a task left for an argument was compared and is inside: all it left, if that is unknown."""
    outputs = [
        one
        for wiring in wirings
        if (read := wiring.access(*reader)) is not None and read.tensor_id is not None
        for one in producer.outputs
        if (wrote := wiring.access(producer.task, one.entry.arg)) is not None and wrote.tensor_id == read.tensor_id
    ] or producer.outputs
    return bool(outputs) and not any(one.difference.differs or one.skipped for one in outputs)


def _say_declared(verdict: TaskVerdict, arg: int, wirings: tuple[Wiring, Wiring]) -> None:
    here, there = (wiring.access(verdict.task, arg) for wiring in wirings)
    if here is not None and there is not None and here.type != there.type:
        verdict.redeclared.append((arg, here.type, there.type))


def _say_kernel(verdict: TaskVerdict, dump: Dump, golden: Dump) -> None:
    here, there = dump.kernels_of(verdict.task), golden.kernels_of(verdict.task)
    if here and there and dump.kernel(here) != golden.kernel(there):
        verdict.note = f"its kernel is {dump.kernel(here)} here and {golden.kernel(there)} in the golden run"
