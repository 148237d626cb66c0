"""Every reader of foreign data, with good inputs to begin with and the errors that it documents.

A reader that is not listed here is not tested: add it with its format. What it raises beyond `errors` is a defect.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import zstandard

from livedbg.adapters.ascend.adapter import FileWatch
from livedbg.adapters.ascend.compile_reader import CompileReader
from livedbg.adapters.ascend.dumps import graphs as depsfile
from livedbg.adapters.ascend.live import layout as scheduler_layout
from livedbg.adapters.cuda import device_lines
from livedbg.adapters.cuda.adapter import _line as kernel_line
from livedbg.adapters.cuda.cudagdb import core_dump, sample, tables
from livedbg.adapters.cuda.cudagdb.engine import TABLES, console_rows
from livedbg.adapters.logfiles.decoding import Decoding
from livedbg.adapters.nvfuser.adapter import TraceWatch
from livedbg.adapters.nvfuser.dumps import ir, script_run, segment_script
from livedbg.adapters.nvfuser.dumps.reproduction_sources import gather
from livedbg.adapters.nvfuser.dumps.segments import parse_segments
from livedbg.adapters.nvfuser.dumps.trace import TraceReader, is_trace
from livedbg.adapters.python import pyspy
from livedbg.adapters.pytorch.recorder_dumps.adapter import BadDump, compare, read_dump
from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.records import parse_line
from livedbg.linux import descriptors, live_environment, procfs, sockets
from livedbg.linux.elf import ElfError, ElfFile, read_build_id, read_marks
from livedbg.linux.elf_symbols import defined_symbols, possible_names, symbol_at
from livedbg.linux.maps import copies, parse_maps_text
from livedbg.logs.clock import SourceClock
from livedbg.logs.error_lines import ALARMS, EXACT
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.logs.sanitizers import sanitizer_report
from livedbg.logs.skim import Skimmer
from livedbg.model import LogSource
from livedbg.model import events as ev
from livedbg.model.errors import LivedbgError, RecordingError
from livedbg.model.request import Request
from livedbg.probes import perf_records, tracefs
from livedbg.recipes import model as recipe_files
from livedbg.recording.file import MAGIC, Header, RecordingReader
from livedbg.repeats.marking import compared, known_pairs, last_open, lines_of
from livedbg.report.build import build
from livedbg.report.document import ReportDocument
from livedbg.report.text import to_text
from livedbg.session.filereaders import dump_readers, graph_readers, known_log_formats, tensor_formats
from livedbg.session.live import adapters_for
from livedbg.session.replay import last_update
from livedbg.text.demangling import demangled_symbol, demangled_type
from livedbg.text.json_text import json_bytes
from livedbg.text.sanitize import clean, clean_line, is_clean
from livedbg.touch import config
from livedbg.touch.source import with_source
from livedbg.values import tensor_files
from tests.fuzz.memory_images import read_python, read_scheduler, scheduler_image

__all__ = ["READERS", "Reader"]

FIXTURES: Final = Path(__file__).parents[1] / "fixtures"
_SEED: Final = 1 << 16
STAMP: Final = ev.Stamp(host="box", mono_ns=1, wall_ns=1_700_000_000_000_000_000)


@dataclass(frozen=True)
class Reader:
    """A reader of foreign data.

    Attributes:
        read: gets an input, and a folder for files.
        seeds: good inputs.
        errors: what it may raise.
        name: file name that the input is written to, where it reads files.
    """

    read: Callable[[bytes, Path], object]
    seeds: Callable[[], Sequence[bytes]]
    errors: tuple[type[BaseException], ...] = ()


def _files(*patterns: str) -> Callable[[], Sequence[bytes]]:
    def seeds() -> Sequence[bytes]:
        found = [path for pattern in patterns for path in sorted(FIXTURES.glob(pattern)) if path.is_file()]
        assert found, patterns
        return [path.read_bytes()[:_SEED] for path in found]

    return seeds


def _texts(*texts: bytes | str) -> Callable[[], Sequence[bytes]]:
    return lambda: [text if isinstance(text, bytes) else text.encode() for text in texts]


def _written(data: bytes, folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# /proc

_STAT = (
    b"4711 (a) b) S 1 4711 4711 0 -1 4194304 100 0 0 0 7 42 0 0 20 0 3 0 12345 1 2 3 4 5 6 7 8 9 0 0 0 0 0 0 17 1 0 0 "
    b"0 0 0 1 2 3 4 5 6 256\n"
)
_MAPS = (
    b"55d0-55e0 r-xp 00000000 fe:00 12                         /bin/a program\n"
    b"7ffd1000-7ffd2000 rw-p 00000000 00:00 0                  [stack]\n"
    b"7f00-7f01 r--p 00001000 fe:00 13                         /lib/libc.so.6 (deleted)\n"
)
_LOCKS = b"1: POSIX  ADVISORY  WRITE 4711 fe:00:1234 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 4712 fe:00:1234 10 20\n"
_UNIX = b"Num RefCount Protocol Flags Type St Inode Path\n0000: 00000002 00000000 00010000 0001 01 20 /run/a b\n"
_TCP = (
    b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    b"   0: 0100007F:0035 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 1234 1 0 100 0 0 10 0\n"
)
_ENVIRONMENT = b"PATH=/bin\0RANK=3\0OMPI_COMM_WORLD_RANK=1\0SLURM_PROCID=2\0A=\xff\0"


def _proc_files(data: bytes, folder: Path) -> None:
    """Readers of whole files of a process, on a file instead of /proc."""
    path = str(_written(data, folder, "file"))
    with _instead(procfs, "read_file", lambda _path: data):
        procfs.status_fields(1)
        procfs.command_line(1)
        procfs.wait_channel(1, 1)
        live_environment.rank_of(procfs.read_environment(1))
    procfs.read_file(path)


def _unix_and_tcp(data: bytes, _folder: Path) -> None:
    for row in (*sockets.rows(data, sockets._unix), *sockets.rows(data, lambda line: sockets._internet("tcp6", line))):
        assert is_clean(clean_line(row.local))


@contextlib.contextmanager
def _instead(module: types.ModuleType, name: str, other: object) -> Any:
    before = getattr(module, name)
    setattr(module, name, other)
    try:
        yield
    finally:
        setattr(module, name, before)


# ELF


@cache
def _binaries() -> Sequence[bytes]:
    names = [Path("/lib64/ld-linux-x86-64.so.2"), Path(os.path.realpath(sys.executable))]
    libc = next((m.path for m in parse_maps_text(Path("/proc/self/maps").read_bytes()) if "libc.so" in m.path), "")
    found = [path.read_bytes() for path in (*names, Path(libc)) if path.is_file() and path.stat().st_size < 4 << 20]
    return [*(_small_elf(data) for data in found), _made_elf()]


def _small_elf(data: bytes) -> bytes:
    """A file with its own headers, notes and symbols, and nothing else: small enough to be changed often."""
    header = list(struct.unpack_from("<16sHHIQQQIHHHHHH", data))
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, header[6] + n * 64) for n in range(header[12])]
    programs = data[header[5] : header[5] + header[10] * 56]
    made = bytearray(64) + programs
    fresh = []
    for section in sections:
        kept = list(section)
        if section[1] in (2, 3, 7, 11):
            kept[4], kept[5] = len(made), min(section[5], 6000)
            made += data[section[4] : section[4] + kept[5]]
        else:
            kept[5] = 0
        fresh.append(struct.pack("<IIQQQQIIQQ", *kept))
    header[5], header[6] = 64, len(made)
    struct.pack_into("<16sHHIQQQIHHHHHH", made, 0, *header)
    return bytes(made) + b"".join(fresh)


def _made_elf() -> bytes:
    """Symbols of C++ functions and a mark of libstdc++ in a hand-made file."""
    names = b"\0_ZN3app3runEv\0_ZN3app3runEi\0main\0"
    note = struct.pack("<III8s", 8, 24 + len(b"libstdcxx\0throw\0-8@%rdi\0"), 3, b"stapsdt\0") + struct.pack(
        "<QQQ", 64, 0, 0
    )
    note += b"libstdcxx\0throw\0-8@%rdi\0"
    symbols = b"".join(struct.pack("<IBBHQQ", at, 0x12, 0, 1, 0x1000 + at, 16) for at in (1, 15, 29))
    program = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0x10000, 0x10000, 0x1000)
    at = 64 + len(program)
    parts = [names, symbols, note]
    sections = [bytes(64)]
    for number, (kind, part) in enumerate(zip((3, 2, 7), parts, strict=True)):
        place = at + sum(map(len, parts[:number]))
        sections.append(struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, place, len(part), 1, 0, 1, 24))
    body = program + b"".join(parts)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 64 + len(body), 0, 64, 56, 1, 64, 4, 0
    )
    return head + body + b"".join(sections)


def _elf(data: bytes, folder: Path) -> None:
    mapping = parse_maps_text(_MAPS)[0]
    with ElfFile(_written(data, folder, "library.so")) as elf:
        for look in (
            elf.segments,
            lambda: elf.load_bias([mapping]),
            lambda: elf.initial(0x10, 16),
            lambda: defined_symbols(elf, ["main", "_PyRuntime", "malloc"]),
            lambda: symbol_at(elf, 0x1001),
            lambda: [
                demangled_symbol(name) for name in sorted(possible_names(elf, ["_ZN3app3runE", "_ZN", "_Z"]))[:200]
            ],
            lambda: read_marks(elf, "libstdcxx"),
            lambda: read_build_id(elf),
        ):
            with contextlib.suppress(ElfError):
                look()


def _core(data: bytes, folder: Path) -> None:
    path = _written(data, folder, "core")
    core_dump.read_core(path)
    core_dump.is_whole(path)


def _made_core() -> Sequence[bytes]:
    return [_made_elf()[:16] + struct.pack("<H", 4) + _made_elf()[18:], *(data[:4000] for data in _binaries())]


# names


def _demangle(data: bytes, _folder: Path) -> None:
    name = _text(data)
    for text in (demangled_symbol(name), demangled_type(name.removeprefix("_ZTI"))):
        assert text == clean_line(text)


def _clean(data: bytes, _folder: Path) -> None:
    for text in (_text(data), data.decode("utf-8", "surrogateescape"), data.decode("latin-1")):
        assert is_clean(clean(text)) and clean(clean(text)) == clean(text)


# gdb


def _mi(data: bytes, _folder: Path) -> None:
    engine = GdbEngine("gdb", tables=re.compile("InfoCuda.*"), notice=lambda _record: None)
    for line in data.split(b"\n"):
        parse_line(_text(line))
        engine._take(line.rstrip(b"\r"))


def _cuda_tables(data: bytes, _folder: Path) -> None:
    text = _text(data)
    kinds = (tables.DeviceRow, tables.SmRow, tables.WarpRow, tables.LaneRow, tables.KernelRow, tables.ThreadRow)
    rows = [row for table in TABLES for row in console_rows(table, text)]
    for line in text.split("\n"):
        record = parse_line(line, re.compile("InfoCuda.*"))
        for value in (record.payload if record is not None else {}).values():
            rows += [row for row in (value if isinstance(value, list) else []) if isinstance(row, dict)]
        device_lines.announced_exception(line)
        list(sample._frames(record.payload.get("stack") if record is not None else None))
    for kind in (*kinds, tables.BlockRow, tables.ContextRow):
        tables.convert(rows, kind)


def _layout(data: bytes, _folder: Path) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        told = json.loads(data)
        scheduler_layout._resolved(told)


# logs


@cache
def _decoders() -> list[Any]:
    request = Request(host="box", logs=("/nowhere",))
    running, sleeping = adapters_for(request)
    adapters = (*running, *filter(None, (one.make() for one in sleeping)))
    return [decoder for adapter in adapters for decoder in adapter.decoders(request)]


def _log(data: bytes, _folder: Path) -> None:
    """A log through all that reads it: lines, records, decoders, and the fold and verdict of what they emit."""
    from livedbg.session.rulebook import diagnose
    from livedbg.state.store import Store

    _decoders.cache_clear()
    decoding = Decoding(_decoders())
    source = LogSource(id="log:box/x.log", name="x.log", path="/nowhere/x.log", process="process:box/7")
    decoding.opened(source, STAMP)
    for skimmed in (False, True):
        assembler, cutter = RecordAssembler(source.id, SourceClock(), known_log_formats()), LineCutter()
        if skimmed:
            skimmer = Skimmer(
                assembler,
                decoding.triggers or (b"Error",),
                0,
                1,
                decoding.beats,
                alarms=ALARMS,
                exact={**decoding.exact, **EXACT},
                opens=decoding.opens,
            )
            records = [*skimmer.feed(data), *skimmer.flush()]
        else:
            records = [*assembler.feed(cutter.feed(data)), *assembler.feed(cutter.flush()), *assembler.flush()]
        assert all(is_clean(record.text) for record in records)
        decoding.feed(records, STAMP)
        decoding.flush(STAMP)
    events = decoding.take()
    for event in events:
        if isinstance(event, ev.StatusSeen) and event.status.code == "internal-error":
            raise AssertionError(event.status.sentence)
        ev.encode(event)
    store = Store()
    store.apply_all(events)
    diagnose(store.snapshot())


def _lines_of_a_log(data: bytes, folder: Path) -> None:
    text = _text(data)
    lines = text.split("\n")
    sanitizer_report(lines)
    reader = CompileReader()
    for line in lines[:2000]:
        reader.take(clean_line(line), ("x", 1), 1)
        kernel_line(line.encode("utf-8", "replace"))
    known = lines_of(_written(data, folder, "run.txt"))
    last_open(known, known_pairs())
    [compared(line) for line in known]


# dumps, graphs, tensors, traces


def _graph(data: bytes, folder: Path) -> None:
    path = _written(data, folder, "deps.json")
    refused: list[LivedbgError] = []
    readers = list(graph_readers())
    for reader in readers:
        try:
            graph = reader.read(path)
        except LivedbgError as error:  # another system's file, to this reader
            refused.append(error)
            continue
        for raw in list(graph.tasks)[:50]:
            reader.task_name(raw)
    if len(refused) == len(readers):
        raise refused[0]
    with contextlib.suppress(ValueError):
        depsfile.parse_graph(data)


def _name_map(data: bytes, folder: Path) -> None:
    _written(data, folder, "name_map_0.json")
    depsfile.kernel_names(folder)
    FileWatch().scan([folder], last=True)


def _dump(data: bytes, folder: Path) -> None:
    path = _written(data, folder, "args_dump/args_dump.json")
    _written(bytes(64), folder, "args_dump/args.bin")
    with dump_readers().open(path) as dump:
        for entry in dump.entries[:20]:
            with contextlib.suppress(LivedbgError):
                dump.tensor(entry)


def _tensor(suffix: str) -> Callable[[bytes, Path], object]:
    return lambda data, folder: tensor_files.load(_written(data, folder, f"t.{suffix}"), tensor_formats())


def _npy() -> Sequence[bytes]:
    import io

    made = []
    for array in (np.arange(12.0).reshape(3, 4), np.zeros((2, 2), np.int8), np.array(True)):
        held = io.BytesIO()
        np.save(held, array)
        made.append(held.getvalue())
    return made


def _pt() -> Sequence[bytes]:
    import io

    import torch

    held = io.BytesIO()
    torch.save(torch.arange(6.0), held)
    return [held.getvalue()]


def _trace(data: bytes, folder: Path) -> None:
    is_trace(data)
    TraceReader().feed(data)
    watch = TraceWatch("box")
    watch.read([str(_written(data, folder, "nvfuser.trace"))], 1.0)
    list(watch.events(STAMP))


def _fusions(data: bytes, folder: Path) -> None:
    text = _text(data)
    ir.tensors_in(text[:20_000])
    for number, line in enumerate(text.split("\n")[:500]):
        ir.parse_expression(number, line)
    parse_segments(text.split("\n"))
    script_run.check(text)
    script_run.inputs_of(text)
    material = gather(_written(data, folder, "nvfuser.log"))
    for cut in material.cuts[:5]:
        for group in list(cut.fusion.groups)[:5]:
            segment_script.build_segment(cut, group)


# our own files, and those of tools


def _recording_seeds() -> Sequence[bytes]:
    return [zstandard.ZstdDecompressor().decompressobj().decompress(data) for data in _recordings()] + [
        _unpacked(data)[:_SEED] for data in _recordings()
    ]


def _recordings() -> Sequence[bytes]:
    return [path.read_bytes() for path in sorted((FIXTURES / "recordings").glob("*.livedbg"))]


def _unpacked(data: bytes) -> bytes:
    import io

    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as stream:
        return bytes(stream.read())


def _recording(data: bytes, folder: Path) -> None:
    """A recording by its lines (packed here), judged and reported."""
    head = msgspec.json.encode(Header(MAGIC, ev.SCHEMA_VERSION, "1", "box", "t", 1)) + b"\n"
    update, _ = last_update(_written(zstandard.compress(head + data, 1), folder, "r.livedbg"))
    report = build(update)
    assert is_clean(to_text(report)) and is_clean(json_bytes(report).decode())


def _recording_file(data: bytes, folder: Path) -> None:
    """A recording by its bytes."""
    reader = RecordingReader(_written(data, folder, "r.livedbg"))
    for _ in reader.events():
        pass
    reader.close()


def _bytes_of(*parts: object) -> Sequence[bytes]:
    return [str(part).encode() for part in parts]


_SPY = (
    b'[{"pid":1,"thread_id":139,"thread_name":"main","os_thread_id":4711,"active":true,"owns_gil":true,"frames":[{"name":'
    b'"f","filename":"a.py","module":null,"short_filename":"a.py","line":3,"locals":[{"name":"x","addr":1,"arg":true,'
    b'"repr":"1"}]}]}]'
)


def _spy(data: bytes, _folder: Path) -> None:
    pyspy._gist(_text(data))
    for thread in pyspy._decoder.decode(data):
        pyspy.frames_of(thread)


def _perf(data: bytes, _folder: Path) -> None:
    for has_fields in (False, True):
        with contextlib.suppress(struct.error, IndexError, ValueError, OverflowError):
            perf_records.sample_of(data, 1, has_fields)
    for kind in range(12):
        with contextlib.suppress(struct.error, IndexError, ValueError, OverflowError):
            perf_records.layout_change(kind, 0, data)
    tracefs.Field("name", 0, 4, True).read(data)


def _source(data: bytes, folder: Path) -> None:
    from livedbg.model import Frame

    path = _written(data, folder, "a.c")
    with_source(os.getpid(), [Frame(function="f", file=str(path), line=number) for number in (0, 1, 3, 1 << 40)])


_LOG_SEEDS = (
    "cuda/*.txt",
    "sanitizers/*.txt",
    "nvfuser/*.log",
    "ascend/*/stderr.log",
    "ascend/*/*.log",
    "pypto/*/*.txt",
)

READERS: Final[dict[str, Reader]] = {
    "Flight Recorder dump": Reader(
        lambda data, folder: compare([read_dump(_written(data, folder, "trace_rank_2"))]),
        _files("pytorch/*/*"),
        (BadDump,),
    ),
    "proc stat": Reader(lambda data, _: procfs.parse_stat(data), _texts(_STAT), (ValueError, IndexError)),
    "proc syscall": Reader(
        lambda data, _: procfs.parse_syscall(data),
        _texts(b"running\n", b"-1 0x7ffc 0x7f00\n", b"0 0x3 0x7ff 0x1 0x0 0x0 0x0 0x7ffc 0x7f00\n"),
        (ValueError, IndexError),
    ),
    "proc schedstat": Reader(lambda data, _: procfs.parse_schedstat(data), _texts(b"1 2 3\n"), (ValueError,)),
    "proc status, cmdline, environ": Reader(
        _proc_files,
        _texts(b"Name:\ta\nTracerPid:\t0\nNSpid:\t4711\t1\n", b"python\0-c\0x\0", _ENVIRONMENT, b"futex_wait"),
    ),
    "proc maps": Reader(lambda data, _: copies(parse_maps_text(data)), _texts(_MAPS)),
    "proc locks": Reader(lambda data, _: descriptors.parse_locks(data), _texts(_LOCKS)),
    "proc net": Reader(_unix_and_tcp, _texts(_UNIX, _TCP)),
    "elf": Reader(_elf, _binaries, (ElfError, OSError)),
    "core": Reader(_core, _made_core, (LivedbgError,)),
    "demangler": Reader(
        _demangle,
        _texts(
            "_ZN2at6Tensor4itemEv", "_ZTI1AIS_IiiES0_E", "_Z1fIJiiEEvDp1AIJDpT_EE", "St13runtime_error", "_Z1fILi9EEvv"
        ),
    ),
    "sanitising": Reader(_clean, _texts("\x1b]0;title\x07\x1b[31mred\x1b[0m 50 %\r100 %\n", "größe")),
    "gdb's MI": Reader(_mi, _files("gdb-mi/*.txt", "cuda-gdb/*.txt")),
    "cuda-gdb's tables": Reader(_cuda_tables, _files("cuda-gdb/*.txt")),
    "interpreter's memory": Reader(lambda data, _: read_python(data), _texts(b"1", b"2", b"3")),
    "scheduler's memory": Reader(lambda data, _: read_scheduler(data), scheduler_image),
    "scheduler's layout": Reader(
        _layout,
        lambda: _bytes_of(
            json.dumps({"address": 4096, "type": ["s", "A", 64], "types": {"A": {"rings": [0, ["p", ["s", "B", 8]]]}}})
        ),
        (KeyError, IndexError, TypeError, AttributeError, ValueError),
    ),
    "logs": Reader(_log, _files(*_LOG_SEEDS)),
    "lines of logs": Reader(_lines_of_a_log, _files(*_LOG_SEEDS, "repeats/*")),
    "task graphs": Reader(_graph, _files("ascend/*/dfx/deps.json"), (LivedbgError,)),
    "kernels' names": Reader(_name_map, lambda: _bytes_of('{"callable_id_to_name": {"3": "gate"}, "level": 2}')),
    "dumps": Reader(
        _dump, _files("ascend/*/dfx/args_dump/*.json", "ascend/*/*/dfx/tensor_dump/*.json"), (LivedbgError,)
    ),
    "npy": Reader(_tensor("npy"), _npy, (LivedbgError,)),
    "pt": Reader(_tensor("pt"), _pt, (LivedbgError,)),
    "fuser's traces": Reader(_trace, _files("nvfuser/*.json", "repeats/*.json")),
    "fuser's dumps": Reader(_fusions, _files("nvfuser/*.log"), (LivedbgError,)),
    "recorded events": Reader(_recording, _recording_seeds, (RecordingError,)),
    "recordings": Reader(_recording_file, _recordings, (RecordingError,)),
    "reports": Reader(
        lambda data, _: msgspec.json.decode(data, type=ReportDocument),
        lambda: [
            json_bytes(build(last_update(path)[0])) for path in sorted((FIXTURES / "recordings").glob("*.livedbg"))
        ],
        (msgspec.DecodeError, UnicodeDecodeError, RecursionError),
    ),
    "recipes": Reader(
        lambda data, _: recipe_files.parse("x", data),
        lambda: [path.read_bytes() for path in Path(recipe_files.__file__).parent.glob("data/*.toml")],
        (LivedbgError,),
    ),
    "touch configuration": Reader(
        lambda data, folder: config._forbidden_by(_written(data, folder, "config.toml")), _texts("read_only = true\n")
    ),
    "py-spy": Reader(_spy, _texts(_SPY), (msgspec.DecodeError, UnicodeDecodeError, RecursionError)),
    "perf records": Reader(_perf, lambda: [struct.pack("<IHHQIIQ", 9, 2, 200, 1, 2, 3, 4) + bytes(200)]),
    "source files": Reader(_source, _texts("int main()\n{\n  return 0;\n}\n")),
}
"""Every reader by name."""
