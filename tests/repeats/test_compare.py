"""What many runs have in common, and how each ended."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from livedbg.model import ExceptionHit, Frame
from livedbg.repeats.compare import compare
from livedbg.repeats.outcome import RunEnd, end_cause, frames_shown, how_ended


def crash(run: int, marker: str = "", **more: Any) -> RunEnd:
    return RunEnd(**{"run": run, "how": "signal", "code": 139, "signal": "SIGSEGV", "marker": marker, **more})


def well(run: int) -> RunEnd:
    return RunEnd(run=run, how="well", code=0)


def test_exit_codes_are_those_of_a_shell() -> None:
    assert [how_ended(code) for code in (0, 1, 139, 134, 200, 255)] == [
        ("well", ""),
        ("code", ""),
        ("signal", "SIGSEGV"),
        ("signal", "SIGABRT"),
        ("code", ""),
        ("code", ""),
    ]


def test_the_same_point_each_time() -> None:
    outcome = compare([crash(1, "launch a"), crash(2, "launch a"), crash(3, "launch a")])
    assert outcome.crashes == "same" and outcome.hangs == "well"
    assert outcome.sentences == ("3 of 3 runs crashed, after `launch a`: the same place each time.",)
    assert [(group.ending, group.runs) for group in outcome.groups] == [("SIGSEGV", (1, 2, 3))]


def test_the_same_point_but_not_in_every_run() -> None:
    outcome = compare([crash(1, "launch a"), well(2), crash(3, "launch a")])
    assert outcome.crashes == "same" and "Timing or data decides whether a run fails" in outcome.sentences[0]
    assert [group.runs for group in outcome.groups] == [(1, 3), (2,)]


def test_it_moves() -> None:
    outcome = compare([crash(1, "launch a"), crash(2, "launch b"), crash(3, "launch b"), well(4)])
    assert outcome.crashes == "moves"
    said = outcome.sentences[0]
    assert said == (
        "3 of 4 runs crashed, at 2 different places (2 times after `launch b`): a race or memory corruption is likely."
    )
    assert any("compute-sanitizer" in line for line in outcome.next)


def test_once_says_nothing_of_moving() -> None:
    assert compare([crash(1, "launch a"), well(2)]).crashes == "once"


def test_stacks_tell_where_without_markers() -> None:
    same = compare([crash(1, stack=("f at a.c:1",)), crash(2, stack=("f at a.c:1",))])
    moves = compare([crash(1, stack=("f at a.c:1",)), crash(2, stack=("g at a.c:9",))])
    assert (same.crashes, moves.crashes) == ("same", "moves")
    several = compare([crash(1, "m", stack=("f",)), crash(2, "m", stack=("g",))])
    assert several.crashes == "same" and "Their stacks differ" in several.sentences[1]


@pytest.mark.invariant("compare.V1")
def test_V1_a_last_line_is_too_weak_to_say_that_it_moves() -> None:
    assert compare([crash(1, last_line="step 3"), crash(2, last_line="step 4")]).crashes == "unknown"
    assert compare([crash(1), crash(2)]).crashes == "unknown"
    assert compare([crash(1, last_line="step 3"), crash(2, last_line="step 3")]).crashes == "same"


@pytest.mark.invariant("compare.V2")
def test_V2_what_was_cut_off_counts_for_nothing() -> None:
    outcome = compare([well(1), RunEnd(run=2, how="cut", marker="x")])
    assert outcome.crashes == outcome.hangs == "well" and "1 run was interrupted" in outcome.sentences[1]
    assert compare([]).sentences == ("No run has ended.",)


def test_hangs_are_judged_by_themselves() -> None:
    hung = [RunEnd(run=run, how="hung", marker="launch a") for run in (1, 2)]
    outcome = compare([*hung, crash(3, "launch b"), crash(4, "launch c")])
    assert (outcome.crashes, outcome.hangs) == ("moves", "same")
    assert len(outcome.sentences) == 2


def on(devices: str, bad: str, how: str = "signal") -> list[RunEnd]:
    """One run on each device in order; those of `bad` fail, each at another place."""
    ends = []
    for run, device in enumerate(devices, 1):
        end = crash(run, f"launch {run}", how=how) if device in bad else well(run)
        ends.append(structs.replace(end, device=device))
    return ends


def test_failures_that_follow_the_device_are_told_before_a_race() -> None:
    outcome = compare(on("01230123", "123"))
    assert outcome.sentences[0] == (
        "Failures follow the device: device 0: 2 of 2 good; devices 1-3: 6 of 6 crashed. "
        "With so few runs the chance of this is 1 in 7: run more."
    )
    assert "a race or memory corruption is likely" in outcome.sentences[1]
    assert outcome.next[0].startswith("livedbg doctor")
    more = compare(on("0123" * 5, "3", how="hung")).sentences
    assert more[0] == "Failures follow the device: devices 0-2: 15 of 15 good; device 3: 5 of 5 hung."


@pytest.mark.parametrize(
    ("devices", "bad"),
    [
        ("0123", "123"),  # one run each shows nothing
        ("01230123", "0123"),  # all failed
        ("01230123", ""),  # none failed
        ("00000000", "0"),  # one device
    ],
)
def test_failures_that_do_not_follow_the_device(devices: str, bad: str) -> None:
    assert not any("device" in sentence for sentence in compare(on(devices, bad)).sentences)


def test_a_device_with_both_ends_is_no_culprit() -> None:
    ends = on("01230123", "123")
    mixed = [structs.replace(well(1), device="1"), *ends]
    assert not any("device" in sentence for sentence in compare(mixed).sentences)
    assert not any("device" in s for s in compare([structs.replace(end, device="") for end in ends]).sentences)


def test_frames_by_which_a_program_dies_are_left_out() -> None:
    frames = (
        Frame("__cxa_throw", module="libstdc++.so.6"),
        Frame("work", file="/x/a.cpp", line=7),
        Frame("main", module="a"),
    )
    assert frames_shown(frames) == ("work at a.cpp:7", "main in a")
    inside = (
        Frame("__memmove_avx_unaligned", module="libc.so.6"),
        Frame("__gxx_personality_v0", module="libstdc++.so.6"),
    )
    assert frames_shown((*inside, *frames[-2:])) == ("work at a.cpp:7", "main in a")
    assert frames_shown((Frame("abort", module="libc.so.6"),)) == ("abort in libc.so.6",)
    assert frames_shown((Frame("libffi.so.8+0x6f79", module="libffi.so.8"),)) == ("libffi.so.8+0x6f79",)


def hit(name: str, catchpoint: str | None = None, at: int | None = None) -> ExceptionHit:
    return ExceptionHit(id=name, type=name, message="", catchpoint=catchpoint, at_wall_ns=at, stack=(Frame(name),))


@pytest.mark.invariant("outcome.T1")
def test_T1_a_report_that_ended_the_run_counts_before_all_else() -> None:
    ended, warned, raised = hit("a", "log: sanitizer"), hit("w", "log: sanitizer-warning"), hit("e", "log: traceback")
    assert end_cause("signal", [hit("SIGABRT")], [warned, raised, ended]).what == ended
    race = end_cause("signal", [hit("SIGSEGV")], [warned])
    assert race.where == hit("SIGSEGV") and not race.reported and race.note == "w, in w"
    assert end_cause("code", [], [warned, raised]).what == raised
    assert end_cause("code", [], [warned, hit("later", "log: sanitizer-warning")]).what == warned
    assert end_cause("well", [raised], [warned]).what == warned and end_cause("well", [raised], []).what is None
    assert end_cause("hung", [raised], [ended]).what is None


def test_of_exceptions_without_times_the_last_one_counts() -> None:
    assert end_cause("code", [], [hit("handled"), hit("uncaught")]).what == hit("uncaught")
    assert end_cause("code", [], [hit("later", at=9), hit("sooner", at=5)]).what == hit("later", at=9)


def test_a_sanitizers_report_is_the_place_before_any_marker() -> None:
    more = {"reported": True, "exception": "X", "stack": ("f at a.c:1",)}
    outcome = compare([crash(1, "step 1", **more), crash(2, "step 2", **more)])
    assert outcome.crashes == "same" and [group.place for group in outcome.groups] == ["f at a.c:1"]
    assert outcome.sentences[0] == "2 of 2 runs crashed, in `f at a.c:1`: the same place each time."
