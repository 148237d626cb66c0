"""Pending collectives, as the rules see them: who waits in which, and whom each of them lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.inside import in_reduce_scatter
from livedbg.adapters.pytorch.rules.threads import main_thread
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import waited_ns
from livedbg.model import Task, TaskState

_PREFIX = "task:collective/"
_BEGINNINGS = ("init_process_group", "new_group")


class Call(Struct, frozen=True, kw_only=True):
    """A pending collective.

    Attributes:
        task: the task.
        group: what its group is called.
        total: how many ranks its group has.
        processes: identifiers by rank, of those that are seen.
        entered: ranks that have enqueued it.
        absent: ranks that have not, though their recorder was read.
        unseen: ranks of which nothing is known.
        ended: ranks that have no process any more; of some it is known which one it was.
        moving: those of `absent` that enqueued or completed something else between the last two looks, by a thread that
            may enter it.
        elsewhere: those of which any thread did so.
        does: what the ranks do that are in it, where that is not the same, by rank.
        waiting: threads that wait in it, by the rank.
        age_ns: since the first rank enqueued it; of an exchange, for how long a thread has been in it without running.
        exchange: the function, of a call that no recorder has: `recv`, `send`, `monitored_barrier`; else "".
        tag: of a message.
        roots: from whom, or for whom, ranks that are in it expect it.
        handles: the signals that ranks of `absent` handle.
        called: what the program calls, where gloo carries it out by another operation and records that one.
        enters: threads of ranks of `absent` that have entered other collectives of its group, as far as they live.
    """

    task: Task
    group: str
    total: int
    processes: dict[int, str]
    entered: tuple[int, ...]
    absent: tuple[int, ...]
    unseen: tuple[int, ...]
    ended: tuple[int, ...]
    moving: tuple[int, ...]
    elsewhere: tuple[int, ...]
    does: dict[int, str]
    waiting: dict[int, str]
    age_ns: int
    exchange: str = ""
    called: str = ""
    tag: str = ""
    roots: dict[int, int] = {}
    handles: dict[int, str] = {}
    enters: dict[int, tuple[str, ...]] = {}

    def may_be_entered(self, rank: int, thread: str) -> bool:
        """Whether a thread of a rank that has not come may be the one that enters it."""
        return thread in self.enters.get(rank, (thread,))

    @property
    def title(self) -> str:
        """`all_reduce #6 of group dp`; the group of all has no name, and ranks are numbered over all groups."""
        name = self.task.name.replace(self.task.kernel or "", self.called, 1) if self.called else self.task.name
        return name if self.group in ("", "0") or self.is_message else f"{name} of group {self.group}"

    @property
    def short(self) -> str:
        """`all_reduce #5 of dp`."""
        return self.title.replace(" of group ", " of ")

    @property
    def is_message(self) -> bool:
        """From one rank to another."""
        return self.exchange in ("recv", "send")


def calls_of(state: RuleInput) -> list[Call]:
    """The pending collectives, the oldest first."""
    wall_ns = state.snapshot.now().wall_ns
    found = [
        _call(task, wall_ns - task.since_wall_ns if task.since_wall_ns is not None else 0, state)
        for task in state.tasks_in(TaskState.RUNNING)
        if task.id.startswith(_PREFIX) and _judged_here(task)
    ]
    return sorted(found, key=lambda call: -call.age_ns)


def _judged_here(task: Task) -> bool:
    """Not by rules of their own: keys of the store, messages that are under way or whose other end is not known, and
    ranks that are not seen and did not come to `init_process_group`."""
    facts = task.attributes
    if facts.get("kind") == "init_process_group" and "not seen" in facts and "not in it" not in facts:
        return False
    if facts.get("kind") == "store" or "under way" in facts or ("posted" in facts and "peer" not in facts):
        return False
    return task.since_wall_ns is not None or "kind" in facts


def _call(task: Task, age_ns: int, state: RuleInput) -> Call:
    known, threads = task.attributes, state.snapshot.threads
    processes = {
        int(number): process
        for name, process in known.items()
        if name.startswith("rank ") and (number := name[5:]).isdecimal() and process.startswith("process:")
    }
    does = {}
    roots = {}
    handles = {}
    enters: dict[int, tuple[str, ...]] = {}
    for name, text in known.items():
        words = name.split()
        if len(words) == 3 and words[0] == "rank" and words[2] == "does" and words[1].isdecimal():
            does[int(words[1])] = text
        elif len(words) == 4 and words[:3] == ["root", "of", "rank"] and words[3].isdecimal() and text.isdecimal():
            roots[int(words[3])] = int(text)
        elif len(words) == 4 and words[:3] == ["signals", "of", "rank"] and words[3].isdecimal():
            handles[int(words[3])] = text
        elif len(words) == 4 and words[0] == "rank" and words[2:] == ["enters", "by"] and words[1].isdecimal():
            alive = tuple(one for one in text.split() if one in threads and not threads[one].exited)
            enters |= {int(words[1]): alive} if alive else {}
    ranks = {process: rank for rank, process in processes.items()}
    waiting = {}
    for waiter in state.graph.waiters_of(task.id):
        thread = state.snapshot.threads.get(waiter)
        if thread is None or thread.process not in ranks:
            continue
        if known.get("kind") in _BEGINNINGS and ("not in it" in known or "ended" in known):
            late = [processes[rank] for rank in _numbers(known.get("not in it", "")) if rank in processes]
            age_ns = late_ns(late, state) if late else lived_ns(ranks, state)
        elif known.get("kind") in _BEGINNINGS:  # all have come: the last one of them just now
            age_ns = _least_ns(task, state)
        elif "kind" in known:
            waited = waited_ns(thread, state.snapshot) or 0
            if waited < state.settings.thread_stall_ns:
                continue  # the same variables may be those of one call after another
            age_ns = max(age_ns, waited)
        waiting[ranks[thread.process]] = waiter
    return Call(
        task=task,
        group=known.get("group", ""),
        total=int(known.get("ranks", "0")),
        processes=processes,
        entered=_numbers(known.get("in it", "")),
        absent=_numbers(known.get("not in it", "")),
        unseen=_numbers(known.get("not seen", "")),
        ended=_numbers(known.get("ended", "")),
        moving=_numbers(known.get("moved since", "")),
        elsewhere=_numbers(known.get("moves elsewhere", "")),
        does=does,
        waiting=waiting,
        age_ns=age_ns,
        exchange=known.get("kind", ""),
        called=_called(task, waiting.values(), state),
        tag=known.get("tag", ""),
        roots=roots,
        handles=handles,
        enters=enters,
    )


def _called(task: Task, waiting: Iterable[str], state: RuleInput) -> str:
    """What the threads that wait in it call, if it is not what gloo does for it."""
    stacks = [state.snapshot.stacks.get(one) for one in waiting] if task.kernel == "all_reduce" else []
    return "reduce_scatter" if stacks and all(map(in_reduce_scatter, stacks)) else ""


def _least_ns(task: Task, state: RuleInput) -> int:
    """For how long the last of those that wait in a task has."""
    threads = (state.snapshot.threads.get(waiter) for waiter in state.graph.waiters_of(task.id))
    return min((waited_ns(one, state.snapshot) or 0 for one in threads if one is not None), default=0)


def late_ns(processes: Iterable[str], state: RuleInput) -> int:
    """For how long all processes that don't come have been in one wait: those that come to it poll."""
    mains = [main_thread(process, state) for process in processes]
    return min((waited_ns(main, state.snapshot) or 0 for main in mains if main is not None), default=0)


def lived_ns(processes: Iterable[str], state: RuleInput) -> int:
    """For how long all processes that are known have been there."""
    known = (state.snapshot.processes.get(process) for process in processes)
    began = [one.start_wall_ns for one in known if one is not None and one.start_wall_ns is not None and not one.exited]
    return state.snapshot.now().wall_ns - max(began) if began else 0


def on_its_way(call: Call, rank: int, state: RuleInput) -> bool:
    """Whether a rank that has not come may be on its way: a thread of it goes on that may enter this, or another one
    does and the main thread has run lately."""
    if rank in call.moving:
        return True
    return rank in call.elsewhere and late_ns((call.processes[rank],), state) < state.settings.thread_stall_ns


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split() if word.isdecimal())


def rank_list(ranks: Iterable[int], *, start: bool = False) -> str:
    """`rank 2`, `ranks 0, 1, 3`, `ranks 0-6, 9`.

    Args:
        ranks: in any order.
        start: it begins a sentence.
    """
    numbers = sorted(set(ranks))
    word = "rank" if len(numbers) == 1 else "ranks"
    return f"{word.capitalize() if start else word} {', '.join(_runs(numbers))}"


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
