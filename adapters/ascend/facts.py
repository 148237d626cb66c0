"""What is known of a run, of its tasks and of what failed in it, as typed values."""

from __future__ import annotations

from livedbg.model import Diagnostic
from livedbg.model.facts import Facts, facts_shown, read_facts


class TaskFacts(Facts, frozen=True, kw_only=True, tag="ascend.task"):
    """Of a task.

    Attributes:
        ring, local, task_id: the ring, the number in it, and the runtime's number of both.
        func: func ids of its kernels.
        blocks: how many blocks it has.
        inferred: what its state is concluded from, where no line says it.
        deferred: its kernel has returned, and its asynchronous completion has not been signalled.
        buffered: it is ready, and the log, which shows all dispatches, shows none of it.
        waits_for: what memory says that it waits for.
        since: of the time of its state: `exact`, `not before`, `not after`.
        evidence, evidence_text, evidence_wall_ns: place, text and time of the newest line about it.
        entered, entered_text, entered_wall_ns: the same of the line that gave it to its core, if that is another one.
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
    """Of a diagnostic of a job: `scope`, which one, as the identifiers of its entities begin (`ascend`)."""

    scope: str = ""


class RunFacts(JobFacts, frozen=True, kw_only=True, tag="ascend.run"):
    """How far a run is.

    Attributes:
        place: the folder of its log.
        phase, orchestrator, building: as in `run.Run`.
        certain, reason: whether a line says which tasks hold it up, or else why they are suspected.
        quiet: nothing has happened for long.
        last_wall_ns: when something last happened; 0 where that is not known.
        process: id of its process.
        graph: the edges between its tasks are known.
        memory: the memory of its process is read.
        moved: it has got on while its memory was read.
        runs: how many runs of its graph have completed before, in words; "" for none, or where no run was seen to end.
        again: these are several.
        began_wall_ns: when it began, by memory; 0 where that is not known.
        limit_s, limit_by: the limit of the scheduler's watchdog, and by what it is known.
        completed, total, running, ready, waiting: counts of tasks; None where they are not known.
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
    """What the scheduler's watchdog reports.

    Attributes:
        sub_class, sub_class_by: the class of the stall; `counts` where it is concluded from these.
        code, advice: the error code in words, and what to do about it.
        drained: all cores have ended since.
        idle_s: how long nothing had gone on then; None where the lines' times don't tell.
        orch_done: the orchestrator had submitted all; None where no line says it.
        load: how busy the machine was, in words.
    """

    sub_class: str = ""
    sub_class_by: str = ""
    code: str = ""
    advice: str = ""
    drained: bool = False
    idle_s: float | None = None
    orch_done: bool | None = None
    load: str = ""


class RingFacts(JobFacts, frozen=True, kw_only=True, tag="ascend.ring"):
    """What the orchestrator has run out of.

    Attributes:
        full: what the runtime calls it.
        what, name: the kind of resource (`resources.Full`), and its name in a sentence.
        level, size, wanted: how full it is, how large, and how much a task wants, in words.
        never_fits: one task wants more than there is.
        scopes: what scope_stats.jsonl tells, in sentences.
        by_scope: an open scope holds it.
        host_built: the whole graph must fit.
        code: the error code in words.
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
    """What the runtime, the host or CANN reports as failed.

    Attributes:
        error_code: number of the runtime's error code; 0 for none.
        code: an error code in words.
        message, hint: what the runtime says.
        advice, blame: what to do, and whose fault it mostly is.
        call: the host's call that failed.
        mask: a code that only says that something failed.
        device_log: where the device's log lies.
        fault_kernel: the kernel that CANN's report of a fault names.
        thrown: the language of an exception.
        simulator: it may have run on the simulator.
        waited: of the host's own time limit, which fired first: which one and what for, in words; "" for another's.
        at_once: so many cases the test run had at once; 0 where no line says it.
    """

    error_code: int = 0
    code: str = ""
    message: str = ""
    hint: str = ""
    advice: str = ""
    blame: str = ""
    call: str = ""
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
        tensor, region: number of the tensor, and which part of it.
        first, second: how the two tasks declare it.
        hazard: `read after write`, …
        why, next: the likely cause, and what to do, a step a line.
        count: so many pairs of tasks are alike.
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
    """A core whose kernel has not returned: its number, its thread, the kernel and the task that it was given."""

    core: int = 0
    tid: int = 0
    func: int | None = None
    task: int | None = None


class CompileFacts(Facts, frozen=True, kw_only=True, tag="ascend.compile"):
    """An error of pypto's compiler or of ptoas.

    Attributes:
        stage: of the compiler.
        function, op, shape: what it compiled, and what of that the error is about.
        place, code, origin: the source line, its text, and the line of the program that it was generated from.
        generated: the compiler wrote that file.
        hint: the compiler's own advice.
        internal, check: a check of the compiler's own failed, and where that stands.
        more, beyond: further errors of the same report, and those that are not kept.
        report: the file with the whole text.
        failed, side, last: the pass that failed, whether its `result` or `input` is wrong, the last pass that ended.
        complete: all passes ended.
        dump, missing, compare: the newest dump of the passes, how many before it are not there, and a command that
            shows what the last pass changed.
    """

    stage: str = ""
    function: str = ""
    op: str = ""
    shape: str = ""
    place: str = ""
    generated: bool = False
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
    """A failure on an NPU, as CANN and what is built on it report it. What is text here is as the lines have it.

    Attributes:
        kind: what failed (`reports.Kind`).
        who: `rank 1`, `VllmWorker TP1 (pid 961)`, `process 4711`; "" if the log does not say.
        codes: return codes, in order.
        blocks: identifiers of CANN's messages, in order.
        order: it was the n-th that was read.
        owner: whose lines they are, as their prefixes have it.
        source, process: the log, and whose it is.
        lines: numbers of its first lines.
        raised: some line is no warning, but an error, or part of an exception.
        pid, rank, device, chip: the process and the NPU.
        text, text_of, said, words, reason: what CANN says, under which identifier; what torch_npu says; why.
        api, op, operation: the call, the operator, and the collective operation that failed.
        core, what, error_code, pc_start, pc, stream, task, kernel, unit, aicpu: where on the NPU, and what ran there.
        tried, bytes, free, total, allocated: of an allocation that failed.
        driver_call, driver: a call of the driver, and what it returned.
        module, function, first_error: of an error line of CANN's logs.
        hccl, tag, waited, remote, role, socket, limit, port, group, member, size: of a collective operation.
        lost, lost_at, lost_how, server: of a device that was lost.
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
    said: str = ""
    words: str = ""
    reason: str = ""
    api: str = ""
    op: str = ""
    operation: str = ""
    core: str = ""
    what: str = ""
    error_code: str = ""
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
    hccl: str = ""
    tag: str = ""
    waited: str = ""
    remote: str = ""
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
    """The job that a diagnostic is about; "" for none."""
    return facts_shown(said.facts).get("scope", "") if said.facts is not None else read_facts(said, JobFacts).scope
