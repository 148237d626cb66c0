"""File readers declared by systems."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from livedbg.model.errors import ToolMissing
from livedbg.session.systems import Lazy, System, TensorFiles, declared, note_problem, systems
from livedbg.values.readers import Readers, TensorFormat, written_as

if TYPE_CHECKING:
    from livedbg.graphs.declared import GraphReader
    from livedbg.logs.formats import LogFormats
    from livedbg.values.tensor import Array, Tensor

T = TypeVar("T")


def dump_readers() -> Readers:
    """Return the readers of dumped tensors of all systems."""
    readers = tuple(reader for _, readers in declared(lambda system: system.dump_readers) for reader in readers)
    return Readers(readers, tensor_formats())


def graph_readers() -> tuple[GraphReader, ...]:
    """Return the readers of task graphs of all systems."""
    return tuple(reader for _, readers in declared(lambda system: system.graph_readers) for reader in readers)


def tensor_formats() -> tuple[TensorFormat, ...]:
    """Return the systems' formats of files with one tensor. Their code is imported on first use."""
    return tuple(_format(system, files) for system in systems() for files in system.tensor_files)


def tensor_suffixes() -> tuple[str, ...]:
    """Return the suffixes in which a tensor can be written."""
    return written_as(tensor_formats())


def _format(system: System, files: TensorFiles) -> TensorFormat:
    def load(path: Path) -> Array:
        return _imported(system, files.load)(path)

    def write(tensor: Tensor, path: Path) -> None:
        _imported(system, files.write)(tensor, path)

    return TensorFormat(files.suffix, load, write, files.remedy)


def _imported(system: System, lazy: Lazy[T]) -> T:
    try:
        return lazy.value
    except Exception as error:  # of another package: systems.Y2
        note_problem(system.name, f"{lazy.where} can't be imported", error)
        raise ToolMissing(f"{lazy.where} of {system.title} can't be imported.", "livedbg doctor", "import") from error


def known_log_formats() -> LogFormats:
    """Return all log formats, the narrower systems' first. An invalid one is a problem of its system (systems.Y2)."""
    from livedbg.logs.formats import log_formats

    shapes = [shape for _system, found in declared(lambda system: system.shapes) for shape in found]
    formats, continuations = log_formats(shapes), list[str]()
    for system in systems():
        if not system.continuations:
            continue
        try:
            formats = log_formats(shapes, [*continuations, *system.continuations])
        except (ValueError, re.error) as error:
            note_problem(system.name, "its continuations can't be used", error)
        else:
            continuations += system.continuations
    return formats


def no_log_suffixes() -> frozenset[str]:
    """Return suffixes of the systems' files that are no logs."""
    return frozenset(suffix for system in systems() for suffix in system.no_logs)
