"""Forms of logs as they are pasted: fences, a test's marks, letters for levels, cut first frames, paragraphs."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.model import Severity
from tests.logs.reading import verdict
from tests.logs.test_wrapping import read

CRASHED, UNKNOWN = VerdictState.CRASHED, VerdictState.UNKNOWN


def test_a_fence_is_no_text() -> None:
    text = '```shell\nTraceback (most recent call last):\n  File "/w/a.py", line 3, in fill\n    pump(\n```\n'
    assert "```" not in verdict(text).sentence
    assert "```" not in "".join(record.text for record in read(text))
    assert [record.text for record in read("``` is a fence\n")] == ["``` is a fence"]


def test_what_a_command_of_lit_wrote_is_read_as_if_it_were_alone() -> None:
    marks = (
        "# executed command: /b/pump.tmp.out\n"
        "# .---command stderr------------\n"
        "# | terminate called after throwing an instance of 'std::runtime_error'\n"
        "# |   what():  no valve is open\n"
        "# `-----------------------------\n"
        "# error: command failed with exit status: -6\n"
    )
    for text in (marks, "".join(f"  {line}\n" for line in marks.splitlines())):
        said = verdict(f"# RUN: at line 3\n{text}")
        assert (said.state, said.sentence) == (CRASHED, "Crashed: std::runtime_error: no valve is open.")
    passed = "# executed command: /b/pump.tmp.out\n# .---command stdout------------\n# | terminate called: never\n"
    assert verdict(f"{passed}# `-----------------------------\n").state is UNKNOWN


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("2026-03-05 10:11:23.530112: E pump/service/tank.cc:12] no tank", Severity.ERROR),
        ("2026-03-05 10:11:23.530112: W pump/service/tank.cc:12] no tank", Severity.WARNING),
        ("2026-03-05 10:11:23.530112: E is a letter", Severity.INFO),
        ("E pump/service/tank.cc:12] no tank", Severity.ERROR),
        ("E tank.cc:12] no tank", Severity.INFO),
        ("F0000 00:00:1786849858.256082 3893849 tank.cc:12] no tank", Severity.CRITICAL),
        ("I0407 05:33:23.191014 140734683436736 tank.py:12] no tank", Severity.INFO),
    ],
)
def test_the_letter_before_a_place_is_the_level(line: str, severity: Severity) -> None:
    (record,) = read(f"{line}\n")
    assert record.severity is severity


def test_a_warning_in_letters_about_a_compiler_is_no_end() -> None:
    text = (
        "2026-03-04 19:57:19.446524: {} pump/gpu/asm.cc:235] We fall back to the driver. "
        "The error was: ptxas fatal   : Value 'sm_86' is not defined for option 'gpu-name'\n"
    )
    assert verdict(text.format("W")).state is UNKNOWN
    assert verdict(text.format("E")).state is CRASHED


@pytest.mark.parametrize(
    "first",
    [
        'File "/w/pump/tank.py", line 31, in fill',
        'pump/tank.py", line 31, in fill',
        '  File "/w/tank.py", line 31, in fill',
    ],
)
def test_the_first_frame_may_be_cut(first: str) -> None:
    said = verdict(f"{first}\n    open(valve)\nRuntimeError: no valve is open\n")
    assert (said.state, said.sentence) == (CRASHED, "Crashed in fill (tank.py:31): RuntimeError: no valve is open.")
    assert verdict(f"{first}\n    open(valve)\nall is well\n").state is UNKNOWN


def test_lines_between_frames_without_their_blanks_are_no_exception() -> None:
    text = '[rank2]: Traceback (most recent call last):\n488\n[rank2]: File "/w/a.py", line 290, in <module>\n489\n'
    assert "489" not in verdict(f"487\n{text}[rank2]: fill(\n490\n").sentence


def test_a_message_of_cmake_has_paragraphs() -> None:
    text = "CMake Error at a/CMakeLists.txt:20 (project):\n  No pump in variable PUMP:\n\n  /w/pump\n\n\n-- on\n"
    first, second = read(text)
    assert (first.text.rstrip(), second.text) == (text.partition("\n\n\n")[0], "-- on")


def test_the_exception_of_a_binding_has_its_place_below() -> None:
    text = "[ERROR] the tank failed with exception: ValueError: no valve 7\n\nAt:\n  /w/valves.py(61): get_valve\n"
    assert verdict(text).sentence == "Crashed in get_valve (valves.py:61): ValueError: no valve 7."
    assert "valves.py" not in verdict(text.replace("\n\nAt:", "\n\nNoon:")).sentence


def test_what_ends_a_test_names_it() -> None:
    text = (
        "[ RUN      ] Tank.Fills\n"
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  no valve is open\n"
    )
    assert verdict(text).sentence == "Crashed: std::runtime_error: no valve is open, in test Tank.Fills."
    assert "in test" not in verdict(text.replace("Fills\n", "Fills\n[       OK ] Tank.Fills\n")).sentence


def test_the_last_line_of_a_sanitizer_s_report_is_enough() -> None:
    line = "SUMMARY: AddressSanitizer: heap-use-after-free /w/tank.cpp:41:14 in pump::Tank::fill(int)\n"
    assert verdict(f"{line}==1041==ABORTING\n").sentence == (
        "Crashed: AddressSanitizer: heap-use-after-free, in pump::Tank::fill(int) at tank.cpp:41."
    )
    leaked = verdict("SUMMARY: AddressSanitizer: 72 byte(s) leaked in 1 allocation(s).\n")
    assert leaked.sentence == "LeakSanitizer: 72 bytes of memory leak as the program ends."


def test_an_assertion_that_was_wrapped_behind_its_place() -> None:
    text = "run: pump/Valve.cpp:100:  \npump::Valve pump::choose(\npump::Context*): Assertion `n > 0' failed.\n"
    assert verdict(text).sentence == "Crashed: assert: Valve.cpp:100: Assertion `n > 0' failed."
    records = read("pump/lib/Valve.cpp:100:\none line\n\nthe step goes on\n")
    assert records[-1].text == "the step goes on"


def test_a_list_of_failed_tests_without_the_line_that_counts_them() -> None:
    tests = "\t  1 - fills (Subprocess aborted)\n\t  7 - drains (Failed)\n"
    listed = f"The following tests FAILED:\n{tests}Errors while running CTest\n"
    said = "The test run failed: fills: Subprocess aborted; drains: Failed."
    assert verdict(listed).sentence.startswith(said)
    counted = verdict(
        f" 1/9 Test #1: fills ...***Failed    0.2 sec\n50% tests passed, 2 tests failed out of 4\n\n{listed}"
    )
    assert counted.sentence == "The test run failed: fills: Failed. 50% tests passed, 2 tests failed out of 4."
    assert verdict("Errors while running CTest\n").sentence.startswith("The log ends with an error")


@pytest.mark.parametrize("glued", ["```", "` "])
def test_a_fence_may_be_glued_to_the_first_line(glued: str) -> None:
    said = "Mar 04 01:55:57 n4 filler[7]: the tank is empty, and so are all others"
    assert [record.text for record in read(f"{glued}{said}\n")] == [record.text for record in read(f"{said}\n")]
    assert next(iter(read("`fill' is not declared in this plan\n"))).text.startswith("`fill'")


@pytest.mark.parametrize(
    "above",
    [
        "Hi! I'm filling a big tank but met the following error after the pump ran for a while.",
        "0x00007f4b5d2ea42f in __GI___wait4 (pid=7) at ../sysdeps/unix/sysv/linux/wait4.c:30",
        "fill.go:316: starting the pump",
    ],
)
def test_who_pastes_it_a_debugger_s_frame_and_what_begins_are_no_reason(above: str) -> None:
    seen = verdict(f"step 1\nstep 2\n{above}\nmake: *** [Makefile:3: fill] Error 3\n")
    assert seen.state is CRASHED and above[:20] not in seen.sentence.partition(". ")[0]


@pytest.mark.parametrize("prompt", ["(tank) ann@c002:~/plant/run1    $", "[root@n4 plant]# "])
def test_a_shell_s_prompt_below_an_end_is_no_progress(prompt: str) -> None:
    assert verdict(f"step 1\nstep 2\nKilled\n{prompt}\n").state is CRASHED


@pytest.mark.parametrize("indentation", ["", "    "])
def test_the_frames_of_a_cut_traceback_keep_their_own_indentation(indentation: str) -> None:
    frames = [
        f'  File "/opt/lib/python3.9/site-packages/plant/t{n}.py", line {n}, in f{n}\n    f(n)' for n in range(3, 9)
    ]
    text = "\n".join([*frames, '  File "/w/train.py", line 4, in step\n    go()', *frames, "ValueError: no valve"])
    text = "".join(f"{indentation}{line}\n" for line in text.split("\n"))
    assert verdict(text).sentence == "Crashed in step (train.py:4), in f8 (t8.py:8): ValueError: no valve."


FRAMES = [
    ("/w/train.py", 4, "step", "go()"),
    ("/opt/lib/python3.9/site-packages/plant/tank.py", 8, "fill", "check(level)"),
]


@pytest.mark.parametrize(
    "form",
    [
        'File "{0}", line {1}, in {2}\n{3}\n',  # all blanks were lost
        'File "{0}", line {1}, in {2}\n  {3}\n  ^^^^\n',
        'File "{0}", line {1}, in {2}\n{3}\n^^^^\n',
        '    File "{0}", line {1}, in {2}\n    {3}\n',
    ],
)
@pytest.mark.parametrize("above", ["", "...\n", "    run(args)\n"])
def test_the_frames_of_a_cut_traceback_may_have_lost_their_indentation(form: str, above: str) -> None:
    text = above + "".join(form.format(*frame) for frame in FRAMES)
    assert verdict(f"{text}ValueError: no valve\n").sentence == "Crashed in step (train.py:4): ValueError: no valve."
    assert verdict(f"{text}all is well\n").state is UNKNOWN


def test_the_first_frame_of_a_cut_traceback_may_be_indented_oddly() -> None:
    first, second = (f'File "{file}", line {line}, in {name}\n    {code}\n' for file, line, name, code in FRAMES)
    said = verdict(f"...\n      {first}  {second}ValueError: no valve\n").sentence
    assert said == "Crashed in step (train.py:4): ValueError: no valve."


def test_a_flush_frame_that_a_warning_names_takes_no_more_than_its_source() -> None:
    records = [record.text for record in read('File "/w/a.py", line 3, in fill\nfill()\nstep 4\nstep 5\n')]
    assert records == ['File "/w/a.py", line 3, in fill\nfill()', "step 4", "step 5"]


PAUSED = (
    "Exception has occurred: ValueError\n{}"
    '  File "/opt/lib/python3.9/site-packages/plant/tank.py", line 8, in fill\n    raise ValueError\n    ^^^^^\n'
    '  File "/w/train.py", line 4, in step\n    fill()\n  File "/w/train.py", line 9, in <module>\n    step()\n'
)


@pytest.mark.parametrize(
    ("message", "says"),
    [("no water\n", "no water"), ("exception: no description\n", "it has no message"), ("", "it has no message")],
)
def test_an_editor_s_debugger_shows_the_innermost_frame_first(message: str, says: str) -> None:
    said = verdict(PAUSED.format(message))
    assert (said.state, said.sentence) == (CRASHED, f"Crashed in step (train.py:4): ValueError: {says}.")
    assert verdict("Exception has occurred: no\nstep 1\nstep 2\n").state is UNKNOWN


def test_the_message_of_an_exception_may_stand_below_a_rule() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 4, in step\n    raise plant.SetupError(\n'
        f"plant.SetupError:\n{'*' * 60}\n\nThe tank of pump 3 is missing.\n\nThe pump is open.\n"
    )
    said = verdict(text)
    assert (said.state, said.sentence) == (
        CRASHED,
        "Crashed in step (train.py:4): plant.SetupError: The tank of pump 3 is missing.",
    )
    assert [record.line for record in read(text)][-1] == 9
    healthy = text.replace(f"{'*' * 60}\n\n", "").replace("plant.SetupError:\n", "plant.SetupError: no\n")
    assert "tank" not in verdict(healthy).sentence
