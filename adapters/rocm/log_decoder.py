"""Decodes what the ROCR Debug Agent prints of the waves that faulted, or of all waves on SIGQUIT.

The adapter here also runs the decoder of rocgdb sessions: no signature can replace these two.

Source: ROCm documentation, "ROCR Debug Agent user guide", and its test's texts. Two forms of a wave's line, before and
since ROCm 7: `wave_1: pc=0x… (stopped, reason: ASSERT_TRAP)`, and `wave_1: pc=0x… (kernel_code_entry=0x… <KERNEL>,
kernargs=0x…) (stopped, reason: ASSERT_TRAP)`. In the older one only `Disassembly for function KERNEL:` has the kernel.

Invariants:
    log_decoder.A1. Waves without a fault as their reason are a dump of a running process, and no fault.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

from msgspec import Struct, field
from msgspec.structs import replace

from livedbg.adapters.rocm.debugger_decoder import DISPATCHES, STOPPED, DebuggerDecoder
from livedbg.logs.decoder import LogDecoder
from livedbg.model import CauseClass, Diagnostic, Evidence, LogRecord, LogSource, Severity
from livedbg.model.events import DiagnosticSeen, Event, Stamp
from livedbg.model.facts import MessageFacts
from livedbg.session.adapter import Request
from livedbg.session.polling import LogsAdapter
from livedbg.text.patterns import lazy_re
from livedbg.text.wording import many

_WAVE: Final = lazy_re(
    r"wave_\d{1,12}: pc=0x[0-9a-f]{1,16}(?: \(kernel_code_entry=0x[0-9a-f]{1,16}\s+<(?P<kernel>[^\n]{1,2000}?)>"
    r"(?:, kernargs=0x[0-9a-f]{1,16})?\))? \((?:stopped, reason: (?P<reason>[A-Z_| ]{1,80})|running)\)"
)
_HEAD: Final = lazy_re(r"^(?:Queue error|System event) \(HSA_|emory access fault by GPU ", re.MULTILINE | re.IGNORECASE)
_FUNCTION: Final = lazy_re(r"Disassembly for function (?P<name>[^\n]{1,2000}?):\s*$", re.MULTILINE)
_WORDS: Final = {
    "ASSERT_TRAP": "an assertion or trap",
    "MEMORY_VIOLATION": "an access to memory that it may not use",
    "APERTURE_VIOLATION": "an access outside of the address space",
    "ILLEGAL_INSTRUCTION": "an illegal instruction",
    "ADDRESS_ERROR": "a misaligned address",
    "INT_DIVIDE_BY_0": "an integer division by 0",
    "FP_DIVIDE_BY_0": "a division by 0",
    "FP_INVALID_OPERATION": "an invalid operation on floating-point numbers",
}
_NAME: Final = 160  # characters of a kernel's name in a sentence
_SHOWN: Final = 3


class _Dump(Struct):
    """The agent's output in one log.

    Attributes:
        waves: number of stopped ones by kernel and reason.
        functions: of the disassembly, in the order of the log.
        head: first line of the fault's message, which the waves are a part of.
        first: the first wave, where the fault begins.
    """

    source: LogSource
    number: int
    waves: Counter[tuple[str, str]] = field(default_factory=Counter)
    functions: dict[str, None] = field(default_factory=dict)
    head: Evidence | None = None
    first: Evidence | None = None
    at_wall_ns: int | None = None
    changed: bool = False


class AgentDecoder(LogDecoder):
    """Decodes the agent's list of waves."""

    name: ClassVar[str] = "rocm"
    triggers: ClassVar[tuple[bytes, ...]] = (
        b": pc=0x", b"Disassembly for function ", b"Queue error (", b"System event (", b"emory access fault by GPU ",
    )  # fmt: skip

    def __init__(self) -> None:
        self._dumps: dict[str, _Dump] = {}

    def opened(self, source: LogSource) -> None:
        self._dumps[source.id] = _Dump(source, len(self._dumps))

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        dump = self._dumps.get(record.source)
        if dump is None:
            return (), ()
        if dump.head is None and (head := _HEAD.search(record.text)) is not None:
            dump.head = _proof(dump, record, record.text[head.start() :].partition("\n")[0])
        for found in _WAVE.finditer(record.text):
            reason = (found["reason"] or "").strip()
            dump.waves[" ".join((found["kernel"] or "").split()), reason] += 1
            dump.changed = True
            if dump.first is None:
                wave = _proof(dump, record, found[0])
                dump.first = replace(dump.head, text=f"{dump.head.text}\n{wave.text}") if dump.head else wave
                dump.at_wall_ns = record.wall_ns
        for function in _FUNCTION.finditer(record.text):
            dump.functions[" ".join(function["name"].split())] = None
            dump.changed = True
        return (), ()

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        events: list[Event] = []
        for dump in self._dumps.values():
            if dump.changed and dump.first is not None:
                dump.changed = False
                events.append(DiagnosticSeen(diagnostic=_told(dump, dump.first), **stamp))
        return events


def _proof(dump: _Dump, record: LogRecord, text: str) -> Evidence:
    return Evidence(kind="log", text=text[:600], file=dump.source.name, line=record.line, log=record.source)


def _told(dump: _Dump, first: Evidence) -> Diagnostic:
    faults = Counter({wave: count for wave, count in dump.waves.items() if wave[1] in _WORDS})
    shown = faults or dump.waves
    kernels: Counter[str] = Counter()
    for (kernel, _), count in shown.items():
        kernels[kernel] += count
    # the function of the disassembly is the kernel, unless several are shown
    only = next(iter(dump.functions)) if len(dump.functions) == 1 else ""
    names = [kernel or only for kernel, _ in kernels.most_common(_SHOWN)]
    named = ", ".join(dict.fromkeys(f"{name[:_NAME]}…" if len(name) > _NAME else name for name in names if name))
    waves = many(shown.total(), "wave")
    if faults:
        reason = faults.most_common(1)[0][0][1]
        sentence = f"A kernel on an AMD GPU faulted: {named or 'its name is not shown'}: {_WORDS[reason]} ({waves})"
    else:
        sentence = f"When the debug agent looked, {waves} of {named or 'kernels without names'} were on the AMD GPU"
    return Diagnostic(
        id=f"diagnostic:rocm/agent/{dump.number}",
        system="rocm",
        code=STOPPED if faults else DISPATCHES,
        severity=Severity.CRITICAL if faults else Severity.WARNING,
        sentence=sentence,
        facts=MessageFacts(
            steps=("the line with => below `Disassembly for function` is the instruction; -ggdb adds its source line",)
        ),
        evidence=(first,),
        at_wall_ns=dump.at_wall_ns,
        cause=CauseClass.DEVICE if faults else None,
    )


class RocmLogsAdapter(LogsAdapter):
    """Decodes what debuggers of AMD GPUs print, from logs."""

    name = "rocm-logs"
    title = "ROCm's debuggers in logs"
    sees = "kernels, waves and faults that rocgdb and the ROCR debug agent print, in logs"

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        return (DebuggerDecoder(), AgentDecoder())
