"""Pending collectives for the rules: which threads wait in each, and which ranks are absent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.inside import in_reduce_scatter
from livedbg.adapters.pytorch.facts import CallFacts, call_facts
from livedbg.adapters.pytorch.rules.threads import main_thread
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import waited_ns
from livedbg.model import Task, TaskState, Thread

PREFIX = "task:collective/"
_BEGINNINGS = ("init_process_group", "new_group")


class Call(Struct, frozen=True, kw_only=True):
    """A pending collective.

    Attributes:
        processes: ids of the seen processes, by rank.
        waiting: threads that wait in it, by rank.
        age_ns: since the first rank enqueued it; for an exchange, how long a thread has been in it without running.
        called: the program's operation, if gloo executes and records another one.
        enters: `CallFacts.enters`, only living threads.
    """

    task: Task
    facts: CallFacts
    processes: dict[int, str]
    waiting: dict[int, str]
    age_ns: int
    called: str = ""
    enters: dict[int, tuple[str, ...]] = {}

    def may_be_entered(self, rank: int, thread: str) -> bool:
        """Return whether a thread of an absent rank may be the one that enters it."""
        return thread in self.enters.get(rank, (thread,))

    @property
    def title(self) -> str:
        """Return `all_reduce #6 of group dp`, without the group for messages and the world group."""
        name = self.task.name.replace(self.task.kernel or "", self.called, 1) if self.called else self.task.name
        return name if self.facts.group in ("", "0") or self.is_message else f"{name} of group {self.facts.group}"

    @property
    def short(self) -> str:
        """Return `all_reduce #5 of dp`."""
        return self.title.replace(" of group ", " of ")

    @property
    def is_message(self) -> bool:
        return self.facts.kind in ("recv", "send")


def calls_of(state: RuleInput) -> list[Call]:
    """Return the pending collectives, oldest first."""
    wall_ns = state.snapshot.now().wall_ns
    found = [
        _call(task, wall_ns - task.since_wall_ns if task.since_wall_ns is not None else 0, state)
        for task in state.tasks_in(TaskState.RUNNING)
        if task.id.startswith(PREFIX) and _judged_here(task)
    ]
    return sorted(found, key=lambda call: -call.age_ns)


def _judged_here(task: Task) -> bool:
    """Return False for calls with rules of their own.

    These are store keys, messages in flight or with an unknown peer, and `init_process_group` with unseen ranks only.
    """
    facts = call_facts(task)
    if facts.kind == "init_process_group" and facts.unseen and not facts.absent:
        return False
    if facts.kind == "store" or facts.under_way or (facts.posted and facts.peer is None):
        return False
    return task.since_wall_ns is not None or bool(facts.kind)


def _call(task: Task, age_ns: int, state: RuleInput) -> Call:
    known, threads = call_facts(task), state.snapshot.threads
    processes = {rank: process for rank, process in known.processes.items() if process.startswith("process:")}
    enters = {
        rank: alive
        for rank, enter in known.enters.items()
        if (alive := tuple(one for one in enter if one in threads and not threads[one].exited))
    }
    ranks = {process: rank for rank, process in processes.items()}
    waiting = {}
    for waiter in state.graph.waiters_of(task.id):
        thread = threads.get(waiter)
        if thread is None or thread.process not in ranks:
            continue
        if known.kind in _BEGINNINGS and (known.absent or known.ended):
            late = [processes[rank] for rank in known.absent if rank in processes]
            age_ns = late_ns(late, state) if late else lived_ns(ranks, state)
        elif known.kind in _BEGINNINGS:  # all have come: the last one of them just now
            age_ns = _least_ns(map(threads.get, state.graph.waiters_of(task.id)), state)
        elif known.kind:
            waited = waited_ns(thread, state.snapshot) or 0
            if waited < state.settings.thread_stall_ns:
                continue  # the same variables may be those of one call after another
            age_ns = max(age_ns, waited)
        waiting[ranks[thread.process]] = waiter
    return Call(
        task=task,
        facts=known,
        processes=processes,
        waiting=waiting,
        age_ns=age_ns,
        called=_called(task, waiting.values(), state),
        enters=enters,
    )


def _called(task: Task, waiting: Iterable[str], state: RuleInput) -> str:
    """Return the operation that the waiting threads call, if gloo implements it by another one."""
    stacks = [state.snapshot.stacks.get(one) for one in waiting] if task.kernel == "all_reduce" else []
    return "reduce_scatter" if stacks and all(map(in_reduce_scatter, stacks)) else ""


def _least_ns(threads: Iterable[Thread | None], state: RuleInput) -> int:
    return min((waited_ns(one, state.snapshot) or 0 for one in threads if one is not None), default=0)


def late_ns(processes: Iterable[str], state: RuleInput) -> int:
    """Return how long all absent processes have been in one wait: the waiting ranks poll."""
    return _least_ns((main_thread(process, state) for process in processes), state)


def lived_ns(processes: Iterable[str], state: RuleInput) -> int:
    """Return how long all known processes have existed."""
    known = (state.snapshot.processes.get(process) for process in processes)
    began = [one.start_wall_ns for one in known if one is not None and one.start_wall_ns is not None and not one.exited]
    return state.snapshot.now().wall_ns - max(began) if began else 0


def on_its_way(call: Call, rank: int, state: RuleInput) -> bool:
    """Return whether an absent rank may still come: a thread that may enter moves, or another and the main one."""
    if rank in call.facts.moved:
        return True
    return rank in call.facts.elsewhere and late_ns((call.processes[rank],), state) < state.settings.thread_stall_ns


def key_words(keys: Sequence[str]) -> str:
    """Return `key 'ready'`, `keys 'a' 'b'`, or `a key` if not known."""
    return f"key{'s' if len(keys) > 1 else ''} {' '.join(map(repr, keys))}" if keys else "a key"


def rank_list(ranks: Iterable[int], *, start: bool = False) -> str:
    """Return `rank 2`, `ranks 0, 1, 3`, `ranks 0-6, 9`; with `start`, to begin a sentence."""
    numbers = sorted(set(ranks))
    word = "rank" if len(numbers) == 1 else "ranks"
    return f"{word.capitalize() if start else word} {', '.join(_runs(numbers))}"


def who_wait(ranks: Collection[int], *, start: bool = False) -> str:
    """Return `rank 2 waits`, `ranks 0, 1, 3 wait`."""
    return f"{rank_list(ranks, start=start)} {'waits' if len(ranks) == 1 else 'wait'}"


def _runs(numbers: list[int]) -> Iterator[str]:
    at = 0
    while at < len(numbers):
        end = at
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        if end - at >= 2 and len(numbers) > 4:
            yield f"{numbers[at]}-{numbers[end]}"
        else:
            yield from map(str, numbers[at : end + 1])
        at = end + 1
