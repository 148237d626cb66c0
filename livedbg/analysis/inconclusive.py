"""Sentences for an inconclusive state: where the most relevant thread is, and what would tell more."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.analysis.behaviour import (
    cpu_share,
    held_up,
    last_waited_for,
    long_waits,
    main_threads,
    ticking,
    unanswered,
)
from livedbg.analysis.closed import closed_sets
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import at
from livedbg.analysis.rules.words import call_of, duration, host_of, many, name_of, pids_of, waited_ns
from livedbg.model import POLLS, UNSEEN_RUNTIME, Thread, ThreadState, WaitKind
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case


def watched(snapshot: Snapshot) -> list[Thread]:
    """Return the living threads of target processes."""
    others = {process.id for process in snapshot.processes.values() if not process.target}
    return [thread for thread in snapshot.threads.values() if not thread.exited and thread.process not in others]


def used(thread: Thread, snapshot: Snapshot) -> str:
    """Return the share of a core that a thread used, in brackets; "" for next to nothing."""
    share = cpu_share(thread, snapshot)
    return f" ({share:.0%} of a core)" if share >= 0.005 else ""


def has_waited(thread: Thread, waited_ns: int, state: RuleInput) -> str:
    where = f"{call_of(thread, state) or 'a system call'}{at(thread.id, state)}"
    main = "main " if main_threads((thread,), state.snapshot) else ""
    return f"{main}{name_of(thread.id, state.snapshot)} has been in {where} for {duration(waited_ns)} or more"


def burns_said(burnt: Sequence[Thread], state: RuleInput) -> str:
    """Return the sentence about threads that only use CPU time."""
    snapshot = state.snapshot
    first = max(burnt, key=lambda thread: cpu_share(thread, snapshot))
    more = f" and {many(len(burnt) - 1, 'other')}" if len(burnt) > 1 else ""
    [pid] = pids_of((first.id,))
    return (
        f"Inconclusive: {name_of(first.id, snapshot)}{more} {'compute' if more else 'computes'}, or "
        f"{'spin' if more else 'spins'}{at(first.id, state)}{used(first, snapshot)}: no wait, read, write or page "
        f"fault was seen. `livedbg stacks {pid} --for 10s` would tell."
    )


def polls_said(thread: Thread, state: RuleInput) -> str:
    """Return the sentence about a thread that polls."""
    snapshot = state.snapshot
    activity = snapshot.activity[thread.id]
    span_s = max(snapshot.now(host_of(thread.id)).mono_ns - activity.first_mono_ns, 1) / 1e9
    [pid] = pids_of((thread.id,))
    rate = activity.runs / span_s
    often = f"about {rate:.0f} times a second" if rate >= 1.5 else f"{many(activity.runs, 'time')} in {span_s:.0f} s"
    again = "sleeps" if thread.wait is WaitKind.SLEEP else "waits"
    stuck = held_up(watched(snapshot), state) or _longest(watched(snapshot), state)
    longest = f" {sentence_case(has_waited(*stuck, state))}." if stuck is not None else ""
    does = f"wakes {often} and {again} again{at(thread.id, state)}: it polls for something, or works in small steps"
    if not activity.runs:
        does = f"sleeps{at(thread.id, state)} in a loop that ends when something comes, which may never happen"
    return (
        f"Inconclusive: {name_of(thread.id, snapshot)} {does}.{longest} "
        f"`livedbg stacks {pid}`, some seconds apart, would tell."
    )


def idle_said(threads: Sequence[Thread], state: RuleInput) -> str:
    snapshot = state.snapshot
    counts: dict[str, int] = {}
    for thread in threads:
        place = call_of(thread, state) or str(thread.state)
        counts[place] = counts.get(place, 0) + 1
    places = sorted(counts.items(), key=lambda item: -item[1])[:3]
    shown = ", ".join(f"{count} in {place}" for place, count in places)
    now_ns = snapshot.now().mono_ns
    first_ns = min(
        (snapshot.activity[t.id].first_mono_ns for t in threads if t.id in snapshot.activity), default=now_ns
    )
    watch = f" in {duration(now_ns - first_ns)} of watching" if first_ns < now_ns else ""
    ticks = ticking(threads, state)
    unseen = next((s for s in snapshot.statuses.values() if s.code in (POLLS, UNSEEN_RUNTIME)), None)
    if unseen is not None:
        command, _, effect = unseen.remedy.partition("   ")
        warned = f"`{command}` ({effect})" if effect else f"`{command}`"  # it may end the program
        return f"Inconclusive: idle, working or stuck. {unseen.sentence} {warned} would tell."
    if ticks:
        first = max(ticks, key=lambda thread: cpu_share(thread, snapshot))
        what = f"Only helper threads that tick used CPU time{watch} ({name_of(first.id, snapshot)})"
    elif moments := [thread for thread in threads if cpu_share(thread, snapshot)]:
        names = name_of(moments[0].id, snapshot)
        what = f"Only threads that wake for a moment used CPU time{watch} ({names})"
    else:
        what = f"No thread used CPU time{watch}"
    because = next(iter(state.once(closed_sets).open_because.values()), "")
    woken = f" {sentence_case(because)}." if because else ""
    stuck = _longest(threads, state) or held_up(threads, state) or unanswered(threads, state)
    return (
        f"Inconclusive: {_where(stuck, threads, state)}idle or stuck. {what}, and none waits for another that is "
        f"blocked ({shown}).{woken} `livedbg watch` for a longer time, or the stacks, would tell."
    )


def _longest(threads: Sequence[Thread], state: RuleInput) -> tuple[Thread, int] | None:
    return max(long_waits(threads, state), key=lambda one: one[1], default=None)


def _where(stuck: tuple[Thread, int] | None, threads: Sequence[Thread], state: RuleInput) -> str:
    if stuck is not None:
        last = last_waited_for(stuck[0], state)
        waited = waited_ns(last, state.snapshot)
        if waited is not None and waited >= state.settings.thread_stall_ns and not last.timed:
            return f"{has_waited(last, waited, state)}: "
        return f"{has_waited(*stuck, state)}: "  # the last one polls, or naps
    mains = [thread for thread in main_threads(threads, state.snapshot) if thread.state is ThreadState.WAITING]
    if len(mains) != 1:
        return ""
    call = call_of(mains[0], state) or "a call"
    return f"main {name_of(mains[0].id, state.snapshot)} is in {call}{at(mains[0].id, state)}: "
