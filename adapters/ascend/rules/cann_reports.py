"""Rule for failures that CANN, torch_npu, HCCL or MindSpore report: the first cause, and its consequences.

Invariants:
    cann_rule.C1. The report of a process that is not the target's decides nothing; nor does one while a target lives.
    cann_rule.C2. Warnings that only carry a code (torch_npu prints them while it ends) are no crash.
    cann_rule.C3. Ranks that waited for others are no cause if a rank reports a failure of its own
        (livedbg.analysis.postmortem.causes makes them notes).
    cann_rule.C4. A core's fault comes before what the run's own log says of its end, which follows from it: a core that
        failed does not answer. Not so if CANN ended the operation for its time: a core that waited then looks alike.
    cann_rule.C5. The number that HCCL gives a rank within a group is not said to be the rank of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec.structs import asdict, replace

from livedbg.adapters.ascend.codes import CannCode, Group, cann_codes
from livedbg.adapters.ascend.facts import ReportFacts
from livedbg.adapters.ascend.logs import OWN_LINES
from livedbg.adapters.ascend.reports import CODE, Kind, is_npu, report_facts, texts
from livedbg.adapters.ascend.rules.jobs import JobDiagnostics, jobs
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import place_text
from livedbg.analysis.postmortem.survived import unless_survived
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.said import finding_about
from livedbg.analysis.rules.words import many, name_of
from livedbg.analysis.user_code import Inside
from livedbg.model import CUT_OFF, Diagnostic, ExceptionHit, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.signatures.templates import names_in, render
from livedbg.text.quantities import byte_size
from livedbg.text.shortening import compilers_own, shortened
from livedbg.text.wording import sentence_case, spans

_FOLLOWERS: Final = 4
_NAMED: Final = 8
_LONGEST: Final = 220  # characters of a text that is quoted
_LONGEST_CODE: Final = 16 << 20
"""Bytes of a kernel's code: a counter farther from its start is of other code, or was not read well."""
_CODED: Final = frozenset({"code", "number"})
"""Values with which a sentence says the code itself."""
_FAILED: Final = " failed"  # the end of a code's meaning that says no more than that
_WARNINGS: Final = (Kind.MASKED, Kind.TIMEOUT, Kind.OTHER, Kind.MEMORY, Kind.EXIT)
_LAUNCHED: Final = (Kind.HARDWARE, Kind.FAULT, Kind.TIMEOUT)
_OF_RUNTIME: Final = 507  # thousands: a mask of these says only that some task failed
_WORLD: Final = "hccl_world_group"
_OF_HOST: Final = "%"
"""Stands in a group's name that HCCL made of its first host's address and interface: it may be that of all ranks."""
_UNITS: Final[Mapping[str, str]] = MappingProxyType({"aicore": "an AI core", "aivec": "a vector core"})
_EVERYWHERE: Final = frozenset({"main", "test", "run"})
_RANKS: Final = {kind: rank for rank, kind in enumerate(Kind)}


class _Report(NamedTuple):
    said: Diagnostic
    facts: ReportFacts

    @property
    def kind(self) -> Kind:
        return Kind(self.facts.kind)


class CannReports:
    """An NPU failure, as its software reports it."""

    name = "ascend-report"
    doc = (
        "A log holds a report of CANN, torch_npu, HCCL or MindSpore: a kernel that failed on a core, out of memory, an "
        "operator that was refused, a collective operation that ran out of time, a device that could not be opened. "
        "Of several processes the one with a failure of its own comes first; ranks that only waited follow from it. "
        "A crash if no target lives and the log does not go on after it. A code alone in a warning is `unknown`, the "
        "report of a process outside the target is a note. In the log of a `simpler` run, the run's own rules judge."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield the most likely cause, then one finding for each other kind."""
        told = [said for said in state.snapshot.diagnostics.values() if said.system == "ascend" and said.code == CODE]
        reports = [_Report(said, report_facts(said)) for said in told]
        reports = [report for report in reports if report.kind is not Kind.EXIT] or reports
        judged = sorted(((self._judged(report, state), report) for report in reports), key=lambda one: _order(*one))
        if not judged:
            return
        finding, cause = judged[0]
        yield self._main(finding, cause, judged[1:])
        yield from self._following(cause, judged[1:])

    def _judged(self, report: _Report, state: RuleInput) -> Finding:
        hit = _exception(report, state.snapshot)
        sentence, steps = _words(report.facts, _place(hit, report.kind, state))
        more = {"sentence": sentence, "next": steps, "state": VerdictState.CRASHED}
        finding = finding_about(self.name, report.said, Severity.CRITICAL, **more)
        return _with_verdict(finding, report, state, hit)

    def _main(self, finding: Finding, cause: _Report, rest: Sequence[tuple[Finding, _Report]]) -> Finding:
        words = ""
        same = [
            report
            for other, report in rest
            if report.kind is cause.kind and other.state is finding.state and not _same_process(report, cause)
        ]
        if same:
            verb = "report" if len(same) > 1 else "reports"
            words = f" {many(len(same), 'other process', 'other processes')} {verb} the like{_names(same)}."
        if cause.kind is Kind.COLLECTIVE:
            words += _missing([cause, *same])
        return replace(finding, sentence=finding.sentence + words)

    def _following(self, cause: _Report, rest: Sequence[tuple[Finding, _Report]]) -> Iterator[Finding]:
        by_kind: dict[tuple[Kind, bool], list[tuple[Finding, _Report]]] = {}
        for finding, report in rest:
            if report.kind is not cause.kind or finding.state is None:
                by_kind.setdefault((report.kind, finding.state is None), []).append((finding, report))
        for told in list(by_kind.values())[:_FOLLOWERS]:
            finding, _ = told[0]
            others = [report for _, report in told[1:]] if finding.state is not None else []
            more = f" {many(len(others), 'more process', 'more processes')} like it{_names(others)}." if others else ""
            yield replace(finding, sentence=finding.sentence + more)


def _same_process(one: _Report, other: _Report) -> bool:
    """Return whether two reports are of one process, whose lines came by two ways; ranks may have an equal pid."""
    named = one.facts.who, other.facts.who
    ranks = all(who.startswith("rank ") for who in named)
    return named[0] == named[1] != "" or (one.facts.pid == other.facts.pid != "" and not ranks)


def _order(finding: Finding, report: _Report) -> tuple[int, int, int, int]:
    state = {VerdictState.CRASHED: 0, VerdictState.UNKNOWN: 1}.get(finding.state or VerdictState.EXITED, 2)
    return state, _RANKS[report.kind], report.said.at_wall_ns or 0, report.facts.order


def _with_verdict(finding: Finding, report: _Report, state: RuleInput, hit: ExceptionHit | None) -> Finding:
    """Return the finding with its verdict state (C1, C2)."""
    snapshot = state.snapshot
    targets = [process for process in snapshot.processes.values() if process.target]
    pid, own, kind = report.facts.pid, report.facts.process, report.kind
    if targets and pid and not own and all(str(process.pid) != pid for process in targets):
        return _note(finding, "It is no process of the target.")
    alive = next((process for process in targets if not process.exited and own in ("", process.id)), None)
    if alive is not None:
        said = f"{sentence_case(name_of(alive.id, snapshot))} still lives."
        return _note(finding, said, VerdictState.UNKNOWN)
    if any(_tells_more(job, report) for job in jobs(state)):
        return _note(finding, "The run's own log tells more.")
    if not report.facts.raised and kind in _WARNINGS:
        return _note(finding, "It is a warning only; whether it ended the process is not known.", VerdictState.UNKNOWN)
    if kind is Kind.LOGGED and hit is None:
        return _note(finding, "Whether it ended the process is not known.", VerdictState.UNKNOWN)
    if kind is Kind.MASKED and not (report.facts.inner or report.facts.detail or report.facts.possible):
        finding = replace(finding, sentence=f"{finding.sentence} That masks the cause, which these logs do not hold.")
    return unless_survived(finding, snapshot, OWN_LINES.search)


def _tells_more(job: JobDiagnostics, report: _Report) -> bool:
    """Return whether a run's own log says more of its end than CANN does (C4)."""
    facts = report.facts
    faulted = report.kind in (Kind.FAULT, Kind.HARDWARE) and facts.core and facts.error_code.strip("0x")
    if faulted and job.first("operation-ended") is None:
        return False
    return any(job.first(code) is not None for code in ("cann-code", "fatal", "timeout-exit"))


def _note(finding: Finding, why: str, state: VerdictState | None = None) -> Finding:
    return replace(
        finding,
        severity=Severity.WARNING,
        sentence=f"{finding.sentence} {why}",
        state=state,
        decides=state is VerdictState.UNKNOWN,
    )


def _names(reports: Sequence[_Report]) -> str:
    told = (report.facts for report in reports if report.facts.who)
    names = list(dict.fromkeys(f"{one.who}{_at_noticed(one.place)}" for one in told))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f" ({', '.join(names[:_NAMED])}{more})" if names else ""


def _at_noticed(place: str) -> str:
    return f" at {_noticed(place)}" if place.rpartition(":")[2].isdecimal() else ""


def _missing(reports: Sequence[_Report]) -> str:
    """Return a sentence on ranks of the waiting group that have reported nothing."""
    known = [report.facts for report in reports if report.facts.member and report.facts.size]
    if len({facts.group for facts in known}) != 1:
        return ""
    size, told = int(known[0].size), {int(facts.member) for facts in known}
    missing = [rank for rank in range(min(size, 100_000)) if rank not in told]
    if not missing or len(missing) > len(told) or len(missing) > _NAMED:
        return ""
    named = ", ".join(map(str, missing))
    one = len(missing) == 1
    who = f"Rank {named} of that group has" if one else f"Ranks {named} of that group have"
    return f" {who} reported nothing here: look there first."


def _exception(report: _Report, snapshot: Snapshot) -> ExceptionHit | None:
    """Return the exception that followed a report: in the same log, with words of the NPU's software."""
    hits = (hit for hit in snapshot.exceptions.values() if hit.source == report.facts.source and hit.stack)
    return next((hit for hit in hits if is_npu(hit) or hit.message == CUT_OFF), None)


def _place(hit: ExceptionHit | None, kind: Kind, state: RuleInput) -> str:
    """Return `, raised at step (train.py:14)`, the user's own line; of a traceback that is cut off no library's.

    What failed on the device was launched before: the host only noticed it there.
    """
    frame = state.code.frame_of(hit.stack) if hit is not None else None
    if frame is not None and hit is not None and hit.message == CUT_OFF and state.code.inside(frame) is not Inside.USER:
        return ""
    seen = "noticed" if kind in _LAUNCHED else "raised"
    return f", {seen} at {place_text(frame)}" if frame is not None else ""


def _words(facts: ReportFacts, place: str) -> tuple[str, tuple[str, ...]]:
    """Return the sentences of a report and its remedies (data/reports.toml); the first sentence ends with the place."""
    known, values = texts(), _values(facts)
    said = next(one for one in known.said if one.kind == facts.kind and all(map(values.get, one.needs)))
    steps = [render(step, values) for step in said.next]
    steps = [render(known.steps[step[1:]], values) if step.startswith("@") else step for step in steps]
    who = f"{facts.who}: " if facts.who else ""
    if len(facts.codes) == 1 and _CODED.intersection(names_in(said.sentence)):
        values = {**values, "codes": ""}
    details = filter(None, (render(detail, values) for detail in known.details))
    if not place and facts.place:
        named = facts.place.rpartition(":")[2].isdecimal()
        place = f", noticed at {_noticed(facts.place)}" if named else f", in case {facts.place}"
    return " ".join([f"{sentence_case(who + render(said.sentence, values))}{place}.", *details]), tuple(steps)


def _noticed(place: str) -> str:
    """Return `add.cpp:31`; `add/main.cpp:31` where each program has a file of that name."""
    folder, _, file = place.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{file}" if folder and file.partition(".")[0] in _EVERYWHERE else file


def _values(facts: ReportFacts) -> Mapping[str, str]:
    """Return the template values of a report."""
    known = {name: text for name, text in asdict(facts).items() if isinstance(text, str)}
    npu = f"NPU {facts.device}" if facts.device else f"chip {facts.chip}" if facts.chip else ""
    kernel, code = facts.kernel or facts.op, _code(facts)
    meaning = code.meaning if code is not None else ""
    fault = code is not None and code.group is Group.FAULT
    own = "" if facts.kind == Kind.FAULT and (facts.core or not fault or meaning.endswith(_FAILED)) else meaning
    pid = facts.pid or facts.owner.removeprefix("pid ")
    memory = any(one.group is Group.MEMORY for one in _codes(facts))
    why = _short(facts.words or facts.reason or own or ("" if meaning else facts.inner or facts.said or facts.text))
    called = f"the call {facts.api}" if facts.api else "a call"
    return {
        **known,
        **{name: _short(known[name]) for name in ("text", "inner", "deeper", "first_error", "detail")},
        "said": _short(facts.inner or facts.said),
        "built": _short(compilers_own(facts.first_error)),
        **_values_of_collective(facts),
        **_values_of_lost(facts),
        "error_code": facts.error_code if facts.error_code.strip("0x") else facts.error_bits or facts.error_code,
        "npu": npu,
        "the_npu": npu or "the NPU",
        "wait": facts.wait or "event",
        "kernel": kernel,
        "engine": "" if kernel or facts.core else facts.engine,
        "the_kernel": kernel or "the kernel",
        "subject": _subject(facts, kernel, meaning.removesuffix(_FAILED) if fault and not (own or facts.core) else ""),
        "on_core": kernel or facts.core,
        "at": _at(facts, npu),
        "why": why,
        "because": _short(facts.text) or _because(facts, code, why),
        "meaning": meaning,
        "advice": code.advice if code is not None else "",
        "number": str(code.number) if code is not None else "",
        "code": str(facts.codes[0]) if facts.codes else "",
        "codes": ", ".join(map(str, facts.codes[:4])),
        "block": facts.text_of or next(iter(facts.blocks), "an error"),
        "operator": f"operator {facts.op}" if facts.op else called,
        "call": facts.api if facts.api and facts.who else called,
        "asked": _failed_allocation(facts),
        "left": _memory_left(facts),
        "beside": "An allocation of memory failed, too" if facts.kind == Kind.FAULT and memory else "",
        "driver_call": facts.driver_call or "a call",
        "module": facts.module or "log",
        "offset": _offset(facts),
        "plog": pid if pid.isdecimal() else "PID",
    }


def _because(facts: ReportFacts, code: CannCode | None, why: str) -> str:
    """Return why a call was refused: what its code means, unless that says less than anything else."""
    if code is None or not code.mask:
        return code.meaning if code is not None else why
    other = why if why != code.meaning else ""
    return other or ("" if facts.op and code.number // 1000 == _OF_RUNTIME else code.meaning)


def _values_of_collective(facts: ReportFacts) -> Mapping[str, str]:
    code = facts.hccl
    words = texts().hccl.get(str(int(code)), "HCCL knows no words for it") if code else ""
    words += f": {_short(facts.reason)}" if words.endswith("failed") and facts.reason else ""
    connects = facts.socket or facts.role or _block("EI0006", facts)
    return {
        "operation": facts.operation or "a collective operation",
        "whom": _whom(facts),
        "waits": "" if connects or facts.linked else facts.tag or _block("EI0002", facts),
        "connects": connects or ("" if facts.linked else facts.remote),
        "waited": f"{facts.waited} s" if facts.waited.isdecimal() else facts.waited,
        "within": f"within {facts.limit} s" if facts.limit else "in time",
        "returned": f"{facts.api or 'a call'} returned {code} ({words})" if code else "",
        "look": "connect" if connects else "ranks",
    }


def _whom(facts: ReportFacts) -> str:
    """Return `rank 3`, or `ranks 2-7`; `member 3 of group dp_1 (8 ranks)` where HCCL numbers those of a group (C5)."""
    if not facts.remote.isdecimal():
        return "another rank (HCCL does not know which)"
    own = facts.rank or facts.who.removeprefix("rank ")
    numbered_alike = facts.member == own or not (facts.member and own.isdecimal())
    peers = [int(one) for one in facts.remotes]
    several = len(peers) > 1
    named = spans(peers) if several else facts.remote
    if facts.group == _WORLD or (numbered_alike and (not facts.group or _OF_HOST in facts.group)):
        return f"rank{'s' if several else ''} {named}"
    size = f" ({facts.size} ranks)" if facts.size else ""
    return f"member{'s' if several else ''} {named} of {f'group {facts.group}' if facts.group else 'its group'}{size}"


def _block(name: str, facts: ReportFacts) -> str:
    return name if name in facts.blocks else ""


def _values_of_lost(facts: ReportFacts) -> Mapping[str, str]:
    address, _, device = facts.lost.rpartition("/")
    address = address or facts.server
    heartbeat = "Heartbeat" in facts.lost_how
    lost = "lost its heartbeat (its process ended, or the network failed)"
    return {
        "lost_device": device,
        "lost_of": f" of {address}" if address else "",
        "lost_how": lost if heartbeat else f"was reported: {facts.lost_how}",
        "lost_at": f" at {facts.lost_at}" if facts.lost_at else "",
    }


def _short(text: str) -> str:
    text = " ".join(text.split()).strip(" .!")
    left_open = text.count("[") - text.count("]")  # the line ends within it
    return f"{text}{']' * left_open}" if len(text) <= _LONGEST else shortened(text, _LONGEST)


def _codes(facts: ReportFacts) -> list[CannCode]:
    return [cann_codes()[code] for code in facts.codes if code in cann_codes()]


def _code(facts: ReportFacts) -> CannCode | None:
    """Return the most telling code: the first one that is no mask, else the first known one."""
    known = _codes(facts)
    return next((code for code in known if not code.mask), known[0] if known else None)


def _subject(facts: ReportFacts, kernel: str, meant: str) -> str:
    """Return `AICPU kernel NAME`, `a kernel`; without a name what the code means, if that is known."""
    own = facts.unit.lower()
    unit = "AICPU kernel" if facts.aicpu or own == "aicpu" else "kernel"
    if meant and not kernel:
        return meant
    if unit == "kernel" and own in _UNITS and not (kernel or facts.core):
        return f"a kernel on {_UNITS[own]}"
    return f"{unit} {kernel}" if kernel else f"{'a' if unit == 'kernel' else 'an'} {unit}"


def _at(facts: ReportFacts, npu: str) -> str:
    """Return ` on vector core 49 of NPU 0`."""
    if not facts.core:
        return f" on {npu}" if npu else ""
    unit = "vector core" if "aiv" in facts.what else "AI core"
    return f" on {unit} {facts.core}{f' of {npu}' if npu else ''}"


def _failed_allocation(facts: ReportFacts) -> str:
    """Return `rtMalloc of 2.00 GiB failed`."""
    size = facts.tried or (byte_size(int(facts.bytes)) if facts.bytes else "")
    if not size:
        return ""
    return f"{facts.api} of {size} failed" if "alloc" in facts.api.lower() else f"{size} were requested"


def _memory_left(facts: ReportFacts) -> str:
    """Return `1.00 GiB of 60.97 GiB are free, 58.92 GiB are in use by PyTorch`."""
    free = f"{facts.free} of {facts.total or '?'} are free" if facts.free else ""
    used = f"{facts.allocated} are in use by PyTorch" if facts.allocated else ""
    return ", ".join(filter(None, (free, used)))


def _offset(facts: ReportFacts) -> str:
    """Return `, 0x40 bytes into its code`: the program counter's offset in the kernel."""
    start, now = facts.pc_start, facts.pc
    if not (start.startswith("0x") and now.startswith("0x")):
        return ""
    offset = int(now, 16) - int(start, 16)
    return f", {offset:#x} bytes into its code" if 0 <= offset <= _LONGEST_CODE else ""
