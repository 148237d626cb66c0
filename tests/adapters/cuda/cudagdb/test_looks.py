"""What is made of cuda-gdb's answers: played sessions in, states out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from livedbg.adapters.cuda.cudagdb import sample as sample_module
from livedbg.adapters.cuda.cudagdb.core_dump import open_core, sort_cores
from livedbg.adapters.cuda.cudagdb.device_state import compare_states
from livedbg.adapters.cuda.cudagdb.state_text import state_text
from livedbg.analysis.devices import headline, kernel_sentence
from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbGone, GdbTimeout
from livedbg.gdbmi.records import Record
from livedbg.model import Process
from livedbg.model.devices import DeviceState
from livedbg.model.errors import SourceError, ToolMissing
from livedbg.model.events import DeviceSeen, ProcessExited, ProcessSeen, Stamp
from livedbg.session.rulebook import diagnostician
from livedbg.state.store import Store
from tests.adapters.cuda.cudagdb.conftest import EM_X86_64, core_bytes
from tests.adapters.cuda.cudagdb.sessions import FIXTURES, SESSIONS, hang, illegal_address
from tests.adapters.cuda.cudagdb.tables import Session, asked, mi

Play = Callable[[Session | str], str]


async def state_in(program: str, core: Path, limit_s: float = 60.0) -> DeviceState:
    gpu, host = sort_cores([core])
    return await open_core(program, gpu, host, f"file:{core}", limit_s=limit_s)


def without(session: Session, *commands: str) -> Session:
    """The session of a debugger that has no such commands."""
    session.answers = [(c, said) for c, said in session.answers if not c.startswith(commands)]
    return session


@pytest.mark.parametrize("name", sorted(SESSIONS))
def test_the_fixtures_are_those_that_are_written_here(name: str) -> None:
    assert (FIXTURES / f"{name}.txt").read_text(encoding="utf-8") == SESSIONS[name]().text


async def test_a_hung_kernel_says_where_all_its_warps_stand(player: Play, gpu_core: Path) -> None:
    state = await state_in(player("hang"), gpu_core)
    (unit,), (kernel,) = state.units, state.kernels
    assert (unit.name, unit.machine, unit.busy_sms, unit.sms) == ("NVIDIA H100 80GB HBM3", "sm_90", 8, 132)
    assert (kernel.name, kernel.arguments, kernel.grid) == ("spin", "(flag=0x7f2e4e000000)", 53)
    assert (kernel.sms, kernel.blocks, kernel.warps, kernel.threads) == (8, 16, 64, 2048)
    spinning, waiting = state.places
    assert (spinning.file, spinning.line, spinning.warps, spinning.divergent) == ("spin.cu", 12, 64, 2)
    assert (waiting.line, waiting.warps, waiting.threads) == (18, 0, 32)
    assert spinning.function == "wait_for(int volatile*)" and waiting.function == "spin"
    sentence = "All 64 warps of kernel 0 spin<<<(16,1,1),(128,1,1)>>> are at spin.cu:12, in wait_for(int volatile*)"
    assert headline(state) == f"{sentence}: each reads memory: in a loop it polls."
    assert waiting.instruction == "BSYNC B0"
    assert [frame.line for frame in state.stack] == [12, 21]
    assert state.focus == "block (0,0,0) thread (0,0,0) on device 0 SM 0 warp 0 lane 0"
    assert state.barriers[0] == "Focus is blocked on a Warp Barrier."
    assert state.managed == ("managed_flag = 0",)
    assert state.contexts == ("0x55d1c0a3b5e0 on device 0, active",)
    assert state.notes == () and state.faults == ()
    text = state_text(state)
    assert text.startswith(sentence) and "64 warps, 2 of them divergent  spin.cu:12" in text


async def test_an_exception_comes_first_with_its_words(player: Play, gpu_core: Path) -> None:
    state = await state_in(player("illegal-address"), gpu_core)
    (fault,) = state.faults
    assert (fault.code, fault.name, fault.address) == (14, "Warp Illegal Address", 0x7FF35529CFF0)
    assert fault.example == "block (0,0,0) thread (192,0,0) on device 1 SM 0 warp 5 lane 0"
    assert (fault.warps, fault.lanes) == (2, 64)  # warps beside it were asked too
    assert "convert_unary" in fault.function and "memcheck" in fault.remedy
    assert headline(state).startswith("CUDA exception 14, Warp Illegal Address, in void convert_unary")
    assert [unit.busy_sms for unit in state.units] == [0, 1]
    text = state_text(state)
    assert text.index("CUDA exception 14") < text.index("device 0  NVIDIA RTX A6000")
    assert text.count("CUDA exception 14") == 1


async def test_a_whole_h100_is_told_by_a_dozen_answers(player: Play, gpu_core: Path) -> None:
    session = hang(132 * 16, apart=128, per_sm=16)
    state = await state_in(player(session), gpu_core)
    (kernel,) = state.kernels
    assert (kernel.sms, kernel.warps, kernel.threads) == (132, 132 * 64, 132 * 2048)
    assert state.places[0].warps == 132 * 64 and state.places[0].divergent == 128
    assert headline(state).startswith("All 8,448 warps of kernel 0 spin<<<")
    assert state.notes == ()


async def test_threads_that_all_stand_apart_are_not_asked_for(
    player: Play, gpu_core: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_module, "_RANGES", 100)
    state = await state_in(player(hang(16, apart=64)), gpu_core)
    assert any("they are at too many places" in note for note in state.notes)
    assert state.places[0].warps == 64 and state.places[0].divergent == 64
    assert state.places[0].threads == 64 * 16  # by the lanes that are active


async def test_warps_at_several_places(player: Play, gpu_core: Path) -> None:
    session = hang(4, apart=0)
    rows = [(" ", w, "0xffffffff", "0x00000000", hex(0x1000 + 16 * (w % 3)), 0, f"({b},0,0)", "(0,0,0)")
            for b in range(2) for w in range(8)]  # fmt: skip
    without(session, "-cuda-info-warps", "-cuda-info-threads")
    session.table("-cuda-info-warps device 0 sm all", "InfoCudaWarps", *rows)
    state = await state_in(player(session), gpu_core)
    assert [(place.address, place.warps) for place in state.places] == [(0x1000, 6), (0x1010, 6), (0x1020, 4)]
    assert headline(state).endswith("are at 3 places, most of them at 0x1000.")
    most = DeviceState(target="file:x", source="core dump", kernels=state.kernels, places=state.places[:1])
    assert "are at" in kernel_sentence(most, most.kernels[0])


async def test_a_version_without_the_commands_of_mi_is_read_by_its_console(player: Play, gpu_core: Path) -> None:
    session = without(Session(), "-cuda")
    session.says(asked("target cudacore *"), "^done")
    real = (FIXTURES / "real-console-12.6.txt").read_text(encoding="utf-8")
    tables = dict(part.split("\n", 1) for part in real.split("(cuda-gdb) info cuda ")[1:])
    for words, table in (("devices", "devices"), ("sms *", "sms"), ("warps *", "warps"), ("blocks *", "blocks"),
                         ("threads *", "threads")):  # fmt: skip
        session.prints(f"info cuda {words}", tables[table])
    session.prints(
        "info cuda kernels",
        "  Kernel Parent Dev Grid Status   SMs Mask GridDim  BlockDim Invocation\n"
        "*      0      -   0    1 Active 0x00000001 (1,1,1) (32,1,1) matmul(a=0x1, b=0x2)",
    )
    state = await state_in(player(session), gpu_core)
    (unit,), (kernel,) = state.units, state.kernels
    assert (unit.name, unit.machine, unit.busy_sms) == ("NVIDIA GeForce RTX 4070", "sm_89", 1)
    assert (kernel.name, kernel.arguments, kernel.warps, kernel.threads) == ("matmul", "(a=0x1, b=0x2)", 1, 32)
    standing, before = state.places  # the tables of this report were printed at two moments
    assert (standing.address, standing.warps, standing.example) == (0x7FFFDB2597F0, 1, "block (0,0,0) thread (0,0,0)")
    assert (before.file, before.line, before.threads) == ("src/matrix-mul.cu", 4, 32)


async def test_no_kernel_and_no_focus_is_a_state_too(player: Play, gpu_core: Path) -> None:
    session = Session()
    session.prints("target cudacore *", "Opening GPU coredump: /tmp/core\nwarning: No CUDA focus could be set")
    real = (FIXTURES / "real-no-devices.txt").read_text(encoding="utf-8").strip()
    session.says("-cuda-info-devices", real)
    session.table("-cuda-info-kernels", "InfoCudaKernels")
    session.table("-cuda-info-contexts", "InfoCudaContexts")
    session.says("-cuda-focus-query *", "^done")
    state = await state_in(player(session), gpu_core)
    assert headline(state) == "No device is in use." and state.notes == ()


@pytest.mark.invariant("cuda_gdb_queries.K2")
async def test_refusals_are_notes(player: Play, gpu_core: Path) -> None:
    session = without(hang(4), "-cuda-info-lanes", "-cuda-info-blocks")
    session.says("-cuda-info-lanes *", '^error,msg="Focus not set on any active CUDA kernel."')
    session.says("-cuda-info-blocks *", "^done")
    state = await state_in(player(session), gpu_core)
    assert any("Focus not set on any active CUDA kernel" in note for note in state.notes)
    assert any("holds no table" in note for note in state.notes)
    assert state.kernels[0].warps == 16


def test_names_of_files_are_data(player: Play, gpu_core: Path) -> None:
    hostile = gpu_core.rename(gpu_core.with_name("core\x1b]0;title\x07"))
    state = asyncio.run(state_in(player("hang"), hostile))
    assert "\x1b" not in f"{state.target} {state.path} {state_text(state)}" and state.path.endswith("core")


async def test_kernels_of_a_device_that_is_not_listed_are_shown(player: Play, gpu_core: Path) -> None:
    session = without(hang(16), "-cuda-info-devices")
    session.says("-cuda-info-devices", '^error,msg="Not now"')
    state = await state_in(player(session), gpu_core)
    text = state_text(state)
    assert not state.units and "\ndevice 0\n  kernel 0  spin<<<" in text


async def test_a_table_that_is_cut_says_how_much_is_missing(player: Play, gpu_core: Path) -> None:
    session = without(hang(16), "-cuda-info-warps")
    (whole,) = [said[0] for command, said in hang(16).answers if command.startswith("-cuda-info-warps")]
    session.says("-cuda-info-warps *", whole[: len(whole) // 2])
    state = await state_in(player(session), gpu_core)
    assert any("of 64 rows of `info cuda warps device 0 sm all` could not be read" in n for n in state.notes)
    assert 20 < state.kernels[0].warps < 40


async def test_rows_of_nonsense_are_counted(player: Play, gpu_core: Path) -> None:
    session = without(hang(4), "-cuda-info-kernels")
    row = ("*", 0, "-", 0, 53, "Active", "0x1", "(4,1,1)", "(128,1,1)", "spin()\x1b]0;evil\x07")
    rows = [row, ("*", "?", "-", 0, 53, "", "", "", "", "")]
    session.says("-cuda-info-kernels", mi("InfoCudaKernels", rows))
    state = await state_in(player(session), gpu_core)
    assert [(k.name, k.arguments) for k in state.kernels] == [("spin", "()")]  # and no escape sequence
    assert any("1 of 2 rows" in note for note in state.notes)


@pytest.mark.parametrize("trouble", ["!die", "!half"])
@pytest.mark.invariant("cuda_gdb_queries.K2")
async def test_a_debugger_that_ends_in_the_midst_leaves_what_it_told(
    player: Play, gpu_core: Path, trouble: str
) -> None:
    session = without(hang(4), "-cuda-info-warps")
    session.says("-cuda-info-warps *", *(("^done,", trouble) if trouble == "!half" else (trouble,)))
    state = await state_in(player(session), gpu_core)
    assert state.kernels and any("exited before it had reported everything" in note for note in state.notes)


async def test_a_debugger_that_ends_at_once_is_an_error(player: Play, gpu_core: Path) -> None:
    session = without(hang(4), '-interpreter-exec console "target')
    session.says(asked("target cudacore *"), "!die")
    with pytest.raises(GdbGone, match=r"ended as it opened .*nvcudmp"):
        await state_in(player(session), gpu_core)


@pytest.mark.invariant("cuda_gdb_queries.K1")
async def test_a_debugger_that_does_not_answer_is_given_up(
    player: Play, gpu_core: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is made to be over as it waits for one of the answers."""
    session = without(hang(4), "-cuda-info-warps")
    session.says("-cuda-info-warps *", "!hang")
    whole, ahead_s, asked_late = GdbEngine.command, 0.0, []

    async def command(engine: GdbEngine, text: str, timeout_s: float = 10.0) -> Record:
        nonlocal ahead_s
        if ahead_s:
            asked_late.append(text)
        if not text.startswith("-cuda-info-warps"):
            return await whole(engine, text, timeout_s)
        try:
            return await whole(engine, text, 0.5)
        finally:
            ahead_s = 1000.0

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead_s)
    with monkeypatch.context() as patched:
        patched.setattr(GdbEngine, "command", command)
        patched.setattr("livedbg.adapters.cuda.cudagdb.engine.time", clock)
        state = await state_in(player(session), gpu_core)
    assert any("not answered in time" in note for note in state.notes) and state.units
    assert not asked_late
    session = without(hang(4), '-interpreter-exec console "target')
    session.says(asked("target cudacore *"), "!hang")
    with pytest.raises(GdbTimeout, match=r"did not open"):
        await state_in(player(session), gpu_core, limit_s=1.0)


async def test_what_is_no_gpu_core_is_the_debuggers_word(player: Play, gpu_core: Path) -> None:
    session = Session().says(asked("target cudacore *"), '^error,msg="Failed to read core file: invalid format"')
    with pytest.raises(SourceError, match=r"can't read .*: Failed to read core file: invalid format"):
        await state_in(player(session), gpu_core)


async def test_another_gdb_is_told_from_cuda_gdb(gpu_core: Path) -> None:
    with pytest.raises(ToolMissing, match=r"is no cuda-gdb, but GNU gdb"):
        await state_in("/usr/bin/gdb", gpu_core)


def seen_again(state: DeviceState, after_s: float, **changes: Any) -> DeviceState:
    """The same state at another look, but for some fields."""
    later_ns = (state.taken_wall_ns or 0) + round(after_s * 1e9)
    return replace(state, taken_wall_ns=later_ns, path=f"{state.path}-{after_s}", **changes)


async def test_what_stands_still_at_two_looks_is_a_stall(player: Play, gpu_core: Path) -> None:
    first = replace(await state_in(player("hang"), gpu_core), target="process:box/4711")
    (kernel,) = first.kernels
    second = compare_states(first, seen_again(first, 20))
    third = compare_states(second, seen_again(first, 32))
    assert [k.still_since_wall_ns for k in (*second.kernels, *third.kernels)] == [first.taken_wall_ns] * 2
    moved = seen_again(first, 20, places=(replace(first.places[0], line=13), *first.places[1:]))
    launched = seen_again(first, 20, kernels=(replace(kernel, grid=54),))
    fewer = seen_again(first, 20, kernels=(replace(kernel, warps=60),))
    for other in (moved, launched, fewer, replace(seen_again(first, 20), target="process:box/4712")):
        assert compare_states(first, other).kernels[0].still_since_wall_ns is None
    assert compare_states(first, first).kernels[0].still_since_wall_ns is None  # one look is no proof

    def verdict(state: DeviceState, *, ended: bool = False) -> tuple[str, str]:
        store, stamp = Store(), Stamp(host="box", mono_ns=1, wall_ns=state.taken_wall_ns or 0)
        process = Process(id=state.target, host="box", pid=4711, target=True)
        store.apply_all([ProcessSeen(process=process, **stamp), DeviceSeen(device=state, **stamp)])
        if ended:
            store.apply(ProcessExited(id=process.id, status=0, **stamp))
        found = diagnostician().diagnose(store.snapshot())
        (finding,) = [f for f in found.findings.values() if f.rule.startswith("device-")]
        return found.verdict.state.value, f"{finding.rule}: {finding.sentence}"

    state, sentence = verdict(third)
    assert state == "stalled" and sentence.startswith("device-hang: All 64 warps of kernel 0 spin")
    assert sentence.endswith("unchanged since a sample 32 s earlier.") and "unchanged" in state_text(third)
    short = compare_states(first, seen_again(first, 2))
    assert verdict(short)[0] != "stalled" and verdict(short)[1].startswith("device-blocked: All 64 warps")
    state, sentence = verdict(third, ended=True)
    assert state == "exited" and sentence.startswith("device-blocked: Before its process ended: All 64 warps")
    assert verdict(first)[0] != "stalled" and verdict(first)[1].startswith("device-blocked: All 64 warps")


async def test_a_host_core_beside_it_is_opened_with_it(player: Play, gpu_core: Path, tmp_path: Path) -> None:
    host = tmp_path / "core with blanks.4711"
    host.write_bytes(core_bytes(machine=EM_X86_64))
    session = illegal_address()
    session.answers = [(c.replace("target cudacore *", "target core */host */gpu"), s) for c, s in session.answers]
    gpu, beside = sort_cores([host, gpu_core])
    assert beside is not None and gpu.path == gpu_core
    state = await open_core(player(session), gpu, beside, "file:x")
    assert state.faults
