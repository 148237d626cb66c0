"""Facts of an Ascend run, its tasks and its failures."""

from __future__ import annotations

from livedbg.model import Diagnostic
from livedbg.model.facts import Facts, facts_shown, read_facts


class TaskFacts(Facts, frozen=True, kw_only=True, tag="ascend.task"):
    """Facts of a task.

    Attributes:
        ring, local, task_id: the ring, the number in it, and the runtime's number of both.
        func: func ids of its kernels.
        inferred: evidence for its state, if no line shows it.
        deferred: its kernel has returned, but its asynchronous completion has not been signalled.
        buffered: it is ready, and not among the dispatches, all of which the log shows.
        waits_for: awaited object, according to memory.
        since: precision of its state's time: `exact`, `not before`, `not after`.
        evidence, evidence_text, evidence_wall_ns: place, text and time of the newest line about it.
        entered, entered_text, entered_wall_ns: the same for the line that gave it to its core, if different.
    """

    ring: int | None = None
    local: int | None = None
    task_id: int | None = None
    func: str = ""
    blocks: int = 1
    inferred: str = ""
    deferred: bool = False
    buffered: bool = False
    waits_for: str = ""
    since: str = ""
    evidence: str = ""
    evidence_text: str = ""
    evidence_wall_ns: int | None = None
    entered: str = ""
    entered_text: str = ""
    entered_wall_ns: int | None = None


class JobFacts(Facts, frozen=True, kw_only=True, tag="ascend.job"):
    """Facts of a job's diagnostic: `scope` is the prefix of its entities' ids (`ascend`)."""

    scope: str = ""


class RunFacts(JobFacts, frozen=True, kw_only=True, tag="ascend.run"):
    """Progress of a run.

    Attributes:
        place: the folder of its log.
        phase, orchestrator, building: as in `run.Run`.
        certain, reason: whether a line names the blocking tasks, or else why they are suspected.
        quiet: nothing has happened for long.
        last_wall_ns: time of the last activity; 0 if not known.
        graph: the edges between its tasks are known.
        memory: the memory of its process is read.
        moved: it has progressed while its memory was read.
        runs: text on completed runs of its graph; "" for none, or if no run was seen to end.
        again: there were several.
        began_wall_ns: start, by memory; 0 if not known.
        limit_s, limit_by: the limit of the scheduler's watchdog, and its source.
        completed, total, running, ready, waiting: counts of tasks; None if not known.
    """

    place: str = ""
    phase: str = ""
    orchestrator: str = ""
    building: bool = False
    certain: bool = False
    reason: str = ""
    quiet: bool = False
    last_wall_ns: int = 0
    process: str = ""
    graph: bool = False
    memory: bool = False
    moved: bool = False
    runs: str = ""
    again: bool = False
    began_wall_ns: int = 0
    limit_s: float = 0.0
    limit_by: str = ""
    completed: int | None = None
    total: int | None = None
    running: int | None = None
    ready: int | None = None
    waiting: int | None = None


class StallFacts(JobFacts, frozen=True, kw_only=True, tag="ascend.stall"):
    """Report of the scheduler's watchdog.

    Attributes:
        sub_class, sub_class_by: the class of the stall; `counts` if it was concluded from these.
        code, advice: the error code and remedy, as text.
        drained: all cores have ended since.
        idle_s: time without progress; None if not known.
        orch_done: the orchestrator had submitted all; None if no line says it.
        core: the one that a task runs on which is not named.
        load: load of the machine, as text.
    """

    sub_class: str = ""
    sub_class_by: str = ""
    code: str = ""
    advice: str = ""
    drained: bool = False
    idle_s: float | None = None
    orch_done: bool | None = None
    core: int | None = None
    load: str = ""


class RingFacts(JobFacts, frozen=True, kw_only=True, tag="ascend.ring"):
    """Resource that the orchestrator has run out of.

    Attributes:
        full: the runtime's name of it.
        what, name: the kind of resource (`resources.Full`), and its name in a sentence.
        level, size, wanted: fill, capacity, and need of a task, as text.
        never_fits: one task wants more than there is.
        scopes: sentences from scope_stats.jsonl.
        by_scope: an open scope holds it.
        host_built: the whole graph must fit.
        code: the error code as text.
    """

    full: str = ""
    what: str = "task slots"
    name: str = "its task ring"
    level: str = ""
    size: str = ""
    wanted: str = ""
    never_fits: bool = False
    scopes: str = ""
    by_scope: bool = False
    host_built: bool = False
    code: str = ""


class FailureFacts(JobFacts, frozen=True, kw_only=True, tag="ascend.failure"):
    """Failure reported by the runtime, the host or CANN.

    Attributes:
        error_code: the runtime's; 0 for none.
        code: an error code as text.
        message, hint: from the runtime.
        blame: usual cause.
        call: the host's failed call; `who`: the process and device that made it.
        mask: a code that only says that something failed.
        device_log: path of the device's log.
        fault_kernel: the kernel named in CANN's fault report.
        thrown: language of an exception.
        simulator: it may have run on the simulator.
        waited: text on the host's own time limit if it fired first; "" for others.
        at_once: concurrent cases of the test run; 0 if no line says it.
    """

    error_code: int = 0
    code: str = ""
    message: str = ""
    hint: str = ""
    advice: str = ""
    blame: str = ""
    call: str = ""
    who: str = ""
    mask: bool = False
    device_log: str = ""
    fault_kernel: str = ""
    thrown: str = ""
    simulator: bool = False
    waited: str = ""
    at_once: int = 0


class OrderFacts(JobFacts, frozen=True, kw_only=True, tag="ascend.order"):
    """An order that the task graph lacks.

    Attributes:
        tensor, region: number of the tensor, and the part of it.
        first, second: the two tasks' declarations.
        hazard: `read after write`, …
        why, next: the likely cause, and remedies, a step a line.
        count: number of similar pairs of tasks.
    """

    tensor: int = 0
    region: str = ""
    first: str = ""
    second: str = ""
    hazard: str = ""
    why: str = ""
    next: str = ""
    count: int = 1


class CoreFacts(JobFacts, frozen=True, kw_only=True, tag="ascend.core"):
    """A core whose kernel has not returned, with its thread, kernel and task."""

    core: int = 0
    tid: int = 0
    func: int | None = None
    task: int | None = None


class CompileFacts(Facts, frozen=True, kw_only=True, tag="ascend.compile"):
    """An error of pypto's compiler or of ptoas.

    Attributes:
        function, op, shape: the compiled function, and the operation and shape of the error.
        place, code, origin: the source line, its text, and the program line that it was generated from.
        generated: the compiler wrote that file.
        foreign: nothing shows that pypto wrote what ptoas refuses.
        hint: the compiler's own advice.
        internal, check: a check of the compiler itself failed, and its place.
        more, beyond: further errors of the same report, and dropped ones.
        report: the file with the full text.
        failed, side, last: the failed pass, whether its `result` or `input` is wrong, the last pass that ended.
        complete: all passes ended.
        dump, missing, compare: the newest dump of the passes, number of missing ones before it, and a command that
            shows what the last pass changed.
    """

    stage: str = ""
    function: str = ""
    op: str = ""
    shape: str = ""
    place: str = ""
    generated: bool = False
    foreign: bool = False
    code: str = ""
    origin: str = ""
    hint: str = ""
    internal: bool = False
    check: str = ""
    more: int = 0
    report: str = ""
    beyond: int = 0
    compare: str = ""
    last: str = ""
    dump: str = ""
    missing: int = 0
    complete: bool = False
    failed: str = ""
    side: str = ""


class ReportFacts(Facts, frozen=True, kw_only=True, tag="ascend.report"):
    """A failure on an NPU, as CANN and libraries above it report it. Texts are copied from the lines.

    Attributes:
        kind: what failed (`reports.Kind`).
        who: `rank 1`, `VllmWorker TP1 (pid 961)`, `process 4711`; "" if not known.
        codes: return codes, in order.
        blocks: ids of CANN's messages, in order.
        order: its index among the reports read.
        owner: owner of its lines, by their prefixes.
        source, process: the log and its process.
        lines: numbers of its first lines.
        raised: some line is an error or part of an exception, not a warning.
        pid, rank, device, chip: the process and the NPU.
        text, text_of, inner: CANN's text and its id, and that of the call below it.
        said, words, reason: torch_npu's text; the reason.
        api, op, operation: the failed call, operator, and collective operation.
        place: of the program's line that noticed it, as the program prints it.
        wait, wait_id, engine: what a stream waited for; an engine of the device that failed.
        core, what, error_code, pc_start, pc, stream, task, kernel, unit, aicpu: place on the NPU, and what ran there.
        error_bits: of the three numbers that a core reports, the first that is not 0.
        tried, bytes, free, total, allocated: of a failed allocation.
        driver_call, driver: a driver call and its return value.
        module, function, first_error: of an error line of CANN's logs; `detail` if that tells why a call was refused.
        hccl, tag, waited, remote, role, socket, limit, port, group, member, size: of a collective operation.
        remotes: all peers that are named alike, `remote` too.
        deeper: the last reason below `TraceBack`, where it is another one than `inner`, the first.
        linked, possible: a link of HCCL could not be made; what CANN names as a possible cause.
        lost, lost_at, lost_how, server: of a lost device.
        torch: torch_npu's error code.
    """

    kind: str = "other"
    who: str = ""
    codes: tuple[int, ...] = ()
    blocks: tuple[str, ...] = ()
    order: int = 0
    owner: str = ""
    source: str = ""
    process: str = ""
    lines: tuple[int, ...] = ()
    raised: bool = False
    pid: str = ""
    rank: str = ""
    device: str = ""
    chip: str = ""
    text: str = ""
    text_of: str = ""
    inner: str = ""
    said: str = ""
    words: str = ""
    reason: str = ""
    api: str = ""
    op: str = ""
    operation: str = ""
    place: str = ""
    wait: str = ""
    wait_id: str = ""
    engine: str = ""
    core: str = ""
    what: str = ""
    error_code: str = ""
    error_bits: str = ""
    pc_start: str = ""
    pc: str = ""
    stream: str = ""
    task: str = ""
    kernel: str = ""
    unit: str = ""
    aicpu: str = ""
    tried: str = ""
    bytes: str = ""
    free: str = ""
    total: str = ""
    allocated: str = ""
    driver_call: str = ""
    driver: str = ""
    module: str = ""
    function: str = ""
    first_error: str = ""
    detail: str = ""
    hccl: str = ""
    tag: str = ""
    waited: str = ""
    remote: str = ""
    remotes: tuple[str, ...] = ()
    deeper: str = ""
    linked: str = ""
    possible: str = ""
    role: str = ""
    socket: str = ""
    limit: str = ""
    port: str = ""
    group: str = ""
    member: str = ""
    size: str = ""
    lost: str = ""
    lost_at: str = ""
    lost_how: str = ""
    server: str = ""
    torch: str = ""


def scope_of(said: Diagnostic) -> str:
    """Return the job of a diagnostic; "" for none."""
    return facts_shown(said.facts).get("scope", "") if said.facts is not None else read_facts(said, JobFacts).scope
