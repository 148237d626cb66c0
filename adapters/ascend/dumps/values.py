"""Read Ascend tensor dumps: `args_dump` and its predecessor `tensor_dump`, with or without their manifest.

Folders: `args_dump/` or `tensor_dump/` below the run's output folder (simpler, docs/dfx/args-dump.md), one for each
rank and dispatch as `rank0/d1/` (pypto, python/pypto/runtime/distributed_runner.py). `deps.json` and `name_map*.json`
are in the parent folder. Element types: simpler, src/common/task_interface/data_type.h (August 2026); views: tensor.h
of that folder; FP4E2M1: simpler_setup/goldens/mx_fp_gemm.py. Golden data: pypto-lib, golden/runner.py and
docs/run-and-validate/save-and-replay.md: one tensor a file; a tensor in both folders is an output with an initial
value.

The manifest is read as a stream: `args_dump.json`, until June 2026 `tensor_dump.json`. Sources: simpler,
src/common/platform/shared/host/args_dump_collector.cpp (August 2026) and tensor_dump_collector.cpp of 48980572b (June
2026); docs/dfx/args-dump.md. An entry is a JSON object without nested objects, so complete entries are recognised
without parsing the whole file. Entries are sorted by task, stage and argument.

Invariants:
    manifest.M1. Memory is bounded by the kept entries and a chunk: data that is no complete entry after `_LONGEST`
        bytes is left out.
    manifest.M2. Every complete and valid entry is returned; omissions are reported in `problems`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from livedbg.adapters.ascend.dumps.graphs import kernel_names, parse_graph
from livedbg.adapters.ascend.names import raw_id, task_name
from livedbg.graphs.declared import TaskGraph
from livedbg.linux import target_files
from livedbg.model.errors import SourceError
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready
from livedbg.text.wording import many
from livedbg.values.dump import Entry
from livedbg.values.readers import DumpFiles, DumpReader, GoldenFile
from livedbg.values.tensor import go_on, open_regular

if TYPE_CHECKING:
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
        """Open a dump: a manifest, or a payload without one."""
        return _payload_only(path) if path.suffix == ".bin" else _with_manifest(path)

    def task(self, name: str) -> int | None:
        """Return the number of `r1t2`."""
        match = _TASK.match(name)
        return raw_id(int(match[1]), int(match[2])) if match else None

    def golden_files(self, folder: Path) -> Sequence[GoldenFile]:
        return golden_files(folder)

    def golden_of_run(self, folder: Path) -> Sequence[GoldenFile]:
        """Return the golden data in the folder `data` of a build; empty if there is none."""
        return golden_files(folder / "data")


READERS: Final[tuple[DumpReader, ...]] = (ArgsDumpReader(),)


def golden_files(folder: Path) -> list[GoldenFile]:
    """Return the golden data of a folder with `in/` and `out/`; empty if there is none."""
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
    """Return a file of a dump's run: in its folder, or in the parent."""
    folders = (dump.parent, dump.parent.parent)
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _declared_kernels(path: Path) -> dict[int, tuple[int, ...]]:
    """Return func ids of tasks from the deps.json next to a dump; empty if there is none."""
    graph, _ = _graph_beside(path, _KERNELS_BYTES)
    tasks = graph.tasks.values() if graph is not None else ()
    return {task.raw: tuple(kernel for kernel in task.kernels if kernel >= 0) for task in tasks}


def _graph_beside(dump: Path, most: int = _DEPS_BYTES) -> tuple[TaskGraph | None, str]:
    """Return the graph of a dump's run, and why it is missing or incomplete."""
    path = _beside(dump, "deps.json")
    if path is None:
        return None, f"There is no deps.json beside {clean_line(dump.parent.name)}"
    try:
        if target_files.status(path).st_size > most:
            raise SourceError(f"{path} is too large")
        graph = parse_graph(target_files.read_bytes(path))
    except (OSError, ValueError, SourceError) as error:
        return None, f"{path.name} can't be read ({clean_line(str(error), 300)})"
    return graph, f"{path.name} is not whole ({clean_line(graph.cut, 120)})" if graph.cut else ""


_CHUNK: Final = 1 << 22
_LONGEST: Final = 1 << 16
_ENTRIES: Final = 1_000_000
_ELEMENTS: Final = 1 << 62
_START: Final = lazy_re(rb'"(args|tensors)"\s*:\s*\[')
_ENTRY: Final = lazy_re(rb"\{[^{}]*\}")
_BETWEEN: Final = lazy_re(rb"\s*+(?:,\s*+)?")
_END: Final = lazy_re(rb"\s*\]\s*\}\s*")

_STAGES: Final = {"before_dispatch": "before", "after_completion": "after"}

_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Dims = Annotated[tuple[_Count, ...], msgspec.Meta(max_length=8)]


class _Record(msgspec.Struct, gc=False):
    task_id: str | int
    arg_index: _Count
    role: str
    stage: str
    dtype: str
    kind: str = "tensor"
    func_id: tuple[int, ...] | int = ()
    value: int | float | bool | str | None = None
    shape: _Dims = ()
    strides: _Dims = ()
    start_offset: _Count = 0
    bin_offset: _Count = 0
    bin_size: _Count = 0
    truncated: bool = False
    overwritten: bool = False
    arg_index_ambiguous: bool = False


class _Format(msgspec.Struct):
    type: str = "logical_contiguous"
    byte_order: str = "little_endian"


class _Header(msgspec.Struct):
    bin_format: _Format = msgspec.field(default_factory=_Format)
    dump_args_level: int | None = None
    total_args: int | None = None
    total_tensors: int | None = None
    dropped_records: int = 0
    dropped_overwrite: int = 0
    bin_file: str | None = ""


@dataclass(slots=True)
class Manifest:
    """Content of a manifest.

    Attributes:
        layout: `args_dump` or, up to June 2026, `tensor_dump`.
        level: 1 marked arguments only, 2 everything, 3 everything but only marked payload; None in June 2026.
        bin_file: name of the payload's file; None if the run wrote none.
        decodable: the payload has the only known format.
        problems: sentences on omissions.
    """

    layout: str = "args_dump"
    level: int | None = None
    bin_file: str | None = None
    decodable: bool = True
    entries: list[Entry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_manifest(path: Path) -> Manifest:
    """Read a manifest, also a truncated, damaged or huge one; raise SourceError if it is unreadable or none."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            head = file.read(_LONGEST)
            start = _START.search(head)
            if start is None or not head.lstrip().startswith(b"{"):
                raise SourceError(
                    f"{clean_line(str(path))} is no manifest of a tensor dump.",
                    "give args_dump.json, tensor_dump.json, or the folder of the run",
                    "not-a-dump",
                )
            manifest, total = _begin(head[: start.end()], start[1])
            file.seek(start.end())
            _fill(manifest, _scan(iter(lambda: file.read(_CHUNK), b"")), total)
    except OSError as error:
        raise SourceError(f"{clean_line(str(path))} can't be read: {error.strerror}.", "", "unreadable") from None
    return manifest


def _begin(head: bytes, array: bytes) -> tuple[Manifest, int | None]:
    manifest = Manifest(layout="args_dump" if array == b"args" else "tensor_dump")
    try:
        header = msgspec.json.decode(head + b"]}", type=ready(_Header))
    except (ValueError, RecursionError) as error:  # msgspec's errors are the former, and those of wrong UTF-8
        manifest.problems.append(f"The manifest's head is damaged ({clean_line(str(error), 120)}).")
        header = _Header()
    default = "args.bin" if manifest.layout == "args_dump" else "tensor_dump.bin"
    manifest.bin_file = default if header.bin_file == "" else header.bin_file
    if manifest.bin_file is not None and Path(manifest.bin_file).name != manifest.bin_file:
        manifest.problems.append("The manifest names a payload outside of its folder, which is not opened.")
        manifest.bin_file = default
    form = header.bin_format
    if (form.type, form.byte_order) != ("logical_contiguous", "little_endian"):
        manifest.decodable = False
        manifest.problems.append(
            f"The payload's format {clean_line(form.type, 40)}, {clean_line(form.byte_order, 40)} is not known: "
            "entries are listed, values are not read."
        )
    manifest.level = header.dump_args_level
    if header.dropped_records > 0:
        manifest.problems.append(f"The runtime dropped {many(header.dropped_records, 'record')} for want of buffers.")
    if header.dropped_overwrite > 0:
        lost = many(header.dropped_overwrite, "payload was", "payloads were")
        manifest.problems.append(f"{lost} overwritten before the host read what was there.")
    return manifest, header.total_args if header.total_args is not None else header.total_tensors


@dataclass(slots=True)
class _Damage:
    parts: int = 0
    ended: bool = False


def _scan(chunks: Iterator[bytes]) -> Iterator[bytes | _Damage]:
    """Yield the entries' JSON, and finally the damage between them."""
    damage = _Damage()
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        done = 0
        for match in _ENTRY.finditer(data):
            if _BETWEEN.fullmatch(data, done, match.start()) is None:
                damage.parts += 1
            done = match.end()
            yield match[0]
        rest = data[done:]
        if len(rest) > _LONGEST:
            damage.parts += 1
            rest = rest[-_LONGEST:]
            rest = rest[rest.rfind(b"{") :] if b"{" in rest else b""
    damage.ended = _END.fullmatch(rest) is not None
    yield damage


def _fill(manifest: Manifest, pieces: Iterator[bytes | _Damage], total: int | None) -> None:
    decoder = msgspec.json.Decoder(ready(_Record))
    share: dict[object, object] = {}
    wrong = beyond = 0
    for piece in pieces:
        if isinstance(piece, _Damage):
            _note_damage(manifest, piece, wrong, beyond, total)
            return
        if len(manifest.entries) >= _ENTRIES:
            beyond += 1
            continue
        go_on()
        try:
            manifest.entries.append(_entry(decoder.decode(piece), len(manifest.entries) + wrong, share))
        except (ValueError, RecursionError):
            wrong += 1


def _note_damage(manifest: Manifest, damage: _Damage, wrong: int, beyond: int, total: int | None) -> None:
    there = len(manifest.entries)
    if not damage.ended:
        of = f", of {total:,}" if total is not None else ""
        manifest.problems.append(f"The manifest is cut: {many(there, 'entry is', 'entries are')} whole{of}.")
    elif total is not None and total != there + wrong + beyond:
        manifest.problems.append(
            f"The manifest counts {many(total, 'entry', 'entries')} and holds {there + wrong + beyond:,}."
        )
    if wrong or damage.parts:
        places = many(wrong + damage.parts, "place of the manifest is", "places of the manifest are")
        manifest.problems.append(f"{places} damaged and left out.")
    if beyond:
        entries = many(beyond, "entry", "entries")
        manifest.problems.append(f"{entries} beyond the first {_ENTRIES:,} left out.")


def _entry(record: _Record, number: int, share: dict[object, object]) -> Entry:
    """Return an entry; equal words and shapes are shared."""

    def word(text: str) -> str:
        return str(share.setdefault(text, clean_line(text, 40)))

    def dims(values: tuple[int, ...]) -> tuple[int, ...]:
        kept = share.setdefault(values, values)
        return kept if isinstance(kept, tuple) else values

    task = record.task_id if isinstance(record.task_id, int) else int(record.task_id, 0)
    if not 0 <= task < 1 << 64 or math.prod(record.shape) > _ELEMENTS:
        raise ValueError("no task, or no tensor")
    kernels = (record.func_id,) if isinstance(record.func_id, int) else record.func_id
    return Entry(
        number,
        task,
        record.arg_index,
        word(_STAGES.get(record.stage, record.stage)),
        word(record.role),
        word(record.kind),
        word(record.dtype),
        dims(tuple(kernel for kernel in kernels if kernel >= 0)),
        clean_line(record.value, 80) if isinstance(record.value, str) else record.value,
        dims(record.shape),
        dims(record.strides),
        record.start_offset,
        record.bin_offset,
        record.bin_size,
        record.truncated,
        record.overwritten,
        record.arg_index_ambiguous,
    )
