"""Tensors in files: `.npy` and the formats of systems, read and written, and `.txt`, written.

A `.npy` of a type that numpy itself lacks (bfloat16, 8 and 4 bit floats) is written as 32-bit floats, which hold all of
their values. Text is one element a line with its index, for `diff`.
"""

from __future__ import annotations

import tokenize
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import ml_dtypes
import numpy as np

from livedbg.linux import target_files
from livedbg.model.errors import SourceError, UsageError
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many
from livedbg.values.readers import TensorFormat, written_as
from livedbg.values.statistics import element_text
from livedbg.values.tensor import Array, Held, Tensor, blocks, go_on, index_of

_NPY_REMEDY: Final = "save one tensor a file: numpy.save(path, array)"


def load(path: Path, formats: Sequence[TensorFormat]) -> Held:
    """Load the tensor of a file.

    Args:
        path: its suffix gives the format.

    Raises:
        SourceError: it can't be read, holds no tensor, or wants to run code.
        ToolMissing: the library for the format is not installed.
    """
    go_on()
    form = next((one for one in formats if path.suffix == f".{one.suffix}"), None)
    read, remedy = (form.load, form.remedy) if form is not None else (_load_npy, _NPY_REMEDY)
    try:
        return Held(read(path))
    except OSError as error:
        raise SourceError(
            f"{clean_line(str(path))} can't be read: {error.strerror or error}.", "", "unreadable"
        ) from None
    except MemoryError:
        raise SourceError(f"{clean_line(str(path))} declares a size larger than memory.", "", "too-large") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SourceError(
            f"{clean_line(str(path))} holds no tensor that can be compared ({clean_line(str(error), 120)}).",
            remedy,
            "no-tensor",
        ) from None


def _load_npy(path: Path) -> Array:
    try:
        with target_files.open_binary(path) as file:
            array = np.load(file, allow_pickle=False)
    except (tokenize.TokenError, SyntaxError, OverflowError, TypeError, RecursionError) as error:  # in its header
        raise ValueError(f"its header is damaged: {error}") from error
    if isinstance(array, np.ndarray):
        return array
    array.close()
    raise ValueError("it is an archive of several")


def export(tensor: Tensor, path: Path, head: dict[str, str], formats: Sequence[TensorFormat]) -> None:
    """Write a tensor.

    Args:
        path: its suffix gives the format.

    Raises:
        UsageError: unknown format.
        SourceError: values are missing, or the file can't be written.
        ToolMissing: the library for the format is not installed.
    """
    form = path.suffix.removeprefix(".")
    if form not in (forms := written_as(formats)):
        raise UsageError(f"{path.name} has no suffix of a known format.", f"end it with .{', .'.join(forms)}")
    try:
        if form == "txt":
            _write_text(tensor, path, head)
        elif tensor.count < tensor.total:
            raise SourceError(
                f"{path.name} is not written: {tensor.count} of {tensor.total} elements are there.",
                "export as .txt, which accepts incomplete tensors",
                "partial",
            )
        elif form == "npy":
            _write_npy(tensor, path)
        else:
            next(one for one in formats if one.suffix == form).write(tensor, path)
    except OSError as error:
        raise SourceError(f"{path} can't be written: {error.strerror}.", "choose another path", "unwritable") from None


def whole(tensor: Tensor) -> Array:
    """Return all elements of a tensor, in its shape."""
    array = tensor.block(0, tensor.count).reshape(tensor.shape)
    return array.astype(np.bool_) if tensor.element.kind == "bool" else array


def _write_npy(tensor: Tensor, path: Path) -> None:
    array = whole(tensor)
    if array.dtype in {np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)}:
        array = array.astype(np.int8)
    elif array.dtype.kind not in "fiub":
        array = array.astype(np.float32)
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)


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
