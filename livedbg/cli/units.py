"""Durations and sizes on the command line: `90`, `30s`, `10m`, `2h`; `1048576`, `64k`, `500M`, `2G`."""

from __future__ import annotations

import re
from typing import Any, Final

import click


class _Unit(click.ParamType[float]):
    """A number with a unit.

    Args:
        name: shown in messages.
        units: unit -> its value.
        example: of a right one.
    """

    def __init__(self, name: str, units: dict[str, float], example: str) -> None:
        self.name = name
        self._units = units
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The value in the base unit."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s?([A-Za-z]*)", str(value))
        unit = self._units.get(match[2].lower().removesuffix("ib").removesuffix("b")) if match is not None else None
        if match is None or unit is None or float(match[1]) <= 0:
            self.fail(f"{value!r} is no {self.name}, such as {self._example}.", param, ctx)
        return float(match[1]) * unit


DURATION: Final = _Unit("duration", {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}, "30s, 10m or 2h")
"""Seconds."""

SIZE: Final = _Unit("size", {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}, "500M or 2G")
"""Bytes."""
