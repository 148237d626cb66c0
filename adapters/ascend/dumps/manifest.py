"""The manifest of a dump, read as a stream: `args_dump.json`, until June 2026 `tensor_dump.json`.

Sources: simpler, src/common/platform/shared/host/args_dump_collector.cpp (August 2026) and
tensor_dump_collector.cpp of 48980572b (June 2026); docs/dfx/args-dump.md. An entry is one JSON object
without an object inside, so that whole entries can be told from cut or damaged ones without a
parser that needs the whole file. Entries stand sorted by task, stage and argument.

Invariants:
    manifest.M1. Memory is that of the entries kept and of a chunk: what is no whole entry after `_LONGEST` bytes is
        left out.
    manifest.M2. Every entry that is whole and sound is given; whatever is left out is reported in `problems`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import msgspec

from livedbg.model.errors import SourceError
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready
from livedbg.text.wording import many
from livedbg.values.dump import Entry
from livedbg.values.tensor import go_on, open_regular

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
    """What a manifest holds.

    Attributes:
        layout: `args_dump` or, of June 2026 and before, `tensor_dump`.
        level: 1 marked arguments only, 2 everything, 3 everything but only marked payload; None in June 2026.
        bin_file: name of the payload's file; None where the run wrote none.
        decodable: whether the payload has the one format that is known.
        problems: sentences on what is missing.
    """

    layout: str = "args_dump"
    level: int | None = None
    bin_file: str | None = None
    decodable: bool = True
    entries: list[Entry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_manifest(path: Path) -> Manifest:
    """Read a manifest, also one that is cut, damaged or huge.

    Raises:
        SourceError: it can't be read, or is no manifest of a dump.
    """
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
    """The entries' JSON, and last what lay between them."""
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
    """An entry, with equal words and shapes kept once."""

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
