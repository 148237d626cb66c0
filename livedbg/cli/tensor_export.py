"""`livedbg values` and files of tensors: exports, a .bin that is read as a given type, and printed differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from livedbg.commands.output import warn
from livedbg.model.errors import SourceError, UsageError
from livedbg.session.filereaders import dump_readers, tensor_formats, tensor_suffixes
from livedbg.text.json_text import json_line
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.text.wording import many

if TYPE_CHECKING:
    from livedbg.values.compare import Difference
    from livedbg.values.dump import Dump, Entry
    from livedbg.values.tensor import Tensor


def export_entries(dump: Dump, chosen: Sequence[Entry], path: Path, form: str, limit: int, *, several: bool) -> None:
    """Write tensors of a dump.

    Args:
        path: of a file of one tensor, or of a folder.
        form: of the files in a folder, by their suffix.
        limit: at most so many files.
        several: this dump is one of several.

    Raises:
        UsageError: several tensors, and one file.
        SourceError: it can't be written.
    """
    from livedbg.values.dump import title
    from livedbg.values.tensor_files import export

    there = [(entry, tensor) for entry in chosen if (tensor := dump.tensor(entry)) is not None]
    if path.suffix.removeprefix(".") in tensor_suffixes():
        if len(there) != 1 or several:
            raise UsageError(
                f"{path} holds one tensor, but {many(len(there), 'tensor is', 'tensors are')} selected.",
                "select one by --task, --stage, --arg, or give a folder",
                "several",
            )
        export(there[0][1], path, {"tensor": title(dump, there[0][0])}, tensor_formats())
        click.echo(str(path))
        return
    if several:
        raise UsageError("The folder holds several dumps.", "give one args_dump folder", "several")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        folder = clean_line(str(path))
        raise SourceError(
            f"{folder} can't be created: {error.strerror}.", "choose another path", "unwritable"
        ) from None
    for entry, tensor in there[:limit]:
        name = f"{dump.short_name(entry.task)}_{entry.stage}_{entry.role}{entry.arg}.{form}"
        try:
            export(tensor, path / name, {"tensor": title(dump, entry)}, tensor_formats())
        except SourceError as error:
            warn(error.message, error.remedy)
        else:
            click.echo(str(path / name))
    if len(there) > limit:
        warn(f"More than {limit} tensors are selected; only the first {limit} are written.", "--limit N")


def raw_tensor(path: Path, dtype: str, shape: str | None, offset: int) -> Tensor:
    """Return a part of a payload, read as the given type and shape.

    Raises:
        UsageError: no such type or shape, or the folder has several payloads.
        SourceError: it can't be read.
    """
    from livedbg.values.dtypes import element_type, known_types
    from livedbg.values.tensor import Payload, Stored

    element = element_type(dtype)
    if element is None:
        raise UsageError(f"{dtype} is not an element type.", ", ".join(known_types()), "dtype")
    if path.is_dir():
        bins = [found for found in dump_readers().find(path) if found.suffix == ".bin"]
        if len(bins) != 1:
            raise UsageError(
                f"--as reads one .bin, but {path} is a folder.", f"livedbg values {shell_word(path)}", "several"
            )
        path = bins[0]
    payload = Payload(path)
    there = max(0, payload.size - offset)
    try:
        dims = tuple(int(word) for word in shape.split(",")) if shape else (element.elements_in(there),)
    except ValueError:
        raise UsageError(f"{shape} is not a shape.", "--shape 16,16", "shape") from None
    if min(dims) < 0 or len(dims) > 8 or math.prod(dims) > 1 << 62:
        raise UsageError(f"{shape} is not a shape.", "--shape 16,16", "shape")
    return Stored(payload, offset, there, dims, element)


DIFFERS: Final = 12
"""The exit code where values differ."""


def show_difference(name: str, golden: Path, found: Difference, *, as_json: bool) -> int:
    """Print the difference of a tensor from a golden file; return the exit code."""
    from livedbg.values.sentences import difference_json, difference_text

    if as_json:
        head: dict[str, object] = {
            "tensor": name,
            "golden": clean_line(str(golden)),
            "difference": difference_json(found),
        }
        click.echo(json_line({"schema": "livedbg.values/1", "tensor": head}))
    else:
        click.echo(f"{name}: {difference_text(found)}")
    return DIFFERS if found.differs else 0
