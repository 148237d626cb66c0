"""Build reports of one process's failure from its log lines, and tell which logged exceptions they explain.

CANN, torch_npu, HCCL and MindSpore print these; data/reports.toml has the line patterns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.adapters.ascend.codes import Group, cann_codes
from livedbg.adapters.ascend.facts import ReportFacts
from livedbg.adapters.ascend.messages import Form, Forms, Mark, read_data
from livedbg.model import CUT_OFF, FAILED_TESTS, CauseClass, Diagnostic, ExceptionHit
from livedbg.model.facts import facts_from, facts_of
from livedbg.model.snapshot import Snapshot
from livedbg.text.patterns import lazy_re

CODE: Final = "cann-report"
"""Code of the diagnostics."""

_CODES: Final = 12  # of one report
_PEERS: Final = 4_096  # of one report
_MARKS: Final = 4  # lines of evidence, but for the last


class Kind(StrEnum):
    """The kind of a failure, nearest to a cause first."""

    HARDWARE = "hardware"
    FAULT = "fault"  # of a kernel on a core
    MEMORY = "memory"
    SETUP = "setup"
    OPERATOR = "operator"  # the host refused a call, before anything ran
    TIMEOUT = "timeout"  # of a kernel
    DRIVER = "driver"
    COLLECTIVE = "collective"
    OTHER = "other"
    MASKED = "masked"  # only that something failed
    LOGGED = "logged"  # an error line of CANN's logs, and nothing else
    EXIT = "exit"  # that a process ended with an exception


CAUSES: Final = {
    Kind.HARDWARE: CauseClass.HOST,
    Kind.COLLECTIVE: CauseClass.PEER,
    Kind.MASKED: CauseClass.PROCESS,
    Kind.EXIT: CauseClass.SUMMARY,
}
"""How near to the cause of an end a kind is; the others are faults of a program on a device."""
_LESSER: Final = {Group.USAGE: Kind.OPERATOR, Group.RESOURCE: Kind.OPERATOR, Group.TIMEOUT: Kind.TIMEOUT}
_FFTS_TIMEOUT: Final = "507048"
_UNKNOWN: Final = "99999"  # torch_npu's ERR99999
_MEMORY_BLOCKS: Final = frozenset({"EL0004", "EI0007", "EI0011"})
_SETUP_BLOCKS: Final = frozenset({"EJ0001", "EJ0002", "EJ0004"})
_COLLECTIVE_BLOCKS: Final = frozenset(
    {"EI0002", "EI0005", "EI0006", "EI0008", "EI0009", "EI0010", "EI0012", "EI0013", "EI0015", "EJ0003"}
)
_NO_REASON: Final = lazy_re(
    r"(?:Inner|Internal) [Ee]rror|(?:\A|.* )rt\w{1,60} execut(?:e|ion) failed, reason=|.*\bruntime result = \d"
    r"|.*\brtGetDevMsg |Failed to compile Op \["
    r"|(?:get )?error: [^\n]{0,80}\berr(?:or)?(?: ?code)?[:=] ?(?:0x)?[\da-f]{1,16}\Z"
    r"|Failed to execute operator \S{1,200}\. Reason: Failed to execute tiling"
    r"|(?:Check param failed|Task execute failed|ctx is NULL"
    r"|(?:\w{1,20} )?[Kk]ernel (?:execute failed|(?:task )?happen error))"
    r"|\w{1,100} Launch\w{0,40} failed|Kernel \w{1,40} failed\. opType|launch failed for \w"
)
"""Texts that give no reason: an internal error, the code or reason of another call, or what follows from a failure.

rtGetDevMsg is the call that reads the messages of a failure."""
_NO_MORE: Final = lazy_re(r"the model stream execute failed|(?:aicore|aicpu|vector core|ffts ?plus) exception")
"""Reasons of a fault that only say that something failed."""
_DETAIL: Final = lazy_re(
    r" {0,4}(?:[A-Za-z]\w{1,60}:)?"
    r"(?P<said>(?!ErrCode=|report error|\w{1,60}\] )(?![^\n]{0,100}(?:execut(?:e|ion) failed|retCode=))[^\n]{8,300})"
)
"""The first error line of CANN's own logs, where it says more than that a call failed."""
_EXCEPTIONS: Final = lazy_re(
    r"\bN[Pp][Uu]\b|\bACL\b|\bacl(?:rt|nn)\w|HCCL|Hccl|\bAscend(?:\b|_\d)|Launch kernel failed|\bERR\d{5} "
    r"|Inner error is reported|\b(?:OPS|DIST|PTA|GRAPH|PROF) function error: "
)
_FIRST_WINS: Final = frozenset({"core", "aicpu"})
_RANK: Final = lazy_re(r"\brank ?[=:]? ?(\d{1,6})\b|\[(?:rank|default)(\d{1,6})\]|^(\d{1,6})$", re.IGNORECASE)
_WORKER: Final = lazy_re(r"\((?P<name>[\w .:/\[\]-]{1,100}?),? {0,100}pid=(?P<pid>\d{1,10})[^)]{0,2000}\)")
_OPERATION: Final = lazy_re(
    r"(?:Hcom|hcom_?)?(?P<name>All-?Reduce|AllGather\w*|ReduceScatter\w*|Broadcast|AllToAll\w*|Send|Recv\w*|Reduce|Scatter|Gather|Barrier|BatchSendRecv)",
    re.IGNORECASE,
)
_EXACT: Final = {
    b"[PID: ": rb"(?<=\d: )\[PID: \d",  # in a message of any module: `E10007: [PID: 441] …`
    b"[ERROR] ": rb"\[ERROR\] [A-Z_]{2,12}\(-?\d{1,10},[^,)\n]{0,100}\):",
    b"current device: ": rb"current device: -?\d{1,5}, in function \w{1,200} at \S{0,300}ggml-cann",
    b"mindspore/ccsrc/": rb"(?<![^\n])mindspore/ccsrc/\S{1,300}\.cc:\d{1,6} \w",  # of its own C++ call stack
    b"Message info[": rb"Message info\[\d{1,4}\]: ?RTS_",
    b"DEVICE[": rb"DEVICE\[\d{1,5}\] PID\[\d",
    b"aicpu_scheduler):": rb"aicpu_scheduler\):\S{10,40} \[(?!device_log\.)[\w.:]{1,60}\](?:\[\w{1,60}\])?\[tid:",
}
"""Words of anybody's lines, and what must match where they begin; simpler's own lines are of device_log.cpp."""
_ALONE: Final = 507  # thousands: such a number is CANN's, also without a word beside it
_RUN_FAILED: Final = lazy_re(
    r"\b\w{1,1000} failed with code -?\d{1,40}|\(run_id=\d{1,40} slot=\d{1,40} .{0,4000}run_epoch=\d{1,40}\)"
)
"""What the runtime raises in Python for a run that failed (simpler src/common/worker/chip_worker.cpp)."""
_BELOW: Final = 40  # lines of a compiler's report below its exception
_NEAR: Final = 40  # lines between a traceback that is cut off and the report that its last line begins

_GOLDEN: Final = "golden-mismatch"  # signatures/golden.toml
_RUN_ENDS: Final = frozenset(
    {"cann-code", "fatal", "ring-full", "runtime-failed", "tensor-wait-timeout", "timeout-exit", "watchdog-starved"}
)
"""Codes of the diagnostics of which each is a finding of its own."""


class Said(Struct, frozen=True, forbid_unknown_fields=True):
    """Text for a kind of report.

    Attributes:
        needs: names of values that must be known.
        sentence: template of what failed, where and why.
        next: templates of remedies; `@NAME` for one of the file's `[steps]`.
    """

    kind: str
    sentence: str
    needs: tuple[str, ...] = ()
    next: tuple[str, ...] = ("@read", "@blocking")


class Texts(Struct, frozen=True, forbid_unknown_fields=True):
    """data/reports.toml."""

    words: tuple[str, ...]
    blocks: tuple[str, ...]
    details: tuple[str, ...]
    telling: tuple[str, ...]
    said: tuple[Said, ...]
    steps: dict[str, str]
    hccl: dict[str, str]
    forms: tuple[Form, ...] = field(name="form")


class Fact(NamedTuple):
    """Content of one line.

    Attributes:
        kind: its form.
        fields: the form's matched groups.
        weak: it begins no report, since any program may print such words.
    """

    kind: str
    fields: dict[str, str]
    weak: bool


@cache
def texts() -> Texts:
    """Return the parsed file."""
    return read_data("reports.toml", Texts)


@cache
def _forms() -> Forms:
    return Forms(texts().forms)


@cache
def triggers() -> tuple[bytes, ...]:
    """Return words that occur in every record about an NPU failure, and hardly in any other."""
    known, alone = texts(), [number for number in cann_codes() if number // 1000 == _ALONE]
    rare = cann_codes().keys() - set(alone)
    codes = [f"{word}{number}" for word in ("error code is ", "error code:", "failed: ") for number in rare]
    return (*_EXACT, *(word.encode() for word in (*known.words, *known.blocks, *map(str, alone), *codes)))


def exact() -> Mapping[bytes, re.Pattern[bytes]]:
    """Return patterns as for `LogDecoder.exact`."""
    return {word: re.compile(pattern) for word, pattern in _EXACT.items()}


def found_in(line: str) -> list[Fact]:
    """Return all facts in a line, in file order."""
    found = []
    for form in _forms().of(line):
        fields = form.fields(line)
        if fields is not None:
            named = {name.rstrip("0123456789"): text for name, text in fields.items() if text is not None}
            found.append(Fact(form.kind, named, form.weak))
    return found


def report_facts(said: Diagnostic) -> ReportFacts:
    """Return the facts of a report; old recordings have them as texts."""
    if said.facts is not None:
        return facts_of(said.facts, ReportFacts)
    known = said.attributes
    lists = {name: tuple(known.get(name, "").split()) for name in ("codes", "blocks", "lines")}
    owner = known.get("owner", "")
    named = {"who": _who(known, owner), "operation": _operation(known), "raised": "raised" in known}
    if "pid" not in known and (worker := _WORKER.search(owner)) is not None:
        named["pid"] = worker["pid"]
    return facts_from({**known, **lists, **named}, ReportFacts)


def _who(fields: Mapping[str, str], owner: str) -> str:
    rank, worker = _RANK.search(owner), _WORKER.search(owner)
    if "rank" in fields:
        return f"rank {fields['rank']}"
    if rank is not None:
        return f"rank {next(one for one in rank.groups() if one)}"
    about = fields.get("pid", "")  # of the process that the message names
    relayed = worker is not None and "engine core" in worker["name"] and about not in ("", worker["pid"])
    if worker is not None and not relayed:
        return f"{worker['name'].strip()} (pid {worker['pid']})"
    pid = fields.get("pid") or owner.removeprefix("pid ")
    return f"process {pid}" if pid.isdecimal() else owner


def _operation(fields: Mapping[str, str]) -> str:
    operation = _OPERATION.search(fields.get("tag", ""))
    return operation["name"] if operation is not None else ""


def is_npu(hit: ExceptionHit) -> bool:
    """Return whether a logged exception comes from the NPU's software."""
    return _EXCEPTIONS.search(hit.message) is not None


_TRACED: Final = lazy_re(
    r"(?:^|[\]:|] ?)\s{4,16}(?P<said>(?!Rectify |Possible |Solution|TraceBack|File |[\w.]{1,80}(?:\(| = ))"
    r"[A-Z][^\n\[:]{8,300})$"
)
"""A reason below `TraceBack`, without the place in CANN's source."""
_TRACED_LINES: Final = 8


class Report(Struct):
    """One failure.

    Attributes:
        number: its index in the session.
        fields: by group name; the first value is kept.
        codes: return codes, in order.
        remotes: the peers that its lines name.
        blocks: ids of CANN's messages, in order.
        kinds: kind of fact -> its line.
        raised: some line is an error or part of an exception, not a warning.
        lines: numbers of the first relevant lines.
    """

    number: int
    source: str
    owner: str
    process: str
    first: Mark
    fields: dict[str, str] = field(default_factory=dict)
    codes: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    kinds: dict[str, Mark] = field(default_factory=dict)
    remotes: dict[str, None] = field(default_factory=dict)
    raised: bool = False
    last: Mark | None = None
    lines: list[int] = field(default_factory=list)

    def learn(self, fact: Fact, mark: Mark) -> None:
        fields = dict(fact.fields)
        code, block = fields.pop("code", ""), fields.pop("block", "")
        if code and code not in self.codes and len(self.codes) < _CODES:
            self.codes.append(code)
        if block:
            if block not in self.blocks and len(self.blocks) < _CODES:
                self.blocks.append(block)
            text = fields.pop("text", "")
            if _NO_REASON.match(text) is None and fact.kind in ("block", "titled"):
                self.fields.setdefault("text", text)
                self.fields.setdefault("text_of", block)
        if fact.kind in _FIRST_WINS and fact.kind in self.kinds:
            return  # a further core: its fields must not be mixed with those of the first
        if fact.kind == "words" and "words" in self.fields:
            return
        for name in ("inner", "detail"):
            if _NO_REASON.match(fields.get(name, "")) is not None:
                fields.pop(name)
        if fields.get("inner", "") not in ("", self.fields.get("inner", fields.get("inner"))):
            self.fields["deeper"] = fields["inner"]
        if fields.get("remote", "").isdecimal() and len(self.remotes) < _PEERS:
            self.remotes[fields["remote"]] = None
        for name, text in fields.items():
            if text not in ("", "-1"):
                self.fields.setdefault(name, text)
        self.kinds.setdefault(fact.kind, mark)

    def learn_below(self, line: str, mark: Mark) -> None:
        """Take a line below `TraceBack` for the reason, where nothing else gives one."""
        traced = self.kinds["traced"].line if "traced" in self.kinds else None
        near = traced is not None and mark.line is not None and 0 < mark.line - traced <= _TRACED_LINES
        found = _TRACED.search(line) if near and self.fields.keys().isdisjoint(("text", "inner")) else None
        if found is not None and _NO_REASON.match(found["said"]) is None:
            self.fields["inner"] = found["said"]
            self.kinds.setdefault("inner", mark)

    @property
    def known(self) -> list[Group]:
        """Return the groups of its known codes."""
        known = cann_codes()
        return [known[int(code)].group for code in self.codes if int(code) in known]

    @property
    def kind(self) -> Kind:
        """Return its kind by all current facts."""
        kinds, groups, blocks = self.kinds, self.known, set(self.blocks)
        if "hardware" in kinds or Group.HARDWARE in groups:
            return Kind.HARDWARE
        if {"core", "aicpu", "kernel", "engine"} & kinds.keys() or Group.FAULT in groups:
            timed_out = Group.TIMEOUT in groups and Group.FAULT not in groups
            return Kind.TIMEOUT if timed_out and _FFTS_TIMEOUT not in self.codes else Kind.FAULT
        if "memory" in kinds or Group.MEMORY in groups or blocks & _MEMORY_BLOCKS:
            return Kind.MEMORY
        if blocks & _COLLECTIVE_BLOCKS or {"notify", "socket", "link", "lost", "hccl", "port"} & kinds.keys():
            return Kind.SETUP if blocks & _SETUP_BLOCKS else Kind.COLLECTIVE
        if "wait" in kinds:
            return Kind.TIMEOUT
        if "driver" in kinds and "Open" not in self.fields.get("driver_call", ""):
            return Kind.DRIVER
        if {"setup", "driver"} & kinds.keys() or Group.SETUP in groups or blocks & _SETUP_BLOCKS:
            return Kind.SETUP
        return self._lesser(groups)

    def _lesser(self, groups: list[Group]) -> Kind:
        if "operator" in self.kinds or "mindspore" in self.kinds:
            return Kind.OPERATOR if "op" in self.fields else Kind.OTHER
        for group, kind in _LESSER.items():
            if group in groups:
                return kind
        if "text" in self.fields:
            return Kind.OTHER
        if self.codes or "reason" in self.fields or "call" in self.kinds:
            return Kind.MASKED
        if "logged" in self.kinds:
            return Kind.LOGGED
        if "torch" in self.fields and ("said" not in self.fields or self.fields["torch"] == _UNKNOWN):
            return Kind.EXIT
        return Kind.OTHER if "said" in self.fields else Kind.MASKED

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Return its evidence: the first line, the most telling ones, the last one."""
        best = [self.kinds[kind] for kind in texts().telling if kind in self.kinds][:_MARKS]
        marks = [self.first, *best, *([self.last] if self.last is not None else [])]
        return tuple(dict.fromkeys(marks))

    @property
    def facts(self) -> ReportFacts:
        known = {
            "kind": self.kind.value,
            "who": _who(self.fields, self.owner),
            "operation": _operation(self.fields),
            "codes": self.codes,
            "blocks": self.blocks,
            "order": self.number,
            "owner": self.owner,
            "source": self.source,
            "process": self.process,
            "lines": list(dict.fromkeys(self.lines)),
            "remotes": list(self.remotes),
            "raised": self.raised,
        }
        if self.kind is Kind.FAULT and _NO_MORE.match(self.fields.get("reason", "")) is not None:
            known["reason"] = ""
        detail = _DETAIL.match(self.fields.get("first_error", "")) if self.kind is Kind.OPERATOR else None
        if "text" in self.fields:
            known["detail"] = ""
        elif detail is not None:
            known["detail"] = detail["said"]
        return facts_from({**self.fields, **known}, ReportFacts)


def failed_tests(logs: Collection[str], snapshot: Snapshot) -> Iterator[str]:
    """Yield the tests that failed in one of these logs because a run failed."""
    for hit in snapshot.exceptions.values():
        if hit.source in logs and hit.catchpoint == f"log: {FAILED_TESTS}" and _RUN_FAILED.search(hit.message):
            yield hit.type


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether an exception only passes on an NPU failure or failed run that a diagnostic reports."""
    reports = [said for said in snapshot.diagnostics.values() if said.system == "ascend" and said.code == CODE]
    if any(said.source == hit.source and _passed_on(hit, said) for said in map(report_facts, reports)):
        return True
    if "golden" in hit.message.lower() and any(
        said.code == _GOLDEN and said.log == hit.source for said in snapshot.diagnostics.values()
    ):
        return True
    if any(_compile_error(hit, said) for said in snapshot.diagnostics.values() if said.code == "compile-error"):
        return True
    return _RUN_FAILED.search(hit.message) is not None and any(
        diagnostic.system == "ascend" and diagnostic.code in _RUN_ENDS and not diagnostic.resolved
        for diagnostic in snapshot.diagnostics.values()
    )


def _passed_on(hit: ExceptionHit, report: ReportFacts) -> bool:
    """Return whether an exception passes a report on, by its words or since it is cut off where the report begins."""
    if is_npu(hit):
        return True
    if CUT_OFF not in hit.message or hit.line is None:
        return False
    first, last = hit.first_line or hit.line, hit.line + _NEAR
    return any(first <= line <= last for line in report.lines)


def _compile_error(hit: ExceptionHit, error: Diagnostic) -> bool:
    """Return whether an exception is a compiler's error: the error's text is in it, or shortly after."""
    proof = error.evidence[0] if error.evidence else None
    if proof is None or proof.log != hit.source or hit.line is None or error.resolved:
        return False
    return proof.line is not None and (hit.first_line or hit.line) <= proof.line <= hit.line + _BELOW
