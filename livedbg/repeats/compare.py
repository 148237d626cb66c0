"""Compares how runs ended: groups equal endings, and judges whether the place is the same each time or moves.

Also finds whether failures follow the device of each run.

Invariants:
    compare.V1. A place moves only if two runs have different markers or, without markers, different innermost frames.
        The last line of output is not evidence enough: output is buffered in blocks. A sanitizer's report is the place
        of its run before any marker.
    compare.V2. Runs that the user interrupted are not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import comb
from typing import Final, Literal

from msgspec import Struct

from livedbg.repeats.outcome import RunEnd
from livedbg.session.systems import systems
from livedbg.text.shell import shell_word
from livedbg.text.wording import many, spans

_FIRM: Final = 0.05
"""A chance below which the word "chance" is left out."""
_ENOUGH: Final = 2
"""Runs on each device from which on it shows anything."""


def follows_device(ends: Sequence[RunEnd]) -> str:
    """Return the sentence that failures follow the device; "" if they do not, or too few runs tell.

    It is said if each device had two or more runs and these all failed or all succeeded, and there are both kinds:
    "device 0: 2 of 2 good; devices 1-3: 6 of 6 crashed". With few runs that can be chance, and the sentence says how
    large a chance: the part of all orders of good and failed runs in which failures lie on whole devices.

    Args:
        ends: of runs that nobody interrupted.
    """
    devices = {end.device for end in ends}
    runs = {device: [end for end in ends if end.device == device] for device in devices}
    if "" in devices or len(devices) < 2 or min(map(len, runs.values())) < _ENOUGH:
        return ""
    fate = {device: {_fate(end) for end in some} for device, some in runs.items()}
    bad = {device for device, fates in fate.items() if "good" not in fates}
    good = {device for device, fates in fate.items() if fates == {"good"}}
    if not bad or not good or bad | good != devices:
        return ""
    ordered = sorted(devices, key=lambda device: (device in bad, _word(fate[device]), _number(device)))
    told = [_told(list(some), word, runs) for word, some in groupby(ordered, key=lambda device: _word(fate[device]))]
    failed = sum(len(runs[device]) for device in bad)
    chance = _splits([len(some) for some in runs.values()], failed) / comb(len(ends), failed)
    doubt = "" if chance < _FIRM else f" With so few runs the chance of this is 1 in {round(1 / chance)}: run more."
    return f"Failures follow the device: {'; '.join(told)}.{doubt}"


def _fate(end: RunEnd) -> str:
    return "hung" if end.how == "hung" else "crashed" if end.bad else "good"


def _word(fates: set[str]) -> str:
    return " or ".join(sorted(fates))


def _told(devices: list[str], word: str, runs: dict[str, list[RunEnd]]) -> str:
    count = sum(len(runs[device]) for device in devices)
    numbers = spans(map(int, devices)) if all(map(str.isdecimal, devices)) else ",".join(devices)
    return f"{'device' if len(devices) == 1 else 'devices'} {numbers}: {count} of {count} {word}"


def _number(device: str) -> tuple[int, str]:
    return (int(device), "") if device.isdecimal() else (0, device)


def _splits(sizes: Sequence[int], total: int) -> int:
    """Return in how many ways some of these sizes add up to a total."""
    ways = [1, *[0] * total]
    for size in sizes:
        for at in range(total, size - 1, -1):
            ways[at] += ways[at - size]
    return ways[total]


Judgement = Literal["well", "once", "same", "moves", "unknown"]
_MOST_NAMED: Final = 3
_OTHER_DEVICES: Final = (
    "livedbg doctor, and the log of the kernel (dmesg): does the host report errors of the devices that fail?",
    "the same with --gpus of one device that fails and one that does not, and more runs",
)
_LONGEST: Final = 90


class Group(Struct, frozen=True, kw_only=True):
    """Runs with equal endings."""

    ending: str
    place: str
    runs: tuple[int, ...]
    stacks: int = 0


class Comparison(Struct, frozen=True, kw_only=True):
    """The comparison of some runs.

    Attributes:
        crashes: judgement of the crashed runs: `well` (none), `once`, `same` place, `moves`, or `unknown`.
        groups: runs with equal endings; failures first, then the largest.
    """

    crashes: Judgement
    hangs: Judgement
    groups: tuple[Group, ...]
    sentences: tuple[str, ...]
    next: tuple[str, ...] = ()


def compare(ends: Sequence[RunEnd], *, buffered: bool = True) -> Comparison:
    """Compare the ends of some runs, in order.

    `buffered`: the program may buffer its output, as to a file, and lose the end of it at a crash.
    """
    counted = [end for end in ends if end.how != "cut"]
    crashed = [end for end in counted if end.how in ("signal", "code")]
    hung = [end for end in counted if end.how == "hung"]
    sentences: list[str] = []
    crashes, hangs = _judged(crashed), _judged(hung)
    if device := follows_device(counted):
        sentences.append(device)
    if crashed:
        sentences.append(_sentence(crashed, crashes, len(counted), "crashed"))
    if hung:
        sentences.append(_sentence(hung, hangs, len(counted), "hung"))
    if not crashed and not hung:
        well = {0: "No run has ended.", 1: "The run succeeded."}
        sentences.append(well.get(len(counted), f"All {len(counted)} runs succeeded."))
    elif crashes == "same" and len({end.stack for end in crashed if end.stack}) > 1:
        sentences.append("Their stacks differ: several call paths reach the failure, or memory was corrupted before.")
    doubtful = [end for end in counted if end.how == "well" and end.reported]
    if doubtful:
        sentences.append(_doubts(doubtful))
    cut = len(ends) - len(counted)
    if cut:
        sentences.append(f"{many(cut, 'run')} {'was' if cut == 1 else 'were'} interrupted.")
    return Comparison(
        crashes=crashes,
        hangs=hangs,
        groups=tuple(_groups(ends)),
        sentences=tuple(sentences),
        next=(*(_OTHER_DEVICES if device else ()), *_next(crashed, crashes, hung, buffered)),
    )


def _doubts(ends: Sequence[RunEnd]) -> str:
    (what, place), count = Counter((end.exception, end.place) for end in ends).most_common(1)[0]
    runs = many(len(ends), "run")
    most = "" if count == len(ends) else "most often "
    return f"A sanitizer reported errors in {runs} that succeeded, {most}{what} in `{place[:_LONGEST]}`."


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
    at = (
        f"{_where(next(end for end in ends if end.place == place))} `{place[:_LONGEST]}`"
        if place
        else "at an unknown place"
    )
    match judged:
        case "once":
            return f"{begin}, {at}. One run does not show whether the place moves."
        case "same":
            more = "" if len(ends) == total else " Timing or data decides whether a run fails, not where."
            return f"{begin}, {at}: the same place each time.{more}"
        case "moves":
            places = len({end.place for end in ends if end.marker or end.stack})
            often = "once" if count == 1 else f"{count} times"
            likely = "a race or memory corruption is likely" if verb == "crashed" else "a race is likely"
            if all(end.reported for end in ends):
                likely = "the sanitizer's reports name the error at each"
            return f"{begin}, at {places} different places ({often} {at}): {likely}."
        case _:
            return f"{begin}, {at}. Without markers or stacks, it is unknown whether the place moves."


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
    yield "--recipe asan-gcc or asan-clang (host)"
    for system in systems():
        if system.sanitizers:
            yield f"--recipe {' or '.join(system.sanitizers)} ({system.title})"


def _next(crashed: Sequence[RunEnd], judged: Judgement, hung: Sequence[RunEnd], buffered: bool) -> list[str]:
    lines = []
    if crashed and not any(end.stack for end in crashed):
        lines.append("--catch signals records the stack of each crash; --catch '*' also each C++ exception")
    if buffered and any(end.how == "signal" for end in crashed):
        lines.append("--recipe unbuffered: a crash may lose the last lines of a program that buffers its output")
    if judged == "moves" and not any(end.reported for end in crashed):
        lines.append(", ".join(_sanitizers()))
    bad = [*crashed, *hung][:_MOST_NAMED]
    lines += [f"livedbg replay {shell_word(end.recording)}" for end in bad if end.recording]
    return lines
