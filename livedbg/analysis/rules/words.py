"""Wording of entities and times in sentences of rules."""

from __future__ import annotations

from livedbg.analysis.place_names import place_text
from livedbg.analysis.python_calls import said_call
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import EdgeKey, EdgeKind, Evidence, Thread, ids
from livedbg.model.snapshot import Snapshot
from livedbg.text.quantities import duration
from livedbg.text.wording import many

__all__ = [
    "call_of",
    "duration",
    "edge_evidence",
    "host_of",
    "many",
    "name_of",
    "pids_of",
    "since_wall_ns",
    "thread_evidence",
    "waited_ns",
]


def host_of(entity: str) -> str:
    """Return the host in the identifier of a thread, process or lock."""
    return ids.parse(entity).parts[0]


def pids_of(entities: tuple[str, ...]) -> list[int]:
    """Return the pids of the threads and processes among entities, lowest first."""
    found = {int(ids.parse(e).parts[1]) for e in entities if e.startswith(("thread:", "process:"))}
    return sorted(found)


def name_of(entity: str, snapshot: Snapshot) -> str:
    """Return an entity's name for the user: `thread 4712 (worker, rank 3)`, `mutex 0x7f12…`, `pipe 3 of 4711`."""
    thread = snapshot.threads.get(entity)
    if thread is not None:
        owner = snapshot.processes.get(thread.process)
        rank = f"rank {owner.rank}" if owner is not None and owner.rank is not None else ""
        words = ", ".join(word for word in (thread.title, rank) if word)
        return f"thread {thread.tid}{f' ({words})' if words else ''}"
    process = snapshot.processes.get(entity)
    if process is not None:
        command = process.command[0].rpartition("/")[2] if process.command else ""
        return f"process {process.pid}{f' ({command})' if command else ''}"
    resource = snapshot.resources.get(entity)
    if resource is not None:
        return "the GIL" if resource.kind == "gil" else resource.name or f"{resource.kind} {ids.parse(entity).short}"
    task = snapshot.tasks.get(entity)
    if task is not None:
        return f"task {task.name}{f' {task.kernel}' if task.kernel else ''}"
    kind, _, path = entity.partition(":")
    return f"{kind} {path.rpartition('/')[2]}"


def waited_ns(thread: Thread, snapshot: Snapshot) -> int | None:
    """Return for how long, at least, a thread has been in the same wait without CPU time, or None."""
    activity = snapshot.activity.get(thread.id)
    if activity is None or activity.waiting_since_mono_ns is None:
        return None
    return max(0, snapshot.now(host_of(thread.id)).mono_ns - activity.waiting_since_mono_ns)


def since_wall_ns(thread: Thread, snapshot: Snapshot) -> int | None:
    """Return since when, as a time of day."""
    waited = waited_ns(thread, snapshot)
    return snapshot.now(host_of(thread.id)).wall_ns - waited if waited is not None else None


def edge_evidence(source: str, target: str, snapshot: Snapshot) -> Evidence | None:
    """Return the evidence that `source` waits for `target` or is held by it, or None."""
    for key in (
        EdgeKey(EdgeKind.WAITS_FOR, source, target),
        EdgeKey(EdgeKind.DEPENDS_ON, source, target),
        EdgeKey(EdgeKind.HOLDS, target, source),
    ):
        edge = snapshot.edges.get(key)
        if edge is not None:
            held = key.kind is EdgeKind.HOLDS
            kind = "inference" if edge.inferred else "memory" if "0x" in edge.evidence else "proc"
            text = edge.evidence or f"{edge.kind}"
            who, what = (target, source) if held else (source, target)
            verb = "holds" if held else "waits for" if key.kind is EdgeKind.WAITS_FOR else "depends on"
            subject = f"{name_of(who, snapshot)} {verb} {name_of(what, snapshot)}"
            return Evidence(kind=kind, source=subject, text=text, at_wall_ns=snapshot.now().wall_ns or None)
    return None


def call_of(thread: Thread, state: RuleInput) -> str:
    """Return a thread's blocking call, or "".

    Inside of a lock, it is the call of the user's Python code (`Queue.get` for `sem_wait`).
    """
    call = thread.waits_in or thread.syscall or ""
    return said_call(call, state.code.call(state.snapshot.stacks.get(thread.id)))


def thread_evidence(thread: Thread, state: RuleInput) -> Evidence:
    """Return a thread's wait and the user's line as evidence."""
    snapshot = state.snapshot
    _, pid, tid = ids.parse(thread.id).parts
    text = f"{thread.state}"
    if call := call_of(thread, state):
        text += f" in {call}"
    frame = state.code.frame(snapshot.stacks.get(thread.id))
    if frame is not None:
        text += f", at {place_text(frame)}"
    activity = snapshot.activity.get(thread.id)
    if activity is not None:
        text += f", used {activity.cpu_total_ns / 1e9:.2f} s of CPU while it was watched"
    return Evidence(kind="proc", source=f"/proc/{pid}/task/{tid}", text=text, at_wall_ns=snapshot.now().wall_ns or None)
