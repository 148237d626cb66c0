"""One dump of a Flight Recorder, read from its file: a pickle, or the JSON of the worker server.

Sources: torch/csrc/distributed/c10d/FlightRecorder.hpp (keys), FlightRecorderDetail.hpp (dump, dump_json); checked with
dumps of torch 2.13 (version 2.10 of the format, gloo). Those of NCCL have the same keys; none was there to try.

Reads pickles that hold nothing but plain data: dicts, lists, tuples, texts, numbers.

Flight Recorder dumps are pickles (torch/csrc/distributed/c10d/FlightRecorder.hpp, dump). A pickle can name any function
and call it; here every name is refused, so that none can be called.

Invariants:
    dump_file.D1. An entry that is not as it should be is left out, and the others stay.
    dump_file.R1. Nothing of the pickle is imported, called or looked up.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
from msgspec import Struct

from livedbg.adapters.pytorch.collectives.recorder_entry import Entry
from livedbg.linux import target_files
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready


class NotPlain(ValueError):
    """A pickle that is damaged, or holds more than plain data; the text says which, for users."""


class _Plain(pickle.Unpickler):
    """Builds what needs no name."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise NotPlain(f"it wants to use {module}.{name}, which is not done")

    def persistent_load(self, _identifier: object, /) -> NoReturn:
        raise NotPlain("it refers to things outside of it")


def load_plain(data: bytes) -> object:
    """The value that a pickle holds.

    Raises:
        NotPlain: see there.
    """
    try:
        return _Plain(io.BytesIO(data)).load()
    except NotPlain:
        raise
    except Exception as error:  # a damaged pickle fails in any way
        raise NotPlain(f"it is cut short or damaged ({type(error).__name__})") from None


MOST_BYTES: Final = 64 << 20
"""A larger file is not read."""

_HEAD: Final = 1 << 12
_NUMBER: Final = lazy_re(r"(\d{1,40})(?:\.(?:json|pickle|pkl|bin|dump))?$")
_LIBRARY: Final = lazy_re(r"/(?:site|dist)-packages/|/lib/python3\.\d+/|^<")


class BadDump(ValueError):
    """A file that is no dump, or a damaged one; the text says why, for users."""


class _Frame(Struct):
    name: str = ""
    filename: str = ""
    line: int = 0


class _Entry(Struct):
    record_id: int
    process_group: tuple[str, str]
    profiling_name: str
    time_created_ns: int
    pg_id: int = 0
    collective_seq_id: int = 0
    p2p_seq_id: int = 0
    is_p2p: bool = False
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    state: str = ""
    retired: bool = False
    timeout_ms: int = 0
    frames: tuple[_Frame, ...] = ()


class Dump(Struct, frozen=True, kw_only=True):
    """What a rank had when its dump was written.

    Attributes:
        rank: its global rank.
        path: the file.
        written_wall_ns: when the file was changed last.
        entries: in the order in which they were enqueued.
        lines: the user's line that enqueued an entry (`train.py:41`), by the entry's record, where the dump has it.
        groups: the ranks of its groups, by name, where the dump has them.
        whole: no entry has been overwritten before.
    """

    rank: int
    path: Path
    written_wall_ns: int
    entries: tuple[Entry, ...]
    lines: Mapping[int, str]
    groups: Mapping[str, tuple[int, ...]]
    whole: bool


def rank_in_name(name: str) -> int | None:
    """The rank at the end of a file's name, as torch writes it (`nccl_trace_rank_3`); None where there is none."""
    found = _NUMBER.search(name)
    return int(found[1]) if found is not None and len(found[1]) < 8 else None


def looks_like_dump(path: Path) -> bool:
    """Whether the beginning of a file is that of a dump."""
    try:
        with target_files.open_binary(path) as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    if head.startswith(b"\x80"):
        return b"pg_config" in head or b"entries" in head or b"nccl_version" in head
    return head.lstrip().startswith(b"{") and b'"entries"' in head


def read_dump(path: Path) -> Dump:
    """Read one file.

    Raises:
        BadDump: see there.
        OSError: not readable.
    """
    rank = rank_in_name(path.name)
    if rank is None:
        raise BadDump("its name does not end with the number of a rank")
    status = target_files.status(path)
    if status.st_size > MOST_BYTES:
        raise BadDump(f"it is larger than {MOST_BYTES >> 20} MiB")
    value = _loaded(target_files.read_bytes(path))
    rows = value.get("entries")
    if not isinstance(rows, (list, tuple)):
        raise BadDump("it has no entries")
    read = [one for row in rows if (one := _entry(row)) is not None]
    if rows and not read:
        raise BadDump("its entries are not those of a Flight Recorder")
    entries = sorted((_made(one) for one in read), key=lambda entry: entry.record)
    return Dump(
        rank=rank,
        path=path,
        written_wall_ns=status.st_mtime_ns,
        entries=tuple(entries),
        lines={one.record_id: line for one in read if (line := _line(one.frames))},
        groups=_groups(value.get("pg_config")),
        whole=not entries or entries[0].record == 0,
    )


def _loaded(data: bytes) -> dict[str, Any]:
    try:
        value = load_plain(data) if data.startswith(b"\x80") else msgspec.json.decode(data)
    except NotPlain as error:
        raise BadDump(str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadDump(f"it is no whole JSON ({error})") from None
    if not isinstance(value, dict):
        raise BadDump("it is not a dump of a Flight Recorder")
    return value


def _entry(row: object) -> _Entry | None:
    try:
        return msgspec.convert(row, ready(_Entry), strict=False)
    except (msgspec.ValidationError, RecursionError):
        return None  # D1


def _made(one: _Entry) -> Entry:
    backend, colon, operation = one.profiling_name.partition(":")
    return Entry(
        record=one.record_id,
        group=clean_line(one.process_group[0], 200),
        description=clean_line(one.process_group[1], 200),
        sequence=one.p2p_seq_id if one.is_p2p else one.collective_seq_id,
        name=clean_line(operation if colon else one.profiling_name, 200),
        backend=clean_line(backend if colon else "", 50),
        created_wall_ns=one.time_created_ns,
        timeout_ms=one.timeout_ms,
        is_p2p=one.is_p2p,
        shapes=(*one.input_sizes, *one.output_sizes),
        thread=0,
        done=one.retired or one.state == "completed",
        instance=one.pg_id,
    )


def _line(frames: tuple[_Frame, ...]) -> str:
    """The user's innermost line: frames of installed packages are within it."""
    own = next((frame for frame in frames if not _LIBRARY.search(frame.filename)), None)
    return clean_line(f"{own.filename.rpartition('/')[2]}:{own.line}", 200) if own is not None else ""


def _groups(config: object) -> dict[str, tuple[int, ...]]:
    """The ranks of groups: `{"1": {"name": "1", "desc": "dp", "ranks": "[0, 1]"}}`; dumps of gloo mostly have none."""
    found = {}
    for one in config.values() if isinstance(config, dict) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            ranks = tuple(int(word) for word in re.findall(r"\d{1,7}", str(one.get("ranks", ""))))
            if ranks:
                found[clean_line(one["name"], 200)] = ranks
    return found
