"""Missing siblings: processes or threads that wait at one line of a barrier while one or two don't come.

Invariants:
    odd_one_out.O1. Its finding is at most `unknown`, and inferred.
    odd_one_out.O2. Workers that wait for work (in accept, in a queue, in a condition variable) beside one that works
        are no finding: only a function that is named like a meeting needs all to come.
    odd_one_out.O3. A blocked sibling whose place is not known may have come: nobody is named then, nor while one of
        those that have come has waited for less than the threshold.
    odd_one_out.O4. If those that have come wait for a task of a system that judges its tasks itself, such as a
        collective, that system reports who is missing, and why.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from livedbg.analysis.behaviour import progressing
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import function_name, line_of, plain_name
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import at, blocked_in, user_frame
from livedbg.analysis.rules.words import duration, name_of, pids_of, since_wall_ns, thread_evidence, waited_ns
from livedbg.analysis.user_code import Inside, UserCode
from livedbg.model import Frame, Process, Severity, Stack, Thread, ThreadState
from livedbg.text.patterns import lazy_re

_MEETS: Final = lazy_re(
    r"(?<!memory_)barrier|all_?reduce|reduce_?scatter|all_?gather|all_?to_?all|rendezvous|arrive_and_wait|(?<!cond_)broadcast"
    r"|_bcast",
    re.IGNORECASE,
)
"""Words in the name of a function that returns when all have come."""

_BARRIER: Final = frozenset({"_enter", "_wait"})
"""Functions of `threading.Barrier`, and of no other class there; their names have no class before CPython 3.11."""

_ODD: Final = 2
_MOST: Final = 65_536
"""Stacks that are remembered."""

_EVIDENCE: Final = 8
_DIGITS: Final = lazy_re(r"\d+")


class _Meeting(Struct, frozen=True):
    """A place where siblings wait: the function that is named like a meeting, and the user's line."""

    function: str
    place: str


class _Stacks:
    def __init__(self) -> None:
        self._code: UserCode | None = None
        self._known: dict[str, tuple[Stack, Frame | None, _Meeting | None]] = {}

    def of(self, thread: Thread, state: RuleInput) -> tuple[Frame | None, _Meeting | None]:
        """Return the outermost frame of the user's code, and the thread's meeting; None if not known."""
        stack = state.snapshot.stacks.get(thread.id)
        if stack is None:
            return None, None
        if self._code is not state.code or len(self._known) > _MOST:
            self._code = state.code
            self._known.clear()
        known = self._known.get(thread.id)
        if known is None or known[0] is not stack:
            known = self._known[thread.id] = (stack, _start(stack, state.code), _met(stack, state.code))
        return known[1:]


class OddOneOut:
    """Rule for one or two siblings that don't come to where the others wait."""

    name = "odd-one-out"
    doc = (
        "Processes of one parent and program, or threads that began in one function, wait at one line of the user's "
        "code for the threshold (10 s) and longer, in a function that is named like a meeting (barrier, all_reduce, "
        "all_gather, broadcast, rendezvous, arrive_and_wait), while one or two of them are elsewhere. It is inferred, "
        "and `unknown`: the others may still come. While these make progress it is a note. Workers of a pool that wait "
        "for work look the same but for the name of the function, so these are not reported. Where they wait for a "
        "task that a system has rules of its own for, such as a collective, these speak. Rests on their stacks."
    )

    def __init__(self) -> None:
        self._stacks = _Stacks()

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each group of siblings."""
        for noun, siblings in _groups(state, self._stacks):
            met: dict[_Meeting, list[Thread]] = defaultdict(list)
            for thread in siblings:
                meeting = self._stacks.of(thread, state)[1] if thread.state is ThreadState.WAITING else None
                if meeting is not None:
                    met[meeting].append(thread)
            meeting, there = max(met.items(), key=lambda item: len(item[1]), default=(None, []))
            odd = [thread for thread in siblings if thread not in there]
            few = 0 < len(odd) <= _ODD and len(there) > len(odd)
            if meeting is None or not few or _judged(there, state):
                continue
            if _all_wait(there, state) and all(_placed(one, state) for one in odd):
                yield self._finding(noun, meeting, there, odd, state)

    def _finding(
        self, noun: str, meeting: _Meeting, there: Sequence[Thread], odd: Sequence[Thread], state: RuleInput
    ) -> Finding:
        snapshot = state.snapshot
        waited = min(waited_ns(thread, snapshot) or 0 for thread in there)
        since = [since for thread in there if (since := since_wall_ns(thread, snapshot)) is not None]
        moving = bool(progressing(odd, state))
        first = odd[0]
        who = [_who(thread, noun, state) for thread in odd]
        does = "does" if len(odd) == 1 else "do"
        running = first.state is ThreadState.RUNNING
        what = f"it runs{at(first.id, state)}" if running else blocked_in(first, state)
        return Finding(
            rule=self.name,
            severity=Severity.INFO if moving else Severity.WARNING,
            sentence=(
                f"{len(there)} of {len(there) + len(odd)} {noun} wait in {meeting.function} ({meeting.place}) for "
                f"{duration(waited)} or more; {' and '.join(who)} {does} not come: {what}."
            ),
            entities=tuple(thread.id for thread in (*odd, *there)),
            evidence=tuple(thread_evidence(thread, state) for thread in [*odd, *there][:_EVIDENCE]),
            next=tuple(f"livedbg stacks {pid} --native" for pid in pids_of(tuple(thread.id for thread in odd))),
            inferred=True,
            since_wall_ns=min(since, default=None),
            state=None if moving else VerdictState.UNKNOWN,
            roots=tuple(thread.id for thread in odd),
        )


def _groups(state: RuleInput, stacks: _Stacks) -> Iterator[tuple[str, list[Thread]]]:
    """Yield siblings: main threads of processes of one parent and program, then threads that began in one function."""
    snapshot = state.snapshot
    if not snapshot.stacks:
        return
    mains: dict[Hashable, list[Thread]] = defaultdict(list)
    starts: dict[Hashable, list[Thread]] = defaultdict(list)
    for thread in snapshot.threads.values():
        process = snapshot.processes.get(thread.process)
        if process is None or thread.exited or process.exited or not process.target:
            continue
        if thread.tid == process.pid:
            mains[_program(process)].append(thread)
        elif (start := stacks.of(thread, state)[0]) is not None:
            starts[(thread.process, start.function, start.file)].append(thread)
    yield from (("processes", sorted(group, key=_number)) for group in mains.values() if len(group) > _ODD)
    yield from (("threads", sorted(group, key=_number)) for group in starts.values() if len(group) > _ODD)


def _program(process: Process) -> Hashable:
    """Return the key of siblings: parent, executable, and the first word that is no option, without numbers."""
    named = next((word for word in process.command[1:] if not word.startswith("-")), "")
    return (process.host, process.ppid, process.exe or process.command[:1], _DIGITS.sub("#", named[:40]))


def _number(thread: Thread) -> int:
    return thread.tid


def _start(stack: Stack, code: UserCode) -> Frame | None:
    own = (frame for frame in reversed(stack.frames) if code.inside(frame) in (Inside.USER, Inside.UNLINED))
    return next(own, None)


def _all_wait(threads: Iterable[Thread], state: RuleInput) -> bool:
    return all((waited_ns(thread, state.snapshot) or 0) >= state.settings.thread_stall_ns for thread in threads)


def _judged(threads: Iterable[Thread], state: RuleInput) -> bool:
    """Return whether one waits for a task that the rules of its own system judge (O4)."""
    blockers = (blocker for thread in threads for blocker in state.graph.blockers_of(thread.id))
    tasks = (state.snapshot.tasks.get(blocker) for blocker in blockers)
    return any(task is not None and task.system in state.judged.tasks for task in tasks)


def _placed(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread's line is known, or it is in no wait (O3)."""
    if thread.state is not ThreadState.WAITING:
        return True
    frame = user_frame(thread.id, state)
    return frame is not None and bool(line_of(frame))


def _met(stack: Stack, code: UserCode) -> _Meeting | None:
    frame = code.frame(stack)
    if frame is None or not line_of(frame):
        return None
    inner = stack.frames[: stack.frames.index(frame) + 1]
    names = [name for one in inner if (name := _meets(one))]
    return _Meeting(names[-1], line_of(frame)) if names else None


def _meets(frame: Frame) -> str:
    if frame.language == "python" and (frame.file or "").endswith("/threading.py") and frame.function in _BARRIER:
        return "Barrier.wait"
    if not _MEETS.search(plain_name(frame.function)):
        return ""
    return function_name(frame.function, frame.language).lstrip("_")  # glibc's own name is ___pthread_barrier_wait


def _who(thread: Thread, noun: str, state: RuleInput) -> str:
    process = state.snapshot.processes.get(thread.process)
    if noun == "threads" or process is None:
        return name_of(thread.id, state.snapshot)
    return f"rank {process.rank}" if process.rank is not None else f"process {process.pid}"


def rules() -> Sequence[Rule]:
    return (OddOneOut(),)
