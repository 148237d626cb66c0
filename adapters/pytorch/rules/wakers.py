"""Find out what may still end a rank's wait: outside events, and its own threads and children that are not stuck.

A wait for a queue, an event or a pipe does not show whose turn it is. A prefetcher that polls a folder, a sleeping
child, an HTTP server that passes requests to the main thread: each may end it at any time, and the job is healthy.

Invariants:
    rules_wakers.W2. A launcher that waits for the end of its children, and has no other thread than those of native
        pools, ends no wait of theirs.
    rules_wakers.W1. Only threads that never give a rank anything are left out: those of torch's C++ code, idle
        workers of pools and of a DataLoader, and onlookers (progress bars, writers of metrics).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from livedbg.adapters.pytorch.facts import ENQUEUED
from livedbg.adapters.pytorch.rules.threads import is_main, python_frames
from livedbg.analysis.behaviour import family_threads
from livedbg.analysis.python_calls import waits_for_job
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import blocked_in
from livedbg.analysis.rules.words import name_of, waited_ns
from livedbg.model import Frame, Process, Thread, ThreadState, WaitKind
from livedbg.text.patterns import lazy_re

_OF_TORCH: Final = lazy_re(r"pt_(?!data_worker)|gloo|nccl|cuda|TP_", re.IGNORECASE)
_ONLOOKERS: Final = lazy_re(
    r"/(?:tqdm|wandb|tensorboard\w*)/|/multiprocessing/resource_sharer\.py$|/torch/utils/data/_utils/pin_memory\.py$"
)
_THREADS: Final = lazy_re(r"/threading\.py$|^<")
_LOADER: Final = "/torch/utils/data/dataloader.py"
_WORKER: Final = "/torch/utils/data/_utils/worker.py"
_FETCH: Final = "/torch/utils/data/_utils/fetch.py"
_POOLED: Final = frozenset({WaitKind.CONDITION, WaitKind.FUTEX})
_OTHER_END: Final = ("socket", "pipe")
_RESULT: Final = "/concurrent/futures/_base.py"
_TASK: Final = "/concurrent/futures/thread.py"
_TO_RESULT: Final = 4
"""How many frames above the innermost one `Future.result` is at most."""


def family_of_rank(process: Process, state: RuleInput) -> list[Thread]:
    """Return the threads of a process and its living descendants, without other ranks."""
    ranks = {key.entity for key in state.snapshot.counters if key.name == ENQUEUED} - {process.id}
    return family_threads(process, state, without=ranks)


def owing_workers(main: Thread, state: RuleInput) -> list[Thread]:
    """Return the main threads of the DataLoader workers that owe what a thread waits for, where that was read."""
    if not _awaits_batch(main, state):
        return []
    others = (state.snapshot.threads.get(name) for name in state.graph.blockers_of(main.id))
    return [one for one in others if one is not None and one.process != main.process and is_main(one)]


def loader_workers(main: Thread, family: Iterable[Thread], state: RuleInput) -> list[Thread]:
    """Return the main threads of DataLoader workers that fetch something, if the main thread waits for that."""
    if not _awaits_batch(main, state):
        return []
    mains = (one for one in family if one.process != main.process and is_main(one))
    return owing_workers(main, state) or [one for one in mains if _fetches(python_frames(one, state))]


def _awaits_batch(main: Thread, state: RuleInput) -> bool:
    frames = python_frames(main, state)
    return any((one.file or "").endswith(_LOADER) and one.function.endswith("_get_data") for one in frames)


def pool_tasks(waiting: Thread, family: Iterable[Thread], state: RuleInput) -> list[Thread]:
    """Return the threads that run tasks of a ThreadPoolExecutor, if a thread waits for a result of one.

    Which of them it waits for is not known.
    """
    if not any((frame.file or "").endswith(_RESULT) for frame in python_frames(waiting, state)[:_TO_RESULT]):
        return []
    others = [one for one in family if one.process == waiting.process and one.id != waiting.id]
    return [one for one in others if _in_task(python_frames(one, state))]


def from_outside(thread: Thread, family: Collection[Thread], state: RuleInput) -> str:
    """Return what outside the family could end a wait; "" for nothing."""
    if thread.wait is WaitKind.SIGNAL:
        return "a signal"
    if thread.wait is WaitKind.SYSTEM_V:
        return "any other process"
    members = {one.process for one in family}
    for entity in state.graph.blockers_of(thread.id):
        resource = state.snapshot.resources.get(entity)
        if resource is None:
            continue
        if resource.idle:
            return resource.idle
        ends = state.graph.blockers_of(entity)
        if resource.kind == "socket" and not ends:
            return "the other end of the socket"
        if resource.outside and resource.kind not in ("pylock", "file"):
            return resource.outside.partition(" handles ")[0]  # `process 7 handles SIGCHLD`
        if resource.kind in _OTHER_END:
            others = [end for end in ends if end.startswith("process:") and end not in members]
            others = [end for end in others if not _only_waits_for_children(end, state)]
            if others:
                return name_of(others[0], state.snapshot)
    return ""


def _only_waits_for_children(process: str, state: RuleInput) -> bool:
    """Return whether a process only waits for children, for the threshold, next to native pools.

    Such a launcher may have kept the other end of its ranks' pipes, but writes nothing until they have ended.
    """
    threads = [one for one in state.snapshot.threads_of(process) if not one.exited]
    mains = [one for one in threads if is_main(one) and one.wait is WaitKind.CHILD]
    pools = [one for one in threads if one.wait in _POOLED and not python_frames(one, state)]
    limit_ns = state.settings.thread_stall_ns
    still = all(one.timed is not True and (waited_ns(one, state.snapshot) or 0) >= limit_ns for one in (*mains, *pools))
    return len(mains) == 1 and len(threads) == len(pools) + 1 and still


def who_may_end(stuck: Collection[str], family: Collection[Thread], state: RuleInput) -> str:
    """Return `thread 4712 (prefetch) waits in sleep() in poll (train.py:9)`, which may still end a wait; or ""."""
    for thread in family:
        if thread.id not in stuck and (does := _does(thread, family, state)):
            return f"{name_of(thread.id, state.snapshot)} {does}"
    return ""


def _does(thread: Thread, family: Collection[Thread], state: RuleInput) -> str:
    """Return what a thread does that may end another's wait; "" if it can't."""
    python = python_frames(thread, state)
    if not python and not is_main(thread):
        outside = "" if _OF_TORCH.match(thread.name) else from_outside(thread, family, state)
        return f"waits in {blocked_in(thread, state)}, which {outside} may end" if outside else ""
    if waits_for_job(python, state.code.workers) or _is_onlooker(python):
        return ""
    if thread.state is ThreadState.RUNNING:
        return "computes"
    waits = f"waits in {blocked_in(thread, state)}"
    waited = waited_ns(thread, state.snapshot)
    if thread.timed or waited is None or waited < state.settings.thread_stall_ns:
        return waits
    if thread.wait is WaitKind.SIGNAL and not is_main(thread):
        return ""
    outside = from_outside(thread, family, state)
    return f"{waits}, which {outside} may end" if outside else ""


def _is_onlooker(frames: Iterable[Frame]) -> bool:
    files = [frame.file or "" for frame in frames]
    outermost = next((file for file in reversed(files) if not _THREADS.search(file)), "")
    return _ONLOOKERS.search(outermost) is not None


def _fetches(frames: Iterable[Frame]) -> bool:
    files = [frame.file or "" for frame in frames]
    return any(file.endswith(_WORKER) for file in files) and any(file.endswith(_FETCH) for file in files)


def _in_task(frames: Iterable[Frame]) -> bool:
    return any((frame.file or "").endswith(_TASK) and frame.function.endswith("run") for frame in frames)
