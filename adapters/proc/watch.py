"""Watch one process: each sample gives the events that describe the changes.

Invariants:
    watch.W1. A thread, resource or edge is emitted if and only if it is new or differs from what was last emitted.
    watch.W2. What can't be seen is left out; what can be seen is still emitted.
    watch.W3. A reused pid (another start time) counts as the end of the process. An edge of a thread that has run
        since it was emitted is a new one: the address of a lock or the number of a thread may have been reused.
    watch.W4. What follows from the mapped files (C library, runtime) is of those that are mapped now: at first there is
        only the loader, and a program may load a runtime late.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from livedbg.adapters.proc import problems
from livedbg.adapters.proc.asleep import AWAKE, AsleepReader
from livedbg.adapters.proc.identity import ExitStatus, Identity, OpenFiles, executable, read_identity, start_wall_ns
from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.threads import ThreadNumbers, ThreadReader, ThreadSample
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.wait_reader import WaitReader
from livedbg.adapters.proc.waits import NO_WAIT, Wait, edges_of
from livedbg.linux import procfs, target_files
from livedbg.linux.abi import native_abi
from livedbg.linux.access import Problem, access_problem
from livedbg.linux.live_environment import Libc, LiveEnvironment, detect_libc
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.linux.procfs import BlockedSyscall, Stat
from livedbg.model import Edge, EdgeKey, EdgeKind, Process, Resource, Thread, ThreadState, ids
from livedbg.model.events import Event, ProcessExited, ProcessSeen, Stamper, ThreadsExited, ThreadsSeen
from livedbg.session.publisher import Publisher, Statuses
from livedbg.text.sanitize import clean_line

_IDENTITY_EVERY: Final = 16
"""The command, working folder, tracer and mapped files are read again every so many samples.

The mapped files are also read at each of the first samples before which the process had mapped more.
"""

_CHILDREN_EVERY: Final = 4
_MANY: Final = 64
"""When more threads than this ran, the children of all are read at every _CHILDREN_EVERY-th look only."""


class ProcessWatch:
    """Samples one process repeatedly.

    Args:
        scene: state shared by all processes.
        start_ticks: its start time when it was named; None accepts any.
        role: a note for processes that aren't targets themselves.

    Attributes:
        related: other processes that hold what its threads wait for.
        children: its child processes, as far as its threads could have made new ones.
    """

    def __init__(
        self, scene: Scene, pid: int, start_ticks: int | None = None, *, role: str = "", named: bool = False
    ) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self.id = ids.process(scene.host, pid)
        if not role:
            target_files.register(pid)
        self.gone = False
        self.changed = True
        self.related: set[int] = set()
        self.children: set[int] = set()
        self.role = role
        self._named = named
        self._scene = scene
        self._stamp = Stamper(scene.host)
        self._reader = ThreadReader(pid)
        self._numbers = ThreadNumbers(pid)
        self._waits: WaitReader | None = None
        self._sleeper: AsleepReader | None = None
        self._asleep = AWAKE
        self._blind = False
        self._turn = -1
        self._identity = Identity()
        self._environment: LiveEnvironment | None = None
        self._image = ""
        self._young = 0
        self._mapped = 0
        self._libc: Libc | None = None
        self._process: Process | None = None
        self._threads: dict[int, Thread] = {}
        self._waiting: dict[int, Wait] = {}
        self._runs: dict[int, int | None] = {}
        self._edges: dict[EdgeKey, Edge] = {}
        self._shown = {part: Publisher(f"proc/{self.id}{part}") for part in ("", "/threads", "/cgroup", "/limits")}
        self._statuses = Statuses(problems.SOURCE)
        self._others: set[int] = set()
        self._members: frozenset[int] = frozenset()
        self._children_due = True
        self._files = OpenFiles(scene.host, pid)
        self._ending = ExitStatus(pid, watched=not role)

    def close(self) -> None:
        self._reader.close()
        self._ending.close()

    def join(self) -> None:
        """Make a related process a target: it belongs to the tree. Its identity is read again."""
        if self.role:
            self.role, self._image = "", ""
            target_files.register(self.pid)
            self._ending.close()
            self._ending = ExitStatus(self.pid)

    def sample(self) -> list[Event]:
        """Sample once; return the events of changes."""
        self._turn += 1
        try:
            stat = procfs.read_stat(self.pid)
            if self.start_ticks is None:
                self.start_ticks = stat.start_ticks
            if stat.start_ticks != self.start_ticks:
                return self._end(None)
            samples, changed = self._reader.sample()
            if stat.state is ThreadState.ZOMBIE and procfs.all_ended(self.pid):
                return self._end(stat)
            events = self._read_identity(stat)
            if self._identity.gated:  # what its shell does is nobody's business
                return events + self._process_events(stat, [])
            waits = self._read_waits(samples)
            self._asleep = self._sleeper.sample(samples, changed, waits) if self._sleeper is not None else AWAKE
        except (ProcessLookupError, FileNotFoundError):
            return self._missed()
        except PermissionError:
            self.gone = True
            self.close()
            return self._statuses.changes(problems.hidden(self._scene.host, self.pid), self._stamp())
        events += self._process_events(stat, samples)
        events += self._thread_events(samples, changed, waits)
        events += self._edge_events(waits)
        self.related = (self._others | self._asleep.pids) - {self.pid}
        events += self._whole_events("cgroup", self._scene.groups.resource(self.pid))
        events += self._whole_events("limits", self._files.resource())
        self._find_children(changed)
        self.changed = bool(events)
        return events

    def _missed(self) -> list[Event]:
        """Handle something that vanished during a sample: the process has ended or is about to.

        Its memory goes before it becomes a zombie, and only a zombie shows the exit status: the next sample may get it.
        """
        try:
            stat = procfs.read_stat(self.pid)
        except OSError:
            return self._end(None)
        if stat.start_ticks != self.start_ticks:
            return self._end(None)
        if stat.state is ThreadState.ZOMBIE and procfs.all_ended(self.pid):
            return self._end(stat)
        self.changed = True
        return self._process_events(stat, [])

    def _end(self, stat: Stat | None) -> list[Event]:
        """Return the events of its end; a zombie still shows its exit status."""
        self.gone = True
        self.changed = True
        status = self._ending.of(stat, self.start_ticks, denied=self._blind)
        self.close()
        sentence = ""
        if stat is not None and self._process is None:
            self._process = self._model(stat, 0, ("zombie",))
            sentence = (
                f"Process {self.pid} has ended; it is a zombie: its parent {stat.ppid} "
                "has not collected its exit status."
            )
        events: list[Event] = []
        if self._process is None and self._named:
            self._process = Process(
                id=self.id,
                host=self._scene.host,
                pid=self.pid,
                start_ticks=self.start_ticks,
                state=ThreadState.DEAD,
                named=True,
            )
        if self._process is not None and self._turn == 0:
            events.append(ProcessSeen(process=self._process, **self._stamp()))
        for shown in self._shown.values():
            events += shown.clear(self._stamp())
        events.append(ProcessExited(id=self.id, status=status, **self._stamp()))
        ended = problems.ended(self._scene.host, self.pid, status, "zombie" if sentence else "", sentence)
        return events + self._statuses.changes(ended, self._stamp())

    def _read_identity(self, stat: Stat) -> list[Event]:
        """Read its identity at intervals; check permissions at first and after an exec."""
        image = executable(self.pid) or stat.name
        due = self._turn % _IDENTITY_EVERY == 0
        if image == self._image and not (due and self._blind):
            grew = not self._blind and stat.mapped != self._mapped and (due or self._turn < self._young)
            events = self._read_mapped(stat) if grew else []
            if due:
                self._scene.groups.forget(self.pid)
                self._identity = read_identity(self.pid, self._environment)
            return events
        self._scene.groups.forget(self.pid)
        self._image = image
        self._young = self._turn + _IDENTITY_EVERY
        self._waits = self._sleeper = self._environment = self._libc = None
        found = access_problem(self.pid) or problems.machine_problem(self.pid)
        self._blind = found is not None
        events = self._status_events(found) if found is not None else self._read_mapped(stat)
        self._identity = read_identity(self.pid, self._environment)
        return events

    def _read_mapped(self, stat: Stat) -> list[Event]:
        """Read the mapped files; if they show another C library, read all waits anew with it."""
        self._mapped = stat.mapped
        mappings = parse_maps(self.pid)
        libc = detect_libc(self.pid, mappings)
        if libc != self._libc:
            self._libc = libc
            view = self._view(libc, mappings)
            self._waits = WaitReader(view)
            self._sleeper = AsleepReader(view)
            self._environment = None if self.role else LiveEnvironment(self.pid, mappings, libc)
        found = problems.runtime_problem(self.pid, mappings)  # says more than the C library: a Go program has none
        return self._status_events(found or (problems.libc_problem(self.pid, libc) if mappings else None))

    def _status_events(self, found: Problem | None) -> list[Event]:
        """Return the statuses of a new problem and of problems that have gone."""
        host, stamp = self._scene.host, self._stamp()
        status = problems.status_of(host, self.pid, found) if found else problems.seen(host, self.pid)
        events = self._statuses.withdrawn(self.id, stamp, but=(status.code,))
        return events + self._statuses.changes(status, stamp)

    def _view(self, libc: Libc, mappings: list[Mapping]) -> ProcessView:
        abi = native_abi()
        if abi is None:
            raise AssertionError("problems.machine_problem has told so")
        return ProcessView(self._scene, self.pid, abi, libc, self._numbers, mappings)

    def _read_waits(self, samples: list[ThreadSample]) -> dict[int, Wait]:
        if self._waits is None:
            return {}
        try:
            return self._waits.sample(samples)
        except PermissionError:  # it dropped or gained privileges meanwhile
            self._waits, self._sleeper, self._blind = None, None, True
            return {}

    # what became of it

    def _process_events(self, stat: Stat, samples: list[ThreadSample]) -> list[Event]:
        notes = [self.role] if self.role else []
        inner = self._numbers.inner_pid
        if inner is not None:
            notes.append(f"pid namespace: {inner}")
        if self._identity.tracer:
            notes.append(f"traced by {self._identity.tracer}")
        if stat.state is ThreadState.ZOMBIE:
            notes.append("main thread ended")
        state = stat.state
        if state is not ThreadState.STOPPED and any(sample.state is ThreadState.RUNNING for sample in samples):
            state = ThreadState.RUNNING
        process = self._model(stat, len(samples), tuple(notes), state)
        if process == self._process:
            return []
        self._process = process
        return [ProcessSeen(process=process, **self._stamp())]

    def _model(self, stat: Stat, threads: int, notes: tuple[str, ...], state: ThreadState | None = None) -> Process:
        known = self._identity
        return Process(
            id=self.id,
            host=self._scene.host,
            pid=self.pid,
            ppid=stat.ppid,
            start_ticks=stat.start_ticks,
            start_wall_ns=start_wall_ns(stat.start_ticks),
            rank=known.rank,
            exe=known.exe,
            command=known.command or (clean_line(stat.name),),
            cwd=known.cwd,
            user=known.user,
            state=state or stat.state,
            thread_count=threads,
            environment=known.environment,
            notes=notes,
            target=not self.role,
            named=self._named,
            outside=self._asleep.outside,
        )

    def _thread_events(
        self, samples: list[ThreadSample], changed: list[ThreadSample], waits: dict[int, Wait]
    ) -> Iterable[Event]:
        host = self._scene.host
        fresh = {sample.tid for sample in changed}
        seen = []
        for sample in samples:
            known = self._threads.get(sample.tid)
            wait = waits.get(sample.tid, NO_WAIT)
            same = known is not None and known.waits_in == wait.waits_in and known.timed == wait.timed
            same = same and known is not None and (known.wakers, known.outside) == self._asleep.of(host, sample.tid)
            if sample.tid in fresh or not same:
                thread = self._thread(sample, wait)
                if thread != known:
                    self._threads[sample.tid] = thread
                    seen.append(thread)
        ended = self._threads.keys() - {sample.tid for sample in samples}
        gone = tuple(self._threads.pop(tid).id for tid in sorted(ended))
        if seen:
            yield ThreadsSeen(threads=tuple(seen), **self._stamp())
        if gone:
            self.children = set(procfs.child_pids(self.pid))  # those of an ended thread pass to another one
            yield ThreadsExited(ids=gone, **self._stamp())
        if gone or any(thread.tid not in self._members for thread in seen):
            self._members = frozenset(self._threads)
            yield from self._shown["/threads"].show(self._stamp(), edges=map(self._part_of, self._threads.values()))

    def _part_of(self, thread: Thread) -> Edge:
        evidence = f"/proc/{self.pid}/task/{thread.tid}"
        return Edge(kind=EdgeKind.PART_OF, source=thread.id, target=self.id, evidence=evidence)

    def _thread(self, sample: ThreadSample, wait: Wait) -> Thread:
        abi = native_abi()
        call = sample.call
        number = call.number if isinstance(call, BlockedSyscall) else -1
        syscall = abi.syscalls.get(number, str(number)) if abi is not None and number >= 0 else None
        wakers, outside = self._asleep.of(self._scene.host, sample.tid)
        return Thread(
            id=ids.thread(self._scene.host, self.pid, sample.tid),
            process=self.id,
            tid=sample.tid,
            name=clean_line(sample.name),
            state=sample.state,
            wait_channel=sample.wait_channel,
            syscall=syscall,
            waits_in=wait.waits_in,
            wait=wait.kind,
            sleeps_s=wait.sleeps_s,
            timed=wait.timed,
            cpu_ns=sample.cpu_ns,
            switches=sample.runs,
            queued_ns=sample.queued_ns,
            last_ran_mono_ns=sample.last_ran_ns,
            wakers=wakers,
            outside=outside,
            marks=sample.marks,
            start_ticks=sample.start_ticks,
            moved=sample.moved,
        )

    def _edge_events(self, waits: dict[int, Wait]) -> list[Event]:
        waiting = {tid: wait for tid, wait in waits.items() if wait.waited}
        runs = {tid: self._threads[tid].switches for tid in waiting if waiting[tid].timed is False}
        if waiting == self._waiting and runs == self._runs:  # most often the very same objects: compared in no time
            return []
        ran = {
            ids.thread(self._scene.host, self.pid, tid) for tid, count in runs.items() if self._runs.get(tid) != count
        }
        self._waiting, self._runs = waiting, runs
        stamp = self._stamp()
        since = {
            key: edge.since_mono_ns
            for key, edge in self._edges.items()
            if edge.since_mono_ns is not None and key.source not in ran
        }
        named = [(ids.thread(self._scene.host, self.pid, tid), wait) for tid, wait in waiting.items()]
        edges, resources = edges_of(named, since, stamp["mono_ns"])
        self._edges = edges
        self._others = {pid for key in edges for pid in (_pid_of(key.source), _pid_of(key.target)) if pid}
        return self._shown[""].show(stamp, resources=resources.values(), edges=edges.values())

    def _whole_events(self, file: str, found: Resource | None) -> list[Event]:
        """Return changes of what holds back the whole process: its control group, or a limit of its own."""
        if found is None:
            return self._shown[f"/{file}"].show(self._stamp(), resources=(), edges=())
        ends = (self.id, found.id) if file == "cgroup" else (found.id, self.id)
        edge = Edge(kind=EdgeKind.PART_OF, source=ends[0], target=ends[1], evidence=f"/proc/{self.pid}/{file}")
        return self._shown[f"/{file}"].show(self._stamp(), resources=(found,), edges=(edge,))

    def _find_children(self, changed: list[ThreadSample]) -> None:
        """Update `children`: only threads that ran can have new ones. If many ran, all are asked at intervals."""
        self._children_due = self._children_due or self._turn == 0 or len(changed) > _MANY
        if self._children_due and self._turn % _CHILDREN_EVERY == 0:
            self._children_due = False
            self.children = set(procfs.child_pids(self.pid))
        if len(changed) > _MANY:
            return
        for sample in changed:
            try:
                text = procfs.read_file(f"/proc/{self.pid}/task/{sample.tid}/children")
            except OSError:
                continue
            self.children.update(map(int, text.split()))


def _pid_of(entity: str) -> int:
    """Return the pid in a process or thread id; 0 for anything else."""
    found = ids.parse(entity)
    return int(found.parts[1]) if found.kind in ("process", "thread") else 0
