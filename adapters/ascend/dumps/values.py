"""Ascend's reader of dumped tensors: `args_dump` and its predecessor `tensor_dump`, with or without their manifest.

Folders: `args_dump/` or `tensor_dump/` below the run's output folder (simpler, docs/dfx/args-dump.md), one
for each rank and dispatch as `rank0/d1/` (pypto, python/pypto/runtime/distributed_runner.py). `deps.json` and
`name_map*.json` lie in the folder above. Element types: simpler, src/common/task_interface/data_type.h (August
2026); views: tensor.h of that folder; FP4E2M1: simpler_setup/goldens/mx_fp_gemm.py. Golden data:
pypto-lib, golden/runner.py and docs/run-and-validate/save-and-replay.md: one tensor a file; what is in both folders is
an output with an initial value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from livedbg.adapters.ascend.dumps.graphs import kernel_names, parse_graph
from livedbg.adapters.ascend.names import raw_id, task_name
from livedbg.graphs.declared import TaskGraph
from livedbg.linux import target_files
from livedbg.model.errors import SourceError
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many
from livedbg.values.readers import DumpFiles, DumpReader, GoldenFile

if TYPE_CHECKING:  # numpy is imported when values are read
    from livedbg.values.dump import Dump

_TASK: Final = lazy_re(r"r(\d+)t(\d+)\Z")
_DEPS_BYTES: Final = 1 << 29
_KERNELS_BYTES: Final = 1 << 28  # of a deps.json that is read for the names of kernels only
_SUFFIXES: Final = (".pt", ".npy")  # of golden data
_FILES: Final = 10_000
_MARKED_ONLY: Final = frozenset({1, 3})  # levels at which only marked tensors keep their values
_DRAINED: Final = (
    "There is no manifest beside {name} ({size}): the runtime writes it only when a run has drained or its "
    "time-out has ended it, so this run hangs, was killed, or still goes on. Of the bytes nothing more is known."
)


class ArgsDumpReader:
    """Reads `args_dump` and `tensor_dump`."""

    files: Sequence[DumpFiles] = (
        DumpFiles("args_dump.json", "args.bin"),
        DumpFiles("tensor_dump.json", "tensor_dump.bin"),
    )
    remedy: str = "dump the arguments: enable_dump_args=2 of run_jit, --dump-args 2 of simpler's tests"

    def open(self, path: Path) -> Dump:
        """Open one dump: a manifest, or a payload without one."""
        return _payload_only(path) if path.suffix == ".bin" else _with_manifest(path)

    def task(self, name: str) -> int | None:
        """The number of `r1t2`."""
        match = _TASK.match(name)
        return raw_id(int(match[1]), int(match[2])) if match else None

    def golden_files(self, folder: Path) -> Sequence[GoldenFile]:
        """The golden data in a folder that has `in/` and `out/`; empty where there is none."""
        return golden_files(folder)

    def golden_of_run(self, folder: Path) -> Sequence[GoldenFile]:
        """The golden data in the folder `data` of a build's folder; empty where there is none."""
        return golden_files(folder / "data")


READERS: Final[tuple[DumpReader, ...]] = (ArgsDumpReader(),)


def golden_files(folder: Path) -> list[GoldenFile]:
    """The golden data in a folder that has `in/` and `out/`; empty where there is none."""
    return [
        GoldenFile(clean_line(path.stem, 80), side == "out", path)
        for side in ("in", "out")
        for path in target_files.matching(folder / side, "*")[:_FILES]
        if path.suffix in _SUFFIXES and target_files.is_regular(path)
    ]


def _dump(path: Path) -> Dump:
    from livedbg.values.dump import Dump

    return Dump(
        path=path,
        system="ascend",
        names=kernel_names(path.parent.parent) | kernel_names(path.parent),
        short_name=task_name,
        graph_name="deps.json",
        find_graph=partial(_graph_beside, path),
    )


def _payload_only(path: Path) -> Dump:
    from livedbg.values.tensor import Payload

    payload = Payload(path)
    dump = _dump(path)
    dump.payload, dump.payload_path, dump.layout, dump.orphan = payload, path, "payload only", True
    dump.problems.append(_DRAINED.format(name=clean_line(path.name), size=many(payload.size, "byte")))
    return dump


def _with_manifest(path: Path) -> Dump:
    from livedbg.adapters.ascend.dumps.manifest import read_manifest
    from livedbg.values.dump import note_losses
    from livedbg.values.tensor import Payload

    manifest = read_manifest(path)
    dump = _dump(path)
    dump.entries, dump.problems = manifest.entries, list(manifest.problems)
    dump.decodable, dump.layout, dump.level = manifest.decodable, manifest.layout, manifest.level
    for entry in dump.entries:
        if entry.kernels:
            dump.kernels.setdefault(entry.task, entry.kernels)
    if dump.entries and not dump.kernels:  # June 2026, and host_build_graph, which writes -1
        dump.kernels = _declared_kernels(path)
    if manifest.bin_file is not None:
        dump.payload_path = path.parent / manifest.bin_file
        try:
            dump.payload = Payload(dump.payload_path)
        except SourceError as error:
            dump.problems.append(error.message)
    marked = f"dump level {dump.level} keeps those that are marked with dump(...)"
    note_losses(dump, marked if dump.level in _MARKED_ONLY else "")
    return dump


def _beside(dump: Path, name: str) -> Path | None:
    """A file of the run that a dump belongs to: in its folder, or in the one above."""
    folders = (dump.parent, dump.parent.parent)
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _declared_kernels(path: Path) -> dict[int, tuple[int, ...]]:
    """Func ids of tasks from the deps.json beside a dump; empty where it has none."""
    deps = _beside(path, "deps.json")
    try:
        if deps is None or target_files.status(deps).st_size > _KERNELS_BYTES:
            return {}
        tasks = parse_graph(target_files.read_bytes(deps)).tasks.values()
    except (OSError, ValueError):  # names are an extra
        return {}
    return {task.task_id: tuple(kernel for kernel in task.kernel_ids if kernel >= 0) for task in tasks}


def _graph_beside(dump: Path) -> tuple[TaskGraph | None, str]:
    """The graph of a dump's run, or why there is none or what it lacks."""
    path = _beside(dump, "deps.json")
    if path is None:
        return None, f"There is no deps.json beside {clean_line(dump.parent.name)}"
    try:
        if target_files.status(path).st_size > _DEPS_BYTES:
            raise SourceError(f"{path} is too large")
        graph = parse_graph(target_files.read_bytes(path))
    except (OSError, ValueError, SourceError) as error:
        return None, f"{path.name} can't be read ({clean_line(str(error), 300)})"
    return graph, f"{path.name} is not whole ({clean_line(graph.cut, 120)})" if graph.cut else ""
