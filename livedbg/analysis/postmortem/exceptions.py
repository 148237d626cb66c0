"""Exceptions in logs: their text, their place in the user's code, and their evidence.

The exception that a runtime's error was raised as is evidence of that error's finding too.

Invariants:
    exceptions.X1. Two logs have the same error if type and message are equal but for addresses, and the frames of the
        one are the innermost ones of the other: who copied it has cut off the rest. Without frames it is not known.
    exceptions.X2. Of a message that names a switch which prints its reason it is said that this is not printed; of one
        whose switch prints more of what is there, only the switch is told.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import place_text, repeated_frames
from livedbg.analysis.postmortem.lines import below_heading, first_after, known_lines
from livedbg.analysis.user_code import Inside, UserCode
from livedbg.linux.procfs import signal_name
from livedbg.logs.last_words import in_words, referred_to, switch_in, telling_line, without_addresses
from livedbg.logs.passed_on import with_deeper
from livedbg.logs.sanitizers import place_of
from livedbg.logs.subjects import asked_for, is_bare
from livedbg.logs.writers import rank_of
from livedbg.model import CUT_OFF, FAILED_TESTS, FAULT, Evidence, ExceptionHit, Frame, Process, ids
from livedbg.model.catchpoints import FAULTS, PRESETS, Moment
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import many, sentence_case, sentences

_ABORTED: Final = "glibc-abort"
RAISES: Final = "raises"
"""Mark of a text that names who raised an exception: it is said before that, and not beside it."""
_PLACED: Final = ("traceback", "terminate", "assert", "signal", FAULT, _ABORTED)
_SAID: Final = 300
_WHOLE: Final = 1_500  # characters of a message that are shown as evidence
_CALLERS: Final = 12
_PASSED_ON_NS: Final = 5_000_000_000  # from a fault to its end by a handler that writes of it
_SHORT: Final = 3  # processes of which each end is told though they lived too shortly to be listed
_BELOW: Final = 2
"""So many lines below an exception's may name a switch that prints more of it."""
_HIDDEN: Final = "Its reason is not printed"
_MOST: Final = 200  # exceptions of logs among which is looked


def exception_text(hit: ExceptionHit, placed: bool = False) -> str:
    """Return `KeyError: 'input_ids'`; of a message of several lines the most telling one."""
    place = place_of(hit.stack) if placed else ""
    tests = hit.catchpoint == f"log: {FAILED_TESTS}"
    said = hit.message.partition("\n")[0] if tests else in_words(telling_line(hit.message))
    named = said.endswith(hit.type) or said.startswith(f"Fatal Python error: {hit.type}")
    head = said if named else hit.type
    what = f"{head}, in {place}" if place else head
    return f"{what}: {said}" if said and not named else what


def with_referred(text: str, hit: ExceptionHit, snapshot: Snapshot) -> str:
    """Replace a reference to a section of the log by the text of that section."""
    before, title = referred_to(text)
    if not title or hit.source is None or hit.line is None:
        return text
    said = below_heading(title, hit.source, hit.first_line or hit.line, snapshot)
    return f"{before}: {said[:_SAID]}" if said else text


def crashed_in(hit: ExceptionHit, kind: str, code: UserCode) -> Frame | None:
    """Return the frame of the user's own code that a crash is reported in, or None.

    A traceback that ends before its innermost frame has the callers only: those of a library tell nothing.
    """
    frame = code.frame_of(hit.stack) if kind in _PLACED else None
    if frame is not None and hit.message == CUT_OFF and code.inside(frame) is not Inside.USER:
        return None
    return frame if frame is not None and (frame.file or kind == _ABORTED) and not is_of_string(frame) else None


def in_source(hit: ExceptionHit, place: Frame | None, code: UserCode) -> str:
    """Return the source line of a message that alone does not say what it is about, or ""."""
    if place is None or hit.catchpoint != "log: traceback" or not _is_bare(hit):
        return ""
    line = asked_for(code.raised_in(hit.stack, bare=True) or place, place)
    return f", in `{line}`" if line else ""


def _is_bare(hit: ExceptionHit) -> bool:
    return is_bare(f"{hit.type}: {hit.message}" if hit.message else hit.type)


def with_raising(hit: ExceptionHit, snapshot: Snapshot) -> ExceptionHit:
    """Return an exception with the frames that an earlier traceback of it shows, if it was only raised again."""
    hits = snapshot.exceptions
    if not hit.stack or not hit.message or hit.line is None or len(hits) > _MOST:
        return hit
    told = (hit.source, hit.writer, hit.type, hit.message)
    before = [one for one in hits.values() if one.line is not None and one.line < hit.line and one.stack]
    same = [one for one in before if (one.source, one.writer, one.type, one.message) == told]
    if not same:
        return hit
    return replace(hit, stack=with_deeper(hit.stack, max(same, key=lambda one: one.line or 0).stack))


def aborted_in(hit: ExceptionHit, snapshot: Snapshot) -> Frame | None:
    """Return the function that asserted, by the stack of the abort that a debugger shows below, or None."""
    hits = snapshot.exceptions
    if hit.stack or hit.line is None or len(hits) > _MOST:
        return None
    below = (one for one in hits.values() if one.source == hit.source and (one.line or 0) > hit.line)
    first = min(below, key=lambda one: one.line or 0, default=None)
    shows = first is not None and first.type == "SIGABRT" and first.writer == hit.writer
    return first.stack[0] if first is not None and shows and first.stack else None


def raised_by(hit: ExceptionHit, snapshot: Snapshot) -> str:
    """Return who raised an exception, as a line of its text names it, or of a text that shows it again; or "".

    Of several that passed it on the last is the one in which it was raised.
    """
    named = [said for said in snapshot.diagnostics.values() if RAISES in said.message.marks and said.log == hit.source]
    told = (hit.source, hit.type, hit.message)
    same = [one for one in snapshot.exceptions.values() if (one.source, one.type, one.message) == told] if named else []
    spans = [(one.first_line or one.line or 0, one.line or 0) for one in same[:_MOST]]
    own = [said for said in named if any(first <= said.message.first <= last for first, last in spans)]
    return sorted(own, key=lambda said: said.message.first)[-1].message.values.get("by", "") if own else ""


def is_of_string(frame: Frame) -> bool:
    """Return whether a frame is a line of a string that Python runs, as an installer does: no file has that line."""
    return frame.function == "<module>" and frame.file == "<string>"


def crashed_where(hit: ExceptionHit, kind: str, code: UserCode, by: str = "") -> str:
    """Return `Rank 3 crashed in collate (train.py:31)`, of both languages if one calls the other; `Crashed`."""
    if kind == FAILED_TESTS:
        who = f"{sentence_case(hit.writer)}: " if rank_of(hit.writer) is not None else ""
        return f"{who}The test run failed"
    frame = crashed_in(hit, kind, code)
    where = f" in {place_text(frame)}" if frame is not None else ""
    caller = code.frame_of([one for one in hit.stack if one.language == "python"]) if where else None
    raised = code.raised_in(hit.stack, bare=_is_bare(hit)) if where else None
    if raised is not None:
        where += f", in {place_text(raised)}"
    if frame is not None and frame.language != "python" and caller is not None and caller.file:
        where = f" in {place_text(caller)},{where}"
    who = hit.writer if rank_of(hit.writer) is not None else by or hit.writer
    return f"{sentence_case(who)} crashed{where}" if who else f"Crashed{where}"


def fault_of(process: Process, snapshot: Snapshot) -> ExceptionHit | None:
    """Return the signal, with its stack, that a catchpoint saw end a process, or None.

    Of several on that thread, the first: a handler may have passed it on (Python's faulthandler) or aborted.
    """
    faults = PRESETS[FAULTS].patterns  # the kernel kills for memory wherever a thread is
    caught = [
        hit
        for hit in snapshot.exceptions.values()
        if hit.process == process.id
        and hit.type in faults
        and (point := snapshot.catchpoints.get(hit.catchpoint or "")) is not None
        and point.moment is Moment.SIGNAL
    ]
    ended = [hit for hit in caught if hit.type == signal_name(-(process.exit_status or 0))]
    if not ended:
        return None
    last = max(ended, key=lambda hit: hit.at_wall_ns or 0)
    near = range((last.at_wall_ns or 0) - _PASSED_ON_NS, (last.at_wall_ns or 0) + 1)
    before = [hit for hit in caught if hit.thread == last.thread and (hit.at_wall_ns or 0) in near]
    return min(before, key=lambda hit: hit.at_wall_ns or 0)


def fault_place(fault: ExceptionHit, code: UserCode) -> str:
    """Return the place of a fatal signal, `scale (ops.cpp:12)`; "" in the C library alone, or if others sent it."""
    frame = code.frame_of(fault.stack)
    return "" if frame is None or fault.sent else place_text(frame)


def is_rethrown(fault: ExceptionHit) -> bool:
    """Return whether what ended a program was thrown elsewhere: `future.get()` throws what another thread threw."""
    return any(frame.function.startswith("std::rethrow_exception") for frame in fault.stack)


def thrown_as(type_name: str, snapshot: Snapshot) -> ExceptionHit | None:
    """Return the last exception of a type that a catchpoint saw thrown, or None."""
    thrown = (
        hit
        for hit in snapshot.exceptions.values()
        if hit.type == type_name
        and (point := snapshot.catchpoints.get(hit.catchpoint or "")) is not None
        and point.moment is Moment.THROW
    )
    return max(thrown, key=lambda hit: hit.at_wall_ns or 0, default=None)


def way_of(fault: ExceptionHit, logged: ExceptionHit, snapshot: Snapshot, code: UserCode) -> str:
    """Return how the exception that ended a program came to its end, by the stack there; "" if that tells nothing."""
    if is_rethrown(fault):
        thrown = thrown_as(logged.type, snapshot)
        frame = code.frame_of(thrown.stack) if thrown is not None else None
        where = f"in {place_text(frame)}" if frame is not None else "elsewhere, and is passed on here"
        return f"it was thrown {where}"
    left = _left(fault)
    return f"it may not leave {place_text(left)}, which is noexcept" if left is not None else ""


def _left(fault: ExceptionHit) -> Frame | None:
    """Return the function that an exception may not leave, by the stack of its end; None if it is none, or not known.

    The search for a handler ends there (Itanium C++ ABI, exception handling, 2.5.3): GCC's at the function that is
    `noexcept`, as each destructor is, Clang's in it.
    """
    names = [frame.function for frame in fault.stack]
    if "__clang_call_terminate" in names:
        return next(iter(fault.stack[names.index("__clang_call_terminate") + 1 :]), None)
    if "__gxx_personality_v0" not in names or "__cxa_throw" not in names:
        return None
    callers = fault.stack[names.index("__cxa_throw") + 1 :]
    return next((frame for frame in callers if "::~" in frame.function), None)


def unseen_faults(snapshot: Snapshot) -> Sequence[Process]:
    """Return the processes that a signal was seen to end before anybody had listed them.

    Of many none is returned: tests that want a crash, and probes of a machine, end so.
    """
    found = []
    for hit in snapshot.exceptions.values():
        if hit.fatal and not hit.sent and hit.process and hit.process not in snapshot.processes:
            host, pid = ids.parse(hit.process).parts
            status = -int(signal.Signals[hit.type])
            found.append(Process(id=hit.process, host=host, pid=int(pid), exited=True, exit_status=status))
    return found if len(found) <= _SHORT else ()


def overflow_text(fault: ExceptionHit, code: UserCode) -> str:
    """Return how a thread overflowed its stack, with the function that calls itself; "" if it has not."""
    if not fault.deep:
        return ""
    run = repeated_frames(fault.stack)
    frame = code.frame_of(fault.stack[run.start : run.start + run.period] if run is not None else fault.stack)
    if frame is None or code.inside(frame) > Inside.UNLINED:
        return "its stack overflowed, in calls of a function by itself, or by large local variables"
    if run is None:
        return f"its stack overflowed in {place_text(frame)}"
    others = {one.function: one for one in fault.stack[run.start : run.start + run.period]}
    others.pop(frame.function, None)
    if len(others) == 1:
        both = f"{place_text(frame)} and {place_text(next(iter(others.values())))}"
        return f"its stack overflowed: {both} call each other, about {fault.deep:,} frames deep"
    through = f" through {many(len(others), 'other function')}" if others else ""
    return f"its stack overflowed: {place_text(frame)} calls itself{through}, about {fault.deep:,} frames deep"


def fault_evidence(hit: ExceptionHit) -> tuple[Evidence, ...]:
    """Return the signal that a catchpoint saw, and its stack."""
    told = Evidence(
        kind="signal", source=hit.catchpoint or "", text=f"{hit.type}: {hit.message}", at_wall_ns=hit.at_wall_ns
    )
    called = Evidence(kind="stack", source=hit.thread or "", text=_called(hit.stack), at_wall_ns=hit.at_wall_ns)
    return (told, called) if hit.stack else (told,)


def _called(stack: Iterable[Frame]) -> str:
    return " < ".join(place_text(frame) for frame in islice(stack, _CALLERS))


def is_bare_abort(hit: ExceptionHit) -> bool:
    """Return whether a hit is an abort without a reason: of a signal handler, a shell, or C++ without a text.

    So is an assertion that something false holds: its author wrote the reason before it.
    """
    if hit.message.rstrip(".").endswith(("Assertion `0' failed", "Assertion `false' failed")):
        return True
    if hit.catchpoint == "log: terminate" and not hit.message and not hit.stack:
        return True
    by_signal = ("SIGABRT: Aborted", "SIGTRAP: Trace")
    return hit.type in ("Aborted", "std::terminate") or f"{hit.type}: {hit.message}".startswith(by_signal)


def is_bare_end(hit: ExceptionHit) -> bool:
    """Return whether a hit says that a program ended, and not why: an abort, or a traceback that is cut off."""
    return hit.message == CUT_OFF or is_bare_abort(hit)


def log_evidence(hit: ExceptionHit, text: str, snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Return the log line that names the exception, the rest of its message, and its stack."""
    source = snapshot.log_sources.get(hit.source or "")
    if source is None:
        return (Evidence(kind="log", source=hit.catchpoint or "log", text=text, at_wall_ns=hit.at_wall_ns),)
    name, line = source.name, hit.raised_line or hit.line
    whole = f"{hit.type}: {hit.message.strip()}"[:_WHOLE] if "\n" in hit.message.strip() else text
    proofs = [Evidence(kind="log", text=whole, file=name, line=line, at_wall_ns=hit.at_wall_ns, log=source.id)]
    if any(frame.function != "?" for frame in hit.stack):
        called = _called(hit.stack)
        proofs.append(Evidence(kind="stack", text=called, file=name, line=line, at_wall_ns=hit.at_wall_ns))
    return tuple(proofs)


def with_exceptions(found: Iterable[Finding], snapshot: Snapshot) -> Iterator[Finding]:
    """Add to each crash that rests on a line of an exception's record that exception's evidence."""
    hits = _logged(snapshot)
    for finding in found:
        hit = _carrying(finding, hits) if finding.state is VerdictState.CRASHED and len(hits) <= _MOST else None
        yield finding if hit is None else _with_hit(finding, hit, snapshot)


def _with_hit(finding: Finding, hit: ExceptionHit, snapshot: Snapshot) -> Finding:
    source, line = snapshot.log_sources.get(hit.source or ""), hit.line or 0
    lines = known_lines(source, snapshot) if source is not None else ()
    at = first_after(line, lines)
    below = [one.text for one in lines[at : at + _BELOW] if one.writer == hit.writer and one.number <= line + _BELOW]
    switch, hides = switch_in("\n".join((hit.message, *below)))
    said = sentences(finding.sentence, _HIDDEN if hides else "")
    more = (switch,) if switch else ()
    return replace(finding, sentence=said, evidence=_joined(finding, hit, snapshot), next=(*more, *finding.next))


def same_error(one: ExceptionHit, other: ExceptionHit) -> bool:
    """Return whether two exceptions are the same one, of which two logs have more or less (X1)."""
    if one.type != other.type or without_addresses(one.message) != without_addresses(other.message):
        return False
    kinds = [
        [[_spot(frame) for frame in hit.stack if (frame.language == "python") is python] for hit in (one, other)]
        for python in (True, False)
    ]
    alike = all(all(a == b for a, b in zip(*pair, strict=False)) for pair in kinds)
    return alike and any(pair[0] and pair[1] for pair in kinds)


def _spot(frame: Frame) -> tuple[str, str | None, int | None]:
    return frame.function, frame.file, frame.line


def exception_of(finding: Finding, snapshot: Snapshot) -> ExceptionHit | None:
    """Return the exception whose log record contains the first evidence of a finding, or None."""
    return _carrying(finding, _logged(snapshot))


def _logged(snapshot: Snapshot) -> list[ExceptionHit]:
    return [hit for hit in snapshot.exceptions.values() if hit.source is not None and hit.line is not None]


def _carrying(finding: Finding, hits: Iterable[ExceptionHit]) -> ExceptionHit | None:
    first = next(iter(finding.evidence), None)
    if first is None or first.kind != "log" or first.line is None:
        return None
    line, log = first.line, first.log
    same = (hit for hit in hits if hit.source == log)
    return next((hit for hit in same if (hit.first_line or hit.line or 0) <= line <= (hit.line or 0)), None)


def _joined(finding: Finding, hit: ExceptionHit, snapshot: Snapshot) -> tuple[Evidence, ...]:
    joined = list(finding.evidence)
    for more in log_evidence(with_raising(hit, snapshot), exception_text(hit), snapshot):
        begun = (n for n, one in enumerate(joined) if one.place == more.place and more.text.startswith(one.text))
        number = next(begun, None)
        if number is None:
            joined.append(more)
        else:
            joined[number] = more  # the same, whole
    return tuple(joined)
