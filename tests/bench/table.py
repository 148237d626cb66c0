"""A table of results: figures with their spread, ours beside a peer's, and whether the budget is held.

A budget is written as it is read: `< 2 s`, `≤ 2 %`, `≥ 100,000 /s` (in the unit of the row), `≥ 1/4 of grep`
(of the peer's figure), `≤ the peer's`, or nothing.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["HEAD", "Figure", "Row", "repeated"]

HEAD = "| what | livedbg | peer | peer / livedbg | budget | held |\n| --- | --- | --- | --- | --- | --- |"

_BUDGET = re.compile(r"([<≤≥]) (?:([\d.,]+) (\S+)|(\d+)/(\d+) of [^|]+|the peer's)")


@dataclass(frozen=True, slots=True)
class Figure:
    """What several repeats of a measurement gave: their median counts."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure."""
        return statistics.median(self.values)

    def text(self, unit: str) -> str:
        """The median, and of several repeats the least, the greatest and how many."""
        if len(self.values) == 1:
            return f"{_short(self.median)} {unit}"
        low, high = _short(min(self.values)), _short(max(self.values))
        return f"{_short(self.median)} {unit} ({low} to {high}, {len(self.values)}×)"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result.

    Attributes:
        what: the quantity.
        ours: livedbg's figure.
        peer: whose the other figure is; `none` where there is nobody to compare with.
        theirs: the peer's figure.
        unit: of both.
        budget: see the module.
    """

    what: str
    ours: Figure | float
    peer: str
    theirs: Figure | float
    unit: str
    budget: str = ""

    @property
    def ratio(self) -> float:
        """The peer's figure divided by ours."""
        ours = _value(self.ours)
        return _value(self.theirs) / ours if ours else float("inf")

    @property
    def held(self) -> bool | None:
        """Whether the budget is held; None where there is none.

        Raises:
            ValueError: the budget can't be read.
        """
        if not self.budget:
            return None
        match = _BUDGET.fullmatch(self.budget)
        if match is None or (match[3] is not None and match[3] != self.unit):
            raise ValueError(f"no budget for a figure in {self.unit!r}: {self.budget!r}")
        ours, limit = _value(self.ours), _value(self.theirs)
        if match[2]:
            limit = float(match[2].replace(",", ""))
        elif match[4]:
            limit *= int(match[4]) / int(match[5])
        return {"<": ours < limit, "≤": ours <= limit, "≥": ours >= limit}[match[1]]

    def markdown(self) -> str:
        """The row of a Markdown table."""
        held = {None: "", True: "yes", False: "**no**"}[self.held]
        ours = _figure(self.ours).text(self.unit)
        if self.peer == "none":
            return f"| {self.what} | {ours} | | | {self.budget} | {held} |"
        ratio = "∞" if self.ratio == float("inf") else _short(self.ratio)
        theirs = _figure(self.theirs).text(self.unit)
        return f"| {self.what} | {ours} | {self.peer}: {theirs} | {ratio} | {self.budget} | {held} |"


def repeated(action: Callable[[], float], times: int) -> Figure:
    """A measurement, several times."""
    return Figure(tuple(action() for _ in range(times)))


def _figure(value: Figure | float) -> Figure:
    return value if isinstance(value, Figure) else Figure((value,))


def _value(value: Figure | float) -> float:
    return _figure(value).median


def _short(value: float) -> str:
    """Three digits that count, without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 or not value else f"{value:.6f}".rstrip("0")
