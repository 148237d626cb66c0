"""Facts from traces and logs of torch.compile."""

from __future__ import annotations

from livedbg.model import Diagnostic
from livedbg.model.facts import Facts, facts_from, facts_of


class CompileFacts(Facts, frozen=True, kw_only=True, tag="torch.compile"):
    """Facts of a compile diagnostic.

    Attributes:
        pid, rank, process: the compiling process, from the log, and as the session knows it.
        first_ns, last_ns: times of the log's first and last record.
        trace: path of its trace.
        traced: it is a trace, and has phases.
        frame, phase, phases, begun_ns, attempt, task: of the open compilation.
        place: the frame, or where a graph broke.
        times, limit, guard: recompilations of a frame, the setting whose limit they reached, and the guard; for an open
            one, `times` is the number of ended compilations.
        reason, error, text: of a break, a failure, an ended worker.
        lines: numbers of log lines that end a traceback with which a function was left out.
    """

    pid: int = 0
    rank: int | None = None
    process: str = ""
    first_ns: int = 0
    last_ns: int = 0
    trace: str = ""
    traced: bool = False
    frame: str = ""
    phase: str = ""
    phases: str = ""
    begun_ns: int | None = None
    attempt: int = 0
    task: str = ""
    place: str = ""
    times: int = 0
    limit: str = ""
    guard: str = ""
    reason: str = ""
    error: str = ""
    text: str = ""
    lines: tuple[int, ...] = ()


def compile_facts(said: Diagnostic) -> CompileFacts:
    """Return the facts of a diagnostic; old recordings have them as texts."""
    if said.facts is not None:
        return facts_of(said.facts, CompileFacts)
    return facts_from({**said.attributes, "lines": said.attributes.get("lines", "").split()}, CompileFacts)
