"""The error codes of CUDA: the tables of its signatures (signatures/errors.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

RULE: Final = "========="
"""What compute-sanitizer begins its lines with."""


class CudaError(NamedTuple):
    """One code.

    Attributes:
        name: of the runtime (`cudaErrorIllegalAddress`).
        text: what cudaGetErrorString says.
        sticky: the context is lost.
        of_kernel: a kernel did it, so that the call that reports it is not the one that failed.
        hardware: the GPU or its links failed, whatever the program did.
    """

    name: str
    text: str
    sticky: bool
    of_kernel: bool
    hardware: bool


@cache
def _maps() -> Mapping[str, Mapping[str, str]]:
    text = files("livedbg.adapters.cuda.signatures").joinpath("errors.toml").read_text(encoding="utf-8")
    maps: Mapping[str, Mapping[str, str]] = tomllib.loads(text)["maps"]
    return maps


def by_number(number: int) -> CudaError | None:
    """The code of a number."""
    return by_name(_maps()["numbers"].get(str(number), ""))


def by_name(name: str) -> CudaError | None:
    """The code of a name of the runtime or of the driver."""
    maps = _maps()
    name = maps["drivers"].get(name, name)
    text, fate = maps["texts"].get(name), maps["fates"].get(name, "")
    return CudaError(name, text, bool(fate), fate == "kernel", fate == "hardware") if text is not None else None
