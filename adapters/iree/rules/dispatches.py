"""Rules for IREE dispatches: long-running ones, submissions, traced tensors, and logged failures of IREE and Vulkan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from livedbg.adapters.iree.facts import MADE_NAN, WORKGROUPS, dispatch_facts
from livedbg.adapters.iree.rules.semaphores import longest_wait
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.said import finding_about, finding_of
from livedbg.analysis.rules.words import duration, many, name_of, thread_evidence
from livedbg.model import CauseClass, Evidence, Severity, Task, TaskState
from livedbg.model.snapshot import CounterKey

_SYSTEM: Final = "iree"
_SHOWN: Final = 2
_NOTED_NS: Final = 300_000_000
_SHORT_NS: Final = 10_000_000


class RunningDispatch:
    """A dispatch that runs for long."""

    name = "iree-dispatch"
    doc = (
        "A dispatch of IREE runs, and a thread has waited for what is behind it for the threshold (10 s), or no "
        "workgroup of it was begun or finished for as long. Where its workers repeat themselves (each is in a loop "
        "that writes no memory, and its samples find the same registers at the same instruction), nothing in that "
        "loop counts towards its end: a stall. Where workgroups were begun meanwhile, or where the operation has gone "
        "on from one dispatch to another, it is running. Else it is `unknown`: an endless loop and a long computation "
        "look the same. Rests on the counters of the command buffer in memory, on stacks, and on samples of the "
        "workers."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for task in state.tasks_in(TaskState.RUNNING):
            if task.system == _SYSTEM and dispatch_facts(task).dispatch and task.since_mono_ns is not None:
                moved = _moved(task, state)
                found = _runs(self.name, task, moved, state) if moved else _stuck_finding(self.name, task, state)
                if found is not None:
                    yield found


def _moved(task: Task, state: RuleInput) -> str:
    """Return a text on recent progress; "" if there was none."""
    facts, since_ns = dispatch_facts(task), state.snapshot.now().mono_ns - (task.since_mono_ns or 0)
    if facts.after and since_ns < state.settings.task_stall_ns:
        ago = f", {duration(since_ns)} ago" if since_ns >= _SHORT_NS else ""
        return f"it has come after {facts.after}{ago}"
    counter = state.snapshot.counters.get(CounterKey(facts.operation, WORKGROUPS))
    if counter is None or not counter.changes:
        return ""
    step_ns = (counter.changed_mono_ns - counter.first_mono_ns) / counter.changes
    since_ns = state.snapshot.now().mono_ns - counter.changed_mono_ns
    if since_ns >= max(state.settings.task_stall_ns, state.settings.slow_factor * step_ns):
        return ""
    return f"{counter.value:g} of {counter.total:g} workgroups of its command buffer are begun, and more come"


def _runs(rule: str, task: Task, moved: str, state: RuleInput) -> Finding:
    return Finding(
        rule=rule,
        severity=Severity.INFO,
        sentence=f"{_subject(task)} runs{_where(task, state)}: {moved}.",
        entities=(task.id,),
        evidence=(Evidence(kind="memory", source=_source(task), text=moved),),
        state=VerdictState.RUNNING,
    )


def _stuck_finding(rule: str, task: Task, state: RuleInput) -> Finding | None:
    """Return the finding if no workgroup was begun or finished since it is watched."""
    snapshot = state.snapshot
    still_ns = snapshot.now().mono_ns - (task.since_mono_ns or 0)
    longest = longest_wait(task.id, state)
    lasted_ns = max(still_ns, longest[1] if longest is not None else 0)
    facts = dispatch_facts(task)
    loops = facts.loops
    long = lasted_ns >= state.settings.task_stall_ns
    if not long and not loops and still_ns < _NOTED_NS and facts.by != "stacks":
        return None
    counted = facts.begun is not None
    for_ns = f" for {duration(still_ns)}" if still_ns >= _SHORT_NS else ""
    if long and still_ns < state.settings.task_stall_ns and longest is not None:
        for_ns = f" while {name_of(longest[0].id, snapshot)} has waited for {duration(longest[1])}"
    quiet = "no workgroup begun or ended" if counted else "how far it is can't be read"
    why = f"the same registers in {loops} samples" if loops else f"{quiet}: endless, or long"
    waits, done = _behind(task, state), ""
    if facts.workgroups is not None and facts.begun is not None:
        done = f" {facts.begun} of its {facts.workgroups} workgroups are begun."
    threads = [place for place in task.where if place in snapshot.threads]
    text = "no workgroup was begun or finished between two looks"
    if not counted:
        alone = "the only command of the only operation in flight"
        text = "stacks and samples of its threads are in its code" if threads else alone
    return Finding(
        rule=rule,
        severity=_severity(long, bool(loops)),
        sentence=f"{_subject(task)} {'loops' if loops else 'runs'}{_where(task, state)}{for_ns}, {why}.{waits}{done}",
        entities=(task.id, *threads),
        evidence=(
            Evidence(kind="memory", source=_source(task), text=text),
            *[thread_evidence(snapshot.threads[place], state) for place in threads[:3]],
            *_placed(task),
            *_traced(task, state),
        ),
        next=_next(task, state),
        inferred=True,
        since_wall_ns=snapshot.now().wall_ns - lasted_ns,
        state=VerdictState.STALLED if long and loops else VerdictState.UNKNOWN,
        roots=(task.id,),
        decides=long and not loops,
    )


def _behind(task: Task, state: RuleInput) -> str:
    behind = state.graph.behind(task.id)
    return f" {many(behind, 'task or thread waits', 'tasks and threads wait')} behind it." if behind else ""


def _severity(long: bool, loops: bool) -> Severity:
    if long:
        return Severity.CRITICAL if loops else Severity.ERROR
    return Severity.WARNING if loops else Severity.INFO


def _placed(task: Task) -> Iterable[Evidence]:
    """Yield the origin of its lines."""
    facts = dispatch_facts(task)
    if facts.lines:
        text = f"its threads are at {facts.lines}"
        yield Evidence(kind="file", source="debug information in the module's file", text=text)
    elif facts.source and facts.device == "vulkan":
        yield Evidence(kind="file", source="dumped source of the dispatch", text=f"{facts.source} is its function")
    elif facts.source:
        text = f"{facts.source} is what the compiler gives for the whole dispatch: mostly the line of its function"
        yield Evidence(kind="memory", source="export table of the module", text=text)


def _traced(task: Task, state: RuleInput) -> Iterable[Evidence]:
    """Yield the inputs of its execution, if the module traces them."""
    for other in state.tasks_in(TaskState.RUNNING):
        facts = dispatch_facts(other)
        if facts.traced == dispatch_facts(task).dispatch and facts.inputs:
            yield Evidence(kind="log", source=f"traced inputs of {other.name}", text=facts.inputs)


def _subject(task: Task) -> str:
    facts = dispatch_facts(task)
    at = facts.lines or facts.source  # the finer one
    return f"Dispatch {facts.dispatch}{f' ({at})' if at else ''}"


def _source(task: Task) -> str:
    if dispatch_facts(task).begun is not None:
        return f"counters of the command buffer of {task.name}"
    return f"stacks, and the code of {dispatch_facts(task).dispatch}" if "thread" in "".join(task.where) else "queue"


def _where(task: Task, state: RuleInput) -> str:
    threads = [state.snapshot.threads[place] for place in task.where if place in state.snapshot.threads]
    words = [thread.title or thread.name or str(thread.tid) for thread in threads]
    names = ", ".join(words[:_SHOWN])
    more = f" and {len(threads) - _SHOWN} more" if len(threads) > _SHOWN else ""
    if len(words) > 1 and len(set(words)) == 1:
        names, more = many(len(words), "thread"), ""  # a driver's own have the name of the program
    device = dispatch_facts(task).device
    return f" on {device} ({names}{more})" if device and names else f" on {device or names}" if device or names else ""


def _next(task: Task, state: RuleInput) -> tuple[str, ...]:
    process = state.snapshot.processes.get(task.owner or "")
    pid = str(process.pid) if process is not None else "PID"
    finer = "livedbg launch --recipe iree-executables -- iree-compile …   (livedbg then names lines of its operations)"
    return (
        f"livedbg stacks {pid} --for 10s   (where in the dispatch its workers are)",
        *(() if dispatch_facts(task).lines or not dispatch_facts(task).source else (finer,)),
        "livedbg launch --recipe iree-trace-tensors -- COMMAND   (its inputs)",
        "check its loops for a condition that its inputs can never meet (NaN, infinity, an unexpected range)",
    )


_NEXT: Final = (
    "livedbg launch --recipe iree-trace-tensors -- iree-compile …   (each dispatch in a submission of its own, traced)",
    "livedbg launch --recipe iree-profile -- COMMAND   (the device's own events)",
)


class RunningSubmission:
    """A submission in flight of which one of several dispatches runs."""

    name = "iree-submission"
    doc = (
        "A queue operation of IREE is in flight, its command buffer has several commands, and which of them runs is "
        "not known: a GPU does not say so, and of lavapipe the code of the dispatch was in no sample. The commands are "
        "told in their order. `unknown` where a thread has waited for it for the threshold (10 s). Rests on the "
        "command buffer in memory."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        running = [task for task in state.tasks_in(TaskState.RUNNING) if task.system == "iree"]
        named = {(one.owner, dispatch_facts(one).device) for one in running if dispatch_facts(one).dispatch}
        for task in running:
            if dispatch_facts(task).one_of and task.since_mono_ns is not None:
                found = _finding(self.name, task, state)
                if found is not None and (task.owner, dispatch_facts(task).device) not in named:
                    yield found


def _finding(rule: str, task: Task, state: RuleInput) -> Finding | None:
    now = state.snapshot.now()
    seen_ns = now.mono_ns - (task.since_mono_ns or 0)
    longest = longest_wait(task.id, state)
    lasted_ns = max(seen_ns, longest[1] if longest is not None else 0)
    if lasted_ns < _NOTED_NS:
        return None
    long, waits = lasted_ns >= state.settings.task_stall_ns, _behind(task, state)
    commands = dispatch_facts(task).one_of
    return Finding(
        rule=rule,
        severity=Severity.ERROR if long else Severity.INFO,
        sentence=(
            f"Submission {task.name} has been in flight on {dispatch_facts(task).device} for {duration(lasted_ns)} or "
            f"more; what runs of it is not known. In this order it has: {commands}.{waits}"
        ),
        entities=(task.id,),
        evidence=(Evidence(kind="memory", source=f"command buffer of {task.name}", text=commands),),
        next=_NEXT,
        inferred=True,
        since_wall_ns=now.wall_ns - lasted_ns,
        state=VerdictState.UNKNOWN,
        roots=(task.id,) if long else (),
        decides=long,
    )


_TRACE: Final = (
    "livedbg diff-run MODULE.mlir --device local-task --device local-sync   (the dispatch alone, with its inputs)"
)


class MadeNaN:
    """The first dispatch that made NaN from inputs without NaN."""

    name = "iree-made-nan"
    doc = (
        "A module that traces the tensors of its dispatches printed NaN in the outputs of a dispatch, and its inputs, "
        "all of which were read, have neither NaN nor infinity: that dispatch made it. The first one of a log is told. "
        "Rests on the printed values."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for said in state.snapshot.diagnostics.values():
            if said.system == _SYSTEM and said.code == MADE_NAN:
                facts = dispatch_facts(said)
                sentence = f"{said.sentence} Inputs: {facts.inputs}. Outputs: {facts.outputs}."
                steps = (_TRACE, "check it for 0/0, a logarithm or root of a negative number, or a sum that overflows")
                yield finding_about(self.name, said, Severity.ERROR, sentence=sentence, next=steps, topic="precision")


class TracedDispatch:
    """The dispatch whose inputs were traced, but not its outputs."""

    name = "iree-traced-dispatch"
    doc = (
        "The log of a module that traces its dispatches ends with the inputs of one and without its outputs: it runs, "
        "or it hung or died there. A note, with its inputs; what the process does is said by other rules."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for task in state.tasks_in(TaskState.RUNNING):
            if task.system == _SYSTEM and dispatch_facts(task).traced:
                yield self._finding(task, state)

    def _finding(self, task: Task, state: RuleInput) -> Finding:
        facts = dispatch_facts(task)
        inputs = facts.inputs
        behind = state.graph.behind(task.id)
        waits = f" {many(behind, 'dispatch waits', 'dispatches wait')} for its results." if behind else ""
        alone = not any(process.target and not process.exited for process in state.snapshot.processes.values())
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if alone else Severity.INFO,
            sentence=(
                f"The trace has the inputs of dispatch {facts.traced}{_dumped_source(task)} and not its outputs: "
                f"it runs, or hung or died there.{waits}{f' Inputs: {inputs}.' if inputs else ''}"
            ),
            entities=(task.id,),
            evidence=(Evidence(kind="log", source=f"trace of {task.name}", text=inputs or "inputs"),),
            next=("livedbg launch --recipe iree-executables -- COMMAND   (source and code of each dispatch)",),
            state=VerdictState.UNKNOWN if alone else None,
            decides=alone,
            roots=(task.id,) if alone else (),
        )


def _dumped_source(task: Task) -> str:
    """Return the place of its dumped source, and the compilation target."""
    facts = dispatch_facts(task)
    told = ", ".join(filter(None, (facts.source, f"compiled for {facts.backend}" if facts.backend else "")))
    return f" ({told})" if told else ""


class VulkanLogged:
    """Errors of Vulkan."""

    name = "vulkan-error"
    doc = (
        "A Vulkan call returned an error, the device was lost, or the validation layer reports a wrong call, in a log. "
        "A lost device is a crash; validation errors and other results alone are `unknown`, for a program goes on "
        "after "
        "them. What the validation layer says after a lost device follows from it, and decides nothing."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a lost device first; one finding for each error."""
        said = [one for one in state.snapshot.diagnostics.values() if one.system == "iree"]
        lost = [one for one in said if one.code == "vulkan-device-lost"]
        failed = [one for one in said if one.code == "status"]
        told = any(other.cause is CauseClass.DEVICE for other in failed)
        for one in () if told else lost:
            yield finding_of(self.name, one, state, VerdictState.CRASHED)
        for one in said:
            if one.code in ("vulkan-validation", "vulkan-result"):
                yield finding_of(self.name, one, state, None if lost or failed else VerdictState.UNKNOWN)
