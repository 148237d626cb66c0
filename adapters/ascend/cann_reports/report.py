"""One failure of one process, as the lines of its log tell it, piece by piece."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from livedbg.adapters.ascend.cann_codes import KNOWN, Group
from livedbg.adapters.ascend.cann_reports.patterns import Fact
from livedbg.adapters.ascend.marks import Mark
from livedbg.model import CauseClass, ExceptionHit

__all__ = ["CAUSES", "CODE", "Kind", "Report", "is_npu"]

CODE: Final = "cann-report"
"""Code of the diagnostics."""

_CODES: Final = 12  # of one report
_MARKS: Final = 4  # lines of evidence, but for the last


class Kind(StrEnum):
    """What failed, the nearest to a cause first."""

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
_OF_GROUP: Final = {
    Group.HARDWARE: Kind.HARDWARE,
    Group.FAULT: Kind.FAULT,
    Group.MEMORY: Kind.MEMORY,
    Group.SETUP: Kind.SETUP,
    Group.USAGE: Kind.OPERATOR,
    Group.RESOURCE: Kind.OPERATOR,
    Group.TIMEOUT: Kind.TIMEOUT,
    Group.MASK: Kind.MASKED,
}
_SUSPECT: Final = "507057"
_FFTS_TIMEOUT: Final = "507048"
_UNKNOWN: Final = "ERR99999"[3:]
_MEMORY_BLOCKS: Final = frozenset({"EL0004", "EI0007", "EI0011"})
_SETUP_BLOCKS: Final = frozenset({"EJ0001", "EJ0002", "EJ0003", "EJ0004"})
_COLLECTIVE_BLOCKS: Final = frozenset(
    {"EI0002", "EI0005", "EI0006", "EI0008", "EI0009", "EI0010", "EI0012", "EI0013", "EI0015"}
)
_INNER: Final = ("Inner Error", "Internal error", "Inner error")
_EXCEPTIONS: Final = re.compile(
    r"\bN[Pp][Uu]\b|\bACL\b|\bacl(?:rt|nn)\w|HCCL|Hccl|\bAscend\b|Launch kernel failed|\bERR\d{5} "
    r"|Inner error is reported"
)
_FIRST_WINS: Final = frozenset({"core", "aicpu"})


def is_npu(hit: ExceptionHit) -> bool:
    """Whether an exception that a log shows is one of the NPU's software."""
    return _EXCEPTIONS.search(hit.message) is not None


class Report(Struct):
    """One failure.

    Attributes:
        number: of it, among those of its session.
        fields: what is known of it, by the names of the patterns' groups; what came first stays.
        codes: return codes, in order.
        blocks: identifiers of CANN's messages, in order.
        kinds: of the facts.
        raised: some line is no warning, but an error, or part of an exception.
        first: the first line.
        cause: the line that says most of the cause.
        last: the last line.
        lines: numbers of the first lines that told something.
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
    raised: bool = False
    last: Mark | None = None
    lines: list[int] = field(default_factory=list)

    def learn(self, fact: Fact, mark: Mark) -> None:
        """Take one fact."""
        fields = dict(fact.fields)
        code, block = fields.pop("code", ""), fields.pop("block", "")
        if code and code not in self.codes and len(self.codes) < _CODES:
            self.codes.append(code)
        if block:
            if block not in self.blocks and len(self.blocks) < _CODES:
                self.blocks.append(block)
            text = fields.pop("text", "")
            if not text.startswith(_INNER) and fact.kind in ("block", "titled"):
                self.fields.setdefault("text", text)
                self.fields.setdefault("text_of", block)
        if fact.kind in _FIRST_WINS and fact.kind in self.kinds:
            return  # a further core: its fields must not be mixed with those of the first
        if fact.kind == "words" and "words" in self.fields:
            return
        for name, text in fields.items():
            if text not in ("", "-1"):
                self.fields.setdefault(name, text)
        self.kinds.setdefault(fact.kind, mark)

    @property
    def known(self) -> list[Group]:
        """Groups of its codes."""
        return [KNOWN[int(code)].group for code in self.codes if int(code) in KNOWN]

    @property
    def kind(self) -> Kind:
        """What it is, by all that is known now."""
        kinds, groups, blocks = self.kinds, self.known, set(self.blocks)
        if "hardware" in kinds or Group.HARDWARE in groups:
            return Kind.HARDWARE
        if "core" in kinds or "aicpu" in kinds or "kernel" in kinds or Group.FAULT in groups:
            timed_out = Group.TIMEOUT in groups and Group.FAULT not in groups
            return Kind.TIMEOUT if timed_out and _FFTS_TIMEOUT not in self.codes else Kind.FAULT
        if "memory" in kinds or Group.MEMORY in groups or blocks & _MEMORY_BLOCKS:
            return Kind.MEMORY
        if blocks & _COLLECTIVE_BLOCKS or {"notify", "socket", "link", "lost", "hccl", "port"} & kinds.keys():
            return Kind.SETUP if blocks & _SETUP_BLOCKS else Kind.COLLECTIVE
        if "driver" in kinds and "Open" not in self.fields.get("driver_call", ""):
            return Kind.DRIVER
        if {"setup", "driver"} & kinds.keys() or Group.SETUP in groups or blocks & _SETUP_BLOCKS:
            return Kind.SETUP
        return self._lesser(groups)

    def _lesser(self, groups: list[Group]) -> Kind:
        if "operator" in self.kinds or "mindspore" in self.kinds:
            return Kind.OPERATOR if "op" in self.fields else Kind.OTHER
        for group in (Group.USAGE, Group.RESOURCE, Group.TIMEOUT):
            if group in groups:
                return _OF_GROUP[group]
        if "text" in self.fields:
            return Kind.OTHER
        if self.codes or "reason" in self.fields or "call" in self.kinds:
            return Kind.MASKED
        if "logged" in self.kinds:
            return Kind.LOGGED
        if self.fields.get("torch") == _UNKNOWN:
            return Kind.EXIT
        return Kind.OTHER if "said" in self.fields else Kind.MASKED

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Its evidence: the first line, those that say most, the last one."""
        order = (
            "hardware",
            "core",
            "aicpu",
            "kernel",
            "words",
            "memory",
            "driver",
            "setup",
            "notify",
            "lost",
            "socket",
            "operator",
            "titled",
            "block",
            "call",
        )
        best = [self.kinds[kind] for kind in order if kind in self.kinds][:_MARKS]
        marks = [self.first, *best, *([self.last] if self.last is not None else [])]
        return tuple(dict.fromkeys(marks))
