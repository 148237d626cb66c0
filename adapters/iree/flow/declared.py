"""The inputs that a function declares, and those that it is given: where they do not fit.

Invariants:
    iree_declared.I1. Only what both sides say is compared: a size that the function leaves open, or a file whose shape
        is not read, fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many

__all__ = ["Declared", "declared_inputs", "misfits", "shown"]

_INPUT: Final = re.compile(r"%\w{1,1000}: (tensor<[^>]{0,2000}>|[\w!.]{1,400})")
_SPEC: Final = re.compile(r"(?P<shape>(?:\d++x)*+)(?P<type>[a-z]+\d\w*+)(?:=|$)")
_NUMBER: Final = re.compile(r"[-+]?(?:0x[\da-fA-F]+|(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d+)?|inf|nan)")
_WORDS: Final = {"b": "i1", "f": "f", "i": "i", "u": "i"}


class Declared(Struct, frozen=True):
    """One input.

    Attributes:
        shape: None for one that is left open.
        type: of its elements; "" if it is not known.
        tensor: else a number, or something of the runtime.
    """

    shape: tuple[int | None, ...] = ()
    type: str = ""
    tensor: bool = True


def declared_inputs(declaration: str) -> list[Declared] | None:
    """The inputs of `sync func @main(%input0: tensor<4xf32>) -> (…)`; None where nothing is declared."""
    head, arrow, _ = declaration.partition(") ->")
    if not arrow:
        return None
    return [_declared(match[1]) for match in _INPUT.finditer(head.partition("(")[2])]


def shown(inputs: Sequence[Declared]) -> str:
    """`4x?xf32, i32`."""
    return ", ".join(_shown(one) for one in inputs) or "none"


def misfits(declared: Sequence[Declared], specs: Sequence[str], function: str) -> Iterator[str]:
    """A sentence for each input that does not fit."""
    if any(spec.startswith("*") for spec in specs):
        return  # how many inputs the file has is not read
    if len(declared) != len(specs):
        yield f"{function} takes {many(len(declared), 'input')} ({shown(declared)}), and gets {len(specs)}."
        return
    for number, (wanted, spec) in enumerate(zip(declared, specs, strict=True)):
        got = _given(spec)
        if got is None or not wanted.tensor:
            continue
        who = f"Input {number} (counted from 0) is {_shown(got)}, and {function} takes {_shown(wanted)}"
        if len(got.shape) != len(wanted.shape):
            yield f"{who}: it has {many(len(got.shape), 'dimension')}, not {len(wanted.shape)}."
            continue
        wrong = next(
            (at for at, (mine, its) in enumerate(zip(got.shape, wanted.shape, strict=True)) if its not in (None, mine)),
            None,
        )
        if wrong is not None:
            yield f"{who}: dimension {wrong} is {got.shape[wrong]}, not {wanted.shape[wrong]}."
        elif got.type and wanted.type and _plain(got.type) != _plain(wanted.type):
            yield f"{who}: its elements are {got.type}, not {wanted.type}."


def _declared(text: str) -> Declared:
    if not text.startswith("tensor<"):
        return Declared(type=text, tensor=False)
    *sizes, element = text[7:-1].partition(",")[0].split("x")
    return Declared(tuple(int(size) if size.isdigit() else None for size in sizes), element)


def _given(spec: str) -> Declared | None:
    if spec.startswith("@"):
        return _of_file(Path(spec[1:]))
    match = _SPEC.match(spec)
    if match is None:
        return Declared(type="", tensor=False) if _NUMBER.fullmatch(spec) else None
    return Declared(tuple(int(size) for size in match["shape"].split("x") if size), match["type"])


def _of_file(path: Path) -> Declared | None:
    from numpy.lib import format as npy

    if path.suffix != ".npy":
        return None
    try:
        with path.open("rb") as file:
            read = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(file)
    except (OSError, ValueError):
        return None
    kind = _WORDS.get(dtype.kind, "")
    bits = "" if kind == "i1" else str(dtype.itemsize * 8)
    return Declared(tuple(int(size) for size in shape), f"{kind}{bits}" if kind else "")


def _plain(element: str) -> str:
    """Signs are no matter: the runtime takes `i32` for `si32`."""
    return re.sub(r"^[su](?=i\d)", "", element)


def _shown(one: Declared) -> str:
    return clean_line("x".join([*("?" if size is None else str(size) for size in one.shape), one.type or "a value"]))
