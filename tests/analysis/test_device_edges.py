"""Samples of devices on states made by hand: what the sentences say at their edges, and when a kernel hangs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from livedbg.analysis import Finding
from livedbg.analysis.devices import (
    fault_sentence,
    headline,
    kernel_name,
    kernel_sentence,
    place_name,
    places_of,
    share_of,
    unit_sentence,
    units_of,
)
from livedbg.analysis.rules.base import Settings
from livedbg.analysis.rules.device import rules
from livedbg.model import events as ev
from livedbg.model.devices import DeviceFault, DeviceKernel, DevicePlace, DeviceState, DeviceUnit
from livedbg.session.rulebook import diagnostician
from tests.analysis.world import SECOND, World

KERNEL = DeviceKernel(
    number=3, name="spin", grid_dim="(2,1,1)", block_dim="(64,1,1)", warps=100, threads=3200, sms=2, status="active"
)
LINE = DevicePlace(kernel=3, function="wait_for", file="/src/cu/spin.cu", line=12, warps=100, threads=3200)
STATE = DeviceState(target="process:box/1", source="dump on request", kernels=(KERNEL,), places=(LINE,))
TAKEN_NS = 10**18 + 90 * SECOND


def said(*places: DevicePlace, kernel: DeviceKernel = KERNEL) -> str:
    return kernel_sentence(DeviceState(target="file:x", source="core dump", places=places), kernel)


@pytest.mark.parametrize(
    ("warps", "sentence"),
    [
        (100, "All 100 warps of kernel 3 spin<<<(2,1,1),(64,1,1)>>> are at spin.cu:12, in wait_for."),
        (90, "Nearly all warps of kernel 3 spin<<<(2,1,1),(64,1,1)>>> are at spin.cu:12 (90 of 100), in wait_for."),
        (89, "Most warps of kernel 3 spin<<<(2,1,1),(64,1,1)>>> are at spin.cu:12 (89 of 100), in wait_for."),
        (50, "Most warps of kernel 3 spin<<<(2,1,1),(64,1,1)>>> are at spin.cu:12 (50 of 100), in wait_for."),
        (
            49,
            "The 100 warps of kernel 3 spin<<<(2,1,1),(64,1,1)>>> are at 2 places, most of them at spin.cu:12.",
        ),
    ],
)
def test_where_the_warps_are_by_their_share(warps: int, sentence: str) -> None:
    other = DevicePlace(kernel=3, function="spin", line=18, file="spin.cu", warps=1)
    assert said(replace(LINE, warps=warps), other) == sentence


def test_the_first_of_several_places_is_that_of_the_sentence() -> None:
    other = DevicePlace(kernel=3, function="other", file="other.cu", line=1, warps=20)
    assert "spin.cu:12 (80 of 100), in wait_for" in said(replace(LINE, warps=80), other)


def test_a_sentence_of_one_warp_and_what_it_does() -> None:
    one = replace(KERNEL, warps=1)
    polls = replace(LINE, warps=1, meaning="polls a flag")
    only = "The only warp of kernel 3 spin<<<(2,1,1),(64,1,1)>>> is at spin.cu:12, in wait_for"
    assert said(polls, kernel=one) == f"{only}: it polls a flag."
    assert said(replace(polls, meaning=""), kernel=one) == f"{only}."
    assert said(replace(LINE, meaning="polls a flag")).endswith("are at spin.cu:12, in wait_for: each polls a flag.")
    most = replace(LINE, warps=60, meaning="polls a flag")
    assert said(most).endswith("(60 of 100), in wait_for: each polls a flag.")


def test_a_function_is_named_beside_a_line_only() -> None:
    assert said(replace(LINE, function="")).endswith("are at spin.cu:12.")
    bare = replace(LINE, file=None, line=None)
    assert said(bare).endswith("are at wait_for.")


@pytest.mark.parametrize(
    ("kernel", "places", "sentence"),
    [
        (KERNEL, (), "Kernel 3 spin<<<(2,1,1),(64,1,1)>>> is active on 2 SMs."),
        (replace(KERNEL, sms=0), (), "Kernel 3 spin<<<(2,1,1),(64,1,1)>>> is active."),
        (replace(KERNEL, status="", sms=0), (), "Kernel 3 spin<<<(2,1,1),(64,1,1)>>> is there."),
        (replace(KERNEL, warps=0), (LINE,), "Kernel 3 spin<<<(2,1,1),(64,1,1)>>> is active on 2 SMs."),
    ],
)
def test_a_kernel_whose_warps_are_not_known(
    kernel: DeviceKernel, places: tuple[DevicePlace, ...], sentence: str
) -> None:
    assert said(*places, kernel=kernel) == sentence


def test_the_headline_is_of_the_largest_kernel() -> None:
    small, wide = replace(KERNEL, number=1, warps=99, sms=9), replace(KERNEL, number=5, sms=4)
    last, first = replace(KERNEL, number=7), replace(KERNEL, number=6)

    def of(*kernels: DeviceKernel) -> str:
        return headline(DeviceState(target="file:x", source="core dump", kernels=kernels)).partition(" spin")[0]

    assert of(small, last, wide, first) == "Kernel 5"  # as many warps, on more SMs
    assert of(small, last, first) == of(small, first, last) == "Kernel 6"
    assert of(small) == "Kernel 1"


def test_the_headline_of_no_kernel() -> None:
    idle = DeviceState(target="file:x", source="core dump", units=(DeviceUnit(number=0),))
    assert headline(idle) == "No kernel is on the device."
    assert headline(replace(idle, units=())) == "No device is in use."


def test_an_exception_is_the_headline_and_says_as_much_as_is_known() -> None:
    fault = DeviceFault(name="Warp Illegal Address", meaning="A thread accessed memory that is not its own.")
    assert fault_sentence(fault) == "Warp Illegal Address: A thread accessed memory that is not its own."
    known = replace(fault, title="CUDA exception 14", function="axpy", file="/src/axpy.cu", line=17)
    sentence = "CUDA exception 14, in axpy at axpy.cu:17: A thread accessed memory that is not its own."
    assert fault_sentence(known) == sentence
    assert headline(replace(STATE, faults=(known, fault))) == sentence
    for less in (replace(known, line=None), replace(known, file=None)):
        assert fault_sentence(less).startswith("CUDA exception 14, in axpy: ")


def test_devices_and_their_kernels() -> None:
    unit = DeviceUnit(number=1, name="H100", machine="sm_90", bus="1b:00.0", sms=1320, busy_sms=1200)
    assert unit_sentence(unit) == "device 1  H100 (sm_90, 1b:00.0): 1,200 of 1,320 SMs have warps"
    assert unit_sentence(replace(unit, bus="")) == "device 1  H100 (sm_90): 1,200 of 1,320 SMs have warps"
    assert unit_sentence(replace(unit, sms=0)) == "device 1"
    on_1, on_4, on_2 = (replace(KERNEL, number=n, device=device) for n, device in enumerate((1, 4, 2)))
    state = DeviceState(target="file:x", source="core dump", units=(unit,), kernels=(on_1, on_4, on_2))
    rows = [(unit.number, [kernel.number for kernel in kernels]) for unit, kernels in units_of(state)]
    assert rows == [(1, [0]), (2, [2]), (4, [1])]


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (LINE, "spin.cu:12"),
        (replace(LINE, file="spin.cu"), "spin.cu:12"),
        (replace(LINE, line=0), "spin.cu:0"),
        (replace(LINE, line=None), "wait_for"),
        (replace(LINE, file=None), "wait_for"),
        (DevicePlace(kernel=3, address=0x1000), "0x1000"),
        (DevicePlace(kernel=3), "0x0"),
        (DevicePlace(kernel=3, function="spin+16", address=0x1010), "0x1010 (+16)"),
        (DevicePlace(kernel=3, function="spin", address=0x1000), "0x1000 (its beginning)"),
        (DevicePlace(kernel=3, function="copy+16", address=0x1010), "copy+16"),
    ],
)
def test_how_a_place_is_named(place: DevicePlace, name: str) -> None:
    assert place_name(place, KERNEL) == name


def test_the_functions_of_a_kernel_that_is_not_known_keep_their_names() -> None:
    place = DevicePlace(kernel=3, function="spin+16", address=0x1010)
    assert place_name(place) == place_name(place, replace(KERNEL, name="")) == "spin+16"


def test_the_places_and_shares_of_a_kernel() -> None:
    other = DevicePlace(kernel=4, function="other", warps=1)
    assert list(places_of(replace(STATE, places=(other, LINE)), 3)) == [LINE]
    assert share_of(replace(LINE, warps=25), KERNEL) == 0.25
    assert share_of(replace(LINE, warps=0, threads=800), KERNEL) == 0.25  # lanes that are not active
    assert share_of(replace(LINE, threads=800), replace(KERNEL, warps=0)) == 0.25
    assert share_of(LINE, replace(KERNEL, warps=0, threads=0)) == 0.0
    assert share_of(LINE, replace(KERNEL, warps=200, threads=0)) == 0.5


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("f" * 60, "f" * 60),
        ("f" * 61, "f" * 59 + "…"),
        ("gemm<" + "x" * 54 + ">", "gemm<" + "x" * 54 + ">"),
        ("gemm<" + "x" * 55 + ">", "gemm<…>"),
        ("void gemm<float, " + "int, " * 10 + "4>(float*, tile<int>)", "void gemm<…>(…)"),
        ("outer<" + "x" * 60 + ">::inner(int)::last", "outer<…>::inner(…)::last"),
        ("call((int)" + "x" * 60 + ")::tail", "call(…)::tail"),
        ("a>b" + "<" + "x" * 60 + ">c", "ab<…>c"),
        ("<" + "x" * 70 + ">" + "y" * 57, "<…>" + "y" * 57),
        ("<" + "x" * 70 + ">" + "y" * 58, "<…>" + "y" * 56 + "…"),
    ],
)
def test_long_names_lose_their_arguments_first(name: str, short: str) -> None:
    assert kernel_name(replace(KERNEL, name=name)) == f"{short}<<<(2,1,1),(64,1,1)>>>"


def found(state: DeviceState, *, ended: bool = False, alone: bool = False) -> list[Finding]:
    """What the two rules say of a sample."""
    world = World()
    if not alone:
        process = world.process(1)
    world.store.apply(ev.DeviceSeen(device=state, **world.stamp()))
    if ended:
        world.exits(process, status=0)
    doctor = diagnostician(Settings(task_stall_s=10.0))
    return [f for f in doctor.diagnose(world.snapshot()).findings.values() if f.rule.startswith("device-")]


def still(nanoseconds: int) -> DeviceState:
    """A sample with a kernel that an earlier one saw at the same place."""
    since = TAKEN_NS - nanoseconds
    return replace(STATE, taken_wall_ns=TAKEN_NS, kernels=(replace(KERNEL, still_since_wall_ns=since),))


def test_a_kernel_hangs_from_the_threshold_on() -> None:
    (hang,) = found(still(10 * SECOND))
    assert (hang.rule, hang.since_wall_ns, hang.inferred) == ("device-hang", TAKEN_NS - 10 * SECOND, True)
    assert hang.sentence.endswith("are at spin.cu:12, in wait_for; unchanged since a sample 10 s earlier.")
    assert hang.entities == ("process:box/1",) and hang.next[0].startswith("check what this source line waits for")
    assert [f.rule for f in found(still(10 * SECOND - 1))] == ["device-blocked"]
    assert [f.rule for f in found(STATE)] == ["device-blocked"]  # no sample before, no time of this one


def test_only_the_kernels_that_did_not_move_hang() -> None:
    moves = replace(KERNEL, number=4, still_since_wall_ns=None)
    state = still(20 * SECOND)
    (hang,) = found(replace(state, kernels=(moves, *state.kernels)))
    assert "kernel 3 spin" in hang.sentence and hang.evidence[0].text == "dump on request: 2 kernels at 1 place"


def test_each_device_is_judged_whatever_another_one_shows() -> None:
    world = World()
    world.process(1)
    idle = replace(STATE, target="file:/tmp/idle", kernels=())
    for state in (idle, STATE):
        world.store.apply(ev.DeviceSeen(device=state, **world.stamp()))
    assert world.found("device-blocked").entities == ("process:box/1",)


def test_no_kernel_hangs_in_a_process_that_has_ended() -> None:
    (note,) = found(still(20 * SECOND), ended=True)
    assert note.rule == "device-blocked" and note.sentence.startswith("Before its process ended: All 100 warps")


def test_a_hang_in_a_core_dump_alone_names_no_process() -> None:
    (hang,) = found(replace(still(20 * SECOND), target="file:/tmp/core"), alone=True)
    assert hang.rule == "device-hang" and hang.entities == ()


def test_what_one_sample_shows_and_the_command_for_a_second() -> None:
    asks = replace(STATE, repeat="livedbg dump 1", reopen="livedbg open core", taken_wall_ns=TAKEN_NS, path="/tmp/core")
    (note,) = found(asks)
    assert (note.next, note.entities, note.state) == (("livedbg dump 1",), ("process:box/1",), None)
    assert (note.since_wall_ns, note.evidence[0].at_wall_ns) == (TAKEN_NS, TAKEN_NS)
    assert note.evidence[0].place == "/tmp/core"
    (ended,) = found(asks, ended=True)
    assert ended.next == ("livedbg open core",)
    (alone,) = found(replace(asks, target="file:/tmp/core"), alone=True)
    assert (alone.next, alone.entities, alone.state) == (("livedbg open core",), (), "unknown")
    (silent,) = found(STATE)
    assert silent.next == () and silent.evidence[0].place == "dump on request"
    (by_tool,) = found(replace(STATE, tool="cuda-gdb"))
    assert by_tool.evidence[0].place == "cuda-gdb"


def test_a_sample_with_an_exception_or_without_a_kernel_is_left_to_others() -> None:
    fault = DeviceFault(name="Warp Illegal Address", meaning="m")
    assert not found(replace(STATE, faults=(fault,)))
    assert not found(replace(STATE, kernels=()))
    assert [rule.name for rule in rules()] == ["device-hang", "device-blocked"]
