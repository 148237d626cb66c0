"""The contract of a diagnosis rule.

A rule is a small object with a name and a documentation string. It reads one snapshot and its wait-for graph and yields
findings.

Invariants:
    rules.R1. A rule is a pure function of its input: no I/O, no clock, no memory between calls.
    rules.R2. A finding names in `entities` those that take part in it and no other.
    rules.R3. A finding's `rule` is the rule's `name`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import Struct

from livedbg.analysis.diagnosis import Finding, WaitGraph
from livedbg.analysis.tasks import TaskIndex
from livedbg.analysis.user_code import NO_FRAMEWORKS, UserCode
from livedbg.model import CUT_OFF, CauseClass, Diagnostic, ExceptionHit, Task, TaskState
from livedbg.model.snapshot import Snapshot

INTERRUPTED: Final = "interrupted"
"""Name of the rule for programs that were ended by Ctrl-C."""
SPOKEN: Final = "failure-lines"
"""Name of the rule for lines that mention a failure."""

_SECOND_NS = 1_000_000_000
_MESSAGE: Final = 2_000  # characters of an exception's message that are read for its class
_CAUSES: Final = (
    (r"\b(?:Connection(?:Reset|Aborted|Refused)|BrokenPipe|BrokenProcessPool|EOF)Error:", CauseClass.PEER),
    (
        r"BrokenProcessPool|Connection (?:reset|closed|refused|aborted)\b|Broken pipe|\b[Hh]eart-?beats?\b",
        CauseClass.PEER,
    ),
    (r"(?:[Ll]ost|closed|dropped) (?:the )?connection|closed by (?:the )?(?:remote|peer|other)", CauseClass.PEER),
    (
        r"\b[Pp]eer (?:is |has )?(?:closed|gone|died|disconnected|left)"
        r"|\b[Rr]emote (?:process|end|host|rank|peer|worker)\b.{0,40}\b(?:exited|closed|died|gone|disconnected)",
        CauseClass.PEER,
    ),
    (
        r"(?:rank|worker|node|process|server|engine|actor) ?[\w.:-]{0,40} (?:is |has |was )?"
        r"(?:gone|lost|dead|died|disconnected|unreachable|not responding|exited unexpectedly)\b",
        CauseClass.PEER,
    ),
    (
        r"\b(?:asyncio\.|concurrent\.futures\._base\.)?(?:CancelledError|TimeoutError|InvalidStateError)\b",
        CauseClass.PEER,
    ),
    (
        r"after (?:the )?(?:interpreter |pool |executor )?(?:shutdown|shut down)|is shutting down"
        r"|(?:was|been|is) shut ?down|Event loop is closed"
        r"|(?:pool|executor|session|queue|channel) (?:is|was|has been) (?:already )?(?:closed|terminated)",
        CauseClass.PEER,
    ),
    (r"\b(?:CalledProcessError|UnexpectedStatusException|ProcessExitedException):", CauseClass.SUMMARY),
    (r"\b(?i:command|cmd) failed: ?(?:[\[('\"`/]|\./)", CauseClass.SUMMARY),
    (r"\b[Ee]xception (?:was )?(?:thrown|raised) (?:from|in|by) (?:the |a )?user[- ]defined\b", CauseClass.SUMMARY),
    (
        r"\b\w{0,40}(?:Dead|Died)\w{0,20}Error:"
        rf"|^unknown: {CUT_OFF}"
        r"|\b(?:due to|because of|caused by) an? (?:exception|error|failure) in (?:a|the|an?other|one of the) "
        r"(?:(?:background|child|worker|remote|sub) ?)?(?:process(?:es)?|workers?|thread)\b",
        CauseClass.SUMMARY,
    ),
    (
        r"\b(?i:job|pod|container|task|command|script|subprocess|child process)\b.{0,200}?"
        r"\b(?i:returned (?:a )?(?:non-?zero|failure)|(?:exited|terminated) with (?:a )?(?:code|status)"
        r"|(?:exited|ended|terminated|failed) with (?:a )?(?:non-?zero |exit |return )(?:code|status))",
        CauseClass.SUMMARY,
    ),
    (
        r"\b(?i:worker|rank|process|server|engine|actor|runner|session|group|node|child)s?\b.{0,80}?"
        r"\b(?:exited|died|ended|terminated)\b.{0,60}?(?:\(|with |by )"
        r"(?:exit ?)?(?:code|status|signal)[ =:]{0,3}(?:-\d|[1-9]\d?|1\d\d|2[0-5]\d)\b",
        CauseClass.SUMMARY,
    ),
)
"""Exceptions of any Python program."""

Worked = TypeVar("Worked")


class Settings(Struct, frozen=True):
    """Thresholds of the rules.

    Attributes:
        thread_stall_s: how long a thread may hold others up without progress before that counts as a stall.
        task_stall_s: how long a task may run without progress if nothing is known of its kernel.
        slow_factor: a kernel whose completed runs are known counts as stalled when it runs this many times longer than
            the longest of them, ...
        slow_floor_s: ... and for at least this long.
        busy_share: share of a core from which on a thread counts as busy.
    """

    thread_stall_s: float = 10.0
    task_stall_s: float = 10.0
    slow_factor: float = 10.0
    slow_floor_s: float = 2.0
    busy_share: float = 0.5

    @property
    def thread_stall_ns(self) -> int:
        return int(self.thread_stall_s * _SECOND_NS)

    @property
    def task_stall_ns(self) -> int:
        return int(self.task_stall_s * _SECOND_NS)


class Judged(Struct, frozen=True):
    """Tasks, diagnostics and exceptions that the rules of single systems judge instead of the generic ones.

    Attributes:
        tasks: names of the systems whose own rules judge their tasks.
        diagnostics: system -> regular expressions of the codes of diagnostics that its own rules judge; each has to
            match a whole code.
        explains: predicates of a logged exception and the state: a system's own rules report its cause.
        causes: regular expressions of exceptions (`Type: message`), with their class of cause; the first match counts.
    """

    tasks: frozenset[str] = frozenset()
    diagnostics: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    explains: tuple[Callable[[ExceptionHit, Snapshot], bool], ...] = ()
    causes: tuple[tuple[str, CauseClass], ...] = ()

    def judges(self, diagnostic: Diagnostic) -> bool:
        """Return whether the rules of its own system judge a diagnostic."""
        codes = self.diagnostics.get(diagnostic.system, ())
        return any(re.fullmatch(code, diagnostic.code) for code in codes)

    def explained(self, hit: ExceptionHit, snapshot: Snapshot) -> bool:
        """Return whether the rules of some system report the cause of an exception."""
        return any(explains(hit, snapshot) for explains in self.explains)

    def cause_of(self, hit: ExceptionHit) -> CauseClass:
        return hit.cause or self.cause_of_text(f"{hit.type}: {hit.message[:_MESSAGE]}")

    def cause_of_text(self, text: str) -> CauseClass:
        """Return the class of cause of an error by its text."""
        from livedbg.logs.last_words import points_up  # logs only: a look at processes is done before

        known = (*self.causes, *_CAUSES)
        last = CauseClass.SUMMARY if points_up(text) else CauseClass.PROCESS
        return next((cause for words, cause in known if re.search(words, text)), last)


@dataclass(frozen=True, slots=True)
class RuleInput:
    """The input of a rule: a state, its tasks by state, and what is left to the rules of single systems."""

    snapshot: Snapshot
    graph: WaitGraph
    settings: Settings = field(default_factory=Settings)
    index: TaskIndex | None = None
    judged: Judged = field(default_factory=Judged)
    code: UserCode = field(default=NO_FRAMEWORKS, compare=False, repr=False)
    done: dict[Callable[[Snapshot], Any], Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, work: Callable[[Snapshot], Worked]) -> Worked:
        """Return the result of a pure function of the snapshot; it is called only once."""
        if work not in self.done:
            self.done[work] = work(self.snapshot)
        found: Worked = self.done[work]
        return found

    def tasks_in(self, state: TaskState) -> Sequence[Task]:
        """Return the tasks in a state other than COMPLETED."""
        return self._tasks().in_state(state)

    def held_up_tasks(self) -> Sequence[Task]:
        """Return the tasks in which a request may be held up."""
        return self._tasks().held_up()

    def _tasks(self) -> TaskIndex:
        index = self.index
        if index is None:
            index = TaskIndex()
            index.update(self.snapshot)
        return index


@runtime_checkable
class Rule(Protocol):
    """A rule of the diagnosis, with its name (`lock-cycle`) and its text for docs/rules.md."""

    @property
    def name(self) -> str:
        """The rule's name."""
        ...

    @property
    def doc(self) -> str:
        """The rule's documentation in plain sentences."""
        ...

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield the rule's findings in `state`."""
        ...
