"""Asks nvFuser to run on the CPU, where it throws: once for each line of standard input, or with `once` at once."""

from __future__ import annotations

import sys

import torch
from nvfuser_direct import DataType, FusionDefinition


def run_fusion() -> None:
    """Define a fusion and run it with tensors of the CPU."""
    with FusionDefinition() as fusion:
        tensor = fusion.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float)
        fusion.add_output(fusion.ops.add(tensor, tensor))
    fusion.execute([torch.ones(4)])


def again(number: int) -> None:
    """One more, and the answer."""
    try:
        run_fusion()
    except RuntimeError:
        print("done", number, flush=True)


if sys.argv[1:] == ["once"]:
    again(1)
else:
    print("READY", flush=True)
    for number, _line in enumerate(sys.stdin, 1):
        again(number)
