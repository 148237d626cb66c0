"""Parse an AOTInductor model's output: launched and returned kernels, and statistics of their arguments.

Sources: torch/_inductor/codegen/debug_utils.py and torch/csrc/inductor/aoti_torch/shim_common.cpp of torch 2.13.

Invariants:
    aoti_printed.V1. Before the first call that writes it, a buffer is uninitialised memory, and its content is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.linux import target_files
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_NAME: Final = lazy_re(r"^\[ (before|after)_launch: (.+?) \]\s*$")
_VALUE: Final = lazy_re(r"^\[  (?:(before|after)_launch - (.+) - (\S+)|aoti_model_inputs - (\S+))  \]:\s*$")
_STATISTIC: Final = lazy_re(r"^(Mean|Min|Max) value: (\S+)\s*$")
_SHAPE: Final = lazy_re(r"^(Dtype|Size): (.*\S)\s*$")
_LONGEST_LINE: Final = 1 << 16


class Value(Struct, kw_only=True):
    """Printed statistics of one argument.

    Attributes:
        when: `before`, `after`, or `input` of the model.
        kernel: as printed; "" for an input of the model.
        argument: name in the generated code.
    """

    when: str
    kernel: str
    argument: str
    dtype: str = ""
    size: str = ""
    mean: float | None = None
    least: float | None = None
    most: float | None = None

    @property
    def bad(self) -> str:
        """Return `NaN`, `infinity` or ""."""
        known = [number for number in (self.mean, self.least, self.most) if number is not None]
        if any(math.isnan(number) for number in known):
            return "NaN"
        return "infinity" if any(math.isinf(number) for number in known) else ""

    @property
    def told(self) -> str:
        """Return its statistics as text."""
        shape = f"{self.dtype} {self.size}".strip()
        numbers = ", ".join(
            f"{name} {number:g}"
            for name, number in (("least", self.least), ("most", self.most), ("mean", self.mean))
            if number is not None
        )
        return f"{self.argument}: {shape}, {numbers}" if shape else f"{self.argument}: {numbers}"


class Launch(Struct, kw_only=True):
    """One launch of a kernel whose arguments were printed."""

    kernel: str
    before: list[Value]
    after: list[Value]


def open_kernel(lines: Iterable[str]) -> tuple[str, int, int]:
    """Return the last kernel that has not returned ("" if all have), and the numbers of launches and returns."""
    launched: list[str] = []
    count = returned = 0
    for line in lines:
        match = _NAME.match(line)
        if match is None:
            continue
        if match[1] == "before":
            launched.append(clean_line(match[2], 300))
            count += 1
        elif launched:
            launched.pop()
            returned += 1
    return (launched[-1] if launched else ""), count, returned


def values(files: Sequence[Path]) -> Iterator[Value]:
    """Yield the printed arguments in order."""
    for path in files:
        value: Value | None = None
        for line in lines_of(path):
            begun = begins(line)
            if begun is not None:
                if value is not None:
                    yield value
                value = begun
            elif value is not None:
                take(line, value)
        if value is not None:
            yield value


def begins(line: str) -> Value | None:
    """Return the value whose statistics begin at a line; None if none do."""
    match = _VALUE.match(line)
    if match is None:
        return None
    return Value(
        when=match[1] or "input",
        kernel=clean_line(match[2] or "", 300),
        argument=clean_line(match[3] or match[4], 100),
    )


def take(line: str, value: Value) -> None:
    """Add one line of the statistics of a value."""
    if match := _STATISTIC.match(line):
        try:
            number = float(match[2])
        except ValueError:
            return
        setattr(value, {"Mean": "mean", "Min": "least", "Max": "most"}[match[1]], number)
    elif match := _SHAPE.match(line):
        setattr(value, match[1].lower(), clean_line(match[2], 100))


def launches(printed: Iterable[Value]) -> Iterator[Launch]:
    """Yield the launches whose arguments were printed, in order."""
    launch: Launch | None = None
    for value in printed:
        if value.when == "input":
            continue
        if launch is None or value.kernel != launch.kernel or (value.when == "before" and launch.after):
            if launch is not None:
                yield launch
            launch = Launch(kernel=value.kernel, before=[], after=[])
        (launch.before if value.when == "before" else launch.after).append(value)
    if launch is not None:
        yield launch


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file; longer ones are cut."""
    try:
        with target_files.open_binary(path) as file:
            while line := file.readline(_LONGEST_LINE):
                yield line.decode("utf-8", "replace").rstrip("\n")
    except OSError:
        return
