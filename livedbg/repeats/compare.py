"""Compares how runs ended: which ended alike, and whether the place is the same each time or moves.

Invariants:
    compare.V1. A place is said to move only where two runs have different markers or, without any, different
        innermost frames. The last line of output is too weak for that: output is held back in blocks. A sanitizer's
        report is the place of its run before any marker.
    compare.V2. Runs that were cut off by the user count for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from livedbg.repeats.outcome import RunEnd
from livedbg.session.systems import systems
from livedbg.text.wording import many

__all__ = ["Comparison", "Group", "compare"]

Judgement = Literal["well", "once", "same", "moves", "unknown"]
_MOST_NAMED: Final = 3
_LONGEST: Final = 90


class Group(Struct, frozen=True, kw_only=True):
    """Runs that ended alike.

    Attributes:
        ending: how.
        place: where.
        runs: their numbers.
        stacks: how many different stacks they have.
    """

    ending: str
    place: str
    runs: tuple[int, ...]
    stacks: int = 0


class Comparison(Struct, frozen=True, kw_only=True):
    """What some runs have in common.

    Attributes:
        crashes: judgement of the runs that crashed: `well` (none did), `once`, `same` place, it `moves`, or `unknown`.
        hangs: the same of those that hung.
        groups: runs that ended alike, the bad ones first, the largest first.
        sentences: what it comes to.
        next: what to do next.
    """

    crashes: Judgement
    hangs: Judgement
    groups: tuple[Group, ...]
    sentences: tuple[str, ...]
    next: tuple[str, ...] = ()


def compare(ends: Sequence[RunEnd], *, held_back: bool = True) -> Comparison:
    """Compare the ends of some runs.

    Args:
        ends: in order.
        held_back: programs may hold their output back, as to a file, and lose its end at a crash.
    """
    counted = [end for end in ends if end.how != "cut"]
    crashed = [end for end in counted if end.how in ("signal", "code")]
    hung = [end for end in counted if end.how == "hung"]
    sentences: list[str] = []
    crashes, hangs = _judged(crashed), _judged(hung)
    if crashed:
        sentences.append(_sentence(crashed, crashes, len(counted), "crashed"))
    if hung:
        sentences.append(_sentence(hung, hangs, len(counted), "hung"))
    if not crashed and not hung:
        sentences.append(_all_well(len(counted)))
    elif crashes == "same" and len({end.stack for end in crashed if end.stack}) > 1:
        sentences.append("Their stacks differ: what fails is reached in several ways, or its memory is damaged before.")
    doubtful = [end for end in counted if end.how == "well" and end.reported]
    if doubtful:
        sentences.append(_doubts(doubtful))
    cut = len(ends) - len(counted)
    if cut:
        sentences.append(f"{cut} {'was' if cut == 1 else 'were'} cut off while under way.")
    return Comparison(
        crashes=crashes,
        hangs=hangs,
        groups=tuple(_groups(ends)),
        sentences=tuple(sentences),
        next=tuple(_next(crashed, crashes, hung, held_back)),
    )


def _all_well(count: int) -> str:
    if count == 0:
        return "No run has ended."
    return "The run ended well." if count == 1 else f"All {count} runs ended well."


def _doubts(ends: Sequence[RunEnd]) -> str:
    (what, place), count = Counter((end.exception, end.place) for end in ends).most_common(1)[0]
    runs = many(len(ends), "run")
    most = "" if count == len(ends) else "most often "
    return f"A sanitizer reported something in {runs} of those that ended well, {most}{what} in `{place[:_LONGEST]}`."


def _judged(ends: Sequence[RunEnd]) -> Judgement:
    if not ends:
        return "well"
    reports = {end.stack[0] for end in ends if end.reported and end.stack}
    markers = {end.marker for end in ends if end.marker and end.place == end.marker}
    frames = {end.stack[0] for end in ends if end.stack}
    if len(reports) > 1 or len(markers) > 1 or (not markers and len(frames) > 1):
        return "moves"
    if len(ends) == 1:
        return "once"
    known = all(end.place for end in ends) and len({end.place for end in ends}) == 1
    firm = all(end.marker or end.stack for end in ends) or len({end.last_line for end in ends}) == 1
    return "same" if known and firm else "unknown"


def _sentence(ends: Sequence[RunEnd], judged: Judgement, total: int, verb: str) -> str:
    begin = f"{len(ends)} of {total} {'run' if total == 1 else 'runs'} {verb}"
    place, count = Counter(end.place for end in ends).most_common(1)[0]
    at = f"{_where(next(end for end in ends if end.place == place))} `{place[:_LONGEST]}`" if place else "nowhere known"
    match judged:
        case "once":
            return f"{begin}, {at}: once says nothing of whether the place moves."
        case "same":
            more = "" if len(ends) == total else " It does not in every run: timing or data decides whether, not where."
            return f"{begin}, {at}: the same point each time.{more}"
        case "moves":
            places = len({end.place for end in ends if end.marker or end.stack})
            often = "once" if count == 1 else f"{count} times"
            likely = "a race or memory corruption is likely" if verb == "crashed" else "a race is likely"
            if all(end.reported for end in ends):
                likely = "the sanitizer's reports say what is wrong at each"
            return f"{begin}, at {places} different points ({often} {at}): it moves: {likely}."
        case _:
            return f"{begin}, {at}, as far as is known: whether it moves can't be told without markers or stacks."


def _where(end: RunEnd) -> str:
    return "after" if end.marker and end.place == end.marker else "in" if end.stack else "after the line"


def _groups(ends: Sequence[RunEnd]) -> list[Group]:
    alike: dict[tuple[str, str], list[RunEnd]] = {}
    for end in ends:
        alike.setdefault(end.alike, []).append(end)
    ordered = sorted(alike.values(), key=lambda some: (not some[0].bad, -len(some), some[0].run))
    return [
        Group(
            ending=some[0].alike[0],
            place=some[0].alike[1],
            runs=tuple(end.run for end in some),
            stacks=len({end.stack for end in some if end.stack}),
        )
        for some in ordered
    ]


def _sanitizers() -> Iterator[str]:
    """Recipes that find memory errors and races: of the host, and of the systems."""
    yield "--recipe asan-gcc or asan-clang (host)"
    for system in systems():
        if system.sanitizers:
            yield f"--recipe {' or '.join(system.sanitizers)} ({system.title})"


def _next(crashed: Sequence[RunEnd], judged: Judgement, hung: Sequence[RunEnd], held_back: bool) -> list[str]:
    lines = []
    if crashed and not any(end.stack for end in crashed):
        lines.append("--catch signals gives each crash its stack; --catch '*' each C++ exception")
    if held_back and any(end.how == "signal" for end in crashed):
        lines.append("--recipe unbuffered: a crash may lose the last lines of a program that holds its output back")
    if judged == "moves" and not any(end.reported for end in crashed):
        lines.append(", ".join(_sanitizers()))
    bad = [*crashed, *hung][:_MOST_NAMED]
    lines += [f"livedbg replay {end.recording}" for end in bad if end.recording]
    return lines
