"""The parts by themselves: files, tables, exceptions."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.adapters.cuda import checks
from livedbg.adapters.cuda.cudagdb.core_dump import read_core, sort_cores
from livedbg.adapters.cuda.cudagdb.engine import MI_TABLES, TABLES, console_rows, find_cuda_gdb
from livedbg.adapters.cuda.cudagdb.sample import instruction_of, meaning_of
from livedbg.adapters.cuda.cudagdb.tables import Focus, read_row
from livedbg.adapters.cuda.device_lines import FAULTS, announced_exception, fault_named
from livedbg.gdbmi.records import MiTable, parse_line
from livedbg.model.errors import SourceError
from tests.adapters.cuda.cudagdb.conftest import EM_X86_64, core_bytes
from tests.adapters.cuda.cudagdb.sessions import FIXTURES, hang
from tests.cli.conftest import Said

WHOLE = next(said[0] for command, said in hang(2).answers if command.startswith("-cuda-info-warps"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08rest", "is compressed"),
        (b"Traceback (most recent call last):\n" * 9, "is no core dump"),
        (b"\x7fELF\x02\x01\x01", "is no core dump"),
        (core_bytes(kind=2), "but a cubin"),
        (core_bytes(kind=2, machine=EM_X86_64), "but a program or a library"),
    ],
    ids=["empty", "gzip", "text", "four bytes", "cubin", "program"],
)
def test_what_is_no_core_dump_is_said_with_its_name(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "given"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=sentence) as raised:
        read_core(path)
    assert str(path) in raised.value.message


def test_files_that_are_not_there_or_not_files(device: Callable[..., Said], tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        said = device(path)
        assert said.code == 3 and str(path) in said.err and "try:" in said.err


def test_a_cut_core_says_how_much_is_missing(tmp_path: Path) -> None:
    whole = core_bytes()
    path = tmp_path / "core"
    path.write_bytes(whole)
    assert read_core(path).missing == 0
    path.write_bytes(whole[:1000])
    core = read_core(path)
    assert core.gpu and core.missing == len(whole) - 1000


def test_a_huge_core_with_more_sections_than_fit_is_read_quickly(tmp_path: Path) -> None:
    path, sections, start = tmp_path / "core", 100_000, 1 << 30
    entry = struct.pack("<IIQQQQIIQQ", 0, 0x8000_0009, 0, 0, 64, 4096, 0, 0, 1, 0)
    first = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, sections, 0, 0, 0, 0)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 4, 190, 1, 0, 0, start, 0, 64, 0, 0, 64, 0, 0
    )
    with path.open("wb") as file:  # a gigabyte with holes
        file.write(head)
        file.seek(start)
        file.write(first + entry * (sections - 1))
    core = read_core(path)
    assert core.gpu and core.missing == 0 and core.whole == start + sections * 64


def test_a_host_core_alone_and_two_gpu_cores_are_refused(tmp_path: Path) -> None:
    host, gpu = tmp_path / "core.1", tmp_path / "core.2"
    host.write_bytes(core_bytes(machine=EM_X86_64))
    gpu.write_bytes(core_bytes())
    with pytest.raises(SourceError, match="holds no device"):
        sort_cores([host])
    with pytest.raises(SourceError, match="Both files are GPU core dumps"):
        sort_cores([gpu, gpu])


def test_without_a_cuda_gdb_it_says_what_to_install(
    device: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = tmp_path / "gpu.core"
    gpu.write_bytes(core_bytes())
    monkeypatch.setenv("PATH", str(tmp_path))
    for home in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(home, raising=False)
    monkeypatch.setattr(checks, "_ROOTS", ())
    said = device(gpu)
    assert said.code == 3 and "cuda-gdb is not installed" in said.err and "--gdb" in said.err


def test_of_several_toolkits_the_chosen_one_or_the_newest_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for home in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(home, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setattr(checks, "_ROOTS", (tmp_path,))
    for version in ("cuda-9.2", "cuda-12.9", "cuda-12.10", "cuda"):
        program = tmp_path / version / "bin" / "cuda-gdb"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    assert Path(find_cuda_gdb()).parts[-3] == "cuda"
    (tmp_path / "cuda" / "bin" / "cuda-gdb").unlink()
    assert Path(find_cuda_gdb()).parts[-3] == "cuda-12.10"
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda-9.2"))
    assert Path(find_cuda_gdb()).parts[-3] == "cuda-9.2"


@given(st.integers(0, len(WHOLE)))
def test_a_table_cut_anywhere_gives_its_whole_rows(at: int) -> None:
    record = parse_line(f"7{WHOLE[:at]}", MI_TABLES)
    if record is None or record.broken or not record.payload:
        return
    (table,) = record.payload.values()
    assert isinstance(table, MiTable) and table.declared == 8
    assert len(table) <= 8 and all(len(row) == 8 for row in table)
    assert len(table) == len(re.findall(r'Row=\{[^}]*"\}', WHOLE[:at]))


def test_other_tables_of_gdb_are_left_to_the_general_parser() -> None:
    record = parse_line(
        '1^done,BreakpointTable={nr_rows="1",nr_cols="1",hdr=[{width="7"}],body=[bkpt={number="1"}]}', MI_TABLES
    )
    assert record is not None and record.payload["BreakpointTable"]["body"] == [{"number": "1"}]


def test_a_hundred_megabytes_of_nonsense_are_no_rows() -> None:
    before = time.thread_time()
    line = "*  0 " + "(0,0,0) " * 1_000_000
    for table in TABLES:
        assert console_rows(table, f"Device 0 SM 0\n{line}\n" * 2) == []
        assert console_rows(table, "x" * 12_000_000) == []
    said = announced_exception("CUDA Exception: " * 1_000_000)
    assert said is not None and len(said.name) <= 100
    assert time.thread_time() - before < 60  # no run-away expression


@pytest.mark.parametrize(
    ("printed", "instruction", "meaning"),
    [
        ("=> 0x0000000202156690 <_Z8test_braPlj+656>:\t@P0 BRA 0x6c0 \n", "@P0 BRA 0x6c0", "loop"),
        ("   0x202156680 <_Z8test_braPlj+640>:\tBSSY B0, 0x6d0\n", "BSSY B0, 0x6d0", ""),
        ("*> 0x555555c08620 <_Z16exception_kernelPv11exception_t+1056>: ST.E.U8.STRONG.SYS [R6.64], R5\n",
         "ST.E.U8.STRONG.SYS [R6.64], R5", "writes memory"),
        ("   0x7f00:\tBAR.SYNC.DEFER_BLOCKING 0x0", "BAR.SYNC.DEFER_BLOCKING 0x0", "__syncthreads"),
        ("   0x7f00:\tBAR.ARV 0x1, 0x40", "BAR.ARV 0x1, 0x40", ""),
        ("   0x7f00:\tSYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2+URZ], R3", None, "mbarrier"),
        ("Cannot access memory at address 0x7f00\n", "", ""),
    ],
)  # fmt: skip
def test_instructions_and_what_they_wait_for(printed: str, instruction: str | None, meaning: str) -> None:
    found = instruction_of(printed)
    assert instruction is None or found == instruction
    assert meaning in meaning_of(found) if meaning else meaning_of(found) == ""


def test_every_exception_of_the_manual_has_words_and_a_next_step() -> None:
    numbers = {fault.code for fault in FAULTS.values()}
    assert numbers >= {*range(4, 11), 12, 14, 15, *range(17, 36)}
    assert all(fault.meaning.endswith(".") and fault.remedy for fault in FAULTS.values())
    assert fault_named("warp illegal address").code == 14
    assert fault_named("CUDA_EXCEPTION_12").meaning == "A device-side assert failed."
    assert fault_named("CUDA_EXCEPTION_99").code == 99 and fault_named("CUDA_EXCEPTION_99").remedy
    assert fault_named("Something New").code is None


@pytest.mark.parametrize(
    ("text", "name", "address", "place"),
    [
        (
            "CUDA Exception: Warp Illegal Address\n"
            "The exception was triggered at PC 0x555555c08620 (memexceptions.cu:17)\n",
            "Warp Illegal Address", 0x555555C08620, ("", "memexceptions.cu", 17),
        ),
        (
            "CUDA Exception: Warp Illegal Address\nThe exception was triggered at PC 0x7ff35529cff0\n\n"
            'Thread 1 "llama-server" received signal CUDA_EXCEPTION_14, Warp Illegal Address.\n',
            "Warp Illegal Address", 0x7FF35529CFF0, ("", None, None),
        ),
        (
            "\nAssertion failed.\n"
            "The exception was triggered at PC 0x1f0  check(int*)  (a.cu:9 in f inlined from b.cu:3)\n",
            "Warp Assert", 0x1F0, ("check(int*)", "a.cu", 9),
        ),
        ("CUDA Exception: Device Illegal Address\nThe exception was triggered in device 0.\n",
         "Device Illegal Address", None, ("", None, None)),
    ],
    ids=["manual", "real", "assert", "device"],
)  # fmt: skip
def test_exceptions_as_they_are_announced(
    text: str, name: str, address: int | None, place: tuple[str, str | None, int | None]
) -> None:
    said = announced_exception(text)
    assert said is not None and (said.name, said.address) == (name, address)
    assert (said.function, said.file, said.line) == place


def test_long_lines_take_no_time_to_speak_of() -> None:
    """By the time that grows with the square of their length this would take minutes."""
    line = f"The exception was triggered at PC 0x10  a{' ' * 60_000}b"
    for number in range(40):
        assert announced_exception(f"CUDA Exception: X{number}\n{line}") is not None
    row = f"0 active 0x1 (1,1,1) a{' ' * 8_000}b"
    assert [found["exception"] for found in console_rows("lanes", f"{row}\n" * 300)] == ["a b"] * 300


def test_a_real_stop_has_its_focus_and_a_frame_of_the_device() -> None:
    lines = (FIXTURES / "real-stop-13.0.txt").read_text(encoding="utf-8").splitlines()
    records = [parse_line(line, MI_TABLES) for line in lines]
    (stop,) = [record for record in records if record is not None and "CudaFocus" in record.payload]
    focus = read_row(Focus, stop.payload["CudaFocus"])
    assert focus.words == "block (0,0,0) thread (0,0,0) on device 0 SM 0 warp 0 lane 0" and focus.grid == 1
    assert stop.payload["frame"]["arch"] == "m68k" and re.fullmatch(r"\d+", stop.payload["frame"]["line"])
