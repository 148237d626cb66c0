"""Tensors in files of their own: `.npy` and `.pt`, read and written, and `.txt`, written.

A `.pt` is opened with `weights_only=True` and nothing else: a pickle that wants to run code is refused. A `.npy` of a
type that numpy itself lacks (bfloat16, 8 and 4 bit floats) is written as 32-bit floats, which hold all of their
values; a `.pt` keeps the type where torch has it. Text is one element a line with its index, as `diff` likes it.
"""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import ml_dtypes
import numpy as np

from livedbg.model.errors import SourceError, ToolMissing, UsageError
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many
from livedbg.values.dtypes import Array, element_type
from livedbg.values.numbers import element_text
from livedbg.values.payload import go_on
from livedbg.values.tensor import Held, Tensor, blocks, index_of

if TYPE_CHECKING:
    import torch

__all__ = ["FORMS", "export", "load"]

FORMS: Final = ("npy", "pt", "txt")
_TORCH_NAMES: Final = {
    "BFLOAT16": "bfloat16",
    "FP8E4M3FN": "float8_e4m3fn",
    "FP8E5M2": "float8_e5m2",
    "FP8E8M0": "float8_e8m0fnu",
}


def load(path: Path) -> Held:
    """The tensor of a file.

    Raises:
        SourceError: it can't be read, holds no tensor, or wants to run code.
        ToolMissing: a `.pt` without torch.
    """
    go_on()
    try:
        return Held(_load_npy(path) if path.suffix == ".npy" else _load_pt(path))
    except OSError as error:
        raise SourceError(
            f"{clean_line(str(path))} can't be read: {error.strerror or error}.", "", "unreadable"
        ) from None
    except MemoryError:
        raise SourceError(f"{clean_line(str(path))} says that it is larger than memory.", "", "too-large") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SourceError(
            f"{clean_line(str(path))} holds no tensor that can be compared ({clean_line(str(error), 120)}).",
            "save one tensor a file: torch.save(tensor, path)",
            "no-tensor",
        ) from None


def _load_npy(path: Path) -> Array:
    array = np.load(path, allow_pickle=False)
    if isinstance(array, np.ndarray):
        return array
    array.close()
    raise ValueError("it is an archive of several")


def _load_pt(path: Path) -> Array:
    try:
        import torch
    except ImportError:
        raise ToolMissing(
            f"{clean_line(path.name)} is read by torch, which is not installed.",
            "pip install torch, or save it as .npy",
            "torch",
        ) from None
    try:
        tensor = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise SourceError(
            f"{clean_line(str(path))} is refused: it holds more than tensors, or is damaged, and reading it could run "
            f"code ({clean_line(str(error), 100)}).",
            "save the tensor alone: torch.save(tensor.detach().cpu(), path)",
            "pickle",
        ) from None
    except (RuntimeError, KeyError, AttributeError, TypeError, IndexError, AssertionError) as error:
        raise ValueError(f"damaged: {error}") from error
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"it is a {type(tensor).__name__}")
    return _array_of(tensor)


def _array_of(tensor: torch.Tensor) -> Array:
    """The elements of a torch tensor, with their type where numpy has it by itself or from ml_dtypes."""
    import torch

    if tensor.layout != torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout}")
    tensor = tensor.detach().contiguous()
    name = str(tensor.dtype).removeprefix("torch.")
    element = element_type(name)
    if element is None or element.kind != "float" or element.numpy.kind == "f":
        try:
            return tensor.numpy()
        except TypeError as error:
            raise ValueError(str(error)) from None
    bits = tensor.view(torch.int16 if tensor.element_size() == 2 else torch.uint8).numpy()
    if element.packed > 1:
        return element.decode(bits.tobytes()).reshape(element.logical_shape(tuple(tensor.shape)))
    return bits.view(element.numpy)


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
        raise SourceError(f"{path} can't be written: {error.strerror}.", "choose another path", "unwritable") from None


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
