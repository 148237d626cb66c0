"""CPU profile: own and total share of each function, and merged stacks, from samples.

Invariants:
    profile.P1. The own shares of all functions and the share of the samples without a stack add up to 1.
    profile.P2. A function counts once in a stack that it is in several times: its total share is at most 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from livedbg.analysis.user_code import Inside, UserCode
from livedbg.model import Frame
from livedbg.model.launches import ProfileSlice, SampledStack

UNNAMED: Final = "(no symbol)"
"""The name for functions of a file without symbols: each of their addresses would be one of its own."""

_Function: TypeAlias = tuple[str, str | None, str | None, str]
_Line: TypeAlias = tuple[str, str | None, str | None, int | None, str]


@dataclass(frozen=True, slots=True)
class FunctionShare:
    """CPU time of a function.

    Attributes:
        line: its line with most samples, or None.
        own: share of the time in which it is the innermost function, 0 to 1.
        total: share of the time in which it is anywhere in the stack, 0 to 1.
    """

    function: str
    file: str | None
    line: int | None
    module: str | None
    language: str
    own: float
    total: float
    samples: int


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples of some threads, merged by functions and lines, the most frequent first."""

    stacks: tuple[SampledStack, ...] = ()
    samples: int = 0
    unknown: int = 0
    cpu_ns: int = 0


def profile_of(slices: Iterable[ProfileSlice], since_mono_ns: int = 0) -> Profile:
    """Merge the samples of some threads."""
    meant = [one for one in slices if one.end_mono_ns >= since_mono_ns]
    stacks = merged(stack for one in meant for stack in one.stacks)
    unknown = sum(one.unknown for one in meant)
    known = sum(stack.samples for stack in stacks)
    return Profile(tuple(stacks), known + unknown, unknown, sum(stack.cpu_ns for stack in stacks))


def merged(stacks: Iterable[SampledStack]) -> list[SampledStack]:
    """Merge stacks with the same functions at the same lines, the most frequent first."""
    found: dict[tuple[_Line, ...], SampledStack] = {}
    keys: dict[int, tuple[_Line, ...]] = {}  # the same tuple of frames comes again and again
    kept: list[tuple[Frame, ...]] = []  # so that no other tuple gets its number
    for stack in stacks:
        key = keys.get(id(stack.frames))
        if key is None:
            kept.append(stack.frames)
            key = keys[id(stack.frames)] = tuple(map(_line, stack.frames))
        known = found.get(key)
        found[key] = (
            stack
            if known is None
            else msgspec.structs.replace(
                known, cpu_ns=known.cpu_ns + stack.cpu_ns, samples=known.samples + stack.samples
            )
        )
    return sorted(found.values(), key=lambda stack: -stack.cpu_ns)


def function_shares(profile: Profile) -> list[FunctionShare]:
    """Return the share of each function, by own share, then by total share, largest first."""
    own: dict[_Function, int] = {}
    total: dict[_Function, int] = {}
    samples: dict[_Function, int] = {}
    lines: dict[_Function, dict[int | None, int]] = {}
    for stack in profile.stacks:
        seen: set[_Function] = set()
        for place, frame in enumerate(stack.frames):
            function = _function(frame)
            if place == 0:
                own[function] = own.get(function, 0) + stack.cpu_ns
            if function in seen:
                continue
            seen.add(function)
            total[function] = total.get(function, 0) + stack.cpu_ns
            samples[function] = samples.get(function, 0) + stack.samples
            at = lines.setdefault(function, {})
            at[frame.line] = at.get(frame.line, 0) + stack.cpu_ns
    whole = _whole_ns(profile)
    found = [
        FunctionShare(
            name,
            file,
            max(lines[name, file, module, language].items(), key=lambda line: (line[1], -(line[0] or 0)))[0],
            module,
            language,
            own.get((name, file, module, language), 0) / whole,
            cpu_ns / whole,
            samples[name, file, module, language],
        )
        for (name, file, module, language), cpu_ns in total.items()
    ]
    return sorted(found, key=lambda one: (-one.own, -one.total, one.function))


def own_code(profile: Profile, code: UserCode) -> list[tuple[Frame, float]]:
    """Return the user's functions that the samples are in or under, with their shares, largest first."""
    frames: dict[_Function, Frame] = {}
    spent_ns: dict[_Function, int] = {}
    for stack in profile.stacks:
        frame = code.frame_of(stack.frames)
        if frame is not None and code.inside(frame) in (Inside.USER, Inside.UNLINED):
            function = _function(frame)
            frames.setdefault(function, frame)  # at the line of the most frequent stack
            spent_ns[function] = spent_ns.get(function, 0) + stack.cpu_ns
    whole = _whole_ns(profile)
    return [(frames[one], spent / whole) for one, spent in sorted(spent_ns.items(), key=lambda one: -one[1])]


def _whole_ns(profile: Profile) -> float:
    known = profile.samples - profile.unknown
    return max(1.0, profile.cpu_ns * profile.samples / known if known else 1.0)


def _function(frame: Frame) -> _Function:
    if frame.function.startswith("0x"):
        return UNNAMED, None, frame.module, frame.language
    return frame.function, frame.file, frame.module, frame.language


def _line(frame: Frame) -> _Line:
    name, file, module, language = _function(frame)
    return name, file, module, frame.line, language
