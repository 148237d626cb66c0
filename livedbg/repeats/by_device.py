"""Whether the failures of runs follow the device that each run had."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import comb
from typing import Final

from livedbg.repeats.outcome import RunEnd
from livedbg.text.wording import spans

__all__ = ["follows_device"]

_FIRM: Final = 0.05
"""A chance below which the word "chance" is left out."""
_ENOUGH: Final = 2
"""Runs on each device from which on it shows anything."""


def follows_device(ends: Sequence[RunEnd]) -> str:
    """The sentence that failures follow the device; "" if they do not, or too few runs tell.

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
    """In how many ways some of these sizes add up to a total."""
    ways = [1, *[0] * total]
    for size in sizes:
        for at in range(total, size - 1, -1):
            ways[at] += ways[at - size]
    return ways[total]
