"""Golden data: the tensors that pypto-lib's harness saved, `data/in/NAME.pt` and `data/out/NAME.pt`.

Source: pypto-lib, golden/runner.py and docs/run-and-validate/save-and-replay.md: one tensor a file; what is in both
folders is an output with an initial value. `.npy` files are read as well. A `.pt` is opened with
`weights_only=True` and nothing else: a pickle that wants to run code is refused.
"""

from __future__ import annotations

import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from livedbg.model.errors import SourceError, ToolMissing
from livedbg.text.sanitize import clean_line
from livedbg.values.dtypes import Array, element_type
from livedbg.values.stopping import go_on
from livedbg.values.tensor import Held

if TYPE_CHECKING:
    import torch

__all__ = ["GoldenFile", "golden_files", "load"]

_SUFFIXES: Final = (".pt", ".npy")
_FILES: Final = 10_000


@dataclass(frozen=True, slots=True)
class GoldenFile:
    """A tensor of the golden data.

    Attributes:
        name: of the program's argument.
        output: whether it is what the program should leave, not what it is given.
    """

    name: str
    output: bool
    path: Path

    @property
    def label(self) -> str:
        """`out/f`."""
        return f"{'out' if self.output else 'in'}/{self.name}"


def golden_files(folder: Path) -> list[GoldenFile]:
    """The golden data in a folder that has `in/` and `out/`; empty where there is none."""
    return [
        GoldenFile(clean_line(path.stem, 80), side == "out", path)
        for side in ("in", "out")
        for path in sorted((folder / side).glob("*"))[:_FILES]
        if path.suffix in _SUFFIXES and path.is_file()
    ]


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
