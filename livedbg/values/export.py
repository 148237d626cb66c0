"""Tensors written to files: `.npy`, `.pt`, `.txt`.

A `.npy` of a type that numpy itself lacks (bfloat16, 8 and 4 bit floats) is written as 32-bit floats, which hold
all of their values; a `.pt` keeps the type where torch has it. Text is one element a line with its index, as
`diff` likes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import ml_dtypes
import numpy as np

from livedbg.model.errors import SourceError, ToolMissing, UsageError
from livedbg.text.wording import many
from livedbg.values.dtypes import Array
from livedbg.values.numbers import element_text
from livedbg.values.tensor import Tensor, blocks, index_of

__all__ = ["FORMS", "export"]

FORMS: Final = ("npy", "pt", "txt")
_TORCH_NAMES: Final = {
    "BFLOAT16": "bfloat16",
    "FP8E4M3FN": "float8_e4m3fn",
    "FP8E5M2": "float8_e5m2",
    "FP8E8M0": "float8_e8m0fnu",
}


def export(tensor: Tensor, path: Path, head: dict[str, str]) -> None:
    """Write a tensor.

    Args:
        path: its suffix says the form.
        head: what a text file says before the values.

    Raises:
        UsageError: no such form.
        SourceError: values are missing, or the file can't be written.
        ToolMissing: `.pt` without torch.
    """
    form = path.suffix.removeprefix(".")
    if form not in FORMS:
        raise UsageError(f"{path.name} says no form to write.", f"end it with .{', .'.join(FORMS)}", "form")
    try:
        if form == "txt":
            _write_text(tensor, path, head)
        elif tensor.count < tensor.total:
            raise SourceError(
                f"{path.name} is not written: {tensor.count} of {tensor.total} elements are there.",
                "export as .txt, which takes what is there",
                "partial",
            )
        elif form == "npy":
            _write_npy(tensor, path)
        else:
            _write_pt(tensor, path)
    except OSError as error:
        raise SourceError(f"{path} can't be written: {error.strerror}.", "choose another place", "unwritable") from None


def _whole(tensor: Tensor) -> Array:
    array = tensor.block(0, tensor.count).reshape(tensor.shape)
    return array.astype(np.bool_) if tensor.element.kind == "bool" else array


def _write_npy(tensor: Tensor, path: Path) -> None:
    array = _whole(tensor)
    if array.dtype in {np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)}:
        array = array.astype(np.int8)
    elif array.dtype.kind not in "fiub":
        array = array.astype(np.float32)
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def _write_pt(tensor: Tensor, path: Path) -> None:
    try:
        import torch
    except ImportError:
        raise ToolMissing(
            "A .pt file is written by torch, which is not installed.", "pip install torch, or export as .npy", "torch"
        ) from None
    array = _whole(tensor)
    name = _TORCH_NAMES.get(tensor.element.name)
    if name is not None and hasattr(torch, name):
        bits = torch.from_numpy(array.view(f"i{array.dtype.itemsize}").copy())
        torch.save(bits.view(getattr(torch, name)), path)
        return
    if array.dtype.kind not in "fiub":
        array = array.astype(np.int8 if tensor.element.kind == "int" else np.float32)
    torch.save(torch.from_numpy(array.copy()), path)


def _write_text(tensor: Tensor, path: Path, head: dict[str, str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for name, value in head.items():
            file.write(f"# {name}: {value}\n")
        for first, block in blocks(tensor):
            for place, value in enumerate(block.tolist(), first):
                index = ", ".join(map(str, index_of(place, tensor.shape)))
                file.write(f"[{index}] {element_text(value, tensor.element)}\n")
        if tensor.count < tensor.total:
            file.write(f"# {many(tensor.total - tensor.count, 'element is', 'elements are')} not there\n")
