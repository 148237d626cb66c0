"""Read and write PyTorch files with one tensor: `.pt`.

A `.pt` is always loaded with `weights_only=True`: a pickle that would run code is refused. Element types of torch, such
as bfloat16 and 8-bit floats, are kept.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from livedbg.linux import target_files
from livedbg.model.errors import SourceError, ToolMissing
from livedbg.text.sanitize import clean_line
from livedbg.values.tensor import Array, Tensor, element_type
from livedbg.values.tensor_files import whole

if TYPE_CHECKING:
    import torch

_NAMES: Final = {
    "BFLOAT16": "bfloat16",
    "FP8E4M3FN": "float8_e4m3fn",
    "FP8E5M2": "float8_e5m2",
    "FP8E8M0": "float8_e8m0fnu",
}
"""Element types that numpy lacks, and what torch calls them."""


def load(path: Path) -> Array:
    """Return the elements of a file.

    Raises:
        ToolMissing: torch is not installed.
        SourceError: reading it could run code.
        ValueError: it has no tensor, or is damaged.
    """
    torch = _torch(f"{clean_line(path.name)} is read by torch, which is not installed.", "save it")
    try:
        with target_files.open_binary(path) as file:
            tensor = torch.load(file, map_location="cpu", weights_only=True)
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


def _torch(missing: str, instead: str) -> Any:
    try:
        import torch
    except ImportError:
        raise ToolMissing(missing, f"pip install torch, or {instead} as .npy", "torch") from None
    return torch


def _array_of(tensor: torch.Tensor) -> Array:
    """Return the elements, with their type if numpy or ml_dtypes has it."""
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


def write(tensor: Tensor, path: Path) -> None:
    """Write a tensor; raise ToolMissing if torch is not installed."""
    torch = _torch("A .pt file is written by torch, which is not installed.", "export")
    array = whole(tensor)
    name = _NAMES.get(tensor.element.name)
    if name is not None and hasattr(torch, name):
        bits = torch.from_numpy(array.view(f"i{array.dtype.itemsize}").copy())
        torch.save(bits.view(getattr(torch, name)), path)
        return
    if array.dtype.kind not in "fiub":
        array = array.astype(np.int8 if tensor.element.kind == "int" else np.float32)
    torch.save(torch.from_numpy(array.copy()), path)
