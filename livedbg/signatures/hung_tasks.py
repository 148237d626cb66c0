"""Reader of the kernel's reports of tasks that hang: where each waits, for what, and for whom.

The signature `hung-task` knows the line that says so. Here the lines below it are read: the call trace, what the kernel
says of the owner of a lock, and lockdep's list of locks. What they say is told beside that line's failure.

Sources: Linux kernel/hung_task.c (check_hung_task, debug_show_blocker), kernel/sched/core.c (sched_show_task),
kernel/workqueue.c (print_worker_info), kernel/locking/lockdep.c (lockdep_print_held_locks).

Invariants:
    hung_tasks.K1. A task waits in the innermost function that is none of those by which the kernel waits.
    hung_tasks.K3. Of several tasks that hang, the first says how many others do, and names some: those whose name tells
        most, and workers of the kernel last.
    hung_tasks.K2. A lock has an owner if the kernel names it, or if lockdep lists it as held by another task that waits
        elsewhere. Owners that wait for each other's locks are a deadlock; a task that only waits is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from livedbg.model import Diagnostic, Evidence, LogRecord, LogSource, Severity
from livedbg.model.events import DiagnosticSeen, Event, Stamp
from livedbg.model.facts import MessageFacts
from livedbg.text.patterns import lazy_re
from livedbg.text.wording import many

_STAMP: Final = lazy_re(r"(?:<\d{1,3}>)?\[ {0,6}\d{1,9}\.\d{1,9}\](?:\[ {0,6}[TC]\d{1,10}\])? ?")
_BLOCKED: Final = lazy_re(r"INFO: task (?P<name>[^\n]{1,64}?):(?P<pid>\d{1,10}) blocked for more than(?: \d|$)")
_OWNER: Final = lazy_re(
    r"INFO: task [^\n]{1,64}?:(?P<of>\d{1,10}) (?:<\w{1,10}> )?(?:is )?blocked on an? (?P<what>[\w -]{3,30}?)"
    r"(?: likely)?(?: last)? (?:owned|held) by task (?P<name>[^\n]{1,64}?):(?P<pid>\d{1,10})\b"
)
_QUEUE: Final = lazy_re(r"Workqueue: \S{1,60} (?P<work>\w[\w.]{0,100})")
_FRAME: Final = lazy_re(
    r"\s{0,8}(?:\[<[0-9a-f]{4,16}>\] )?(?:\(\w[\w.]{0,200}\) from \[<[0-9a-f]{4,16}>\] \()?(?P<function>\w[\w.]{0,200})"
    r"\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}\)?(?: \[(?P<module>\w{1,60})\])?"
)
_HELD_BY: Final = lazy_re(r"\d{1,6} locks? held by [^\n]{1,64}/(?P<pid>\d{1,10}):")
_HELD: Final = lazy_re(
    r" {0,8}#\d{1,3}: {1,2}(?P<address>[0-9a-f]{8,16}) \((?P<name>[^\n]{1,120}?)\)\{[^}\n]{1,12}\}[^\n]{0,20}, at: "
    r"(?P<at>\w[\w.]{0,200})\+0x"
)
_ENDS: Final = ("</TASK>", "RIP: ", "Showing all locks held", "==========")
_GENERIC: Final = lazy_re(
    r"(?:_{0,3}(?:schedule|io_schedule|preempt_schedule|mutex|ww_mutex|rt_mutex|rwsem|rwbase|rt_spin|down|up|wait_for"
    r"|wait_on|bit_wait|folio_wait|folio_lock|lock_page|wait_woken|dma_fence|dma_resv|drm_syncobj|synchronize|percpu_down"
    r"|percpu_rwsem|flush_work|flush_workqueue|flush_delayed_work|cancel_work|cancel_delayed_work|kthread_stop"
    r"|usleep|msleep|filemap_get_folio|out_of_line_wait|prepare_to_wait|do_wait_intr|rcu_barrier|blk_mq_freeze_queue_wait"
    r"|jbd2_log_wait|do_sys_poll|ret_from_fork|switch_to|srso|return_thunk|cond_resched|lock_acquire|debug_mutex|might_sleep)"
    r"(?:_[\w.]{0,200}|[.\d][\w.]{0,200})?|queued_(?:read|write|spin)\w{0,60}|_raw_\w{1,60})$"
)
_WAITS_FOR: Final = (
    ("a fence of a device", lazy_re(r"dma_fence|dma_resv|drm_syncobj")),
    ("a mutex", lazy_re(r"_{0,2}(?:ww_|rt_)?mutex_")),
    ("a semaphore of readers and writers", lazy_re(r"rwsem_|down_(?:read|write)|percpu_(?:down|rwsem)|rwbase")),
    ("a semaphore", lazy_re(r"_{0,2}down(?:_|$)")),
    ("a page", lazy_re(r"_{0,2}(?:folio_|lock_page|filemap_get_folio|wait_on_page)")),
    ("other work of a queue", lazy_re(r"_{0,2}(?:flush_|cancel_)")),
    ("RCU", lazy_re(r"_{0,2}(?:synchronize_|rcu_barrier)")),
    ("a completion", lazy_re(r"_{0,2}wait_for_com")),
    ("input or output", lazy_re(r"io_schedule|_{0,2}(?:wait_on_bit|bit_wait|out_of_line_wait)|blk_mq_freeze")),
)
"""What a task waits for, by the functions by which it waits; the first that is called decides."""
_CODE: Final = "hung-task-waits"
_OTHERS: Final = "hung-task-others"
_NAMED: Final = 3
_DEEPEST: Final = 8  # owners of owners
_MOST: Final = 200  # tasks of a log
_FRAMES: Final = 60


class _Lock(Struct, frozen=True):
    address: str
    name: str
    at: str


class _Task(Struct):
    """A task of which the kernel printed something.

    Attributes:
        anew: its next function begins a further trace of it.
        traced: the trace has ended: registers follow, and functions of other tasks.
        lock: what the kernel says that it waits for.
        locks: that it holds, and the one that it waits for as the last, by lockdep.
        told: what was said of it.
    """

    pid: int
    name: str = ""
    proof: Evidence | None = None
    line: int = 0
    work: str = ""
    trace: list[tuple[str, str]] = field(default_factory=list)
    anew: bool = False
    traced: bool = False
    owner: int = 0
    lock: str = ""
    locks: list[_Lock] = field(default_factory=list)
    told: str = ""

    @property
    def generic(self) -> list[str]:
        """Return the functions by which it waits, the innermost first."""
        at = self._own
        return [function for function, _ in (self.trace if at is None else self.trace[:at])]

    @property
    def _own(self) -> int | None:
        return next((at for at, (function, _) in enumerate(self.trace) if _GENERIC.match(function) is None), None)

    @property
    def waits_in(self) -> str:
        """Return the function in which it waits (K1), or ""."""
        return self.trace[self._own][0] if self._own is not None and self._own > 0 else ""

    @property
    def where(self) -> str:
        """Return `amdgpu_vm_fini of amdgpu`, or ""."""
        module = self.trace[self._own][1] if self._own is not None else ""
        return f"{self.waits_in} of {module}" if module and self.waits_in else self.waits_in

    @property
    def caller(self) -> str:
        """Return the function of the same module that called where it waits, or ""."""
        after = self.trace[self._own :][:2] if self._own else []
        same = len(after) == 2 and after[0][1] == after[1][1] != "" and after[0] != after[1]
        return after[1][0] if same else ""

    @property
    def waits_for(self) -> str:
        """Return what it waits for, by the functions by which it does, or ""."""
        calls = [function for function in self.generic[::-1] if "schedule" not in function or "io_schedule" in function]
        named = (words for function in calls for words, form in _WAITS_FOR if form.match(function))
        return next(named, "")


class _Log(Struct):
    source: LogSource
    tasks: dict[int, _Task] = field(default_factory=dict)
    others: str = ""  # what was said of those that hang, too
    now: _Task | None = None  # whose lines these are
    listed: _Task | None = None  # whose locks are listed


class HungTasks:
    """Reads what is printed of tasks that hang, for the decoder of signatures."""

    words: Final = (" blocked for more than", " locks held by ", " lock held by ")

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def opened(self, source: LogSource) -> None:
        self._logs[source.id] = _Log(source)

    def take(self, record: LogRecord) -> None:
        """Take a record with one of the words, or behind one."""
        log = self._logs.get(record.source)
        if log is None:
            return
        for number, line in enumerate(record.text.split("\n")):
            text = line[record.head :] if number == 0 else line
            stamped = _STAMP.match(text)
            _take(text[stamped.end() :] if stamped is not None else text, record, number, log)

    def told(self, stamp: Stamp) -> Iterator[Event]:
        """Yield what is said now of each task that hangs, and was not before."""
        for log in self._logs.values():
            yield from _told(log, stamp)


def _take(text: str, record: LogRecord, number: int, log: _Log) -> None:
    """Take a line without its time."""
    if "INFO: task " in text:
        _begin(text, record, number, log)
    elif " held by " in text and (held := _HELD_BY.match(text)) is not None:
        log.now, log.listed = None, _task(log, int(held["pid"]))
        log.listed.locks.clear()
    elif log.listed is not None:
        lock = _HELD.match(text)
        if lock is not None and len(log.listed.locks) < _FRAMES:
            log.listed.locks.append(_Lock(lock["address"], lock["name"].strip("&").partition("[")[0], lock["at"]))
    elif log.now is not None:
        _trace(text, log.now)


def _task(log: _Log, pid: int) -> _Task:
    if pid not in log.tasks and len(log.tasks) >= _MOST:
        return _Task(pid)
    return log.tasks.setdefault(pid, _Task(pid))


def _begin(text: str, record: LogRecord, number: int, log: _Log) -> None:
    """Take a line that names a task whose lines follow."""
    log.listed = None
    owned, blocked = _OWNER.search(text), _BLOCKED.search(text)
    if owned is not None:
        waiter, owner = _task(log, int(owned["of"])), _task(log, int(owned["pid"]))
        waiter.owner, waiter.lock = owner.pid, owned["what"]
        owner.name = owned["name"]
        log.now = owner
    elif blocked is not None:
        log.now = _task(log, int(blocked["pid"]))
        log.now.name = blocked["name"]
        log.now.line = record.line_at(number) or 0
        log.now.proof = Evidence.of_record(record, log.source.name, text.strip(), number)
    else:
        log.now = None
        return
    log.now.anew = True


def _trace(text: str, task: _Task) -> None:
    """Take a line of a task's call trace; those with a question mark may not have been called."""
    if (queue := _QUEUE.match(text)) is not None:
        task.work = queue["work"]
        return
    frame = _FRAME.match(text)
    if frame is not None and task.anew:
        task.trace, task.anew, task.traced = [], False, False
    if frame is not None and not task.traced and len(task.trace) < _FRAMES:
        task.trace.append((frame["function"], frame["module"] or ""))
    elif task.trace and any(end in text for end in _ENDS):
        task.traced = True


def _told(log: _Log, stamp: Stamp) -> Iterator[Event]:
    hang = [task for task in log.tasks.values() if task.proof is not None]
    if (others := _others(hang)) and others != log.others:
        log.others = others
        yield from _said(others, _OTHERS, hang[0], log, stamp)
    for task in hang:
        said = _phrase(task, log)
        if said and said != task.told:
            task.told = said
            yield from _said(said, _CODE, task, log, stamp)


def _said(sentence: str, code: str, task: _Task, log: _Log, stamp: Stamp) -> Iterator[Event]:
    """Yield what is told beside the line of a task."""
    if task.proof is None:
        return
    diagnostic = Diagnostic(
        id=f"diagnostic:hosts/{code}/{log.source.id}/{task.pid}",
        system="hosts",
        code=code,
        severity=Severity.INFO,
        sentence=sentence,
        facts=MessageFacts(signature=code, ends="beside", first=task.line, last=task.line, pid=task.pid),
        evidence=(task.proof,),
        at_wall_ns=task.proof.at_wall_ns,
    )
    yield DiagnosticSeen(diagnostic=diagnostic, **stamp)


def _others(hang: Sequence[_Task]) -> str:
    """Return `and so are 4 others: jbd2/vdb1-8, pump, kworker/3:1, …` of all but the first (K3), or ""."""
    names = sorted((task.name for task in hang[1:]), key=lambda name: (name.startswith("kworker/"), "/" not in name))
    if not names:
        return ""
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return f"and so {'is' if len(names) == 1 else 'are'} {many(len(names), 'other')}: {shown}"


def _phrase(task: _Task, log: _Log) -> str:
    """Return `in fill_tank of pump, waiting for a mutex that 412 (lid) holds`, or ""."""
    if not task.where:
        return ""
    lock = next((one for one in reversed(task.locks) if one.at == task.waits_in), None)
    owner = _owner(task, log)
    kind = task.lock or task.waits_for.removeprefix("a ")
    what = f"{kind} {lock.name}" if lock is not None and task.locks[-1] is lock and kind in _LOCKS else ""
    what = what or (f"a {task.lock}" if task.lock else task.waits_for)
    said = f"in {task.where}"
    if what:
        said = f"{said}, waiting for {what}"
    if owner is not None and what:
        who = f"process {owner.pid}" + (f" ({owner.name})" if owner.name else "")
        said = f"{said} of {who}"
        if _in_circle(task, log):
            return f"{said}, which waits for it in turn: a deadlock in the kernel"
        if owner.where:
            waits = f" for {owner.waits_for}" if owner.waits_for else ""
            said = f"{said}, which waits in {owner.where}{waits}"
    elif task.work:
        said = f"{said} (work: {task.work})"
    elif not what and task.caller:
        said = f"{said}, called by {task.caller}"
    return said


_LOCKS: Final = ("mutex", "semaphore", "rw-semaphore", "semaphore of readers and writers")


def _owner(task: _Task, log: _Log) -> _Task | None:
    """Return the owner of what a task waits for (K2), or None."""
    if task.owner:
        return log.tasks.get(task.owner)
    wanted = next((one for one in task.locks[-1:] if one.at == task.waits_in), None)
    if wanted is None or task.waits_for.removeprefix("a ") not in _LOCKS:
        return None
    others = (other for other in log.tasks.values() if other is not task)
    holding = [
        other
        for other in others
        if any(one.address == wanted.address and one.at != other.waits_in for one in other.locks)
    ]
    return holding[0] if len(holding) == 1 else None


def _in_circle(task: _Task, log: _Log) -> bool:
    owner = _owner(task, log)
    for _ in range(_DEEPEST):
        if owner is None or owner is task:
            break
        owner = _owner(owner, log)
    return owner is task
