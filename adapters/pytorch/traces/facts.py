"""What traces and logs of torch.compile say of a process, as typed values."""

from __future__ import annotations

from livedbg.model import Diagnostic
from livedbg.model.facts import Facts, facts_from, facts_of


class CompileFacts(Facts, frozen=True, kw_only=True, tag="torch.compile"):
    """Of a diagnostic.

    Attributes:
        pid, rank, process: who compiles, as the log says it, and as the session knows it.
        first_ns, last_ns: times of the log's first and last record.
        trace: path of its trace.
        traced: it is a trace, and has phases.
        frame, phase, phases, begun_ns, attempt, task: of what is being compiled.
        place: the frame, or where a graph broke.
        times, limit, guard: how often a frame was compiled again, the setting whose limit that reached, and the guard;
            of what is open, how many compilations have ended.
        reason, error, text: of a break, of a failure, of a worker that ended.
        lines: of a log, that end a traceback with which a function was left out.
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
    """The facts of a diagnostic; in recordings of before they are texts."""
    if said.facts is not None:
        return facts_of(said.facts, CompileFacts)
    return facts_from({**said.attributes, "lines": said.attributes.get("lines", "").split()}, CompileFacts)
