"""How the time of a pattern grows with a text: the CPU time of the matching alone, as a ratio between sizes."""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from tests.patterns.collected import collected
from tests.patterns.near_matches import near_matches

__all__ = ["Superlinear", "superlinear"]

_SIZES: Final = (12, 16, 24, 64, 1024)
"""Small ones first, so that no call takes long: an exponential pattern shows at 24."""
_DEEP: Final = 16_384
"""Also tried by `python -m tests.patterns.growth --deep`, in two minutes: for patterns whose steps are quick."""
_SUSPICIOUS_NS_PER_CHARACTER: Final = 150
"""Slower calls are looked at again; a linear pattern takes 1 to 100."""
_LEAST_NS: Final = 250_000
"""A shorter time is no measurement."""
_MOST_NS: Final = 50_000_000
"""No larger text is tried after a call that took so long."""
_LARGEST: Final = 100_000
_LIMIT_S: Final = 600
_FACTOR: Final = 4
_SMALL: Final = 64
_STEP: Final = 6
_TURNS: Final = 4
_DOUBTS: Final = 3
"""So often what seems to grow too fast is measured again: the shortest times of all turns count."""
_TURNS_NS: Final = 75_000_000
"""No turn comes after one that took so long."""
_GROWTH: Final = 8.0
"""Of the time, for four times the text. Linear: 4; quadratic: 16."""
_CLEARLY_QUADRATIC: Final = 12.0
"""What grows by less is looked at over a further size, where one with a large bound is linear; at the largest one it
passes: a loaded processor makes twice as much of it.
"""
_CLEARLY_LINEAR: Final = 6.0
"""What grows by less in the first two turns gets no more turns."""


class Superlinear(NamedTuple):
    """What was seen of a pattern whose time grows faster than its text."""

    size: int
    growth: float
    text: str

    def __str__(self) -> str:
        return f"x{self.growth:.1f} for x{_FACTOR} at {self.size}: {self.text!r}"


def superlinear(pattern: re.Pattern[Any], method: str, sizes: Sequence[int] = _SIZES) -> Superlinear | None:
    """The first near match for which the time of a pattern grows faster than the text, if there is one."""
    run = _runner(pattern, method)
    slow = _SUSPICIOUS_NS_PER_CHARACTER  # for this pattern
    for make in near_matches(pattern):
        for size in sizes:
            text = _text(pattern, make(size))
            if (took := _once(run, text)) > slow * (len(text) + 60):
                if (seen := _growing(run, pattern, make, size)) is not None:
                    return seen
                slow = max(slow, min(took, _once(run, text)) // (len(text) + 60) * 3)  # it is slow, and linear
                break
    return None


def _growing(
    run: Callable[[Any], object], pattern: re.Pattern[Any], make: Callable[[int], str], size: int
) -> Superlinear | None:
    """Whether it grows by more than the text, over a factor at which it takes long enough to be measured."""
    seen: Superlinear | None = None
    while size < _SMALL:  # an exponential one would never be done with four times as much
        took, longer = _times(run, [_text(pattern, make(each)) for each in (size, size + _STEP)])
        if took > _LEAST_NS // 20 and longer / took > _GROWTH * 2:
            return Superlinear(size + _STEP, longer / took, make(12)[:120])
        size += _STEP
    while size * _FACTOR <= _LARGEST:
        small, large = (_text(pattern, make(each)) for each in (size, size * _FACTOR))
        if _once(run, small) < _LEAST_NS:
            size, seen = size * 2, None  # what seemed to grow took too short a time to be measured
            continue
        linear = len(large) / len(small)
        took, longer = _times(run, (small, large), linear * _CLEARLY_LINEAR / _FACTOR)
        growth = longer / max(took, 1) * _FACTOR / linear
        for _ in range(_DOUBTS if growth >= _GROWTH else 0):
            times = _times(run, (small, large), linear * _CLEARLY_LINEAR / _FACTOR)
            took, longer = min(took, times[0]), min(longer, times[1])
            growth = longer / max(took, 1) * _FACTOR / linear
        if growth < _GROWTH:
            return None  # it has a large constant, or a bound
        seen = Superlinear(len(large), growth, make(12)[:120]) if growth > _CLEARLY_QUADRATIC else None
        if seen is not None and longer > _MOST_NS:
            break
        size *= _FACTOR
    return seen


def _times(run: Callable[[Any], object], texts: Sequence[Any], enough: float = 0.0) -> list[int]:
    """The shortest of some turns for each text: in turn, for what slows a processor down lasts for a while.

    Args:
        run: what is measured.
        texts: two, the shorter one first.
        enough: after two turns it is done where the longer one takes less than so many times as long.
    """
    shortest = [_once(run, text) for text in texts]
    for _ in range(_TURNS):
        if sum(shortest) > _TURNS_NS:
            break
        shortest = [min(least, _once(run, text)) for least, text in zip(shortest, texts, strict=True)]
        if shortest[1] < enough * shortest[0]:
            break
    return shortest


def _once(run: Callable[[Any], object], text: Any) -> int:
    begun = time.thread_time_ns()
    run(text)
    return time.thread_time_ns() - begun


def _runner(pattern: re.Pattern[Any], method: str) -> Callable[[Any], object]:
    if method == "finditer":
        return lambda text: deque(pattern.finditer(text), maxlen=0)
    run: Callable[[Any], object] = getattr(pattern, method)
    return run


def _text(pattern: re.Pattern[Any], text: str) -> Any:
    return text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text


def main() -> None:
    """Print as JSON how many patterns were tried, and which take more than linear time.

    `--part 1/3` tries a third of them.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (_LIMIT_S, _LIMIT_S))
    sizes = (*_SIZES, _DEEP) if "--deep" in sys.argv else _SIZES
    part, parts = map(int, sys.argv[-1].split("/")) if "--part" in sys.argv else (1, 1)
    patterns = sorted(collected(), key=lambda used: used.name)[part - 1 :: parts]
    found = {}
    for used in patterns:
        seen = superlinear(used.pattern, used.method, sizes)
        if seen is not None:
            found[used.name] = f"{used.method}: {seen}"
    print(json.dumps({"patterns": len(patterns), "superlinear": found}))


if __name__ == "__main__":
    main()
