"""Frames that pass a failure on are not its place, while another one is there."""

from __future__ import annotations

import pytest

from livedbg.analysis.user_code import NO_FRAMEWORKS
from livedbg.logs.passed_on import passes_on
from livedbg.model import Frame
from tests.logs.reading import verdict

PACKAGES = "/v/lib/python3.11/site-packages"


def frame(function: str, file: str, source: str = "x()") -> Frame:
    return Frame(function=function, file=file, line=7, language="python", source=(source,), source_from=7)


@pytest.mark.invariant("passed_on.P1")
@pytest.mark.parametrize(
    ("source", "passed"),
    [
        ("raise type(err)(", True),
        ("raise self._exception", True),
        ("raise self.error from None", True),
        ("raise self.last_exception", True),
        ("raise exc", False),  # made in the line above
        ("raise e from None", False),
        ("raise value.with_traceback(tb)", True),
        ("six.reraise(*exc_info)", True),
        ('raise ValueError("no water") from err', False),
        ("raise TankError(err)", False),
        ("raise StopIteration", False),
        ("raise tank", False),
        ("raise self.make(err)", False),
        ("err = run()", False),
    ],
)
def test_P1_only_what_raises_the_same_exception_passes_it_on(source: str, passed: bool) -> None:
    assert passes_on(frame("fill", "/w/tank.py", source)) is passed
    there = frame("fill", "/w/tank.py", source)
    assert (NO_FRAMEWORKS.frame_of([there, frame("main", "/w/run.py")]) == there) is not passed
    assert NO_FRAMEWORKS.frame_of([there]) == there  # better than none


@pytest.mark.invariant("passed_on.P4")
@pytest.mark.parametrize(
    ("source", "passed"),
    [
        ("return self._turn(*args, **kwargs)", True),
        ("result = await fn(*args, **kwargs)  # timed", True),
        ("func(*args, **kw)", True),
        ("return self.turn(valve, *args, **kwargs)", False),  # with one of its own
        ("return turn(*valves)", False),
        ("level = tank(level)", False),
        ("return self.turn(*args, **kwargs) + 1", False),
    ],
)
def test_P4_what_calls_with_all_that_it_was_given_is_a_wrapper(source: str, passed: bool) -> None:
    wrapper, caller = frame("wrapper", "/w/timed.py", source), frame("main", "/w/run.py")
    assert passes_on(wrapper) is passed
    assert NO_FRAMEWORKS.frame_of([wrapper, caller]) == (caller if passed else wrapper)
    assert NO_FRAMEWORKS.frame_of([wrapper]) == wrapper


@pytest.mark.invariant("passed_on.P3")
@pytest.mark.parametrize(
    ("function", "source", "passed"),
    [
        ("raise_or_warn", "raise ValueError(message)", True),
        ("_fail", "raise pump.errors.TankError(msg=text) from None", True),
        ("throwError", "raise TankError(msg)  # told", True),
        ("Pump.fail", "raise self.failureException(msg)", True),
        ("fail", 'raise ValueError(f"no water in {tank}")', False),  # it says what failed itself
        ("raise_limits", "raise ValueError(tank, level)", False),
        ("raise_limits", "level = pump(tank)", False),  # it failed as it did something
        ("fill", "raise ValueError(message)", False),
        ("raised_floor", "raise ValueError(message)", False),
        ("fail_over", "raise ValueError(message)", False),
        ("assert_level", "assert full, message", True),
        ("Pump.ensure", "assert bool(cond), msg  # handed", True),
        ("assert_level", "assert level(tank) == 4, message", False),  # it says what it asserts
        ("assert_level", 'assert full, f"no water in {tank}"', False),
        ("check_level", "assert full, message", False),
        ("fill", "assert full, message", False),
    ],
)
def test_P3_what_only_raises_what_it_is_told_is_no_place(function: str, source: str, passed: bool) -> None:
    there, caller = frame(function, "/w/tank.py", source), frame("check", "/w/run.py")
    assert passes_on(there) is passed
    assert (NO_FRAMEWORKS.frame_of([there, caller]) == caller) is passed
    assert NO_FRAMEWORKS.frame_of([there]) == there


@pytest.mark.parametrize(
    ("file", "passed"),
    [
        (f"{PACKAGES}/torch/utils/_device.py", True),
        (f"{PACKAGES}/torch/utils/_contextlib.py", True),
        ("/home/me/pytorch/torch/testing/_internal/common_utils.py", True),
        (f"{PACKAGES}/numpy/testing/_private/utils.py", True),
        (f"{PACKAGES}/pandas/_testing/asserters.py", True),
        ("/usr/lib/python3.11/unittest/case.py", True),
        (f"{PACKAGES}/pump/_ops.py", False),
        ("/home/me/testing/pump.py", False),
        ("/w/tests/case.py", False),
    ],
)
def test_dispatchers_and_helpers_of_tests(file: str, passed: bool) -> None:
    assert passes_on(frame("call", file)) is passed


@pytest.mark.parametrize(
    ("function", "passed"),
    [
        ("PUMP_CHECK", True),
        ("_check_error", True),
        ("raise_for_status", True),
        ("check_valve_status", True),
        ("check", False),
    ],
)
def test_what_checks_the_result_of_a_call_is_not_where_that_failed(function: str, passed: bool) -> None:
    assert passes_on(frame(function, "/w/pump_wrapper.py")) is passed


def test_the_test_is_the_place_of_what_its_library_compared() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/me/pytorch/torch/testing/_internal/common_utils.py", line 74, in wrapper\n    method(*args)\n'
        '  File "/home/me/pump/test_tank.py", line 31, in test_fill\n    self.assertEqual(a, b)\n'
        '  File "/home/me/pytorch/torch/testing/_internal/common_utils.py", line 99, in assertEqual\n'
        "    raise metas.pop().to_error(\nAssertionError: the tanks differ\n"
    )
    assert verdict(text).sentence == "Crashed in test_fill (test_tank.py:31): AssertionError: the tanks differ."


def test_the_operators_wrapper_is_the_place_of_an_error_of_the_gpu() -> None:
    text = (
        "Traceback (most recent call last):\n"
        f'  File "{PACKAGES}/pump/tank.py", line 58, in fill\n    return torch.ops.pump.fill.default(\n'
        f'  File "{PACKAGES}/torch/_ops.py", line 756, in __call__\n    return self._op(*args)\n'
        "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    assert "fill (tank.py:58)" in verdict(text).sentence


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 24.00 MiB. GPU 0 has a total capacity of 7.00 GiB "
    "of which 5.00 MiB is free.\n"
)
CUT = (
    '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/w/fill.py", line 67, in <module>\n'
    "[rank0]:     tank.fill()\n"
    f'[rank0]:   File "{PACKAGES}/pump/tank.py", line 45, in fill\n[rank0]:     return inner(\n'
)


def test_an_error_that_is_printed_above_its_own_traceback_has_the_place_of_that() -> None:
    assert verdict(OOM + CUT).sentence.startswith("Rank 0: CUDA out of memory on GPU 0, raised at fill.py:67: 24.00")
    apart = verdict(f"{OOM}next\nthe tank\nis filled\nfrom a lid\n{CUT}").sentence
    assert "raised at" not in apart


def test_the_test_of_pytests_short_form_is_named_and_its_reason_is_whole() -> None:
    shape = "Tank([{CPU 0, 1}], shape=(1,))"
    text = (
        "The above exception was the direct cause of the following exception:\n"
        "tests/test_tank.py:38: in test_fill\n    b = fill(tank)\n"
        "pump/tank.py:29: in fill\n    return jit(tank)\n"
        f"E   ValueError: One of the outputs is incompatible with its annotation {shape}: Tank {shape} is only "
        "valid for values of one row, but was given a value of two rows\n"
    )
    said = verdict(text).sentence
    assert said.startswith("The test run failed: test_fill, at tests/test_tank.py:38: ValueError: ")
    assert said.endswith("but was given a value of two rows.")
    helper = text.replace("in test_fill", "in make")
    assert verdict(helper).sentence.startswith("The test run failed: tests/test_tank.py:38: ValueError: ")
